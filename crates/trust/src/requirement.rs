//! What a policy asks of an image, and whether the image has it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use oci::{Digest, ImageRef};

use crate::identity::{SignedIdentity, is_name_only};
use crate::key::Key;
use crate::payload::{Payload, PayloadError};
use crate::rekor::{self, LogError};
use crate::scope::Name;

/// One entry of a scope's list; all must hold.
#[derive(Debug, Clone)]
pub(crate) enum Requirement {
    AcceptAnything,
    Reject,
    Signed(Signed),
    /// Something that cannot be checked here, and so refuses every image.
    Unsupported(String),
}

/// A signature by one of these keys, of the right name.
#[derive(Debug, Clone)]
pub(crate) struct Signed {
    pub(crate) keys: Vec<Key>,
    /// Keys of transparency logs, one of which must have promised to enter the signature. Without
    /// any, no log is asked for.
    pub(crate) log: Vec<Key>,
    pub(crate) identity: SignedIdentity,
}

/// A signature as it was found. Nothing of it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub payload: Vec<u8>,
    /// In base64.
    pub signature: String,
    /// What a transparency log promised about it, as JSON.
    pub bundle: Option<String>,
}

/// A manifest and the signatures attached to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub digest: Digest,
    pub signatures: Vec<Signature>,
}

/// An image that asks to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    pub root: Subject,
    /// For a list: the images of it that are mirrored.
    pub instances: Vec<Subject>,
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
        let signed = match self {
            Self::AcceptAnything => return Vec::new(),
            Self::Reject => return vec!["every image is rejected here".into()],
            Self::Unsupported(what) => {
                return vec![format!("{what} is not supported and cannot be checked")];
            }
            Self::Signed(signed) => signed,
        };
        let Err(mut reasons) = signed.verify(name, &image.root) else { return Vec::new() };
        if image.instances.is_empty() {
            return reasons;
        }
        let of_instances: Vec<String> = image
            .instances
            .iter()
            .filter_map(|instance| signed.verify(name, instance).err())
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
enum Bad {
    #[error("a signature is no base64")]
    Base64,
    #[error("a signature was not made with {0}")]
    Key(String),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("a signature is of another image, {0}")]
    Digest(Digest),
    #[error("a signature is for the name {signed}, which {rule} does not accept{hint}")]
    Name { signed: Box<ImageRef>, rule: String, hint: &'static str },
}

/// Told where the usual rule meets what cosign writes.
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

    fn check(&self, name: Name<'_>, digest: Digest, found: &Signature) -> Result<(), Bad> {
        let signature = BASE64.decode(&found.signature).map_err(|_| Bad::Base64)?;
        // Nothing is read from what is not known to be signed.
        let maker = self.keys.iter().find(|key| key.has_made(&signature, &found.payload));
        let Some(maker) = maker else {
            let keys: Vec<&str> = self.keys.iter().map(|key| key.from.as_str()).collect();
            return Err(Bad::Key(keys.join(" or ")));
        };
        if !self.log.is_empty() {
            let bundle = found.bundle.as_deref();
            rekor::verify(&self.log, bundle, maker, &signature, &found.payload)?;
        }
        let said = Payload::parse(&found.payload)?;
        if said.digest != digest {
            return Err(Bad::Digest(said.digest));
        }
        if !self.identity.accepts(name, &said.name) {
            let usual = self.identity == SignedIdentity::default();
            let hint = if usual && is_name_only(&said.name) { COSIGN_HINT } else { "" };
            let rule = self.identity.to_string();
            return Err(Bad::Name { signed: Box::new(said.name), rule, hint });
        }
        Ok(())
    }
}
