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
//!
//! On a fast link writing every byte to the disk takes longer than the rare second download saves.
//! A blob that is expected to arrive within seconds, judging by earlier ones from the same host, is
//! passed on without a copy.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
/// Blobs that arrive within this time are requested again as well.
const SOON: Duration = Duration::from_secs(2);
/// How much has to arrive from a host before its rate is known.
const SAMPLE: u64 = 64 << 20;
/// The most that all blobs in flight may take together.
const MOST: u64 = 16 << 30;
/// What is left free on the filesystem.
const RESERVE: u64 = 256 << 20;
/// Read from the file at once.
const PIECE: u64 = 256 << 10;
/// What is kept in memory of each blob.
const RECENT: usize = 512 << 10;

/// Space for blobs during their transfer.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    store: BlobStore,
    taken: Arc<AtomicU64>,
    /// By host of the source.
    rates: Arc<Mutex<BTreeMap<String, Rate>>>,
}

/// How fast blobs of a host reach the target, each by itself. Older transfers count less.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    bytes: u64,
    time: Duration,
}

impl Rate {
    fn add(&mut self, bytes: u64, time: Duration) {
        if self.bytes >= 4 * SAMPLE {
            self.bytes /= 2;
            self.time /= 2;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.time = self.time.saturating_add(time);
    }

    /// Whether a blob of this size is expected to arrive within [`SOON`].
    fn is_soon(self, size: u64) -> bool {
        let expected = self.time.as_secs_f64() * size as f64 / self.bytes.max(1) as f64;
        self.bytes >= SAMPLE && expected <= SOON.as_secs_f64()
    }
}

/// A blob in transfer. The download ends when this is dropped; its bytes stay for a later run.
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
    recent: Arc<Mutex<Recent>>,
}

/// The bytes that arrived last. An upload that keeps up with the download takes them from here, and
/// reads nothing from the file.
#[derive(Debug, Default)]
struct Recent {
    /// In order, without gaps; each with its offset in the blob.
    pieces: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

impl Recent {
    fn push(&mut self, offset: u64, piece: Bytes) {
        self.bytes += piece.len();
        self.pieces.push_back((offset, piece));
        while self.bytes > RECENT
            && let Some((_, oldest)) = self.pieces.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    /// Bytes of one piece from `position` on, at most up to `end`.
    fn read(&self, position: u64, end: u64) -> Option<Bytes> {
        let after = self.pieces.partition_point(|(offset, _)| *offset <= position);
        let (offset, piece) = self.pieces.get(after.checked_sub(1)?)?;
        let from = usize::try_from(position - offset).ok()?;
        let to = usize::try_from(end - offset).ok()?.min(piece.len());
        (from < to).then(|| piece.slice(from..to))
    }
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
        Self { store, taken: Arc::default(), rates: Arc::default() }
    }

    /// Space for a blob from `source`. `None` where keeping it has no use or there is no room: then
    /// it is passed on without a copy.
    pub(crate) fn keep(&self, blob: BlobRef, source: &Supply) -> Option<Kept<'_>> {
        if blob.size <= WORTH_KEEPING || !source.is_remote() {
            return None;
        }
        // What an earlier run left of it is used, however fast the rest would arrive.
        if self.is_soon(blob, source) && !self.store.has_partial(&blob.digest) {
            return None;
        }
        let taken = self.taken.fetch_add(blob.size, Ordering::Relaxed) + blob.size;
        // From here on dropping gives the room back.
        let kept = Kept { spool: self, blob, download: Mutex::default() };
        let free = free_space(self.store.root()).unwrap_or(u64::MAX);
        (taken <= MOST && blob.size.saturating_add(RESERVE) <= free).then_some(kept)
    }

    fn is_soon(&self, blob: BlobRef, source: &Supply) -> bool {
        let rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.get(&source.host()).is_some_and(|rate| rate.is_soon(blob.size))
    }

    /// A blob from `source` reached the target within this time.
    pub(crate) fn arrived(&self, blob: BlobRef, source: &Supply, time: Duration) {
        if source.is_remote() {
            let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
            rates.entry(source.host()).or_default().add(blob.size, time);
        }
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
    /// earlier attempt started continues; one that failed is started again.
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
        Ok(follow(file, self.blob, download))
    }

