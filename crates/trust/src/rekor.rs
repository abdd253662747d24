//! Whether a signature was entered into a transparency log: by the inclusion promise that the log signed, or
//! by a proof that the entry is in the log. Both come with the signature, in cosign's bundle; no
//! request is sent.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
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
    #[error("the inclusion promise in the bundle of a signature was not made with {0}")]
    Promise(String),
    #[error("the bundle of a signature is of another {0}")]
    Other(&'static str),
    #[error("the proof in the bundle of a signature does not show that the log has the entry: {0}")]
    Proof(&'static str),
    #[error("the bundle of a signature has no inclusion promise, which would contain its time")]
    NoTime,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundle {
    #[serde(rename = "SignedEntryTimestamp")]
    promise: Option<String>,
    #[serde(rename = "Payload")]
    entry: Entry,
    #[serde(rename = "InclusionProof")]
    proof: Option<Proof>,
}

/// A path from the entry to the root of the log's tree, and the root as the log signed it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Proof {
    checkpoint: String,
    hashes: Vec<String>,
    log_index: u64,
    root_hash: String,
    tree_size: u64,
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

/// Checks that one of the logs has `signature` of `payload`, made by `signer`: the DER form of a
/// public key or of a certificate. Returns the time at which the log promised to enter it, if it
/// promised.
pub(crate) fn verify(
    log: &[Key],
    bundle: Option<&str>,
    signer: &[u8],
    signature: &[u8],
    payload: &[u8],
) -> Result<Option<i64>, LogError> {
    let bundle = bundle.ok_or(LogError::Absent)?;
    let unreadable = |error: &dyn std::fmt::Display| LogError::Unreadable(error.to_string());
    let Bundle { promise, entry, proof } =
        serde_json::from_str(bundle).map_err(|e| unreadable(&e))?;
    if promise.is_none() && proof.is_none() {
        return Err(LogError::Absent);
    }
    let body = BASE64.decode(&entry.body).map_err(|e| unreadable(&e))?;
    // Nothing of the entry counts before these. What is there must hold: a forged proof beside a
    // good promise is not an accident.
    if let Some(promise) = &promise {
        let promise = BASE64.decode(promise).map_err(|e| unreadable(&e))?;
        let signed = entry.canonical()?;
        if !log.iter().any(|key| key.has_made(&promise, signed.as_bytes())) {
            let keys: Vec<&str> = log.iter().map(|key| key.from.as_str()).collect();
            return Err(LogError::Promise(keys.join(" or ")));
        }
    }
    if let Some(proof) = &proof {
        proof.verify(log, &body)?;
    }
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
    let is_same = match SubjectPublicKeyInfoDer::from_pem_slice(&pem) {
        Ok(key) => *key == *signer,
        Err(_) => {
            let certificate = CertificateDer::from_pem_slice(&pem).map_err(|e| unreadable(&e))?;
            *certificate == *signer
        }
    };
    if !is_same {
        return Err(LogError::Other("key"));
    }
    let Hash { algorithm, value } = spec.data.hash;
    let hash = digest(&SHA256, payload);
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    if algorithm != "sha256" || value != hex {
        return Err(LogError::Other("image"));
    }
    Ok(promise.map(|_| entry.integrated_time))
}

impl Proof {
    /// Checks that the tree whose root a key of the log signed has an entry with this body
    /// (RFC 6962, section 2.1.1).
    fn verify(&self, log: &[Key], body: &[u8]) -> Result<(), LogError> {
        let root = decode_hex(&self.root_hash).ok_or(LogError::Proof("its root is not a hash"))?;
        let hashes: Option<Vec<[u8; 32]>> =
            self.hashes.iter().map(|hash| decode_hex(hash)).collect();
        let hashes = hashes.ok_or(LogError::Proof("a part of it is not a hash"))?;
        let computed = self.root_of(hash(&[&[0], body]), &hashes);
        if computed != Some(root) {
            return Err(LogError::Proof("the entry does not lead to its root"));
        }
        // A checkpoint is a signed note: a text, an empty line, and signatures of the text.
        let (text, signatures) =
            self.checkpoint.split_once("\n\n").ok_or(LogError::Proof("its checkpoint is cut"))?;
        let text = format!("{text}\n");
        let mut lines = text.lines().skip(1);
        let size = lines.next().and_then(|line| line.parse::<u64>().ok());
        let signed_root = lines.next().and_then(|line| BASE64.decode(line).ok());
        if size != Some(self.tree_size) || signed_root.as_deref() != Some(&root[..]) {
            return Err(LogError::Proof("its checkpoint is of another tree"));
        }
        let is_signed = signatures.lines().any(|line| {
            let signature = line.rsplit_once(' ').and_then(|(_, text)| BASE64.decode(text).ok());
            // The first four bytes are a hint which key it is.
            let signature = signature.as_deref().and_then(|bytes| bytes.get(4..));
            signature.is_some_and(|made| log.iter().any(|key| key.has_made(made, text.as_bytes())))
        });
        match is_signed {
            true => Ok(()),
            false => Err(LogError::Proof("its checkpoint is not signed by a key of the log")),
        }
    }

    /// The root that a leaf and the hashes beside its path give.
    fn root_of(&self, leaf: [u8; 32], hashes: &[[u8; 32]]) -> Option<[u8; 32]> {
        if self.log_index >= self.tree_size {
            return None;
        }
        let (mut at, mut last) = (self.log_index, self.tree_size - 1);
        let mut node = leaf;
        for beside in hashes {
            if last == 0 {
                return None;
            }
            if at % 2 == 1 || at == last {
                node = hash(&[&[1], beside, &node]);
                while at % 2 == 0 && at != 0 {
                    at >>= 1;
                    last >>= 1;
                }
            } else {
                node = hash(&[&[1], &node, beside]);
            }
            at >>= 1;
            last >>= 1;
        }
        (last == 0).then_some(node)
    }
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let found = digest(&SHA256, &parts.concat());
    let mut hash = [0; 32];
    hash.copy_from_slice(found.as_ref());
    hash
}

fn decode_hex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut hash = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (place, pair) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *place = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
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
    fn a_promise_is_valid_for_its_own_signature_key_and_payload_only() {
        let [log, signer, other] = [(); 3].map(|()| KeyPair::generate().unwrap());
        let signature = signer.sign(PAYLOAD).unwrap();
        let good = bundle(&log, &record(&signer, &signature, PAYLOAD)).to_string();
        let check = |log: &KeyPair, bundle: &str| {
            verify(&[key(log)], Some(bundle), &key(&signer).der, &signature, PAYLOAD)
        };
        assert!(!signer.der_bytes().is_empty());
        assert_eq!(check(&log, &good), Ok(Some(1_700_000_000)));
        assert_eq!(check(&other, &good), Err(LogError::Promise("log.pub".into())));
        for (record, what) in [
            (record(&signer, b"another", PAYLOAD), "signature"),
            (record(&other, &signature, PAYLOAD), "key"),
            (record(&signer, &signature, b"something else"), "image"),
        ] {
            let bundle = bundle(&log, &record).to_string();
            assert_eq!(check(&log, &bundle), Err(LogError::Other(what)));
        }
        let none = verify(&[key(&log)], None, &key(&signer).der, &signature, PAYLOAD);
        assert_eq!(none, Err(LogError::Absent));
    }

    /// The root of a tree with these leaves, as RFC 6962 defines it (section 2.1).
    fn tree(leaves: &[Vec<u8>]) -> [u8; 32] {
        match leaves {
            [leaf] => hash(&[&[0], leaf]),
            _ => {
                let half = leaves.len().next_power_of_two() / 2;
                hash(&[&[1], &tree(&leaves[..half]), &tree(&leaves[half..])])
            }
        }
    }

    /// The path of a leaf, as RFC 6962 defines it (section 2.1.1).
    fn path(at: usize, leaves: &[Vec<u8>]) -> Vec<[u8; 32]> {
        if leaves.len() == 1 {
            return Vec::new();
        }
        let half = leaves.len().next_power_of_two() / 2;
        let (left, right) = leaves.split_at(half);
        let (mut found, beside) = match at < half {
            true => (path(at, left), tree(right)),
            false => (path(at - half, right), tree(left)),
        };
        found.push(beside);
        found
    }

    fn hex(hash: &[u8; 32]) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A proof that the log has entry `at` of `leaves`.
    fn proof(log: &KeyPair, at: usize, leaves: &[Vec<u8>]) -> Value {
        let root = tree(leaves);
        let text = format!("log.example - 1\n{}\n{}\n", leaves.len(), BASE64.encode(root));
        let signature = [&[1, 2, 3, 4], log.sign(text.as_bytes()).unwrap().as_slice()].concat();
        json!({
            "checkpoint": format!("{text}\n\u{2014} log.example {}\n", BASE64.encode(signature)),
            "hashes": path(at, leaves).iter().map(hex).collect::<Vec<_>>(),
            "logIndex": at,
            "rootHash": hex(&root),
            "treeSize": leaves.len(),
        })
    }

    #[test]
    fn a_proof_shows_an_entry_in_a_tree_of_every_shape_and_no_other() {
        let [log, other, signer] = [(); 3].map(|()| KeyPair::generate().unwrap());
        let signature = signer.sign(PAYLOAD).unwrap();
        let body = record(&signer, &signature, PAYLOAD).to_string();
        let check = |bundle: &Value| {
            let bundle = bundle.to_string();
            verify(&[key(&log)], Some(&bundle), &key(&signer).der, &signature, PAYLOAD)
        };
        let with = |proof: Value| {
            let mut bundle = bundle(&log, &record(&signer, &signature, PAYLOAD));
            bundle["InclusionProof"] = proof;
            bundle
        };
        for size in 1..=9 {
            for at in 0..size {
                let leaf = |n: usize| if n == at { body.clone() } else { format!("entry {n}") };
                let leaves: Vec<Vec<u8>> = (0..size).map(|n| leaf(n).into_bytes()).collect();
                let good = proof(&log, at, &leaves);
                assert_eq!(check(&with(good.clone())), Ok(Some(1_700_000_000)), "{at} of {size}");
                // Enough without a promise, which alone has a time.
                let mut bare = with(good.clone());
                bare.as_object_mut().unwrap().remove("SignedEntryTimestamp");
                assert_eq!(check(&bare), Ok(None));
                let wrong = |change: &dyn Fn(&mut Value)| {
                    let mut forged = good.clone();
                    change(&mut forged);
                    assert!(
                        matches!(check(&with(forged)), Err(LogError::Proof(_))),
                        "{at} of {size}"
                    );
                };
                wrong(&|forged| forged["logIndex"] = json!(at + size));
                wrong(&|forged| forged["rootHash"] = json!(hex(&[7; 32])));
                wrong(&|forged| forged["treeSize"] = json!(size + 1));
                wrong(&|forged| {
                    forged["hashes"].as_array_mut().unwrap().push(json!(hex(&[7; 32])));
                });
                wrong(&|forged| *forged = proof(&other, at, &leaves));
                let absent: Vec<Vec<u8>> = (0..size).map(|n| format!("{n}").into_bytes()).collect();
                wrong(&|forged| *forged = proof(&log, at, &absent));
            }
        }
        let mut nothing = bundle(&log, &record(&signer, &signature, PAYLOAD));
        nothing.as_object_mut().unwrap().remove("SignedEntryTimestamp");
        assert_eq!(check(&nothing), Err(LogError::Absent));
    }

    #[test]
    fn a_bundle_that_was_changed_or_is_of_another_kind_is_rejected() {
        let [log, signer] = [(); 2].map(|()| KeyPair::generate().unwrap());
        let signature = signer.sign(PAYLOAD).unwrap();
        let check = |bundle: &Value| {
            let bundle = bundle.to_string();
            verify(&[key(&log)], Some(&bundle), &key(&signer).der, &signature, PAYLOAD)
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
