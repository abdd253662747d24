//! Reads the manifests of an image from its registry.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use mirror_plan::{BlobRef, ImageTree, ManifestNode, Origin};
use oci::{
    Descriptor, Digest, ImageRef, MAX_MANIFEST_BYTES, Manifest, ManifestError, Platform, Pointer,
    RawManifest,
};
use registry::Client;
use workspace::{BlobError, BlobStore, DiskError};

use super::attachments::KnownTags;
use super::layout::LayoutError;
use super::selection::{NoInstance, select_from};
use super::turns::Turns;
use crate::fault::{EngineError, Fault};
use crate::settings::Attachments;
use crate::transfer::verified_body::BodyError;

/// Manifests of one image that are requested at once.
const CHILDREN_AT_ONCE: usize = 8;
/// Indexes may contain indexes, up to this depth.
const MAX_DEPTH: usize = 4;
/// More manifests than any honest image has.
const MAX_MANIFESTS: usize = 4096;
/// And more bytes in them: what is known of them is held in memory.
const MAX_TREE_MIB: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error("{0} does not exist at its registry; check the name and the tag or digest")]
    Absent(ImageRef),
    #[error("{image} is listed by {parent} but its registry does not have it")]
    ChildAbsent { image: Box<ImageRef>, parent: Digest },
    #[error("reading the manifest {image}")]
    Manifest { image: Box<ImageRef>, source: ManifestError },
    #[error("{image} is listed with {listed} bytes but has {has}")]
    Size { image: Box<ImageRef>, listed: u64, has: u64 },
    #[error(
        "{0} has more than {MAX_MANIFESTS} manifests, more than {MAX_TREE_MIB} MiB of them, or lists nested deeper than {MAX_DEPTH}"
    )]
    Unbounded(ImageRef),
    #[error(transparent)]
    Platform(#[from] NoInstance),
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error("{0} is built by this program, and this run did not build it")]
    NotBuilt(Box<Origin>),
    #[error("keeping a manifest or a layer")]
    Store(#[from] BlobError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("fetching a layer")]
    Body(#[source] BodyError),
    #[error("storing {digest} temporarily")]
    Aside { digest: Digest, source: std::io::Error },
    #[error("{digest} has {size} bytes, expected at most {limit}")]
    LargeBlob { digest: Digest, size: u64, limit: u64 },
    #[error("reading the OCI layout {}", path.display())]
    Layout { path: PathBuf, source: LayoutError },
}

impl EngineError for CollectError {
    fn fault(&self) -> Fault {
        match self {
            Self::Absent(_) | Self::ChildAbsent { .. } => Fault::SourceAbsent,
            Self::Manifest { .. }
            | Self::Size { .. }
            | Self::Unbounded(_)
            | Self::LargeBlob { .. }
            | Self::Body(_) => Fault::Content,
            Self::Layout { source, .. } => source.fault(),
            // The configuration selects a platform that the image does not have.
            Self::Platform(_) => Fault::Configuration,
            Self::Registry(error) => Fault::of_source(error),
            Self::NotBuilt(_) => Fault::NotHeld,
            Self::Store(error) => Fault::of_store(error),
            Self::Disk(_) | Self::Aside { .. } => Fault::Disk,
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Registry(error) => Some(error),
            Self::Body(error) => error.downcast_ref(),
            _ => None,
        }
    }
}

/// Reads images from registries, keeping their manifests in a store when there is one.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(super) client: Client,
    /// Where manifests are kept; a dry run keeps none.
    pub(super) store: Option<BlobStore>,
    pub(super) attachments: Attachments,
    pub(super) known_tags: KnownTags,
    pub(super) turns: Arc<Turns>,
}

impl Collector {
    pub(crate) fn new(
        client: Client,
        store: Option<BlobStore>,
        attachments: Attachments,
        turns: Arc<Turns>,
    ) -> Self {
        Self { client, store, attachments, known_tags: KnownTags::default(), turns }
    }

    /// Everything that belongs to `image`, as far as `platforms` select it.
    pub(crate) async fn tree(
        &self,
        image: &ImageRef,
        platforms: &[Platform],
    ) -> Result<ImageTree, CollectError> {
        let root = self.manifest(image).await?;
        let root = root.ok_or_else(|| CollectError::Absent(image.clone()))?;
        let (manifests, left_out) = self.descend(image, root, platforms).await?;
        let attachments = match self.attachments {
            Attachments::Carry => self.attached(image, &manifests).await?,
            Attachments::Remove => Vec::new(),
        };
        Ok(ImageTree { manifests, left_out, attachments })
    }

    /// What is attached to the manifests of `tree` now.
    pub(crate) async fn refresh(
        &self,
        image: &ImageRef,
        tree: &mut ImageTree,
    ) -> Result<(), CollectError> {
        tree.attachments = self.attached(image, &tree.manifests).await?;
        Ok(())
    }

