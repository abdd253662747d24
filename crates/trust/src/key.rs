//! Public keys that signatures are checked with.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::{self, PemObject as _};

/// A key, and where the policy has it from.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) from: String,
    key: ParsedPublicKey,
}

/// Why a text is no key that can be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("it is no public key in PEM form (BEGIN PUBLIC KEY)")]
    Pem(#[source] pem::Error),
    /// A key perhaps, but of a kind that is not supported.
    #[error("it is no ECDSA P-256 key, and no other kind is supported")]
    Kind,
}

impl Key {
    pub(crate) fn parse(from: String, pem: &[u8]) -> Result<Self, KeyError> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(KeyError::Pem)?;
        let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &*der);
        Ok(Self { from, key: key.map_err(|_| KeyError::Kind)? })
    }

    /// Whether `signature` (ASN.1) of `message` was made with this key.
    pub(crate) fn has_made(&self, signature: &[u8], message: &[u8]) -> bool {
        self.key.verify_sig(message, signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SigningKey as _};

    use super::*;

    #[test]
    fn a_key_knows_what_it_has_made() {
        let [ours, theirs] = [KeyPair::generate().unwrap(), KeyPair::generate().unwrap()];
        let key = Key::parse("here".into(), ours.public_key_pem().as_bytes()).unwrap();
        let signature = ours.sign(b"message").unwrap();
        assert!(key.has_made(&signature, b"message"));
        assert!(!key.has_made(&signature, b"another message"));
        assert!(!key.has_made(&theirs.sign(b"message").unwrap(), b"message"));
        assert!(!key.has_made(b"", b"message"));
    }

    #[test]
    fn other_kinds_of_keys_and_other_texts_are_told_apart() {
        for kind in [&PKCS_ED25519, &PKCS_ECDSA_P384_SHA384] {
            let pem = KeyPair::generate_for(kind).unwrap().public_key_pem();
            assert!(matches!(Key::parse(String::new(), pem.as_bytes()), Err(KeyError::Kind)));
        }
        let private = KeyPair::generate().unwrap().serialize_pem();
        for text in ["", "hello", &private] {
            assert!(matches!(Key::parse(String::new(), text.as_bytes()), Err(KeyError::Pem(_))));
        }
    }
}
