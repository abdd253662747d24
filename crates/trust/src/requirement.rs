//! What a policy requires of an image, and whether the image has it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use oci::{Digest, ImageRef};

use crate::fulcio::{Certificate, CertificateError, Fulcio};
use crate::identity::{SignedIdentity, is_name_only};
use crate::key::Key;
use crate::payload::{Payload, PayloadError};
use crate::rekor::{self, LogError};
use crate::scope::Name;
use crate::signed_by::SignedBy;

/// One entry of a scope's list; all must hold.
#[derive(Debug, Clone)]
pub(crate) enum Requirement {
    AcceptAnything,
    Reject,
    Signed(Signed),
    /// A signature with a GPG key, kept beside the registry.
    SignedBy(SignedBy),
    /// Something that cannot be checked here, and so refuses every image.
    Unsupported(String),
}

/// Who may have signed.
#[derive(Debug, Clone)]
pub(crate) enum Signers {
    /// The owner of one of these keys.
    Keys(Vec<Key>),
    /// A person whom a certificate authority certifies.
    Certified(Fulcio),
}

/// A signature by one of these signers, of the right name.
#[derive(Debug, Clone)]
pub(crate) struct Signed {
    pub(crate) signers: Signers,
    /// Keys of transparency logs, one of which must show that the signature was entered. Without
    /// any, no log is required.
    pub(crate) log: Vec<Key>,
    pub(crate) identity: SignedIdentity,
}

/// A signature as it was found. Nothing of it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub payload: Vec<u8>,
    /// In base64.
    pub signature: String,
    /// The bundle of a transparency log with its inclusion promise, as JSON.
    pub bundle: Option<String>,
    /// The certificate of the key that made it, and those that certify it, in PEM form.
    pub certificate: Option<String>,
    pub chain: Option<String>,
}

/// A manifest and its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub digest: Digest,
    /// Attached in the registry.
    pub signatures: Vec<Signature>,
    /// Made with GPG keys, from a lookaside server.
    pub lookaside: Vec<Vec<u8>>,
}

impl Subject {
    /// A manifest without signatures.
    pub fn unsigned(digest: Digest) -> Self {
        Self { digest, signatures: Vec::new(), lookaside: Vec::new() }
    }
}

/// An image to decide about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    pub root: Subject,
    /// For a list: the images of it that are mirrored.
    pub instances: Vec<Subject>,
    /// The current time, for signatures that expire.
    pub now: Timestamp,
}

/// Why an image is not let in: every requirement that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub(crate) place: String,
    pub(crate) reasons: Vec<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Scripts search for `is rejected by policy`, the text of containers/image.
        write!(f, "the image is rejected by policy ({}): {}", self.place, self.reasons.join("; "))
    }
}

impl std::error::Error for Refusal {}

impl Requirement {
    /// Why the requirement does not hold for an image; nothing if it does.
    ///
    /// The signature of a list covers the images it lists, by their digests.
    /// A list without a good one needs a good one on each of its images.
    pub(crate) fn objections(&self, name: Name<'_>, image: &Presented) -> Vec<String> {
        let verify = |subject: &Subject| match self {
            Self::Signed(signed) => signed.verify(name, subject),
            Self::SignedBy(signed) => signed.verify(name, subject, image.now),
            Self::AcceptAnything | Self::Reject | Self::Unsupported(_) => Ok(()),
        };
        match self {
            Self::AcceptAnything => return Vec::new(),
            Self::Reject => return vec!["every image is rejected here".into()],
            Self::Unsupported(what) => {
                return vec![format!("{what} is not supported and cannot be checked")];
            }
            Self::Signed(_) | Self::SignedBy(_) => {}
        }
        let Err(mut reasons) = verify(&image.root) else { return Vec::new() };
        if image.instances.is_empty() {
            return reasons;
        }
        let of_instances: Vec<String> = image
            .instances
            .iter()
            .filter_map(|instance| verify(instance).err())
            .flatten()
            .collect();
        if of_instances.is_empty() {
            return Vec::new();
        }
        reasons.extend(of_instances);
        reasons
    }
}

#[derive(Debug, thiserror::Error)]
enum InvalidSignature {
    #[error("a signature is not base64")]
    Base64,
    #[error("a signature was not made with {0}")]
    Key(String),
    #[error("a signature has no certificate, which fulcio requires")]
    NoCertificate,
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("a signature is of another image, {0}")]
    Digest(Digest),
    #[error("a signature is for the name {signed}, which {rule} does not accept{hint}")]
    Name { signed: Box<ImageRef>, rule: String, hint: &'static str },
}

/// Reported where the default rule applies to what cosign writes.
const COSIGN_HINT: &str =
    " (cosign signs repositories without a tag: signedIdentity matchRepository accepts these)";

impl Signed {
    /// One good signature is enough. If there is none, what is wrong with each.
    fn verify(&self, name: Name<'_>, subject: &Subject) -> Result<(), Vec<String>> {
        let digest = subject.digest;
        if subject.signatures.is_empty() {
            return Err(vec![format!("{digest} has no signature")]);
        }
        let mut reasons: Vec<String> = Vec::new();
        for signature in &subject.signatures {
            match self.check(name, digest, signature) {
                Ok(()) => return Ok(()),
                Err(bad) => {
                    let reason = format!("{digest}: {bad}");
                    if !reasons.contains(&reason) {
                        reasons.push(reason);
                    }
                }
            }
        }
        Err(reasons)
    }

    fn check(
        &self,
        name: Name<'_>,
        digest: Digest,
        found: &Signature,
    ) -> Result<(), InvalidSignature> {
        let signature = BASE64.decode(&found.signature).map_err(|_| InvalidSignature::Base64)?;
        let entered = |signer: &[u8]| {
            let bundle = found.bundle.as_deref();
            rekor::verify(&self.log, bundle, signer, &signature, &found.payload)
        };
        // Nothing is read from what is not known to be signed.
        match &self.signers {
            Signers::Keys(keys) => {
                let maker = keys.iter().find(|key| key.has_made(&signature, &found.payload));
                let Some(maker) = maker else {
                    let keys: Vec<&str> = keys.iter().map(|key| key.from.as_str()).collect();
                    return Err(InvalidSignature::Key(keys.join(" or ")));
                };
                if !self.log.is_empty() {
                    entered(&maker.der)?;
                }
            }
            Signers::Certified(fulcio) => {
                let certificate =
                    found.certificate.as_deref().ok_or(InvalidSignature::NoCertificate)?;
                let certificate = Certificate::parse(certificate)?;
                // Certificates are valid for minutes: the log has the time at which the key was used.
                let time = entered(certificate.der())?.ok_or(LogError::NoTime)?;
                let key = fulcio.key(&certificate, found.chain.as_deref(), time)?;
                if !key.has_made(&signature, &found.payload) {
                    return Err(InvalidSignature::Key(key.from));
                }
            }
        }
        let parsed = Payload::parse(&found.payload)?;
        if parsed.digest != digest {
            return Err(InvalidSignature::Digest(parsed.digest));
        }
        check_name(&self.identity, name, parsed.name)
    }
}

/// Checks the name in a signature against the rule of the policy.
fn check_name(
    identity: &SignedIdentity,
    name: Name<'_>,
    signed: ImageRef,
) -> Result<(), InvalidSignature> {
    if identity.accepts(name, &signed) {
        return Ok(());
    }
    let usual = *identity == SignedIdentity::default();
    let hint = if usual && is_name_only(&signed) { COSIGN_HINT } else { "" };
    Err(InvalidSignature::Name { signed: Box::new(signed), rule: identity.to_string(), hint })
}
