//! Generated images: real layers, configs, manifests and lists, the same
//! bytes on every machine.
//!
//! ```
//! use lab::images::{Compression, Format, Image, Layer};
//!
//! let base = Layer::generate("base", 10_000, Compression::Gzip)?;
//! let top = Layer::generate("top", 500, Compression::Zstd)?;
//! let amd64 = Image::new(Format::Oci, "linux/amd64".parse()?, &[base.clone(), top.clone()])?;
//! let arm64 = Image::new(Format::Oci, "linux/arm64".parse()?, &[base, top])?;
//! let both = Image::list(Format::Oci, [amd64, arm64])?;
//! assert_eq!(both.manifests.len(), 3);
//! # Ok::<(), anyhow::Error>(())
//! ```

mod attachments;
mod blob;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use oci::{Descriptor, Digest, MediaType, Platform, RawManifest, Tag};
use serde_json::{Value, json};

pub use attachments::SigningKey;
pub use blob::{Blob, Compression, Layer};

/// Whose media types an image uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Docker's schema 2 manifests and manifest lists.
    Docker,
    /// OCI manifests and indexes.
    Oci,
}

/// A whole image with all its content, or the recipe of it.
#[derive(Debug, Clone)]
pub struct Image {
    /// The root first; if that is a list, then the manifests it lists, in its order.
    pub manifests: Vec<RawManifest>,
    /// Every blob that the manifests and the attachments need.
    pub blobs: BTreeMap<Digest, Blob>,
    /// Signatures and the like.
    pub attachments: Vec<Attachment>,
    platform: Option<Platform>,
}

/// A manifest that belongs to an image.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// Cosign's tag, or `None` for a referrer, which is found by its `subject`.
    pub tag: Option<Tag>,
    /// What is attached. Its blobs are among the image's.
    pub manifest: RawManifest,
}

impl Format {
    fn manifest(self) -> &'static str {
        match self {
            Self::Docker => MediaType::DOCKER_MANIFEST,
            Self::Oci => MediaType::OCI_MANIFEST,
        }
    }

    fn list(self) -> &'static str {
        match self {
            Self::Docker => MediaType::DOCKER_LIST,
            Self::Oci => MediaType::OCI_INDEX,
        }
    }

    fn config(self) -> &'static str {
        match self {
            Self::Docker => "application/vnd.docker.container.image.v1+json",
            Self::Oci => "application/vnd.oci.image.config.v1+json",
        }
    }

    /// Docker has no type for zstd; tools that write such layers there use OCI's.
    fn layer(self, compression: Compression) -> &'static str {
        match (self, compression) {
            (Self::Docker, Compression::None) => "application/vnd.docker.image.rootfs.diff.tar",
            (Self::Docker, Compression::Gzip) => {
                "application/vnd.docker.image.rootfs.diff.tar.gzip"
            }
            (Self::Oci, Compression::None) => "application/vnd.oci.image.layer.v1.tar",
            (Self::Oci, Compression::Gzip) => "application/vnd.oci.image.layer.v1.tar+gzip",
            (_, Compression::Zstd) => "application/vnd.oci.image.layer.v1.tar+zstd",
        }
    }
}

impl Image {
    /// An image of one platform made of `layers`, lowest first.
    pub fn new(format: Format, platform: Platform, layers: &[Layer]) -> Result<Self> {
        Self::configured(format, platform, layers, &json!({"Cmd": ["/bin/true"]}))
    }

