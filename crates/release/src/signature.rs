//! Whether a release is signed by a trusted key.
//!
//! A signature is an OpenPGP message: a small document that names an image and its
//! digest, and a signature of that document. It is fetched from a web server
//! that anyone may be in between, so nothing in it counts before the
//! signature is checked, and then only the digest that was requested.

use std::fmt;

use jiff::Timestamp;
use oci::{Digest, ImageRef};

use crate::keyring::{Key, Keyring};

mod check;
mod document;
mod message;
mod partial;

/// The largest signature that is read. Real ones have a thousand bytes.
pub const MAX_SIGNATURE_BYTES: usize = 128 << 10;

/// A signature that was checked and found good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The digest that was requested, and that was signed.
    pub digest: Digest,
    /// The name the release has, according to its signer; its tag has version
    /// and architecture.
    pub reference: ImageRef,
    /// The key, as gpg shows it: 16 hex digits.
    pub key: String,
    pub signed_at: Timestamp,
}

/// Why a signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("it is not an OpenPGP signature; a proxy or an error page may have responded instead")]
    NotOpenPgp,
    #[error("it is cut short: it starts as an OpenPGP message and ends in the middle of it")]
    Truncated,
    #[error("it starts as an OpenPGP message, but a part of it cannot be read")]
    Malformed,
    #[error("it is an OpenPGP message, but not a signed one: {0}")]
    NotSigned(&'static str),
    #[error("it is larger than {} KiB, which no signature is", MAX_SIGNATURE_BYTES >> 10)]
    Large,
    #[error("it is made with key {key}, which is not in the keyring{}", known(.ring))]
    UnknownKey { key: String, ring: Vec<String> },
    #[error("the signed text was changed after key {key} had signed it")]
    Edited { key: String },
    #[error("it is forged: key {key} has not made it")]
    Forged { key: String },
    #[error("key {key} expired on {}, before it was used on {}", day(.expired), day(.signed))]
    KeyExpired { key: String, expired: Timestamp, signed: Timestamp },
    #[error("it claims to be made on {}, before key {key} was created on {}", day(.signed), day(.created))]
    BeforeKey { key: String, created: Timestamp, signed: Timestamp },
    #[error("key {key} was revoked by its owner")]
    KeyRevoked { key: String },
    #[error("it expired on {}", day(.expired))]
    Expired { expired: Timestamp },
    #[error("it is made with {0}, which is too weak to prove anything")]
    Weak(String),
    #[error("key {key} has signed something that is not a container image: {reason}")]
    Document { key: String, reason: String },
    #[error("it is a good signature of another image, {signed}, not of {wanted}")]
    WrongDigest { signed: Digest, wanted: Digest },
}

/// No signature of an image is accepted, with the reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub digest: Digest,
    /// What is wrong with `signature-1`, `signature-2` and so on. Empty when
    /// there are none at all.
    pub reasons: Vec<SignatureError>,
}

/// Checks one signature of the image with the digest `wanted`. `now` is for
/// signatures that expire.
pub fn verify(
    signature: &[u8],
    wanted: &Digest,
    ring: &Keyring,
    now: Timestamp,
) -> Result<Verified, SignatureError> {
    if signature.len() > MAX_SIGNATURE_BYTES {
        return Err(SignatureError::Large);
    }
    let message = message::read(signature)?;
    let (key, signed_at) = check::check(&message, ring, now)?;
    let document = document::read(&message.text)
        .map_err(|reason| SignatureError::Document { key: key.id(), reason })?;
    if document.digest != *wanted {
        return Err(SignatureError::WrongDigest { signed: document.digest, wanted: *wanted });
    }
    Ok(Verified { digest: *wanted, reference: document.reference, key: key.id(), signed_at })
}

/// Checks signatures until one is good. `found` are `signature-1`,
/// `signature-2` and so on, as many as there are. Also returns which one it was,
/// counted from 0.
pub fn verify_any<'a>(
    found: impl IntoIterator<Item = &'a [u8]>,
    wanted: &Digest,
    ring: &Keyring,
    now: Timestamp,
) -> Result<(usize, Verified), Refused> {
    let mut reasons = Vec::new();
    for (place, signature) in found.into_iter().enumerate() {
        match verify(signature, wanted, ring, now) {
            Ok(verified) => return Ok((place, verified)),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(Refused { digest: *wanted, reasons })
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reasons[..] {
            [] => write!(
                f,
                "there is no signature of {}: the release is not signed, or its signatures are published elsewhere (set OCP_SIGNATURE_URL)",
                self.digest
            ),
            reasons => {
                write!(f, "no signature of {} is valid", self.digest)?;
                let texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                let mut first = 1;
                // A proxy sends its error page for each of them: it is printed once.
                for same in texts.chunk_by(|left, right| left == right) {
                    let last = first + same.len() - 1;
                    let mark = if first == 1 { ':' } else { ';' };
                    let to = if last > first { format!(" to {last}") } else { String::new() };
                    write!(f, "{mark} signature-{first}{to}: {}", same[0])?;
                    first = last + 1;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Refused {}

fn day(time: &Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}

fn known(ring: &[String]) -> String {
    match ring {
        [] => ", which is empty".to_owned(),
        keys => format!(
            " ({}); set OCP_SIGNATURE_VERIFICATION_PK if you trust another key",
            keys.join(", ")
        ),
    }
}

fn ids(ring: &Keyring) -> Vec<String> {
    ring.keys().iter().map(Key::id).collect()
}