    fn start(&self, source: &Supply) -> Result<Download, BodyError> {
        let partial = self.spool.store.begin(&self.blob.digest, self.blob.size)?;
        let (tell, progress) = watch::channel(Progress::Has(partial.offset()));
        let failure: Arc<Mutex<Option<BodyError>>> = Arc::default();
        let recent: Arc<Mutex<Recent>> = Arc::default();
        let (source, blob, kept_failure) = (source.clone(), self.blob, Arc::clone(&failure));
        let arrived = Arc::clone(&recent);
        let task = tokio::spawn(async move {
            let ended = match fetch(&source, blob, partial, &tell, &arrived).await {
                Ok(ended) => ended,
                Err(error) => {
                    *kept_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Progress::Failed
                }
            };
            tell.send_replace(ended);
        });
        Ok(Download { task, progress, failure, recent })
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
    recent: &Mutex<Recent>,
) -> Result<Progress, BodyError> {
    if partial.offset() < blob.size {
        let mut body = source.body(blob, partial.offset()).await?;
        while let Some(piece) = body.try_next().await? {
            let offset = partial.offset();
            partial.write(&piece)?;
            recent.lock().unwrap_or_else(PoisonError::into_inner).push(offset, piece);
            tell.send_replace(Progress::Has(partial.offset()));
        }
    }
    Ok(match partial.digest()? {
        got if got == blob.digest => Progress::Whole,
        got => Progress::Wrong(got),
    })
}

/// What is in the file, and what is still to arrive. The last byte is held back until the whole is
/// known to be right.
fn follow(file: File, blob: BlobRef, download: &Download) -> Body {
    let (failure, recent) = (Arc::clone(&download.failure), Arc::clone(&download.recent));
    let start = (file, download.progress.clone(), 0);
    stream::try_unfold(start, move |(file, mut progress, position)| {
        let (failure, recent) = (Arc::clone(&failure), Arc::clone(&recent));
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
            let recent =
                recent.lock().unwrap_or_else(PoisonError::into_inner).read(position, available);
            if let Some(piece) = recent {
                let next = position + piece.len() as u64;
                return Ok(Some((piece, (file, progress, next))));
            }
            let length = (available - position).min(PIECE);
            let mut piece = vec![0; usize::try_from(length).unwrap_or_default()];
            file.read_exact_at(&mut piece, position)?;
            Ok::<_, BodyError>(Some((Bytes::from(piece), (file, progress, position + length))))
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_of_a_fast_host_arrive_soon_once_its_rate_is_known() {
        let mut rate = Rate::default();
        assert!(!rate.is_soon(1));
        rate.add(SAMPLE - 1, Duration::from_secs(1));
        assert!(!rate.is_soon(1), "too little has arrived");
        rate.add(1, Duration::ZERO);
        assert!(rate.is_soon(2 * SAMPLE) && !rate.is_soon(3 * SAMPLE));
        // A link that gets slow is noticed, however much arrived before.
        for _ in 0..1000 {
            rate.add(SAMPLE, Duration::from_secs(1));
        }
        for _ in 0..8 {
            rate.add(SAMPLE, Duration::from_secs(60));
        }
        assert!(!rate.is_soon(SAMPLE));
    }

    #[test]
    fn recent_bytes_are_read_at_their_offset_and_old_ones_are_dropped() {
        let mut recent = Recent::default();
        assert_eq!(recent.read(0, 10), None);
        recent.push(100, Bytes::from_static(b"abcdef"));
        recent.push(106, Bytes::from_static(b"ghi"));
        // What an earlier run left is in the file only.
        assert_eq!(recent.read(99, 109), None);
        assert_eq!(recent.read(100, 109).as_deref(), Some(b"abcdef".as_slice()));
        assert_eq!(recent.read(103, 105).as_deref(), Some(b"de".as_slice()));
        assert_eq!(recent.read(106, 108).as_deref(), Some(b"gh".as_slice()));
        assert_eq!(recent.read(109, 200), None);
        recent.push(109, Bytes::from(vec![0; RECENT]));
        assert_eq!(recent.read(103, 109), None);
        assert_eq!(recent.read(109, 200).map(|piece| piece.len()), Some(91));
        // A piece that is larger than the room is read from the file.
        recent.push(109 + RECENT as u64, Bytes::from(vec![0; RECENT + 1]));
        assert_eq!((recent.read(109 + RECENT as u64, u64::MAX), recent.bytes), (None, 0));
    }
}
