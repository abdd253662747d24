//! The workspace as a destination: blobs become files, images become records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use mirror_plan::{BlobRef, ImageRecord, ImageTree, Plan};
use workspace::archive::Staging;
use workspace::{DiskError, Workspace};

use crate::error_chain::chain;
use crate::progress::{Event, Observer};
use crate::select::SharedNames;
use crate::transfer::execute::Destination;
use crate::transfer::schedule::{ImageId, Job};
use crate::transfer::supply::{Sources, Supply};
use crate::transfer::transfer_error::{Cause, ContentError, Step, TransferError};

/// Blobs up to this size are taken into memory first: a partial file would
/// cost more than another request.
const IN_ONE_PIECE: u64 = 128 << 10;

/// A workspace that receives images.
pub(crate) struct Disk {
    pub(crate) workspace: Workspace,
    /// The archive that large blobs are written to as they arrive.
    pub(crate) staging: Option<Arc<Staging>>,
    /// What is recorded of images that are complete; `None` in a shard, for which
    /// the process that publishes records them.
    pub(crate) records: Option<Records>,
    pub(crate) sources: Sources,
    /// How often content that does not match is requested again from the same source.
    pub(crate) retries: u32,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) blobs_moved: AtomicU64,
    pub(crate) bytes_moved: AtomicU64,
}

/// Records of images. Each is made when its image is complete: all of them at once would take more
/// memory than the plan.
pub(crate) struct Records {
    /// Image ids are places in it.
    pub(crate) plan: Arc<Plan>,
    /// `None` if names are not recorded.
    pub(crate) names: Option<SharedNames>,
    pub(crate) attachments_unknown: bool,
}

impl Records {
    fn of(&self, image: ImageId) -> ImageRecord {
        let image = &self.plan.images[image];
        ImageRecord {
            origin: image.origin.clone(),
            kind: image.kind,
            tree: self.plan.tree(image),
            blobs_held: true,
            attachments_unknown: self.attachments_unknown,
            names: self.names.as_ref().map(|shared| shared.names(image)).unwrap_or_default(),
        }
    }
}

impl Destination for Disk {
    async fn perform(&self, job: Job) -> Result<(), TransferError> {
        match job {
            Job::Move { blob, from, .. } => {
                let BlobRef { digest, size } = blob;
                self.observer.notice(Event::BlobStarted { digest, size });
                let moved = self.receive(blob, self.sources.get(from)).await;
                self.observer.notice(Event::attempted(digest, &moved));
                self.blobs_moved.fetch_add(u64::from(moved.is_ok()), Ordering::Relaxed);
                moved.map_err(|cause| TransferError::new(Step::Fetch(digest), cause))
            }
            // A disk has one place for blobs; nothing is ever mounted.
            Job::Mount { .. } => Ok(()),
            Job::Finish { image } => match &self.records {
                Some(records) => self
                    .workspace
                    .save_record(&records.of(image))
                    .map_err(|error| TransferError::new(Step::Record, error)),
                None => Ok(()),
            },
        }
    }
}

impl Disk {
    async fn receive(&self, blob: BlobRef, source: &Supply) -> Result<(), Cause> {
        if self.adopted(blob).await? {
            self.observer.notice(Event::Moved { bytes: blob.size });
            return Ok(());
        }
        let mut attempt = 0;
        loop {
            let received = if blob.size <= IN_ONE_PIECE {
                self.receive_small(blob, source).await
            } else {
                self.receive_large(blob, source).await
            };
            match received {
                Ok(()) => return Ok(()),
                // What an earlier run left may be wrong: starting from zero is not a retry.
                Err(cause) if cause.is_resumed() => {}
                Err(cause) if cause.is_wrong_content() && attempt < self.retries => {
                    attempt += 1;
                    let message = format!("{}: {}; retrying", blob.digest, chain(&cause));
                    self.observer.notice(Event::Warning { message });
                }
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Takes a blob over from the cache of oc-mirror v2, where there is one.
    async fn adopted(&self, blob: BlobRef) -> Result<bool, Cause> {
        let store = self.workspace.blobs().clone();
        if !store.has_cache() {
            return Ok(false);
        }
        let adopt = move || store.adopt(&blob.digest, Some(blob.size));
        match tokio::task::spawn_blocking(adopt).await {
            Ok(adopted) => adopted.map_err(Cause::of_store),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    async fn receive_small(&self, blob: BlobRef, source: &Supply) -> Result<(), Cause> {
        let mut body = source.body(blob, 0).await?;
        let mut bytes = Vec::with_capacity(usize::try_from(blob.size).unwrap_or_default());
        while let Some(piece) = body.next().await {
            bytes.extend_from_slice(&piece.map_err(Cause::of_body)?);
            if bytes.len() as u64 > blob.size {
                return Err(ContentError::Long(blob).into());
            }
        }
        self.moved(bytes.len() as u64);
        self.workspace.blobs().put(&blob.digest, &bytes).map_err(Cause::of_store)
    }

    async fn receive_large(&self, blob: BlobRef, source: &Supply) -> Result<(), Cause> {
        let begun = self.workspace.blobs().begin_unread(&blob.digest, blob.size);
        let partial = begun.map_err(Cause::of_store)?;
        let mut partial = match &self.staging {
            Some(staging) => staging.attach(partial),
            None => partial,
        };
        self.observer.notice(Event::Moved { bytes: partial.offset() });
        if partial.offset() < blob.size {
            let mut body = source.body(blob, partial.offset()).await?;
            while let Some(piece) = body.next().await {
                let piece = piece.map_err(Cause::of_body)?;
                partial.write(&piece).map_err(Cause::of_store)?;
                self.moved(piece.len() as u64);
            }
        }
        partial.finish().map_err(Cause::of_store)
    }

    fn moved(&self, bytes: u64) {
        self.bytes_moved.fetch_add(bytes, Ordering::Relaxed);
        self.observer.notice(Event::Moved { bytes });
    }
}

/// Which of an image's blobs the store lacks.
pub(crate) fn missing_blobs(
    workspace: &Workspace,
    tree: &ImageTree,
) -> Result<Vec<BlobRef>, DiskError> {
    let mut missing = Vec::new();
    for (digest, size) in tree.blobs() {
        if !workspace.blobs().has(&digest, Some(size))? {
            missing.push(BlobRef { digest, size });
        }
    }
    Ok(missing)
}
