//! Signers who have a certificate instead of a key of their own: the authority (Fulcio) certifies
//! for a few minutes that a key belongs to a person, identified by an identity provider.

use std::time::Duration;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::key::Key;

/// 1.3.6.1.5.5.7.3.3: the key may sign content.
const CODE_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];
/// The identity provider, as plain text, and since 2022 as a DER string.
const ISSUER: &str = "1.3.6.1.4.1.57264.1.1";
const ISSUER_V2: &str = "1.3.6.1.4.1.57264.1.8";
/// The tag of a UTF8String.
const UTF8_STRING: u8 = 0x0c;

/// The authority that a policy trusts, and the person it names.
#[derive(Debug, Clone)]
pub(crate) struct Fulcio {
    authorities: Vec<CertificateDer<'static>>,
    /// The identity provider.
    issuer: String,
    email: String,
}

/// A certificate that nothing is known about yet.
#[derive(Debug)]
pub(crate) struct Certificate(CertificateDer<'static>);

/// Why a certificate is not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("the certificate of a signature cannot be read")]
    Unreadable,
    #[error("the certificate of a signature is not issued by the authority of the policy: {0}")]
    Untrusted(String),
    #[error("the certificate of a signature is for {found}, expected {expected}")]
    Email { found: String, expected: String },
    #[error(
        "the certificate of a signature names the identity provider {found:?}, expected {expected:?}"
    )]
    Issuer { found: String, expected: String },
    #[error("the key in the certificate of a signature is of a kind that is not supported")]
    Key,
}

impl Certificate {
    pub(crate) fn parse(pem: &str) -> Result<Self, CertificateError> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes());
        der.map(Self).map_err(|_| CertificateError::Unreadable)
    }

    pub(crate) fn der(&self) -> &[u8] {
        &self.0
    }
}

impl Fulcio {
    /// Certificates of authorities, in PEM form. `None` if there is none, or one cannot be read.
    pub(crate) fn new(pem: &[u8], issuer: String, email: String) -> Option<Self> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let authorities = read.ok().filter(|found| !found.is_empty())?;
        authorities.iter().all(|found| anchor(found).is_some()).then_some(())?;
        Some(Self { authorities, issuer, email })
    }

    /// The key of `certificate`, if the authority certifies that it belonged to the person when it
    /// was used, at `time` (seconds since 1970).
    pub(crate) fn key(
        &self,
        certificate: &Certificate,
        chain: Option<&str>,
        time: i64,
    ) -> Result<Key, CertificateError> {
        let intermediates: Vec<CertificateDer<'_>> =
            CertificateDer::pem_slice_iter(chain.unwrap_or_default().as_bytes())
                .collect::<Result<_, _>>()
                .map_err(|_| CertificateError::Unreadable)?;
        let anchors: Vec<TrustAnchor<'_>> = self.authorities.iter().filter_map(anchor).collect();
        let entity =
            EndEntityCert::try_from(&certificate.0).map_err(|_| CertificateError::Unreadable)?;
        let seconds = u64::try_from(time).map_err(|_| CertificateError::Unreadable)?;
        entity
            .verify_for_usage(
                webpki::ALL_VERIFICATION_ALGS,
                &anchors,
                &intermediates,
                UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
                KeyUsage::required(CODE_SIGNING),
                None,
                None,
            )
            .map_err(|error| CertificateError::Untrusted(error.to_string()))?;
        // Nothing of the certificate counts before this.
        let (_, parsed) =
            X509Certificate::from_der(&certificate.0).map_err(|_| CertificateError::Unreadable)?;
        let emails = emails(&parsed);
        if !emails.contains(&self.email.as_str()) {
            let (found, expected) = (emails.join(", "), self.email.clone());
            return Err(CertificateError::Email { found, expected });
        }
        let issuer = issuer(&parsed)?;
        if issuer != self.issuer {
            return Err(CertificateError::Issuer { found: issuer, expected: self.issuer.clone() });
        }
        let from = format!("the key of {}", self.email);
        Key::of_der(from, parsed.public_key().raw).map_err(|_| CertificateError::Key)
    }
}

fn anchor<'a>(certificate: &'a CertificateDer<'_>) -> Option<TrustAnchor<'a>> {
    webpki::anchor_from_trusted_cert(certificate).ok()
}

fn emails<'a>(certificate: &'a X509Certificate<'_>) -> Vec<&'a str> {
    let names = certificate.extensions().iter().filter_map(|one| match one.parsed_extension() {
        ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
        _ => None,
    });
    let emails = names.flatten().filter_map(|name| match name {
        GeneralName::RFC822Name(email) => Some(*email),
        _ => None,
    });
    emails.collect()
}