    /// The manifests below `root`, itself first.
    pub(super) async fn descend(
        &self,
        image: &ImageRef,
        root: RawManifest,
        platforms: &[Platform],
    ) -> Result<(Vec<ManifestNode>, BTreeSet<Digest>), CollectError> {
        let mut known: BTreeSet<Digest> = BTreeSet::new();
        let mut manifests = Vec::new();
        let mut left_out = BTreeSet::new();
        let mut bytes = 0;
        let mut level = vec![Child::Root(root)];
        for _ in 0..MAX_DEPTH {
            let mut below: Vec<Child> = Vec::new();
            // Each is taken in as it arrives: a hostile list names thousands of large ones.
            let mut raws = stream::iter(level)
                .map(|child| self.child(image, child))
                .buffered(CHILDREN_AT_ONCE);
            while let Some((raw, platform)) = raws.try_next().await? {
                if !known.insert(raw.digest) {
                    continue;
                }
                bytes += raw.bytes.len();
                let parsed = self.parse(image, &raw)?;
                let selection = select_from(&parsed, platforms)?;
                left_out.extend(selection.left_out);
                let parent = raw.digest;
                below.extend(
                    selection
                        .taken
                        .into_iter()
                        .map(|child| Child::Listed { parent, child: child.clone() }),
                );
                manifests.push(node(&raw, &parsed, platform));
                if manifests.len() + below.len() > MAX_MANIFESTS || bytes > MAX_TREE_MIB << 20 {
                    return Err(CollectError::Unbounded(image.clone()));
                }
            }
            if below.is_empty() {
                return Ok((manifests, left_out));
            }
            level = below;
        }
        Err(CollectError::Unbounded(image.clone()))
    }

    async fn child(
        &self,
        image: &ImageRef,
        child: Child,
    ) -> Result<(RawManifest, Option<Platform>), CollectError> {
        let (parent, child) = match child {
            Child::Root(raw) => return Ok((raw, None)),
            Child::Listed { parent, child } => (parent, child),
        };
        let at = image.with_pointer(Pointer::Digest(child.digest));
        let Some(raw) = self.manifest(&at).await? else {
            return Err(CollectError::ChildAbsent { image: Box::new(at), parent });
        };
        let has = raw.bytes.len() as u64;
        if has != child.size {
            return Err(CollectError::Size { image: Box::new(at), listed: child.size, has });
        }
        Ok((raw, child.platform))
    }

    fn has_cache(&self) -> bool {
        self.store.as_ref().is_some_and(BlobStore::has_cache)
    }

    /// Keeps manifests that came from elsewhere.
    pub(crate) fn keep(&self, raws: &[RawManifest]) -> Result<(), CollectError> {
        let Some(store) = &self.store else { return Ok(()) };
        for raw in raws {
            store.put(&raw.digest, &raw.bytes)?;
        }
        Ok(())
    }

    /// A manifest, from the store when it is requested by digest and held there,
    /// else from the registry, and then kept.
    pub(crate) async fn manifest(
        &self,
        image: &ImageRef,
    ) -> Result<Option<RawManifest>, CollectError> {
        let digest = match image.digest {
            Some(digest) => Some(digest),
            // The cache of oc-mirror v2 may have what the tag is now.
            None if self.has_cache() => match self.client.head(image).await? {
                Some(found) => Some(found.digest),
                None => return Ok(None),
            },
            None => None,
        };
        if let (Some(store), Some(digest)) = (&self.store, &digest)
            && matches!(store.adopt(digest, None), Ok(true))
            && let Ok(bytes) = store.read(digest, MAX_MANIFEST_BYTES)
            && let Ok(raw) = RawManifest::new(None, bytes)
            && raw.digest == *digest
        {
            return Ok(Some(raw));
        }
        let Some(raw) = self.client.manifest(image).await? else { return Ok(None) };
        self.keep(std::slice::from_ref(&raw))?;
        Ok(Some(raw))
    }

    /// A manifest that an image may well lack, kept if it is there.
    pub(super) async fn attachment(
        &self,
        image: &ImageRef,
    ) -> Result<Option<RawManifest>, CollectError> {
        let Some(raw) = self.client.attachment(image).await? else { return Ok(None) };
        self.keep(std::slice::from_ref(&raw))?;
        Ok(Some(raw))
    }

    pub(super) fn parse(
        &self,
        image: &ImageRef,
        raw: &RawManifest,
    ) -> Result<Manifest, CollectError> {
        raw.parse()
            .map_err(|source| CollectError::Manifest { image: Box::new(image.clone()), source })
    }
}

/// A manifest below the root.
enum Child {
    /// It was read already.
    Root(RawManifest),
    Listed {
        parent: Digest,
        child: Descriptor,
    },
}

/// A manifest as the plan sees it: which blobs it needs.
pub(crate) fn node(
    raw: &RawManifest,
    parsed: &Manifest,
    platform: Option<Platform>,
) -> ManifestNode {
    let blobs = parsed.blobs().into_iter().map(|b| BlobRef { digest: b.digest, size: b.size });
    ManifestNode {
        media_type: raw.media_type.clone(),
        digest: raw.digest,
        size: raw.bytes.len() as u64,
        platform,
        blobs: blobs.collect(),
    }
}
