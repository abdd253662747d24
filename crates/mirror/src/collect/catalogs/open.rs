//! Opens the image of a catalog: the files of the catalog, for every platform the image is for.

use std::sync::Arc;

use catalog::{RebuildError, UnpackError, Unpacked, catalog_folder};
use mirror_plan::{BlobRef, ImageTree, ManifestNode};
use oci::{Digest, Manifest, ManifestError, Platform, RawManifest};

use super::carried::KnownLayers;
use super::content::{Content, ContentError};
use crate::gather::blob_of;

/// Configs of images are small.
const MAX_CONFIG: u64 = 4 << 20;

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
        "it is no file-based catalog: the label operators.operatorframework.io.index.configs.v1 that names its folder is missing. Catalogs with a database are not mirrored: ask its publisher for a file-based one, or make one with opm migrate"
    )]
    NoFolder,
    #[error("reading the layer {digest}")]
    Unpack { digest: Digest, source: UnpackError },
    #[error("its folder {0} has no files")]
    Empty(String),
    #[error("it has no image for a machine")]
    NoImage,
}

/// Opens all images of `tree`, as far as layers are `known` to count. Those of several platforms
/// mostly share their catalog.
pub(crate) async fn open(
    tree: &ImageTree,
    content: &Content<'_>,
    known: &KnownLayers,
) -> Result<Vec<Instance>, OpenError> {
    let mut opened: Vec<(Vec<Digest>, Instance)> = Vec::new();
    for node in images(tree) {
        let image = Image::read(node, content, known).await?;
        let layers: Vec<Digest> = image.layers.iter().map(|layer| layer.digest).collect();
        let same = opened.iter().find(|(known, _)| *known == layers);
        let (files, used) = match same {
            Some((_, known)) => (Arc::clone(&known.files), known.layers.clone()),
            None => {
                let (files, used) = image.files(content).await?;
                let same = opened.iter().find(|(_, known)| *known.files == files);
                let same = same.map(|(_, known)| Arc::clone(&known.files));
                (same.unwrap_or_else(|| Arc::new(files)), used)
            }
        };
        opened.push((layers, image.with(files, used)));
    }
    match opened.is_empty() {
        true => Err(OpenError::NoImage),
        false => Ok(opened.into_iter().map(|(_, instance)| instance).collect()),
    }
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

/// The images for machines: an attestation stands in the list under no real platform.
fn images(tree: &ImageTree) -> impl Iterator<Item = &ManifestNode> {
    let real = |platform: &Platform| platform.os != "unknown";
    let images = tree.manifests.iter().filter(|node| !node.media_type.is_index());
    images.filter(move |node| node.platform.as_ref().is_none_or(real))
}

/// An image of which the layers were not read yet.
struct Image {
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
