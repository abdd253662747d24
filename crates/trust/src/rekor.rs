//! Whether a signature was entered into a transparency log, by the promise that the log signed
//! (cosign's bundle). Nobody is asked: the promise comes with the signature.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;

use crate::key::Key;

/// Why a bundle does not show that the signature is in the log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LogError {
    #[error("a signature has no bundle that shows it in the transparency log")]
    Absent,
    #[error("the bundle of a signature cannot be read: {0}")]
    Unreadable(String),
    #[error("the promise in the bundle of a signature was not made with {0}")]
    Promise(String),
    #[error("the bundle of a signature is of another {0}")]
    Other(&'static str),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundle {
    #[serde(rename = "SignedEntryTimestamp")]
    promise: String,
    #[serde(rename = "Payload")]
    entry: Entry,
}

/// What the log signs. The names and their order are those of the canonical form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    body: String,
    #[serde(rename = "integratedTime")]
    integrated_time: i64,
    #[serde(rename = "logID")]
    log_id: String,
    #[serde(rename = "logIndex")]
    log_index: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    data: Data,
    signature: Signed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    hash: Hash,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hash {
    algorithm: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    content: String,
    #[serde(rename = "publicKey")]
    public_key: PublicKey,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicKey {
    content: String,
}

/// Checks that one of the keys of the log promised to enter `signature` of `payload`, made with
/// `key`.
pub(crate) fn verify(
    log: &[Key],
    bundle: Option<&str>,
    key: &Key,
    signature: &[u8],
    payload: &[u8],
) -> Result<(), LogError> {
    let bundle = bundle.ok_or(LogError::Absent)?;
    let unreadable = |error: &dyn std::fmt::Display| LogError::Unreadable(error.to_string());
    let Bundle { promise, entry } = serde_json::from_str(bundle).map_err(|e| unreadable(&e))?;
    let promise = BASE64.decode(promise).map_err(|e| unreadable(&e))?;
    let signed = entry.canonical()?;
    // Nothing of the entry counts before this.
    if !log.iter().any(|key| key.has_made(&promise, signed.as_bytes())) {
        let keys: Vec<&str> = log.iter().map(|key| key.from.as_str()).collect();
        return Err(LogError::Promise(keys.join(" or ")));
    }
    let body = BASE64.decode(&entry.body).map_err(|e| unreadable(&e))?;
    let Record { api_version, kind, spec } =
        serde_json::from_slice(&body).map_err(|e| unreadable(&e))?;
    if (kind.as_str(), api_version.as_str()) != ("hashedrekord", "0.0.1") {
        return Err(LogError::Unreadable(format!(
            "it is an entry of the kind {kind} {api_version}"
        )));
    }
    let content = BASE64.decode(spec.signature.content).map_err(|e| unreadable(&e))?;
    if content != signature {
        return Err(LogError::Other("signature"));
    }
    let pem = BASE64.decode(spec.signature.public_key.content).map_err(|e| unreadable(&e))?;
    let der = SubjectPublicKeyInfoDer::from_pem_slice(&pem).map_err(|e| unreadable(&e))?;
    if *der != *key.der {
        return Err(LogError::Other("key"));
    }
    let Hash { algorithm, value } = spec.data.hash;
    let hash = digest(&SHA256, payload);
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    if algorithm != "sha256" || value != hex {
        return Err(LogError::Other("image"));
    }
    Ok(())
}

impl Entry {
    /// The text that the log signed (RFC 8785): keys in order, no blanks. Texts of other characters
    /// than these would need escapes, and are never in an entry.
    fn canonical(&self) -> Result<String, LogError> {
        let plain = |text: &str| {
            text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
        };
        if !plain(&self.body) || !plain(&self.log_id) {
            return Err(LogError::Unreadable("it has characters that no entry has".to_owned()));
        }
        let Self { body, integrated_time, log_id, log_index } = self;
        Ok(format!(
            "{{\"body\":{},\"integratedTime\":{integrated_time},\"logID\":{},\"logIndex\":{log_index}}}",
            json!(body),
            json!(log_id)
        ))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
    use serde_json::Value;

    use super::*;

    const PAYLOAD: &[u8] = b"what was signed";

    fn key(pair: &KeyPair) -> Key {
        Key::parse("log.pub".into(), pair.public_key_pem().as_bytes()).unwrap()
    }

    /// An entry as Rekor makes it for `signature` by `signer`.
    fn record(signer: &KeyPair, signature: &[u8], payload: &[u8]) -> Value {
        let hash = digest(&SHA256, payload);
        let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": hex}},
                "signature": {
                    "content": BASE64.encode(signature),
                    "publicKey": {"content": BASE64.encode(signer.public_key_pem())},
                },
            },
        })
    }

    fn bundle(log: &KeyPair, record: &Value) -> Value {
        let body = BASE64.encode(record.to_string());
        // Written out, so that the canonical form is not our own opinion of it.
        let signed = format!(
            r#"{{"body":"{body}","integratedTime":1700000000,"logID":"c0d2","logIndex":12}}"#
        );
        let promise = BASE64.encode(log.sign(signed.as_bytes()).unwrap());
        json!({
            "SignedEntryTimestamp": promise,
            "Payload": {"logIndex": 12, "body": body, "logID": "c0d2", "integratedTime": 1_700_000_000},
        })
    }

    #[test]
    fn a_promise_holds_for_its_own_signature_key_and_payload_alone() {
        let [log, signer, other] = [(); 3].map(|()| KeyPair::generate().unwrap());
        let signature = signer.sign(PAYLOAD).unwrap();
        let good = bundle(&log, &record(&signer, &signature, PAYLOAD)).to_string();
        let check = |log: &KeyPair, bundle: &str| {
            verify(&[key(log)], Some(bundle), &key(&signer), &signature, PAYLOAD)
        };
        assert!(!signer.der_bytes().is_empty());
        assert_eq!(check(&log, &good), Ok(()));
        assert_eq!(check(&other, &good), Err(LogError::Promise("log.pub".into())));
        for (record, what) in [
            (record(&signer, b"another", PAYLOAD), "signature"),
            (record(&other, &signature, PAYLOAD), "key"),
            (record(&signer, &signature, b"something else"), "image"),
        ] {
            let bundle = bundle(&log, &record).to_string();
            assert_eq!(check(&log, &bundle), Err(LogError::Other(what)));
        }
        let none = verify(&[key(&log)], None, &key(&signer), &signature, PAYLOAD);
        assert_eq!(none, Err(LogError::Absent));
    }

    #[test]
    fn a_bundle_that_was_changed_or_is_of_another_kind_is_not_believed() {
        let [log, signer] = [(); 2].map(|()| KeyPair::generate().unwrap());
        let signature = signer.sign(PAYLOAD).unwrap();
        let check = |bundle: &Value| {
            let bundle = bundle.to_string();
            verify(&[key(&log)], Some(&bundle), &key(&signer), &signature, PAYLOAD)
        };
        let good = record(&signer, &signature, PAYLOAD);
        let mut later = bundle(&log, &good);
        later["Payload"]["integratedTime"] = json!(1_700_000_001);
        assert!(matches!(check(&later), Err(LogError::Promise(_))));
        let mut odd = bundle(&log, &good);
        odd["Payload"]["logID"] = json!("a\"b");
        assert!(matches!(check(&odd), Err(LogError::Unreadable(_))));
        let mut more = bundle(&log, &good);
        more["Payload"]["more"] = json!(1);
        assert!(matches!(check(&more), Err(LogError::Unreadable(_))));
        let mut kind = good;
        kind["kind"] = json!("rekord");
        assert!(matches!(check(&bundle(&log, &kind)), Err(LogError::Unreadable(_))));
        assert!(matches!(check(&json!({})), Err(LogError::Unreadable(_))));
    }
}
