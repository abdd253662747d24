//! The OpenPGP keys that release signatures are checked with.
//!
//! A key is used as its owner stated: when it expires, whether it
//! may sign, whether it was revoked. Only what the owner's own signature on the
//! key confirms is trusted.

use std::fmt;

use jiff::Timestamp;
use pgp::composed::{Deserializable, SignedPublicKey, SignedPublicSubKey};
use pgp::packet::{PublicKey, PublicSubkey, Signature, SignatureType, SubpacketData};
use pgp::types::{Fingerprint, KeyDetails, KeyId, Tag};

const RED_HAT_RELEASE_2: &str = include_str!("../keys/redhat-release-2.asc");
const RED_HAT_BETA_2: &str = include_str!("../keys/redhat-beta-2.asc");
const ARMOR: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
/// More than any file of keys has.
const MAX_KEY_BYTES: usize = 4 << 20;

/// Keys whose signatures are accepted.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    keys: Vec<Key>,
}

/// A key that may sign.
#[derive(Clone)]
pub struct Key {
    pub(crate) material: Material,
    owner: String,
    created: Timestamp,
    expires: Option<Timestamp>,
    revoked: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Material {
    Primary(Box<PublicKey>),
    Sub(Box<PublicSubkey>),
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("there is no OpenPGP public key in it")]
    None,
    #[error("it is larger than {} MiB, which no file of keys is", MAX_KEY_BYTES >> 20)]
    Large,
    #[error("it is not an OpenPGP public key, or is damaged")]
    Damaged(#[source] Box<pgp::errors::Error>),
    #[error("key {0} is not signed by itself, so that its own data cannot be trusted")]
    Unbound(String),
    #[error("key {0} is not for signing")]
    NotForSigning(String),
}

impl Keyring {
    /// A ring without keys: no signature is accepted.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Red Hat's release keys, which are built in.
    pub fn red_hat() -> Result<Self, KeyError> {
        let mut ring = Self::empty();
        for armored in [RED_HAT_RELEASE_2, RED_HAT_BETA_2] {
            ring.add(armored.as_bytes())?;
        }
        Ok(ring)
    }

    /// Adds all keys of a file, armored or not. Returns how many there were; a
    /// file with one bad key adds none.
    pub fn add(&mut self, bytes: &[u8]) -> Result<usize, KeyError> {
        if bytes.len() > MAX_KEY_BYTES {
            return Err(KeyError::Large);
        }
        let damaged = |error| KeyError::Damaged(Box::new(error));
        let mut certificates: Vec<SignedPublicKey> = Vec::new();
        match std::str::from_utf8(bytes) {
            // Several armored blocks may be in one file, one after the other.
            Ok(text) if text.contains(ARMOR) => {
                for block in text.split(ARMOR).skip(1) {
                    let block = format!("{ARMOR}{block}");
                    let (found, _) =
                        SignedPublicKey::from_armor_many(block.as_bytes()).map_err(damaged)?;
                    certificates.extend(found.collect::<Result<Vec<_>, _>>().map_err(damaged)?);
                }
            }
            _ => {
                let found = SignedPublicKey::from_bytes_many(bytes).map_err(damaged)?;
                certificates.extend(found.collect::<Result<Vec<_>, _>>().map_err(damaged)?);
            }
        }
        let mut keys = Vec::new();
        for certificate in &certificates {
            keys.extend(signing_keys(certificate)?);
        }
        if certificates.is_empty() {
            return Err(KeyError::None);
        }
        keys.retain(|key| !self.keys.iter().any(|held| held.fingerprint() == key.fingerprint()));
        self.keys.extend(keys);
        Ok(certificates.len())
    }

    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The keys that a signature may have been made with, by its own data.
    pub(crate) fn candidates(&self, fingerprints: &[&Fingerprint], ids: &[&KeyId]) -> Vec<&Key> {
        let named =
            |key: &&Key| fingerprints.contains(&&key.fingerprint()) || ids.contains(&&key.key_id());
        self.keys.iter().filter(named).collect()
    }
}

impl Key {
    /// The last 16 hex digits of the fingerprint, as gpg shows them.
    pub fn id(&self) -> String {
        id_text(&self.key_id())
    }

    /// The owner that the key names.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    pub fn created(&self) -> Timestamp {
        self.created
    }

    pub fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    pub fn is_revoked(&self) -> bool {
        self.revoked
    }

    fn fingerprint(&self) -> Fingerprint {
        match &self.material {
            Material::Primary(key) => key.fingerprint(),
            Material::Sub(key) => key.fingerprint(),
        }
    }

    fn key_id(&self) -> KeyId {
        match &self.material {
            Material::Primary(key) => key.legacy_key_id(),
            Material::Sub(key) => key.legacy_key_id(),
        }
    }
}

