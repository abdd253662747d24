//! Signatures with GPG keys (`signedBy`), kept on a lookaside server beside the registry.

use jiff::Timestamp;
use release::keyring::Keyring;
use release::signature::{SignatureError, verify};

use crate::identity::SignedIdentity;
use crate::requirement::Subject;
use crate::scope::Name;

/// A signature by one of the keys of this ring, of the right name.
#[derive(Debug, Clone)]
pub(crate) struct SignedBy {
    pub(crate) ring: Keyring,
    /// Where the policy has the keys from.
    pub(crate) from: String,
    pub(crate) identity: SignedIdentity,
}

impl SignedBy {
    /// One good signature is enough. If there is none, what is wrong with each.
    pub(crate) fn verify(
        &self,
        name: Name<'_>,
        subject: &Subject,
        now: Timestamp,
    ) -> Result<(), Vec<String>> {
        let digest = subject.digest;
        if subject.lookaside.is_empty() {
            return Err(vec![format!("{digest} has no signature on a lookaside server")]);
        }
        let mut reasons: Vec<String> = Vec::new();
        for signature in &subject.lookaside {
            let reason = match verify(signature, &digest, &self.ring, now) {
                Ok(signed) if self.identity.accepts(name, &signed.reference) => return Ok(()),
                Ok(signed) => format!(
                    "a signature is for the name {}, which {} does not accept",
                    signed.reference, self.identity
                ),
                Err(SignatureError::UnknownKey { key, .. }) => {
                    format!("a signature is made with key {key}, which is not in {}", self.from)
                }
                Err(error) => format!("a signature is rejected: {error}"),
            };
            let reason = format!("{digest}: {reason}");
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        Err(reasons)
    }
}
