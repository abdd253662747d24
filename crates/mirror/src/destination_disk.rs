//! The workspace as a destination: blobs become files, images become records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use mirror_plan::{BlobRef, ImageRecord};
use oci::Digest;
use workspace::{BlobError, Workspace};

use crate::chain::chain;
use crate::execute::Destination;
use crate::progress::{Event, Observer};
use crate::schedule::{ImageId, Job};
use crate::supply::Supply;

/// Blobs up to this size are taken into memory first: a partial file would
/// cost more than asking again.
const IN_ONE_PIECE: u64 = 128 << 10;

/// An image on its way to disk.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) record: ImageRecord,
    pub(crate) supply: Supply,
}

/// A workspace that receives images.
pub(crate) struct Disk {
    pub(crate) workspace: Workspace,
    /// By image id; `None` for images that are not copied.
    pub(crate) images: Vec<Option<Incoming>>,
    /// How often wrong bytes are asked for again.
    pub(crate) retries: u32,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) blobs_moved: AtomicU64,
    pub(crate) bytes_moved: AtomicU64,
}

impl Destination for Disk {
    async fn perform(&self, job: Job) -> Result<(), String> {
        match job {
            Job::Move { digest, size, image, .. } => {
                self.observer.notice(Event::BlobStarted { digest, size });
                let moved = self.receive(BlobRef { digest, size }, image).await;
                self.observer.notice(Event::BlobDone { digest });
                self.blobs_moved.fetch_add(u64::from(moved.is_ok()), Ordering::Relaxed);
                moved.map_err(|why| format!("fetching the blob {digest}: {why}"))
            }
            // A disk has one place for blobs; nothing is ever mounted.
            Job::Mount { .. } => Ok(()),
            Job::Finish { image } => match &self.images[image] {
                Some(incoming) => self
                    .workspace
                    .save_record(&incoming.record)
                    .map_err(|e| format!("recording the image: {}", chain(&e))),
                None => Ok(()),
            },
        }
    }
}

impl Disk {
    async fn receive(&self, blob: BlobRef, image: ImageId) -> Result<(), String> {
        let Some(incoming) = &self.images[image] else { return Ok(()) };
        let mut attempt = 0;
        loop {
            let received = if blob.size <= IN_ONE_PIECE {
                self.receive_small(blob, &incoming.supply).await
            } else {
                self.receive_large(blob, &incoming.supply).await
            };
            match received {
                Ok(()) => return Ok(()),
                // What an earlier run left may be bad: once from zero is no retry.
                Err(Received::Wrong { resumed: true, .. }) => {}
                Err(Received::Wrong { why, .. }) if attempt < self.retries => {
                    attempt += 1;
                    let message = format!("{}: {why}; asking again", blob.digest);
                    self.observer.notice(Event::Warning { message });
                }
                Err(Received::Wrong { why, .. } | Received::Failed(why)) => return Err(why),
            }
        }
    }

    async fn receive_small(&self, blob: BlobRef, supply: &Supply) -> Result<(), Received> {
        let mut body = supply.body(blob, 0).await.map_err(|e| Received::Failed(chain(&e)))?;
        let mut bytes = Vec::with_capacity(usize::try_from(blob.size).unwrap_or_default());
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|e| Received::Failed(chain(e.as_ref())))?;
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > blob.size {
                return Err(Received::too_long(blob));
            }
        }
        self.moved(bytes.len() as u64);
        self.workspace.blobs().put(&blob.digest, &bytes).map_err(|e| Received::from_store(&e))
    }

    async fn receive_large(&self, blob: BlobRef, supply: &Supply) -> Result<(), Received> {
        let mut partial = self
            .workspace
            .blobs()
            .begin(&blob.digest, blob.size)
            .map_err(|e| Received::from_store(&e))?;
        self.observer.notice(Event::Moved { bytes: partial.offset() });
        if partial.offset() < blob.size {
            let body = supply.body(blob, partial.offset()).await;
            let mut body = body.map_err(|e| Received::Failed(chain(&e)))?;
            while let Some(piece) = body.next().await {
                let piece = piece.map_err(|e| Received::Failed(chain(e.as_ref())))?;
                partial.write(&piece).map_err(|e| Received::from_store(&e))?;
                self.moved(piece.len() as u64);
            }
        }
        partial.finish().map_err(|e| Received::from_store(&e))
    }

    fn moved(&self, bytes: u64) {
        self.bytes_moved.fetch_add(bytes, Ordering::Relaxed);
        self.observer.notice(Event::Moved { bytes });
    }
}

/// Why a blob was not received.
enum Received {
    /// The bytes came, but are not the blob.
    Wrong {
        why: String,
        resumed: bool,
    },
    Failed(String),
}

impl Received {
    fn from_store(error: &BlobError) -> Self {
        let why = chain(error);
        match error {
            BlobError::Mismatch { resumed, .. } => Self::Wrong { why, resumed: *resumed },
            BlobError::Long { .. } | BlobError::Short { .. } => Self::Wrong { why, resumed: false },
            BlobError::Busy { .. } | BlobError::Disk(_) => Self::Failed(why),
        }
    }

    fn too_long(blob: BlobRef) -> Self {
        let BlobRef { digest, size }: BlobRef = blob;
        Self::Wrong { why: format!("{digest} is {size} bytes long, but more came"), resumed: false }
    }
}

/// Which of an image's blobs the store lacks.
pub(crate) fn missing_blobs(
    workspace: &Workspace,
    record: &ImageRecord,
) -> Result<Vec<(Digest, u64)>, String> {
    let mut missing = Vec::new();
    for (digest, size) in record.tree.blobs() {
        let held = workspace.blobs().has(&digest, Some(size)).map_err(|e| chain(&e))?;
        if !held {
            missing.push((digest, size));
        }
    }
    Ok(missing)
}
