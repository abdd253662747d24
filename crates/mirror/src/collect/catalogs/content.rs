//! Reads the image of a catalog, wherever it is: at its registry, in a layout on disk, or in
//! transferred content.

use std::io::{self, Read};

use mirror_plan::BlobRef;
use oci::{Digest, Hasher, ImageRef, Pointer, RawManifest};
use workspace::{DiskError, Holdings};

use crate::fault::{EngineError, Fault};
use crate::gather::{CollectError, Collector, Layout};
use crate::transfer::supply::{ManifestReadError, held_manifest};

/// Where the content of an image is read.
pub(crate) enum Content<'a> {
    Registry { collector: &'a Collector, image: &'a ImageRef },
    Layout(Layout),
    Held(&'a Holdings),
}

#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error(transparent)]
    Manifest(#[from] ManifestReadError),
    #[error("reading {digest}")]
    Read { digest: Digest, source: io::Error },
    #[error("{0} is damaged: its content does not match its digest")]
    Damaged(Digest),
    #[error("{0} is neither in the workspace nor in an archive here")]
    Missing(Digest),
    #[error("{digest} has {size} bytes, expected at most {limit}")]
    Large { digest: Digest, size: u64, limit: u64 },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl EngineError for ContentError {
    fn fault(&self) -> Fault {
        match self {
            Self::Collect(error) => error.fault(),
            Self::Manifest(error) => error.fault(),
            Self::Damaged(_) | Self::Large { .. } => Fault::Content,
            Self::Missing(_) => Fault::NotHeld,
            Self::Read { .. } | Self::Disk(_) => Fault::Disk,
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Collect(error) => error.request(),
            _ => None,
        }
    }
}

impl Content<'_> {
    pub(crate) async fn manifest(&self, digest: &Digest) -> Result<RawManifest, ContentError> {
        match self {
            Self::Registry { collector, image } => {
                let at = image.with_pointer(Pointer::Digest(*digest));
                let raw = collector.manifest(&at).await?;
                raw.ok_or_else(|| CollectError::Absent(at).into())
            }
            Self::Layout(layout) => Ok(layout.manifest_of(digest)?),
            Self::Held(holdings) => Ok(held_manifest(holdings, digest)?),
        }
    }

    /// A small blob, whole and checked; one that is larger than `limit` is refused.
    pub(crate) async fn small(&self, blob: BlobRef, limit: u64) -> Result<Vec<u8>, ContentError> {
        let BlobRef { digest, size } = blob;
        if size > limit {
            return Err(ContentError::Large { digest, size, limit });
        }
        let mut body = self.open(blob).await?;
        let mut bytes = Vec::new();
        let read = body.by_ref().take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|source| ContentError::Read { digest, source })?;
        body.finish()?;
        Ok(bytes)
    }

    /// A blob to read, which is checked while it is.
    pub(crate) async fn open(&self, blob: BlobRef) -> Result<Checked, ContentError> {
        let digest = blob.digest;
        let read = |source| ContentError::Read { digest, source };
        let (body, hasher): (Box<dyn Read + Send>, _) = match self {
            // Verified during the download.
            Self::Registry { collector, image } => {
                (Box::new(collector.blob_file(image, blob).await?), None)
            }
            Self::Layout(layout) => {
                (Box::new(layout.open(&digest).map_err(read)?), Some(Hasher::new()))
            }
            Self::Held(holdings) => {
                let held = holdings.blob(&digest)?.ok_or(ContentError::Missing(digest))?;
                (Box::new(held), Some(Hasher::new()))
            }
        };
        Ok(Checked { digest, body, hasher })
    }
}

/// The bytes of a blob. After the last byte, the reader must call [`Checked::finish`].
pub(crate) struct Checked {
    digest: Digest,
    body: Box<dyn Read + Send>,
    hasher: Option<Hasher>,
}

impl Checked {
    /// Checks that the content had the expected digest. Reads what is left, too.
    pub(crate) fn finish(mut self) -> Result<(), ContentError> {
        let digest = self.digest;
        if self.hasher.is_some() {
            let rest = io::copy(&mut self, &mut io::sink());
            rest.map_err(|source| ContentError::Read { digest, source })?;
        }
        match self.hasher.map(Hasher::finish) {
            Some(got) if got != digest => Err(ContentError::Damaged(digest)),
            _ => Ok(()),
        }
    }
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.body.read(buffer)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..read]);
        }
        Ok(read)
    }
}
