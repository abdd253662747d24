//! What cosign signs with beside keys: a transparency log that promises to record signatures, and an
//! authority that certifies for ten minutes whose a key is.

use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use oci::Digest;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use serde_json::{Value, json};

use crate::images::{Image, SigningKey};

/// When entries are recorded: in November 2023.
pub const RECORDED: i64 = 1_700_000_000;
/// The day of that, at midnight.
const MIDNIGHT: i64 = 1_699_920_000;
/// 1.3.6.1.4.1.57264.1.1: the identity provider, in a certificate of Fulcio.
const ISSUER: [u64; 9] = [1, 3, 6, 1, 4, 1, 57264, 1, 1];

const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const BUNDLE: &str = "dev.sigstore.cosign/bundle";

/// A transparency log: the key it signs promises with.
#[derive(Debug)]
pub struct TransparencyLog {
    key: SigningKey,
}

impl TransparencyLog {
    /// A log with a new key.
    pub fn new() -> Result<Self> {
        Ok(Self { key: SigningKey::generate()? })
    }

    /// The public key, as `rekorPublicKeyPath` names it.
    pub fn public_pem(&self) -> String {
        self.key.public_pem()
    }

    /// The bundle of cosign: an entry, and the promise to record it at `time`.
    pub fn bundle(&self, signed: &Signed, time: i64) -> Result<Value> {
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": Digest::of(&signed.payload).hex()}},
                "signature": {
                    "content": signed.signature,
                    "publicKey": {"content": BASE64.encode(&signed.signer)},
                },
            },
        });
        let body = BASE64.encode(body.to_string());
        let id = Digest::of(self.public_pem().as_bytes()).hex();
        let promised =
            format!(r#"{{"body":"{body}","integratedTime":{time},"logID":"{id}","logIndex":7}}"#);
        Ok(json!({
            "SignedEntryTimestamp": self.key.sign(promised.as_bytes())?,
            "Payload": {"body": body, "integratedTime": time, "logIndex": 7, "logID": id},
        }))
    }
}

/// A signature, before it is attached to its image.
#[derive(Debug, Clone)]
pub struct Signed {
    /// What is signed.
    pub payload: Vec<u8>,
    /// In base64.
    pub signature: String,
    /// The public key of the signer, or the certificate, in PEM form.
    pub signer: String,
}

impl Signed {
    /// A signature of `image`, named `name`, as cosign makes it.
    pub fn new(image: &Image, name: &str, key: &SigningKey) -> Result<Self> {
        let payload = serde_json::to_vec(&json!({
            "critical": {
                "identity": {"docker-reference": name},
                "image": {"docker-manifest-digest": image.digest()},
                "type": "cosign container image signature",
            },
            "optional": null,
        }))?;
        let signature = key.sign(&payload)?;
        Ok(Self { payload, signature, signer: key.public_pem() })
    }

    /// Attaches the signature to its image, with a bundle, and with the certificate if the signer
    /// has one.
    pub fn attach(self, image: Image, bundle: Option<&Value>) -> Result<Image> {
        let bundle = bundle.map(Value::to_string);
        let mut annotations = Vec::new();
        if let Some(bundle) = &bundle {
            annotations.push((BUNDLE, bundle.as_str()));
        }
        if self.signer.contains("CERTIFICATE") {
            annotations.push((CERTIFICATE, self.signer.as_str()));
        }
        image.with_signature(self.payload, &self.signature, &annotations)
    }
}

/// An authority that certifies keys of users.
#[derive(Debug)]
pub struct CodeAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl CodeAuthority {
    /// An authority with a new key.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "lab code signing");
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// Its certificate, as `caPath` names it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A signature by a person with this address, whom this provider identified.
    pub fn sign(&self, image: &Image, name: &str, email: &str, oidc: &str) -> Result<Signed> {
        let key = SigningKey::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::Rfc822Name(email.try_into()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        let at = |time: i64| {
            rcgen::date_time_ymd(2023, 11, 14)
                + Duration::from_secs((time - MIDNIGHT).unsigned_abs())
        };
        (params.not_before, params.not_after) = (at(RECORDED - 60), at(RECORDED + 540));
        let provider = CustomExtension::from_oid_content(&ISSUER, oidc.as_bytes().to_vec());
        params.custom_extensions = vec![provider];
        let certificate = params.signed_by(key.pair(), &self.issuer).context("certifying a key")?;
        Ok(Signed { signer: certificate.pem(), ..Signed::new(image, name, &key)? })
    }
}
