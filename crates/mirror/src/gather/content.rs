//! Reads into an image while it is collected: the layers of one of its
//! platforms, and small blobs whole.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use futures_util::TryStreamExt;
use mirror_plan::BlobRef;
use oci::{Descriptor, Digest, ImageRef, Manifest, Platform, Pointer};
use registry::{Blob, Location};
use workspace::BlobStore;

use super::registry_tree::{CollectError, Collector};
use super::selection::select_from;
use crate::transfer::verified_body::{BodyError, verified};

/// How often wrong bytes are requested again.
const ATTEMPTS: usize = 3;

/// One platform of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) config: Descriptor,
    /// Lowest first.
    pub(crate) layers: Vec<Descriptor>,
}

impl Collector {
    /// The image itself, or of a list the first image that `platforms` select.
    pub(crate) async fn instance(
        &self,
        image: &ImageRef,
        platforms: &[Platform],
    ) -> Result<Instance, CollectError> {
        let mut at = image.clone();
        // A list may list a list; no known tool writes more levels.
        for _ in 0..3 {
            let raw = self.manifest(&at).await?;
            let raw = raw.ok_or_else(|| CollectError::Absent(at.clone()))?;
            let parsed = self.parse(&at, &raw)?;
            let child = select_from(&parsed, platforms)?.taken.first().map(|child| child.digest);
            match (parsed, child) {
                (Manifest::Image { config, layers, .. }, _) => {
                    return Ok(Instance { config, layers });
                }
                (Manifest::Index { .. }, Some(child)) => {
                    at = image.with_pointer(Pointer::Digest(child));
                }
                (Manifest::Index { .. }, None) => break,
            }
        }
        Err(CollectError::Unbounded(image.clone()))
    }

    /// A blob of `image` as a file to read, at its start. Kept where manifests
    /// are kept; else in a file without a name.
    pub(crate) async fn blob_file(
        &self,
        image: &ImageRef,
        blob: BlobRef,
    ) -> Result<File, CollectError> {
        let _turn = self.turns.of(blob.digest).await;
        if let Some(store) = &self.store
            && store.adopt(&blob.digest, Some(blob.size))?
        {
            return Ok(store.open(&blob.digest)?);
        }
        let mut attempt = 1;
        loop {
            let fetched = match &self.store {
                Some(store) => self.fetch_into(store, image, blob).await,
                None => self.fetch_aside(image, blob).await,
            };
            match fetched {
                Err(error) if attempt < ATTEMPTS && error.is_wrong_content() => attempt += 1,
                done => return done,
            }
        }
    }

    async fn fetch_into(
        &self,
        store: &BlobStore,
        image: &ImageRef,
        blob: BlobRef,
    ) -> Result<File, CollectError> {
        let mut partial = store.begin(&blob.digest, blob.size)?;
        if partial.offset() < blob.size {
            let from = Location::from(image);
            let requested = Blob { digest: blob.digest, size: blob.size };
            let stream = self.client.blob(&from, requested, partial.offset()).await?.into_stream();
            futures_util::pin_mut!(stream);
            while let Some(piece) = stream.try_next().await? {
                partial.write(&piece)?;
            }
        }
        partial.finish()?;
        Ok(store.open(&blob.digest)?)
    }

    async fn fetch_aside(&self, image: &ImageRef, blob: BlobRef) -> Result<File, CollectError> {
        let io = |source| CollectError::Aside { digest: blob.digest, source };
        let mut file = tempfile::tempfile().map_err(io)?;
        let requested = Blob { digest: blob.digest, size: blob.size };
        let stream = self.client.blob(&Location::from(image), requested, 0).await?.into_stream();
        let body = Box::pin(stream.map_err(BodyError::from));
        let mut body = verified(blob.digest, body);
        while let Some(piece) = body.try_next().await.map_err(CollectError::Body)? {
            file.write_all(&piece).map_err(io)?;
        }
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        Ok(file)
    }

    /// A small blob of `image`, whole; one that is larger than `limit` is refused.
    pub(crate) async fn small_blob(
        &self,
        image: &ImageRef,
        blob: BlobRef,
        limit: u64,
    ) -> Result<Vec<u8>, CollectError> {
        use std::io::Read;
        if blob.size > limit {
            let BlobRef { digest, size } = blob;
            return Err(CollectError::LargeBlob { digest, size, limit });
        }
        let io = |source| CollectError::Aside { digest: blob.digest, source };
        let mut bytes = Vec::new();
        let file = self.blob_file(image, blob).await?;
        file.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
        Ok(bytes)
    }
}

impl CollectError {
    /// The bytes came and were not what they should be: another attempt may help.
    fn is_wrong_content(&self) -> bool {
        matches!(self, Self::Store(workspace::BlobError::Mismatch { .. }) | Self::Body(_))
    }
}

/// A descriptor as the plan sees it.
pub(crate) fn blob_of(descriptor: &Descriptor) -> BlobRef {
    let digest: Digest = descriptor.digest;
    BlobRef { digest, size: descriptor.size }
}
