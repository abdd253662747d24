//! Opens the image of a catalog: the files of the catalog, for every platform the image is for.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{RebuildError, UnpackError, Unpacked, catalog_folder};
use mirror_plan::{BlobRef, ImageTree, ManifestNode};
use oci::{Digest, Manifest, ManifestError, Platform, RawManifest};

use super::carried::KnownLayers;
use super::content::{Content, ContentError};
use crate::fault::{EngineError, Fault};
use crate::gather::blob_of;

/// Configs of images are small.
const MAX_CONFIG: u64 = 4 << 20;
/// Images of one catalog: one for each platform. All their configs are held in memory.
const MAX_IMAGES: usize = 32;
/// The files of all platforms together, where these differ: four times the largest real catalog.
const MAX_UNPACKED: u64 = 1280 << 20;
/// The largest layer, packed, that may do nothing but hide those below it.
const MAX_HIDING_LAYER: u64 = 16 << 10;

/// One image of a catalog, and the catalog in it.
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    pub(crate) platform: Option<Platform>,
    pub(crate) manifest: RawManifest,
    pub(crate) config: Vec<u8>,
    /// Shared between platforms that have the same.
    pub(crate) files: Arc<Unpacked>,
    /// Those with a part of the catalog.
    pub(crate) layers: Vec<BlobRef>,
}

/// Why a catalog cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error("reading the manifest {digest}")]
    Manifest { digest: Digest, source: ManifestError },
    #[error("reading the config of {digest}")]
    Config { digest: Digest, source: RebuildError },
    #[error(
        "it is not a file-based catalog: the label operators.operatorframework.io.index.configs.v1 that names its folder is missing. Catalogs with a database are not mirrored: ask its publisher for a file-based one, or make one with opm migrate"
    )]
    NoFolder,
    #[error("reading the layer {digest}")]
    Unpack { digest: Digest, source: UnpackError },
    #[error("its folder {0} has no files")]
    Empty(String),
    #[error("it has no image for any platform")]
    NoImage,
    #[error("it has images for {0} platforms, expected at most {MAX_IMAGES}")]
    ManyImages(usize),
    #[error("the catalogs of its platforms are larger than {} MiB in total", MAX_UNPACKED >> 20)]
    Large,
}

impl EngineError for OpenError {
    fn fault(&self) -> Fault {
        match self {
            Self::Content(error) => error.fault(),
            Self::Manifest { .. }
            | Self::Config { .. }
            | Self::NoFolder
            | Self::Unpack { .. }
            | Self::Empty(_)
            | Self::NoImage
            | Self::ManyImages(_)
            | Self::Large => Fault::Content,
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Content(error) => error.request(),
            _ => None,
        }
    }
}

/// Reads what all images of `tree` consist of, as far as layers are `known` to count.
pub(crate) async fn read_images(
    tree: &ImageTree,
    content: &Content<'_>,
    known: &KnownLayers,
) -> Result<Vec<Image>, OpenError> {
    let number = images(tree).count();
    if number > MAX_IMAGES {
        return Err(OpenError::ManyImages(number));
    }
    let mut read = Vec::new();
    for node in images(tree) {
        read.push(Image::read(node, content, known).await?);
    }
    if read.is_empty() { Err(OpenError::NoImage) } else { Ok(read) }
}

/// Fetches the layers that [`unpack`] reads to where `content` keeps them. Only a small layer is
/// searched for an end of the catalog here: a layer that hides those below it has hardly any content,
/// and to search all would mean to unpack everything twice.
pub(crate) async fn fetch_layers(images: &[Image], content: &Content<'_>) -> Result<(), OpenError> {
    let (mut fetched, mut last) = (BTreeSet::new(), BTreeSet::new());
    for image in images {
        for layer in image.layers.iter().rev() {
            if fetched.insert(layer.digest) {
                let body = content.open(*layer).await?;
                let mut files = Unpacked::new(&image.folder);
                let is_last = layer.size <= MAX_HIDING_LAYER
                    && files.read_layer(body).is_ok()
                    && files.is_settled();
                last.extend(is_last.then_some(layer.digest));
            }
            if last.contains(&layer.digest) {
                break;
            }
        }
    }
    Ok(())
}

/// Unpacks the catalogs of all images. Those of several platforms mostly share theirs.
pub(crate) async fn unpack(
    images: Vec<Image>,
    content: &Content<'_>,
) -> Result<Vec<Instance>, OpenError> {
    let mut opened: Vec<(Vec<Digest>, Instance)> = Vec::new();
    let mut bytes = 0;
    for image in images {
        let layers: Vec<Digest> = image.layers.iter().map(|layer| layer.digest).collect();
        let same = opened.iter().find(|(known, _)| *known == layers);
        let (files, used) = match same {
            Some((_, known)) => (Arc::clone(&known.files), known.layers.clone()),
            None => {
                let (files, used) = image.files(content).await?;
                let same = opened.iter().find(|(_, known)| *known.files == files);
                let files = match same {
                    Some((_, known)) => Arc::clone(&known.files),
                    None => {
                        bytes += files.bytes();
                        Arc::new(files)
                    }
                };
                if bytes > MAX_UNPACKED {
                    return Err(OpenError::Large);
                }
                (files, used)
            }
        };
        opened.push((layers, image.with(files, used)));
    }
    Ok(opened.into_iter().map(|(_, instance)| instance).collect())
}