/// The identity provider. Two extensions that differ are an error: each could be read.
fn issuer(certificate: &X509Certificate<'_>) -> Result<String, CertificateError> {
    let mut found: Option<String> = None;
    for extension in certificate.extensions() {
        let text = match extension.oid.to_id_string().as_str() {
            ISSUER => extension.value,
            ISSUER_V2 => der_text(extension.value).ok_or(CertificateError::Unreadable)?,
            _ => continue,
        };
        let text = std::str::from_utf8(text).map_err(|_| CertificateError::Unreadable)?;
        match &found {
            Some(known) if known != text => return Err(CertificateError::Unreadable),
            _ => found = Some(text.to_owned()),
        }
    }
    Ok(found.unwrap_or_default())
}

/// The content of a short DER string, which an address is.
fn der_text(value: &[u8]) -> Option<&[u8]> {
    match value {
        [UTF8_STRING, length, text @ ..]
            if *length < 0x80 && text.len() == usize::from(*length) =>
        {
            Some(text)
        }
        [UTF8_STRING, 0x81, length, text @ ..] if text.len() == usize::from(*length) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa,
        Issuer, KeyPair, SanType, SigningKey as _,
    };

    use super::*;

    const ISSUED: i64 = 1_700_000_000;
    const OIDC: &str = "https://accounts.example.com";

    /// An authority, and certificates of it.
    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pem: String,
    }

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            Self { issuer: Issuer::new(params, key), pem }
        }

        /// A certificate for ten minutes, as Fulcio issues them.
        fn certify(
            &self,
            key: &KeyPair,
            email: &str,
            oidc: &[(u64, &[u8])],
            usage: ExtendedKeyUsagePurpose,
        ) -> String {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.subject_alt_names = vec![SanType::Rfc822Name(email.try_into().unwrap())];
            params.extended_key_usages = vec![usage];
            let time = |seconds: i64| {
                rcgen::date_time_ymd(2023, 11, 14)
                    + Duration::from_secs((seconds - 1_699_920_000).unsigned_abs())
            };
            params.not_before = time(ISSUED);
            params.not_after = time(ISSUED + 600);
            for (last, content) in oidc {
                let oid = [1, 3, 6, 1, 4, 1, 57264, 1, *last];
                params
                    .custom_extensions
                    .push(CustomExtension::from_oid_content(&oid, content.to_vec()));
            }
            params.signed_by(key, &self.issuer).unwrap().pem()
        }

        fn fulcio(&self) -> Fulcio {
            Fulcio::new(self.pem.as_bytes(), OIDC.into(), "dev@example.com".into()).unwrap()
        }
    }

    fn der_string(text: &str) -> Vec<u8> {
        let mut der = vec![UTF8_STRING, u8::try_from(text.len()).unwrap()];
        der.extend_from_slice(text.as_bytes());
        der
    }

    #[test]
    fn a_certificate_is_accepted_for_its_person_authority_provider_and_time_alone() {
        let [authority, stranger] = [(); 2].map(|()| Authority::new());
        let key = KeyPair::generate().unwrap();
        let plain: [(u64, &[u8]); 1] = [(1, OIDC.as_bytes())];
        let code = ExtendedKeyUsagePurpose::CodeSigning;
        let check =
            |pem: &str, time| authority.fulcio().key(&Certificate::parse(pem).unwrap(), None, time);
        let good = authority.certify(&key, "dev@example.com", &plain, code.clone());
        let found = check(&good, ISSUED + 60).unwrap();
        assert!(found.has_made(&key.sign(b"message").unwrap(), b"message"));
        // The newer extension alone is enough.
        let newer = der_string(OIDC);
        let newer = authority.certify(&key, "dev@example.com", &[(8, &newer)], code.clone());
        assert!(check(&newer, ISSUED + 60).is_ok());

        for time in [ISSUED - 60, ISSUED + 700] {
            assert!(matches!(check(&good, time), Err(CertificateError::Untrusted(_))), "{time}");
        }
        let foreign = stranger.certify(&key, "dev@example.com", &plain, code.clone());
        assert!(matches!(check(&foreign, ISSUED), Err(CertificateError::Untrusted(_))));
        let server = ExtendedKeyUsagePurpose::ServerAuth;
        let other_use = authority.certify(&key, "dev@example.com", &plain, server);
        assert!(matches!(check(&other_use, ISSUED), Err(CertificateError::Untrusted(_))));
        let other = authority.certify(&key, "eve@example.com", &plain, code.clone());
        assert!(matches!(check(&other, ISSUED), Err(CertificateError::Email { .. })));
        for oidc in [&[(1, b"https://evil.example".as_slice())][..], &[]] {
            let other = authority.certify(&key, "dev@example.com", oidc, code.clone());
            assert!(matches!(check(&other, ISSUED), Err(CertificateError::Issuer { .. })));
        }
        // Two providers: which one counts would depend on the reader.
        let evil = der_string("https://evil.example");
        let both = [(1, OIDC.as_bytes()), (8, evil.as_slice())];
        let both = authority.certify(&key, "dev@example.com", &both, code);
        assert_eq!(check(&both, ISSUED).unwrap_err(), CertificateError::Unreadable);
    }

    #[test]
    fn an_authority_must_be_a_certificate() {
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            assert!(Fulcio::new(text.as_bytes(), String::new(), String::new()).is_none(), "{text}");
        }
    }
}
