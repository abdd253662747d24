//! Whether a key in the ring has signed a text, and was allowed to.

use jiff::Timestamp;
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureConfig, SignatureType, SignatureVersion, SubpacketData};
use pgp::types::VerifyingKey as _;

use super::message::Message;
use super::{SignatureError, ids};
use crate::keyring::{Key, Keyring, Material, id_text, time};

/// The key that has signed the message, and when. One good signature is enough;
/// if there is none, the reason of the one that came furthest is given.
pub(super) fn check<'a>(
    message: &Message,
    ring: &'a Keyring,
    now: Timestamp,
) -> Result<(&'a Key, Timestamp), SignatureError> {
    let mut reason = None;
    for signature in &message.signatures {
        match check_one(signature, &message.text, ring, now) {
            Ok(good) => return Ok(good),
            Err(SignatureError::UnknownKey { .. }) if reason.is_some() => {}
            Err(error) => reason = Some(error),
        }
    }
    Err(reason.unwrap_or(SignatureError::Truncated))
}

fn check_one<'a>(
    signature: &Signature,
    text: &[u8],
    ring: &'a Keyring,
    now: Timestamp,
) -> Result<(&'a Key, Timestamp), SignatureError> {
    let Some(config) = signature.config() else {
        return Err(SignatureError::NotSigned("its signature is of an unknown version"));
    };
    if config.typ() != SignatureType::Binary {
        return Err(SignatureError::NotSigned("what it signs is not a document"));
    }
    // Version 3 is old, and Red Hat's older signatures are of it.
    if !matches!(config.version(), SignatureVersion::V3 | SignatureVersion::V4) {
        return Err(SignatureError::NotSigned("its signature is not of version 3 or 4"));
    }
    let strong = [
        HashAlgorithm::Sha256,
        HashAlgorithm::Sha384,
        HashAlgorithm::Sha512,
        HashAlgorithm::Sha3_256,
        HashAlgorithm::Sha3_512,
    ];
    if !strong.contains(&config.hash_alg) {
        return Err(SignatureError::Weak(config.hash_alg.to_string()));
    }
    let (fingerprints, key_ids) = (config.issuer_fingerprint(), config.issuer_key_id());
    let mut reason = None;
    for key in ring.candidates(&fingerprints, &key_ids) {
        match made_by(key, signature, config, text, now) {
            Ok(signed) => return Ok((key, signed)),
            Err(error) => reason = Some(error),
        }
    }
    Err(reason.unwrap_or_else(|| {
        let named = key_ids.first().map(|id| id_text(id));
        let named = named.or_else(|| fingerprints.first().map(|print| print.to_string()));
        let key = named.unwrap_or_else(|| "without a name".to_owned());
        SignatureError::UnknownKey { key, ring: ids(ring) }
    }))
}

fn made_by(
    key: &Key,
    signature: &Signature,
    config: &SignatureConfig,
    text: &[u8],
    now: Timestamp,
) -> Result<Timestamp, SignatureError> {
    let id = key.id();
    let hash = hashed(config, text)
        .ok_or(SignatureError::NotSigned("its signature cannot be computed"))?;
    // The signer notes the first two bytes of the hash beside the signature.
    // They protect nothing, but tell a changed text from a made-up signature.
    if signature.signed_hash_value() != hash.first_chunk().copied() {
        return Err(SignatureError::Edited { key: id });
    }
    let bytes = signature.signature().ok_or(SignatureError::Truncated)?;
    let outcome = match &key.material {
        Material::Primary(key) => key.verify(config.hash_alg, &hash, bytes),
        Material::Sub(key) => key.verify(config.hash_alg, &hash, bytes),
    };
    outcome.map_err(|_| SignatureError::Forged { key: id.clone() })?;
    // From here on the signature's own words are the signer's.
    let unknown = |data: &SubpacketData| {
        matches!(
            data,
            SubpacketData::Other(..) | SubpacketData::Experimental(..) | SubpacketData::Notation(_)
        )
    };
    if config.hashed_subpackets().any(|part| part.is_critical && unknown(&part.data)) {
        return Err(SignatureError::NotSigned("it has a critical part that is not understood"));
    }
    let signed = config
        .created()
        .map(time)
        .ok_or(SignatureError::NotSigned("it has no time of creation"))?;
    if key.is_revoked() {
        return Err(SignatureError::KeyRevoked { key: id });
    }
    if signed < key.created() {
        return Err(SignatureError::BeforeKey { key: id, created: key.created(), signed });
    }
    if let Some(expired) = key.expires().filter(|expires| *expires <= signed) {
        return Err(SignatureError::KeyExpired { key: id, expired, signed });
    }
    let after = signature.signature_expiration_time().map(|after| i64::from(after.as_secs()));
    let end = after.filter(|after| *after > 0);
    let end = end.and_then(|after| Timestamp::from_second(signed.as_second() + after).ok());
    match end.filter(|end| *end <= now) {
        Some(expired) => Err(SignatureError::Expired { expired }),
        None => Ok(signed),
    }
}

/// The hash that was signed: of the text and of what the signature says about
/// itself.
fn hashed(config: &SignatureConfig, text: &[u8]) -> Option<Vec<u8>> {
    let mut hasher = config.hash_alg.new_hasher().ok()?;
    hasher.update(text);
    let length = config.hash_signature_data(&mut hasher).ok()?;
    hasher.update(&config.trailer(length).ok()?);
    Some(hasher.finalize().into_vec())
}