/// Opens the first image of `tree` only.
pub(crate) async fn open_first(
    tree: &ImageTree,
    content: &Content<'_>,
    known: &KnownLayers,
) -> Result<Instance, OpenError> {
    let node = images(tree).next().ok_or(OpenError::NoImage)?;
    let image = Image::read(node, content, known).await?;
    let (files, used) = image.files(content).await?;
    Ok(image.with(Arc::new(files), used))
}

/// The images for machines: an attestation is listed without a real platform.
fn images(tree: &ImageTree) -> impl Iterator<Item = &ManifestNode> {
    let real = |platform: &Platform| platform.os != "unknown";
    let images = tree.manifests.iter().filter(|node| !node.media_type.is_index());
    images.filter(move |node| node.platform.as_ref().is_none_or(real))
}

/// An image of which the layers were not read yet.
#[derive(Debug)]
pub(crate) struct Image {
    platform: Option<Platform>,
    manifest: RawManifest,
    config: Vec<u8>,
    folder: String,
    /// Lowest first.
    layers: Vec<BlobRef>,
}

impl Image {
    async fn read(
        node: &ManifestNode,
        content: &Content<'_>,
        known: &KnownLayers,
    ) -> Result<Self, OpenError> {
        let digest = node.digest;
        let manifest = content.manifest(&digest).await?;
        let parsed = manifest.parse().map_err(|source| OpenError::Manifest { digest, source })?;
        let Manifest::Image { config, layers, .. } = parsed else { return Err(OpenError::NoImage) };
        let config = content.small(blob_of(&config), MAX_CONFIG).await?;
        let folder =
            catalog_folder(&config).map_err(|source| OpenError::Config { digest, source })?;
        let folder = folder.ok_or(OpenError::NoFolder)?;
        let counts = |layer: &BlobRef| known.counts(&digest, &layer.digest);
        let layers = layers.iter().map(blob_of).filter(counts).collect();
        Ok(Self { platform: node.platform.clone(), manifest, config, folder, layers })
    }

    /// The files of the catalog, and the layers they are from.
    async fn files(&self, content: &Content<'_>) -> Result<(Unpacked, Vec<BlobRef>), OpenError> {
        let mut files = Unpacked::new(&self.folder);
        let mut used = Vec::new();
        for layer in self.layers.iter().rev() {
            if files.is_settled() {
                break;
            }
            let (digest, mut body) = (layer.digest, content.open(*layer).await?);
            let read = move || -> Result<(Unpacked, bool), OpenError> {
                let unpacked = files.read_layer(&mut body);
                // Damage is the better explanation of what cannot be unpacked.
                body.finish()?;
                let counts = unpacked.map_err(|source| OpenError::Unpack { digest, source })?;
                Ok((files, counts))
            };
            // Unpacking keeps a core busy.
            let (read, counts) = match tokio::task::spawn_blocking(read).await {
                Ok(read) => read?,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            };
            files = read;
            used.extend(counts.then_some(*layer));
        }
        match files.is_empty() {
            true => Err(OpenError::Empty(self.folder.clone())),
            false => Ok((files, used)),
        }
    }

    fn with(self, files: Arc<Unpacked>, layers: Vec<BlobRef>) -> Instance {
        let Self { platform, manifest, config, .. } = self;
        Instance { platform, manifest, config, files, layers }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use oci::MediaType;

    use super::*;
    use crate::gather::Layout;

    #[tokio::test]
    async fn an_image_for_more_platforms_than_exist_is_rejected_before_anything_is_read() {
        let node = |number: usize| ManifestNode {
            media_type: MediaType::new(MediaType::OCI_MANIFEST),
            digest: Digest::of(number.to_string().as_bytes()),
            size: 3,
            platform: None,
            blobs: Vec::new(),
        };
        let tree = ImageTree {
            manifests: (0..=MAX_IMAGES).map(node).collect(),
            left_out: BTreeSet::new(),
            attachments: Vec::new(),
        };
        // Reading would fail with another error.
        let content = Content::Layout(Layout::new(Path::new("/nonexistent")));
        let error = read_images(&tree, &content, &KnownLayers::default()).await.unwrap_err();
        assert!(matches!(error, OpenError::ManyImages(33)), "{error}");
    }
}
