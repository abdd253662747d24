//! Signatures of files, in the formats of `cosign sign-blob` and `cosign verify-blob`.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use crypto_secretbox::{Key as BoxKey, Nonce, XSalsa20Poly1305};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;

use crate::key::{Key, KeyError};

/// What `cosign generate-key-pair` writes, and what it wrote before version 1.5.
const LABELS: [&str; 2] = ["ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY"];
/// The cost of a password check that cosign chooses, and the most that is accepted: more memory
/// would be used for a hostile file.
const MAX_LOG_N: u8 = 17;

/// A private key that signs archives.
pub struct SigningKey(EcdsaKeyPair);

/// A public key that verifies archives.
#[derive(Debug, Clone)]
pub struct VerifyingKey(Key);

/// Why a private key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SigningKeyError {
    #[error(
        "it is not a private key: expected a file of `cosign generate-key-pair` (cosign.key), or an ECDSA P-256 key in PKCS #8 form (BEGIN PRIVATE KEY)"
    )]
    Form,
    #[error("it is encrypted in a way that is not supported")]
    Cipher,
    #[error("the password does not decrypt it (COSIGN_PASSWORD)")]
    Password,
    #[error("it is not an ECDSA P-256 key")]
    Kind,
}

#[derive(Deserialize)]
struct Encrypted {
    kdf: Kdf,
    cipher: Cipher,
    ciphertext: String,
}

#[derive(Deserialize)]
struct Kdf {
    name: String,
    params: Params,
    salt: String,
}

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
}

#[derive(Deserialize)]
struct Cipher {
    name: String,
    nonce: String,
}

impl SigningKey {
    /// Reads a key of cosign, which `password` decrypts, or a plain one.
    pub fn parse(pem: &str, password: &str) -> Result<Self, SigningKeyError> {
        let der = match LABELS.iter().find_map(|label| body(pem, label)) {
            Some(json) => decrypt(&json, password)?,
            None => {
                let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes());
                der.map_err(|_| SigningKeyError::Form)?.secret_pkcs8_der().to_vec()
            }
        };
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der);
        key.map(Self).map_err(|_| SigningKeyError::Kind)
    }

    /// The signature of `message`, in base64. `None` if the machine has no random numbers.
    pub fn sign(&self, message: &[u8]) -> Option<String> {
        let signature = self.0.sign(&SystemRandom::new(), message).ok()?;
        Some(BASE64.encode(signature))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}

impl VerifyingKey {
    /// Reads a public key; `from` is for messages.
    pub fn parse(from: String, pem: &[u8]) -> Result<Self, KeyError> {
        Key::parse(from, pem).map(Self)
    }

    /// Where the key is from.
    pub fn from(&self) -> &str {
        &self.0.from
    }

    /// Whether `signature`, in base64, is one of `message` by this key.
    pub fn verifies(&self, signature: &str, message: &[u8]) -> bool {
        let signature = BASE64.decode(signature.trim());
        signature.is_ok_and(|signature| self.0.has_made(&signature, message))
    }
}

/// The content of a PEM block with this label.
fn body(pem: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
    let (text, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let text: String = text.split_whitespace().collect();
    BASE64.decode(text).ok()
}

fn decrypt(json: &[u8], password: &str) -> Result<Vec<u8>, SigningKeyError> {
    let Encrypted { kdf, cipher, ciphertext } =
        serde_json::from_slice(json).map_err(|_| SigningKeyError::Form)?;
    let Params { n, r, p } = kdf.params;
    let log_n = u8::try_from(n.checked_ilog2().unwrap_or(0)).unwrap_or(u8::MAX);
    let is_known = kdf.name == "scrypt" && cipher.name == "nacl/secretbox";
    if !is_known || !n.is_power_of_two() || log_n > MAX_LOG_N || r > 16 || p > 4 {
        return Err(SigningKeyError::Cipher);
    }
    let decode = |text: &str| BASE64.decode(text).map_err(|_| SigningKeyError::Form);
    let (salt, nonce) = (decode(&kdf.salt)?, decode(&cipher.nonce)?);
    let ciphertext = decode(&ciphertext)?;
    let params = scrypt::Params::new(log_n, r, p, 32).map_err(|_| SigningKeyError::Cipher)?;
    let mut key = [0; 32];
    scrypt::scrypt(password.as_bytes(), &salt, &params, &mut key)
        .map_err(|_| SigningKeyError::Cipher)?;
    if nonce.len() != 24 {
        return Err(SigningKeyError::Form);
    }
    let cipher = XSalsa20Poly1305::new(BoxKey::from_slice(&key));
    let opened = cipher.decrypt(Nonce::from_slice(&nonce), ciphertext.as_slice());
    opened.map_err(|_| SigningKeyError::Password)
}

#[cfg(test)]
mod tests {
    use rcgen::KeyPair;

    use super::*;

    #[test]
    fn a_plain_key_signs_and_only_its_public_key_verifies() {
        let [own, other] = [(); 2].map(|()| KeyPair::generate().unwrap());
        let key = SigningKey::parse(&own.serialize_pem(), "").unwrap();
        let signature = key.sign(b"message").unwrap();
        let public = |pair: &KeyPair| {
            VerifyingKey::parse("key.pub".into(), pair.public_key_pem().as_bytes()).unwrap()
        };
        assert!(public(&own).verifies(&signature, b"message"));
        assert!(public(&own).verifies(&format!("{signature}\n"), b"message"));
        assert!(!public(&own).verifies(&signature, b"another"));
        assert!(!public(&other).verifies(&signature, b"message"));
        assert!(!public(&own).verifies("%", b"message"));
    }

    #[test]
    fn what_is_not_a_key_is_an_error() {
        let label = LABELS[0];
        let hostile = r#"{"kdf":{"name":"scrypt","params":{"N":1073741824,"r":8,"p":1},"salt":""},"cipher":{"name":"nacl/secretbox","nonce":""},"ciphertext":""}"#;
        let hostile =
            format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64.encode(hostile));
        assert!(matches!(SigningKey::parse(&hostile, ""), Err(SigningKeyError::Cipher)));
        for text in ["", "hello", &KeyPair::generate().unwrap().public_key_pem()] {
            assert!(matches!(SigningKey::parse(text, ""), Err(SigningKeyError::Form)), "{text}");
        }
    }
}
