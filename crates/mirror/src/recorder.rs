//! Writes events to the journal of a run as they happen, and passes them on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use workspace::{AuditedImage, AuditedOutcome, DiskError, Journal, JournalEvent, Run, redact_urls};

use crate::error_chain::chain;
use crate::progress::{Event, ImageDone, Observer};
use crate::report::Outcome;

/// The time between two events that state how much was moved.
const BETWEEN: Duration = Duration::from_secs(1);

/// The observer of a run that leaves records.
pub(crate) struct Recorder {
    inner: Arc<dyn Observer>,
    journal: Arc<Journal>,
    moved: AtomicU64,
    last_progress: Mutex<Instant>,
    has_failed: AtomicBool,
}

impl Recorder {
    pub(crate) fn new(inner: Arc<dyn Observer>, run: &Run) -> Self {
        Self {
            inner,
            journal: Arc::clone(run.journal()),
            moved: AtomicU64::new(0),
            last_progress: Mutex::new(Instant::now()),
            has_failed: AtomicBool::new(false),
        }
    }

    fn record(&self, event: &Event) -> Result<(), DiskError> {
        let event = match event {
            Event::Stage { name } => JournalEvent::Stage { name: (*name).to_owned() },
            &Event::Planned { images, present, blobs, bytes } => {
                JournalEvent::Planned { images, present, blobs, bytes }
            }
            Event::Moved { bytes } => {
                let bytes = self.moved.fetch_add(*bytes, Ordering::Relaxed) + bytes;
                let mut last_progress =
                    self.last_progress.lock().unwrap_or_else(PoisonError::into_inner);
                if last_progress.elapsed() < BETWEEN {
                    return Ok(());
                }
                *last_progress = Instant::now();
                JournalEvent::Progress { bytes }
            }
            &Event::BlobStarted { digest, size } => JournalEvent::Attempt { digest, size },
            Event::BlobDone { digest } => JournalEvent::Blob { digest: *digest },
            Event::BlobFailed { digest, error } => {
                JournalEvent::BlobFailed { digest: *digest, error: redact_urls(error) }
            }
            Event::ImageDone(done) => JournalEvent::Image(audited(done)),
            Event::Warning { message } => JournalEvent::Warning { message: message.clone() },
            Event::Collected { .. }
            | Event::ImageStarted { .. }
            | Event::Archived { .. }
            | Event::Verified { .. }
            | Event::Shard { .. } => return Ok(()),
        };
        self.journal.append(event)
    }
}

impl Recorder {
    /// Records an image that is not reported to observers.
    pub(crate) fn image(&self, image: AuditedImage) {
        self.check(self.journal.append(JournalEvent::Image(image)));
    }

    /// A journal that cannot be written does not end the run; the user is warned once.
    fn check(&self, recorded: Result<(), DiskError>) {
        if let Err(error) = recorded
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            let message = format!("the journal of the run could not be written: {}", chain(&error));
            self.inner.notice(Event::Warning { message });
        }
    }
}

impl Observer for Recorder {
    fn notice(&self, event: Event) {
        let recorded = self.record(&event);
        self.inner.notice(event);
        self.check(recorded);
    }
}

fn audited(done: &ImageDone) -> AuditedImage {
    let (outcome, error) = match &done.outcome {
        Outcome::Copied => (AuditedOutcome::Copied, None),
        Outcome::Present => (AuditedOutcome::Present, None),
        Outcome::Failed { error } => (AuditedOutcome::Failed, Some(error.text.clone())),
        Outcome::Pending => (AuditedOutcome::NotReached, None),
    };
    AuditedImage {
        source: done.origin.to_string(),
        destination: Some(done.destination.clone()),
        digest: done.digest,
        bytes: done.bytes,
        outcome,
        error,
    }
}
