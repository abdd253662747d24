//! Keeps what a source sent until the target has it: an upload that fails, or a run that is killed,
//! does not download the same bytes twice.
//!
//! ```text
//! source ──▶ file of the workspace ──▶ target
//!   a task of its own     as many attempts as it takes
//! ```
//!
//! The upload begins with the first bytes and follows the download. The files are the partial
//! downloads of the workspace, so a later run continues them; they are removed once the target has
//! the blob.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use mirror_plan::BlobRef;
use oci::Digest;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use workspace::{BlobStore, PartialBlob, free_space};

use crate::transfer::supply::Supply;
use crate::transfer::verified_body::{Body, BodyError, WrongContent};

/// Smaller blobs are requested again.
const WORTH_KEEPING: u64 = 128 << 10;
/// The most that all blobs in flight may take together.
const MOST: u64 = 16 << 30;
/// What is left free on the filesystem.
const RESERVE: u64 = 256 << 20;
/// Read from the file at once.
const PIECE: u64 = 256 << 10;

/// Room for blobs on their way.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    store: BlobStore,
    taken: Arc<AtomicU64>,
}

/// A blob on its way. The download ends when this is dropped; its bytes stay for a later run.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    spool: &'a Spool,
    blob: BlobRef,
    download: Mutex<Option<Download>>,
}

/// A download that may run ahead of the upload.
#[derive(Debug)]
struct Download {
    task: JoinHandle<()>,
    progress: watch::Receiver<Progress>,
    failure: Arc<Mutex<Option<BodyError>>>,
}

/// How far a download is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Has(u64),
    /// All of it is here, and its digest is right.
    Whole,
    Wrong(Digest),
    Failed,
}

impl Spool {
    pub(crate) fn new(store: BlobStore) -> Self {
        Self { store, taken: Arc::default() }
    }

    /// Room for a blob from `source`. `None` where keeping it has no use or there is no room: then
    /// it is passed on without a copy.
    pub(crate) fn keep(&self, blob: BlobRef, source: &Supply) -> Option<Kept<'_>> {
        if blob.size <= WORTH_KEEPING || !source.is_remote() {
            return None;
        }
        let taken = self.taken.fetch_add(blob.size, Ordering::Relaxed) + blob.size;
        // From here on dropping gives the room back.
        let kept = Kept { spool: self, blob, download: Mutex::default() };
        let free = free_space(self.store.root()).unwrap_or(u64::MAX);
        (taken <= MOST && blob.size.saturating_add(RESERVE) <= free).then_some(kept)
    }

    /// The target has the blob.
    pub(crate) fn discard(&self, blob: BlobRef) {
        if let Err(error) = self.store.discard_partial(&blob.digest) {
            tracing::debug!("{error}");
        }
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.spool.taken.fetch_sub(self.blob.size, Ordering::Relaxed);
        if let Some(download) = self.download().take() {
            download.task.abort();
        }
    }
}

impl Kept<'_> {
    fn download(&self) -> MutexGuard<'_, Option<Download>> {
        self.download.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The whole blob, checked, as far as it is here and then as it arrives. The download that an
    /// earlier attempt started goes on; one that failed is started again.
    pub(crate) fn body(&self, source: &Supply) -> Result<Body, BodyError> {
        let mut download = self.download();
        let is_usable = |download: &Download| {
            matches!(*download.progress.borrow(), Progress::Has(_) | Progress::Whole)
        };
        if !download.as_ref().is_some_and(is_usable) {
            *download = Some(self.start(source)?);
        }
        let Some(download) = &*download else { return Ok(stream::empty().boxed()) };
        let file = self.spool.store.open_partial(&self.blob.digest)?;
        let (progress, failure) = (download.progress.clone(), Arc::clone(&download.failure));
        Ok(follow(file, self.blob, progress, failure))
    }

    fn start(&self, source: &Supply) -> Result<Download, BodyError> {
        let partial = self.spool.store.begin(&self.blob.digest, self.blob.size)?;
        let (tell, progress) = watch::channel(Progress::Has(partial.offset()));
        let failure: Arc<Mutex<Option<BodyError>>> = Arc::default();
        let (source, blob, kept_failure) = (source.clone(), self.blob, Arc::clone(&failure));
        let task = tokio::spawn(async move {
            let ended = match fetch(&source, blob, partial, &tell).await {
                Ok(ended) => ended,
                Err(error) => {
                    *kept_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Progress::Failed
                }
            };
            tell.send_replace(ended);
        });
        Ok(Download { task, progress, failure })
    }

    /// What was kept is wrong: the next attempt starts from zero.
    pub(crate) fn discard(&self) {
        if let Some(download) = self.download().take() {
            download.task.abort();
        }
        self.spool.discard(self.blob);
    }
}

/// Fetches what is missing into `partial`.
async fn fetch(
    source: &Supply,
    blob: BlobRef,
    mut partial: PartialBlob,
    tell: &watch::Sender<Progress>,
) -> Result<Progress, BodyError> {
    if partial.offset() < blob.size {
        let mut body = source.body(blob, partial.offset()).await?;
        while let Some(piece) = body.try_next().await? {
            partial.write(&piece)?;
            tell.send_replace(Progress::Has(partial.offset()));
        }
    }
    Ok(match partial.digest()? {
        got if got == blob.digest => Progress::Whole,
        got => Progress::Wrong(got),
    })
}

/// What stands in the file, and what is still to come. The last piece is held back until the whole
/// is known to be right.
fn follow(
    file: File,
    blob: BlobRef,
    progress: watch::Receiver<Progress>,
    failure: Arc<Mutex<Option<BodyError>>>,
) -> Body {
    let start = (file, progress, 0);
    stream::try_unfold(start, move |(file, mut progress, position)| {
        let failure = Arc::clone(&failure);
        async move {
            if position == blob.size {
                return Ok(None);
            }
            let available = loop {
                let now = *progress.borrow_and_update();
                let available = match now {
                    Progress::Whole => blob.size,
                    Progress::Has(have) => have.min(blob.size - 1),
                    Progress::Wrong(got) => {
                        return Err(WrongContent { want: blob.digest, got }.into());
                    }
                    Progress::Failed => {
                        let failed = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
                        return Err(failed.unwrap_or_else(|| "the download failed".into()));
                    }
                };
                if available > position {
                    break available;
                }
                if progress.changed().await.is_err() {
                    return Err("the download ended".into());
                }
            };
            let length = (available - position).min(PIECE);
            let mut piece = vec![0; usize::try_from(length).unwrap_or_default()];
            file.read_exact_at(&mut piece, position)?;
            Ok::<_, BodyError>(Some((Bytes::from(piece), (file, progress, position + length))))
        }
    })
    .boxed()
}
