//! Events of a run. The engine emits them; the program displays them.

use mirror_plan::{Kind, Origin};
use oci::Digest;

use crate::error_chain::chain;
use crate::report::Outcome;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A stage of the run began: `collecting`, `copying`, `archiving`, …
    Stage {
        name: &'static str,
    },
    /// How much there is to do, known once the plan is.
    Planned {
        images: usize,
        present: usize,
        blobs: u64,
        bytes: u64,
    },
    /// A manifest tree was read.
    Collected {
        origin: Origin,
    },
    BlobStarted {
        digest: Digest,
        size: u64,
    },
    /// Bytes that arrived (or were found already there) since the last event.
    Moved {
        bytes: u64,
    },
    BlobDone {
        digest: Digest,
    },
    /// An attempt to move a blob failed. Another source may have it.
    BlobFailed {
        digest: Digest,
        error: String,
    },
    ImageStarted {
        kind: Kind,
        origin: Origin,
    },
    ImageDone(ImageDone),
    /// Bytes of the archive written so far, of how many.
    Archived {
        bytes: u64,
        of: u64,
    },
    /// Bytes of archives checked so far, of how many.
    Verified {
        bytes: u64,
        of: u64,
    },
    /// What one of several processes that transfer blobs does.
    Shard {
        shard: u32,
        activity: ShardActivity,
    },
    Warning {
        message: String,
    },
}

/// What a shard does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardActivity {
    Started,
    /// Bytes arrived.
    Progressed,
    Ended,
}

impl Event {
    /// How an attempt to move a blob ended.
    pub(crate) fn attempted<E: std::error::Error + 'static>(
        digest: Digest,
        moved: &Result<(), E>,
    ) -> Self {
        match moved {
            Ok(()) => Self::BlobDone { digest },
            Err(error) => Self::BlobFailed { digest, error: chain(error) },
        }
    }
}

/// An image, and what became of it.
#[derive(Debug, Clone)]
pub struct ImageDone {
    pub kind: Kind,
    pub origin: Origin,
    pub destination: String,
    pub digest: Option<Digest>,
    /// Of the whole image, shared layers included.
    pub bytes: u64,
    pub outcome: Outcome,
}

/// Receives events, from several threads, and returns quickly.
pub trait Observer: Send + Sync {
    fn notice(&self, event: Event);
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn notice(&self, _event: Event) {}
}