    /// The same, with settings for those who run it: command, labels.
    pub fn configured(
        format: Format,
        platform: Platform,
        layers: &[Layer],
        settings: &Value,
    ) -> Result<Self> {
        let diff_ids: Vec<_> = layers.iter().map(|layer| layer.diff_id).collect();
        let mut config = json!({
            "created": "2024-01-01T00:00:00Z",
            "architecture": platform.architecture,
            "os": platform.os,
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": layers.iter().map(|layer| json!({
                "created": "2024-01-01T00:00:00Z",
                "created_by": format!("layer {}", layer.diff_id.short()),
            })).collect::<Vec<_>>(),
        });
        if let Some(variant) = &platform.variant {
            config["variant"] = json!(variant);
        }
        let config = Blob::from_bytes(serde_json::to_vec(&config)?);
        let described: Vec<_> = layers
            .iter()
            .map(|layer| layer.blob.descriptor(format.layer(layer.compression)))
            .collect();
        let manifest = manifest(&json!({
            "schemaVersion": 2,
            "mediaType": format.manifest(),
            "config": config.descriptor(format.config()),
            "layers": described,
        }))?;
        let blobs = layers.iter().map(|layer| layer.blob.clone()).chain([config]);
        Ok(Self {
            manifests: vec![manifest],
            blobs: blobs.map(|blob| (blob.digest, blob)).collect(),
            attachments: Vec::new(),
            platform: Some(platform),
        })
    }

    /// A small OCI image for linux/amd64 whose content depends on `name` alone.
    pub fn tiny(name: &str) -> Result<Self> {
        let layer = Layer::generate(name, 600, Compression::Gzip)?;
        Self::new(Format::Oci, Platform::new("linux", "amd64"), &[layer])
    }

    /// A list of images, each under its platform. Attachments are included.
    pub fn list(format: Format, images: impl IntoIterator<Item = Image>) -> Result<Self> {
        let mut list =
            Self { manifests: vec![], blobs: BTreeMap::new(), attachments: vec![], platform: None };
        let mut described: Vec<Descriptor> = Vec::new();
        for image in images {
            let root = image.root().descriptor();
            described.push(Descriptor { platform: image.platform, ..root });
            list.manifests.extend(image.manifests);
            list.blobs.extend(image.blobs);
            list.attachments.extend(image.attachments);
        }
        let root = manifest(&json!({
            "schemaVersion": 2,
            "mediaType": format.list(),
            "manifests": described,
        }))?;
        list.manifests.insert(0, root);
        Ok(list)
    }

    /// The manifest the image is known by.
    pub fn root(&self) -> &RawManifest {
        &self.manifests[0]
    }

    /// The digest the image is known by.
    pub fn digest(&self) -> Digest {
        self.root().digest
    }

    /// All bytes of the image, each blob and manifest counted once.
    pub fn size(&self) -> u64 {
        let attached = self.attachments.iter().map(|attachment| &attachment.manifest);
        let manifests = self.manifests.iter().chain(attached).map(|m| m.bytes.len() as u64);
        self.blobs.values().map(|blob| blob.size).sum::<u64>() + manifests.sum::<u64>()
    }

    /// The referrers of the root and of the manifests below it.
    pub fn referrers(&self) -> impl Iterator<Item = &RawManifest> {
        self.attachments.iter().filter(|a| a.tag.is_none()).map(|a| &a.manifest)
    }
}

/// The manifest that `document` is. Its bytes are made here, once.
fn manifest(document: &Value) -> Result<RawManifest> {
    let bytes = serde_json::to_vec(document)?;
    RawManifest::new(None, bytes).context("generating a manifest")
}

#[cfg(test)]
mod tests {
    use oci::Manifest;

    use super::*;

    #[test]
    fn the_same_recipe_gives_the_same_image() {
        assert_eq!(Image::tiny("a").unwrap().digest(), Image::tiny("a").unwrap().digest());
        assert_ne!(Image::tiny("a").unwrap().digest(), Image::tiny("b").unwrap().digest());
    }

    #[test]
    fn a_manifest_names_its_blobs_with_their_true_digests_and_sizes() {
        for format in [Format::Docker, Format::Oci] {
            let layers = [Compression::None, Compression::Gzip, Compression::Zstd]
                .map(|c| Layer::generate("x", 3_000, c).unwrap());
            let image = Image::new(format, Platform::new("linux", "amd64"), &layers).unwrap();
            let Manifest::Image { config, layers, .. } = image.root().parse().unwrap() else {
                panic!("expected an image")
            };
            assert_eq!(layers.len(), 3);
            for blob in layers.iter().chain([&config]) {
                let bytes = image.blobs[&blob.digest].bytes().unwrap();
                assert_eq!(Digest::of(&bytes), blob.digest);
                assert_eq!(bytes.len() as u64, blob.size);
            }
        }
    }

    #[test]
    fn a_list_holds_every_child_under_its_platform() {
        let layer = Layer::generate("x", 100, Compression::Gzip).unwrap();
        let children = ["linux/amd64", "linux/arm64/v8"].map(|platform| {
            Image::new(Format::Docker, platform.parse().unwrap(), std::slice::from_ref(&layer))
                .unwrap()
        });
        let list = Image::list(Format::Docker, children).unwrap();
        let parsed = list.root().parse().unwrap();
        let listed: Vec<_> = parsed
            .children()
            .iter()
            .map(|child| (child.digest, child.platform.as_ref().unwrap().to_string()))
            .collect();
        let held = |n: usize| list.manifests[n].digest;
        assert_eq!(listed, [(held(1), "linux/amd64".into()), (held(2), "linux/arm64/v8".into())]);
        assert_eq!(list.blobs.len(), 3, "one shared layer and two configs");
    }
}