pub(crate) fn id_text(id: &KeyId) -> String {
    id.to_string().to_uppercase()
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id(), self.owner)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The parts of a certificate that may sign.
fn signing_keys(certificate: &SignedPublicKey) -> Result<Vec<Key>, KeyError> {
    let primary = &certificate.primary_key;
    let id = id_text(&primary.legacy_key_id());
    let details = &certificate.details;
    let certified = details.users.iter().flat_map(|user| {
        user.signatures.iter().filter(|signature| {
            signature.is_certification()
                && signature.verify_certification(primary, Tag::UserId, &user.id).is_ok()
        })
    });
    let direct = details.direct_signatures.iter().filter(|made| made.verify_key(primary).is_ok());
    let Some(own) = newest(certified.chain(direct)) else { return Err(KeyError::Unbound(id)) };
    let revoked = details.revocation_signatures.iter().any(|made| made.verify_key(primary).is_ok());
    let created = time(primary.created_at());
    let expires = expiry(created, own);
    let owner = match details.users.first() {
        Some(user) => String::from_utf8_lossy(user.id.id()).into_owned(),
        None => "no name".to_owned(),
    };
    let mut keys = Vec::new();
    if may_sign(own) {
        let material = Material::Primary(Box::new(primary.clone()));
        keys.push(Key { material, owner: owner.clone(), created, expires, revoked });
    }
    for subkey in &certificate.public_subkeys {
        keys.extend(signing_subkey(primary, subkey).map(|(expiry, gone)| Key {
            material: Material::Sub(Box::new(subkey.key.clone())),
            owner: owner.clone(),
            created: time(subkey.key.created_at()),
            // A subkey ends with the key that vouches for it.
            expires: [expires, expiry].into_iter().flatten().min(),
            revoked: revoked || gone,
        }));
    }
    if keys.is_empty() { Err(KeyError::NotForSigning(id)) } else { Ok(keys) }
}

/// When a subkey expires and whether it was revoked, if it may sign. A subkey that
/// signs must itself have agreed to belong to the key: otherwise anyone could claim
/// another's subkey, and its signatures with it.
fn signing_subkey(
    primary: &PublicKey,
    subkey: &SignedPublicSubKey,
) -> Option<(Option<Timestamp>, bool)> {
    let of = |kind: SignatureType| {
        subkey.signatures.iter().filter(move |made| {
            made.typ() == Some(kind) && made.verify_subkey_binding(primary, &subkey.key).is_ok()
        })
    };
    let binding = newest(of(SignatureType::SubkeyBinding))?;
    let back = binding.embedded_signature()?;
    back.verify_primary_key_binding(&subkey.key, primary).ok()?;
    let revoked = of(SignatureType::SubkeyRevocation).next().is_some();
    let expires = expiry(time(subkey.key.created_at()), binding);
    may_sign(binding).then_some((expires, revoked))
}

fn newest<'a>(signatures: impl Iterator<Item = &'a Signature>) -> Option<&'a Signature> {
    signatures.max_by_key(|signature| signature.created())
}

/// What a key may be used for; old keys have no flags, and may be used for all.
fn may_sign(own: &Signature) -> bool {
    let mut subpackets = own.config().into_iter().flat_map(|config| config.hashed_subpackets());
    let silent = !subpackets.any(|packet| matches!(packet.data, SubpacketData::KeyFlags(_)));
    silent || own.key_flags().sign()
}

fn expiry(created: Timestamp, own: &Signature) -> Option<Timestamp> {
    let after = own.key_expiration_time().map(|after| i64::from(after.as_secs()))?;
    // Zero means never.
    (after > 0).then(|| Timestamp::from_second(created.as_second() + after).ok()).flatten()
}

pub(crate) fn time(time: pgp::types::Timestamp) -> Timestamp {
    Timestamp::from_second(i64::from(time.as_secs())).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_keys_are_those_that_red_hat_publishes() {
        let ring = Keyring::red_hat().unwrap();
        let ids: Vec<String> = ring.keys().iter().map(Key::id).collect();
        assert_eq!(ids, ["199E2F91FD431D51", "938A80CAF21541EB"]);
        let release = &ring.keys()[0];
        assert_eq!(release.owner(), "Red Hat, Inc. (release key 2) <security@redhat.com>");
        assert_eq!(release.created().strftime("%Y-%m-%d").to_string(), "2009-10-22");
        assert_eq!((release.expires(), release.is_revoked()), (None, false));
    }

    #[test]
    fn a_file_may_have_several_keys_and_adding_them_again_changes_nothing() {
        let mut ring = Keyring::empty();
        let both = format!("a comment\n{RED_HAT_RELEASE_2}\n{RED_HAT_BETA_2}");
        assert_eq!(ring.add(both.as_bytes()).unwrap(), 2);
        assert_eq!(ring.add(both.as_bytes()).unwrap(), 2);
        assert_eq!(ring.keys().len(), 2);
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        let mut ring = Keyring::empty();
        let cut = &RED_HAT_RELEASE_2[..RED_HAT_RELEASE_2.len() / 2];
        for bytes in ["", "hello", cut, &RED_HAT_RELEASE_2.replace("mQINB", "mQINC")] {
            assert!(ring.add(bytes.as_bytes()).is_err(), "{bytes}");
        }
        assert!(ring.keys().is_empty());
        assert!(matches!(ring.add(&vec![0; MAX_KEY_BYTES + 1]), Err(KeyError::Large)));
    }
}
