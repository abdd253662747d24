//! Public keys that signatures are checked with.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P521_SHA256_ASN1, ED25519,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::{self, PemObject as _};

/// The kinds of keys, each with what it signs with. containers/image hashes with SHA-256 for all of
/// them but Ed25519, and so does cosign.
static KINDS: [&dyn VerificationAlgorithm; 5] = [
    &ECDSA_P256_SHA256_ASN1,
    &ECDSA_P384_SHA256_ASN1,
    &ECDSA_P521_SHA256_ASN1,
    &RSA_PKCS1_2048_8192_SHA256,
    &ED25519,
];

/// A key, and where the policy has it from.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) from: String,
    /// As SubjectPublicKeyInfo.
    pub(crate) der: Vec<u8>,
    key: ParsedPublicKey,
}

/// Why a text is not a key that can be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("it is not a public key in PEM form (BEGIN PUBLIC KEY)")]
    Pem(#[source] pem::Error),
    /// A key perhaps, but of a kind that is not supported.
    #[error(
        "it is not a key of a supported kind: expected ECDSA P-256, P-384 or P-521, RSA with 2048 to 8192 bits, or Ed25519"
    )]
    Kind,
}

impl Key {
    pub(crate) fn parse(from: String, pem: &[u8]) -> Result<Self, KeyError> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(KeyError::Pem)?;
        Self::of_der(from, &der)
    }

    /// The key of a certificate.
    pub(crate) fn of_der(from: String, der: &[u8]) -> Result<Self, KeyError> {
        let key = KINDS.iter().find_map(|kind| ParsedPublicKey::new(*kind, der).ok());
        Ok(Self { from, key: key.ok_or(KeyError::Kind)?, der: der.to_vec() })
    }

    /// Whether `signature` (ASN.1 for ECDSA, PKCS #1 for RSA) of `message` was made with this key.
    pub(crate) fn has_made(&self, signature: &[u8], message: &[u8]) -> bool {
        self.key.verify_sig(message, signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, SigningKey as _};

    use super::*;

    #[test]
    fn a_key_recognizes_its_signatures() {
        let [ours, theirs] = [KeyPair::generate().unwrap(), KeyPair::generate().unwrap()];
        let key = Key::parse("here".into(), ours.public_key_pem().as_bytes()).unwrap();
        let signature = ours.sign(b"message").unwrap();
        assert!(key.has_made(&signature, b"message"));
        assert!(!key.has_made(&signature, b"another message"));
        assert!(!key.has_made(&theirs.sign(b"message").unwrap(), b"message"));
        assert!(!key.has_made(b"", b"message"));
    }

    /// Runs openssl, which makes keys and signatures of every kind.
    fn openssl(directory: &std::path::Path, line: &str) -> Vec<u8> {
        let output = std::process::Command::new("openssl")
            .args(line.split_whitespace())
            .current_dir(directory)
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    #[test]
    fn signatures_of_every_kind_of_key_made_by_openssl_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        std::fs::write(at.join("message"), b"message").unwrap();
        for kind in [
            "EC -pkeyopt ec_paramgen_curve:P-256",
            "EC -pkeyopt ec_paramgen_curve:P-384",
            "EC -pkeyopt ec_paramgen_curve:P-521",
            "RSA -pkeyopt rsa_keygen_bits:2048",
            "RSA -pkeyopt rsa_keygen_bits:4096",
            "ED25519",
        ] {
            openssl(at, &format!("genpkey -algorithm {kind} -out key"));
            let pem = openssl(at, "pkey -in key -pubout");
            let signature = match kind {
                "ED25519" => openssl(at, "pkeyutl -sign -inkey key -rawin -in message"),
                _ => openssl(at, "dgst -sha256 -sign key message"),
            };
            let key = Key::parse(kind.into(), &pem).unwrap_or_else(|e| panic!("{kind}: {e}"));
            assert!(key.has_made(&signature, b"message"), "{kind}");
            assert!(!key.has_made(&signature, b"Message"), "{kind}");
        }
        // Too short to prove anything, and a curve that is not used for images.
        for kind in ["RSA -pkeyopt rsa_keygen_bits:1024", "EC -pkeyopt ec_paramgen_curve:secp256k1"]
        {
            openssl(at, &format!("genpkey -algorithm {kind} -out key"));
            let key = Key::parse(String::new(), &openssl(at, "pkey -in key -pubout"));
            let usable = key.is_ok_and(|key| {
                key.has_made(&openssl(at, "dgst -sha256 -sign key message"), b"message")
            });
            assert!(!usable, "{kind}");
        }
    }

    #[test]
    fn other_texts_are_not_keys() {
        let private = KeyPair::generate().unwrap().serialize_pem();
        for text in ["", "hello", &private] {
            assert!(matches!(Key::parse(String::new(), text.as_bytes()), Err(KeyError::Pem(_))));
        }
    }
}
