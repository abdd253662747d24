//! The images that the demo mirrors.

use std::collections::BTreeMap;

use anyhow::Result;
use lab::images::{Compression, Format, Image, Layer, SigningKey};
use lab::operators::{CATALOG, TAG};
use oci::Platform;

use crate::output::megabytes;
use crate::upstream::{CHANNEL, HOST};

const MB: u64 = 1_000_000;

/// An image under its name in the source registry.
pub(super) struct SourceImage {
    pub(super) repository: &'static str,
    pub(super) tag: &'static str,
    pub(super) image: Image,
    /// How many of its blobs no earlier image has.
    pub(super) new_blobs: usize,
    named_by: NamedBy,
    about: &'static str,
}

/// How the configuration names an image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamedBy {
    Tag,
    Digest,
}

impl SourceImage {
    fn new(repository: &'static str, tag: &'static str, about: &'static str, image: Image) -> Self {
        Self { repository, tag, image, new_blobs: 0, named_by: NamedBy::Tag, about }
    }

    /// What a client requests: the tag or the digest.
    pub(super) fn pointer(&self) -> String {
        match self.named_by {
            NamedBy::Tag => self.tag.to_owned(),
            NamedBy::Digest => self.image.digest().to_string(),
        }
    }

    fn reference(&self) -> String {
        let separator = if self.named_by == NamedBy::Tag { ':' } else { '@' };
        format!("{HOST}/{}{separator}{}", self.repository, self.pointer())
    }

    /// A line that describes the image.
    pub(super) fn line(&self) -> String {
        let name = format!("{HOST}/{}:{}", self.repository, self.tag);
        let size = megabytes(self.image.size());
        format!("{name:38} {} {size:>8}  {}", self.image.digest().short(), self.about)
    }
}

/// What the source has at first.
pub(super) fn first() -> Result<Vec<SourceImage>> {
    let gzip = |name: &str, size| Layer::generate(name, size, Compression::Gzip);
    let (amd64, arm64) = (Platform::new("linux", "amd64"), Platform::new("linux", "arm64"));
    let (base, runtime) = (gzip("base", 12 * MB)?, gzip("runtime", 4 * MB)?);
    let web = [base.clone(), runtime.clone(), gzip("web", 2 * MB)?];
    let api = [base.clone(), runtime, gzip("api", 3 * MB)?];
    let shell = Image::list(
        Format::Oci,
        [
            Image::new(Format::Oci, amd64.clone(), &[base.clone(), gzip("shell", MB)?])?,
            Image::new(
                Format::Oci,
                arm64,
                &[gzip("base arm64", 6 * MB)?, gzip("shell arm64", MB)?],
            )?,
        ],
    )?;
    let zstd = Layer::generate("store", MB, Compression::Zstd)?;
    let vault = Image::new(Format::Oci, amd64.clone(), &[base.clone(), gzip("vault", 2 * MB)?])?
        .signed(&SigningKey::generate()?, "registry.example/secure/vault")?
        .with_referrer("application/vnd.example.sbom+json", br#"{"packages": []}"#)?;
    Ok(vec![
        SourceImage::new(
            "apps/web",
            "v1",
            "docker",
            Image::new(Format::Docker, amd64.clone(), &web)?,
        ),
        SourceImage::new("apps/api", "v1", "OCI", Image::new(Format::Oci, amd64.clone(), &api)?),
        SourceImage::new("apps/shell", "latest", "list of amd64 and arm64", shell),
        SourceImage {
            named_by: NamedBy::Digest,
            ..SourceImage::new(
                "infra/store",
                "v3",
                "zstd, referenced by digest",
                Image::new(Format::Oci, amd64, &[base, zstd])?,
            )
        },
        SourceImage::new("secure/vault", "v2", "signed, with an SBOM", vault),
    ])
}

/// A newer `apps/web:v1`: only the last layer differs.
pub(super) fn changed() -> Result<SourceImage> {
    let gzip = |name: &str, size| Layer::generate(name, size, Compression::Gzip);
    let layers = [gzip("base", 12 * MB)?, gzip("runtime", 4 * MB)?, gzip("web, newer", 2 * MB)?];
    let image = Image::new(Format::Docker, Platform::new("linux", "amd64"), &layers)?;
    // The layer and the config.
    Ok(SourceImage {
        new_blobs: 2,
        ..SourceImage::new("apps/web", "v1", "one layer differs", image)
    })
}

/// The images with `newer` instead of the one that it replaces.
pub(super) fn replaced(source_images: Vec<SourceImage>, newer: SourceImage) -> Vec<SourceImage> {
    let others = source_images.into_iter().filter(|old| old.repository != newer.repository);
    let mut replaced: Vec<SourceImage> = others.collect();
    replaced.insert(0, newer);
    replaced
}

/// The configuration that mirrors all of them, the newest release and a part of the catalog.
pub(super) fn image_set(source_images: &[SourceImage]) -> String {
    let mut text = format!(
        "kind: ImageSetConfiguration\n\
         apiVersion: mirror.openshift.io/v2alpha1\n\
         mirror:\n  \
           platform:\n    \
             channels:\n    \
             - name: {CHANNEL}            # no versions: the newest release\n  \
           operators:\n  \
           - catalog: {HOST}/{CATALOG}:{TAG}\n    \
             packages:\n    \
             - name: foo\n      \
               channels:\n      \
               - name: beta\n        \
                 minVersion: 0.2.0\n    \
             - name: baz                    # the newest version of the default channel\n  \
           additionalImages:\n"
    );
    for source_image in source_images {
        text += &format!("  - name: {}\n", source_image.reference());
    }
    text
}

/// Bytes of all blobs, each counted once; and counted once for every image that has them.
pub(super) fn shared_bytes(source_images: &[SourceImage]) -> (u64, u64) {
    let all = || source_images.iter().flat_map(|source_image| source_image.image.blobs.values());
    let unique: BTreeMap<_, u64> = all().map(|blob| (blob.digest, blob.size)).collect();
    (unique.values().sum(), all().map(|blob| blob.size).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changed_image_has_the_stated_number_of_new_blobs() {
        let (before, changed) = (first().unwrap(), changed().unwrap());
        let held: Vec<_> =
            before.iter().flat_map(|source_image| source_image.image.blobs.keys()).collect();
        let new = changed.image.blobs.keys().filter(|digest| !held.contains(digest));
        assert_eq!(new.count(), changed.new_blobs);
    }

    #[test]
    fn the_configuration_names_one_image_by_digest_and_the_rest_by_tag() {
        let source_images = first().unwrap();
        let text = image_set(&source_images);
        let digest = source_images[3].image.digest();
        assert!(text.contains("  - name: quay.io/apps/web:v1\n"), "{text}");
        assert!(text.contains(&format!("  - name: quay.io/infra/store@{digest}\n")), "{text}");
        assert_eq!(text.matches('@').count(), 1);
    }
}
