//! What belongs to an image: cosign's signatures, attestations and SBOMs, and
//! OCI referrers.

use std::fmt;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use oci::{Descriptor, Digest, MediaType, Tag};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, SigningKey as _};
use serde_json::{Value, json};

use super::{Attachment, Blob, Format, Image, manifest};

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const DSSE: &str = "application/vnd.dsse.envelope.v1+json";
const IN_TOTO: &str = "application/vnd.in-toto+json";
const SPDX: &str = "spdx+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// An ECDSA P-256 key as cosign makes them. A new one each time.
pub struct SigningKey(KeyPair);

impl SigningKey {
    /// A new key.
    pub fn generate() -> Result<Self> {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map(Self).context("generating a signing key")
    }

    /// The public key, as `cosign verify --key` reads it.
    pub fn public_pem(&self) -> String {
        self.0.public_key_pem()
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.0
    }

    /// An ASN.1 signature of the message's SHA-256, in base64.
    pub fn sign(&self, message: &[u8]) -> Result<String> {
        Ok(BASE64.encode(self.0.sign(message).context("signing")?))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(P-256)")
    }
}

impl Image {
    /// Adds the signature `cosign sign` would make of the root, as an image
    /// named `name` (`quay.io/org/app`), under the tag `sha256-<hex>.sig`.
    pub fn signed(self, key: &SigningKey, name: &str) -> Result<Self> {
        self.signed_repeatedly(key, name, 1)
    }

    /// The same with the layer of the signature so many times, as some publishers have it.
    pub fn signed_repeatedly(self, key: &SigningKey, name: &str, times: usize) -> Result<Self> {
        let payload = serde_json::to_vec(&json!({
            "critical": {
                "identity": {"docker-reference": name},
                "image": {"docker-manifest-digest": self.digest()},
                "type": "cosign container image signature",
            },
            "optional": null,
        }))?;
        let signature = key.sign(&payload)?;
        self.attached_repeatedly("sig", SIMPLE_SIGNING, payload, &[(SIGNATURE, &signature)], times)
    }

    /// Adds a signature of this payload under the tag `sha256-<hex>.sig`, with further annotations.
    pub fn with_signature(
        self,
        payload: Vec<u8>,
        signature: &str,
        annotations: &[(&str, &str)],
    ) -> Result<Self> {
        let annotations = [&[(SIGNATURE, signature)], annotations].concat();
        self.attached("sig", SIMPLE_SIGNING, payload, &annotations)
    }

    /// Adds a signed in-toto statement about the root under `sha256-<hex>.att`.
    pub fn attested(self, key: &SigningKey) -> Result<Self> {
        let predicate = "https://slsa.dev/provenance/v0.2";
        let statement = serde_json::to_vec(&json!({
            "_type": "https://in-toto.io/Statement/v0.1",
            "predicateType": predicate,
            "subject": [{"name": "image", "digest": {"sha256": self.digest().hex()}}],
            "predicate": {"builder": {"id": "lab"}, "buildType": "lab"},
        }))?;
        // What is signed is the statement with its type and both lengths in front.
        let mut signed =
            format!("DSSEv1 {} {IN_TOTO} {} ", IN_TOTO.len(), statement.len()).into_bytes();
        signed.extend_from_slice(&statement);
        let envelope = serde_json::to_vec(&json!({
            "payloadType": IN_TOTO,
            "payload": BASE64.encode(&statement),
            "signatures": [{"keyid": "", "sig": key.sign(&signed)?}],
        }))?;
        self.attached("att", DSSE, envelope, &[(SIGNATURE, ""), ("predicateType", predicate)])
    }

    /// Adds a list of contents under `sha256-<hex>.sbom`.
    pub fn with_sbom(self) -> Result<Self> {
        let sbom = json!({"spdxVersion": "SPDX-2.3", "name": self.digest().to_string()});
        self.attached("sbom", &format!("text/{SPDX}"), serde_json::to_vec(&sbom)?, &[])
    }

