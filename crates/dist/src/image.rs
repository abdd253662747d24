//! Container images: one OCI archive per image, with an index over all architectures.
//!
//! The images have no base image: static programs need none, and nothing of an image changes
//! without a change of this repository.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::architecture::Architecture;
use crate::entries::{self, Entry, FinishGzip as _};
use crate::release::Release;

/// A user without privileges, as in the images of distroless. OpenShift replaces it with a UID from
/// the range of the namespace.
pub(crate) const USER: &str = "65532:65532";

/// What all architectures of an image have in common.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) user: &'static str,
    pub(crate) entrypoint: Vec<&'static str>,
    pub(crate) command: Vec<&'static str>,
    pub(crate) labels: BTreeMap<&'static str, String>,
}

impl Settings {
    fn labels(&self, release: &Release) -> BTreeMap<&'static str, String> {
        let mut labels = self.labels.clone();
        labels.extend([
            ("org.opencontainers.image.title", self.name.to_owned()),
            ("org.opencontainers.image.description", self.summary.to_owned()),
            ("org.opencontainers.image.licenses", "Apache-2.0".to_owned()),
            ("org.opencontainers.image.version", release.version()),
            ("org.opencontainers.image.revision", release.commit.clone()),
            ("org.opencontainers.image.created", created(release)),
            ("io.k8s.display-name", self.name.to_owned()),
            ("io.k8s.description", self.summary.to_owned()),
        ]);
        labels
    }

    fn config(&self, release: &Release, architecture: Architecture, layer: &str) -> Value {
        json!({
            "created": created(release),
            "architecture": architecture.go(),
            "os": "linux",
            "config": {
                "User": self.user,
                "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
                "Entrypoint": self.entrypoint,
                "Cmd": self.command,
                "WorkingDir": "/",
                "Labels": self.labels(release),
            },
            "rootfs": { "type": "layers", "diff_ids": [layer] },
            "history": [{ "created": created(release), "created_by": "landfall dist" }],
        })
    }
}

fn created(release: &Release) -> String {
    format!("{}T00:00:00Z", release.date)
}

/// Blobs of an image layout by their digest.
#[derive(Debug, Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Adds a blob and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = digest(&bytes);
        let descriptor = json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() });
        self.0.insert(digest, bytes);
        descriptor
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Writes the archive: an image layout as a tar file.
pub(crate) fn write(
    path: &Path,
    settings: &Settings,
    release: &Release,
    roots: &[(Architecture, Vec<Entry>)],
    compression: Compression,
) -> Result<()> {
    let mut blobs = Blobs::default();
    let mut manifests = Vec::new();
    for (architecture, root) in roots {
        let mut layer = Vec::new();
        entries::write_tar(&mut layer, root, release.epoch).with_context(|| {
            format!("writing the layer of {} for {architecture}", settings.name)
        })?;
        let diff_id = digest(&layer);
        let mut compressed = Vec::new();
        let mut gzip = entries::gzip(&mut compressed, compression);
        std::io::copy(&mut layer.as_slice(), &mut gzip).context("compressing a layer")?;
        gzip.finish().context("compressing a layer")?;
        let layer = blobs.add(LAYER, compressed);
        let config = settings.config(release, *architecture, &diff_id);
        let config = blobs.add(CONFIG, serde_json::to_vec(&config)?);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer],
            "annotations": settings.labels(release),
        });
        let mut manifest = blobs.add(MANIFEST, serde_json::to_vec(&manifest)?);
        manifest["platform"] = json!({ "os": "linux", "architecture": architecture.go() });
        manifests.push(manifest);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": manifests,
        "annotations": settings.labels(release),
    });
    let mut index = blobs.add(INDEX, serde_json::to_vec(&index)?);
    index["annotations"] = json!({ "org.opencontainers.image.ref.name": release.tag() });
    let top = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [index] });

    let mut layout = vec![
        Entry::bytes("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#),
        Entry::bytes("index.json", serde_json::to_vec(&top)?),
    ];
    layout.extend(
        blobs.0.into_iter().map(|(digest, bytes)| {
            Entry::bytes(format!("blobs/{}", digest.replace(':', "/")), bytes)
        }),
    );
    let writing = || format!("writing {}", path.display());
    let file = File::create(path).with_context(writing)?;
    entries::write_tar(BufWriter::new(file), &layout, release.epoch).with_context(writing)
}

/// What every root needs: certificate authorities, a name for the user, a folder for temporary files.
pub(crate) fn base_root() -> Vec<Entry> {
    let id = USER.split(':').next().unwrap_or_default();
    vec![
        Entry::bytes("etc/ssl/certs/ca-certificates.crt", certificates()),
        Entry::bytes(
            "etc/passwd",
            format!(
                "root:x:0:0:root:/root:/sbin/nologin\nlandfall:x:{id}:{id}::/tmp:/sbin/nologin\n"
            ),
        ),
        Entry::bytes("etc/group", format!("root:x:0:\nlandfall:x:{id}:\n")),
        Entry::folder("tmp", 0o1777),
    ]
}

/// Mozilla's certificate authorities as PEM. Those of the build machine may include private ones.
fn certificates() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate);
        for start in (0..encoded.len()).step_by(64) {
            text.push_str(&encoded[start..encoded.len().min(start + 64)]);
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