    /// Adds an OCI referrer of the root: an artifact of this type and content
    /// whose `subject` is the root.
    pub fn with_referrer(mut self, artifact_type: &str, content: &[u8]) -> Result<Self> {
        let empty = Blob::from_bytes(&b"{}"[..]);
        let content = Blob::from_bytes(content.to_vec());
        let manifest = manifest(&json!({
            "schemaVersion": 2,
            "mediaType": MediaType::OCI_MANIFEST,
            "artifactType": artifact_type,
            "config": empty.descriptor(MediaType::OCI_EMPTY),
            "layers": [content.descriptor(artifact_type)],
            "subject": self.root().descriptor(),
            "annotations": {"org.opencontainers.image.created": "2024-01-01T00:00:00Z"},
        }))?;
        self.attachments.push(Attachment { tag: None, manifest });
        self.blobs.extend([empty, content].map(|blob| (blob.digest, blob)));
        Ok(self)
    }

    /// Adds a manifest with one layer under cosign's tag for the root.
    fn attached(
        self,
        suffix: &str,
        media_type: &str,
        content: Vec<u8>,
        annotations: &[(&str, &str)],
    ) -> Result<Self> {
        self.attached_repeatedly(suffix, media_type, content, annotations, 1)
    }

    fn attached_repeatedly(
        mut self,
        suffix: &str,
        media_type: &str,
        content: Vec<u8>,
        annotations: &[(&str, &str)],
        times: usize,
    ) -> Result<Self> {
        let layer = Blob::from_bytes(content);
        let config = Blob::from_bytes(serde_json::to_vec(&config_of(layer.digest))?);
        let annotations = annotations.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        let described =
            Descriptor { annotations: annotations.collect(), ..layer.descriptor(media_type) };
        let manifest = manifest(&json!({
            "schemaVersion": 2,
            "mediaType": MediaType::OCI_MANIFEST,
            "config": config.descriptor(Format::Oci.config()),
            "layers": vec![described; times],
        }))?;
        let tag = Some(Tag::of_attachment(&self.digest(), suffix));
        self.attachments.push(Attachment { tag, manifest });
        self.blobs.extend([config, layer].map(|blob| (blob.digest, blob)));
        Ok(self)
    }
}

fn config_of(layer: Digest) -> Value {
    json!({
        "architecture": "", "os": "", "created": "0001-01-01T00:00:00Z", "config": {},
        "history": [{"created": "0001-01-01T00:00:00Z"}],
        "rootfs": {"type": "layers", "diff_ids": [layer]},
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use oci::Manifest;

    use super::*;

    #[test]
    fn openssl_accepts_the_signature_with_the_public_key() {
        let key = SigningKey::generate().unwrap();
        let image = Image::tiny("signed").unwrap().signed(&key, "quay.io/org/app").unwrap();
        let attachment = &image.attachments[0];
        assert_eq!(
            attachment.tag.as_ref().unwrap().as_str(),
            format!("sha256-{}.sig", image.digest().hex())
        );
        let Manifest::Image { layers, .. } = attachment.manifest.parse().unwrap() else {
            panic!("expected an image")
        };
        let payload = image.blobs[&layers[0].digest].bytes().unwrap();
        let signature = BASE64.decode(&layers[0].annotations[SIGNATURE]).unwrap();

        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let verify = |payload: &[u8]| {
            Command::new("openssl")
                .args(["dgst", "-sha256", "-verify"])
                .arg(file("key.pem", key.public_pem().as_bytes()))
                .arg("-signature")
                .arg(file("signature", &signature))
                .arg(file("payload", payload))
                .output()
                .unwrap()
        };
        assert!(verify(&payload).status.success(), "{:?}", verify(&payload));
        assert!(!verify(b"something else").status.success());
        assert!(String::from_utf8_lossy(&payload).contains(&image.digest().to_string()));
    }

    #[test]
    fn a_referrer_points_at_the_root_and_brings_its_blobs() {
        let image = Image::tiny("x").unwrap().with_referrer("application/x", b"hello").unwrap();
        let referrer = image.referrers().next().unwrap().parse().unwrap();
        assert_eq!(referrer.about().subject, Some(image.root().descriptor()));
        assert_eq!(referrer.about().artifact_type.as_deref(), Some("application/x"));
        assert!(referrer.blobs().iter().all(|blob| image.blobs.contains_key(&blob.digest)));
    }
}
