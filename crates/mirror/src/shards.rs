//! Transfers by several processes: each shard moves the blobs that it owns, and the run that made
//! the plan then publishes the images.
//!
//! ```text
//! run:     … plan ──split──▶ parts ─┐                      ┌─▶ manifests, tags, catalogs, report
//! shards:                           └─▶ blobs ──▶ reports ─┘
//! ```
//!
//! Shards write blobs only, which no client sees before a manifest refers to them. A shard can be
//! killed and repeated at any time: its state is at the target. What shards did not bring, the run
//! copies by itself, so that its result and its errors do not depend on them.

mod claim;
mod delegate;
mod run_store;
mod segments;
mod shard;

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use mirror_plan::ShardPart;
use oci::Digest;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::progress::Observer;
use crate::reason::Reason;

pub use claim::{CLAIM_RENEWAL, Claim, Claimant, Claimed, RunClaim};
pub(crate) use delegate::{Delegation, delegate, delegate_push};
pub use run_store::{Files, RunStore, RunStoreError};
pub(crate) use segments::{Segments, write_in_shards};
pub use shard::{ShardSettings, transfer_shard};

/// Runs shards, as processes of this machine for example.
pub trait ShardRunner: fmt::Debug + Send + Sync {
    fn shards(&self) -> NonZeroU32;

    /// Name and version of the program. Shards of another version reject their part.
    fn program(&self) -> String;

    /// Runs one shard for each part until all have ended. Returns their reports in the order of
    /// parts; `None` for a shard that left none.
    fn run<'a>(
        &'a self,
        parts: &'a [StoredPart],
        watch: ShardWatch,
    ) -> Pin<Box<dyn Future<Output = Vec<Option<ShardReport>>> + Send + 'a>>;
}

/// Runs shards that write the archive of a run to disk: each the files with the content it owns, to a
/// place that all share.
pub trait SegmentRunner: fmt::Debug + Send + Sync {
    fn shards(&self) -> NonZeroU32;

    /// Name and version of the program. Shards of another version reject their part.
    fn program(&self) -> String;

    /// The largest size of a file, in bytes.
    fn limit(&self) -> u64;

    /// Who completes the archive.
    fn completion(&self) -> Completion;

    /// Whether all these files of an archive are in their place: shards completed it.
    fn is_complete<'a>(
        &'a self,
        index: SegmentIndex<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<bool, String>> + Send + 'a>>;

    /// Runs one shard for each part. If the archive is completed here, ends when all files of all
    /// parts are in their place, and returns the reports of shards. Otherwise hands the archive over,
    /// with the files of the run itself, and returns none.
    fn run<'a>(
        &'a self,
        parts: &'a [ShardPart],
        index: SegmentIndex<'a>,
        own: &'a [OwnSegment],
        watch: ShardWatch,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<ShardReport>, String>> + Send + 'a>>;
}

/// Who completes an archive that shards write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// The run, which waits for its shards.
    ByRun,
    /// The last shard. The next run in the workspace records the archive.
    ByShards,
}

/// The index of an archive that shards write.
#[derive(Debug, Clone, Copy)]
pub struct SegmentIndex<'a> {
    /// The length of its text.
    pub length: u64,
    pub digest: Digest,
    /// Its text; empty where it is not needed.
    pub text: &'a [u8],
    /// Files of the archive, with their lengths.
    pub files: &'a [(u32, u64)],
}

/// A file of an archive that the run wrote itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnSegment {
    pub number: u32,
    pub length: u64,
    pub path: PathBuf,
}

/// The part of a shard in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPart {
    pub shard: u32,
    pub path: PathBuf,
    /// Of the file's content.
    pub digest: Digest,
}

/// Who watches shards, and what stops them.
pub struct ShardWatch {
    pub observer: Arc<dyn Observer>,
    pub cancel: CancellationToken,
    /// Whether transfers are paused.
    pub held: watch::Receiver<bool>,
}

impl fmt::Debug for ShardWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardWatch").field("held", &*self.held.borrow()).finish_non_exhaustive()
    }
}

/// How a shard ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ShardEnding {
    Complete,
    /// Some blobs are not at the target.
    Incomplete,
    Interrupted,
    /// Its last pod was started. If that one is killed, no other one reports for it.
    LastAttempt,
    /// It could not do its part, and no later attempt can.
    Failed,
}

impl ShardEnding {
    /// Whether the shard did what it could, so that the run can be published.
    pub fn is_done(self) -> bool {
        match self {
            Self::Complete | Self::Incomplete => true,
            Self::Interrupted | Self::LastAttempt | Self::Failed => false,
        }
    }
}

/// What a shard did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardReport {
    /// The run, by the digest of its plan.
    pub run: Digest,
    pub shard: u32,
    pub ending: ShardEnding,
    pub blobs: u64,
    pub bytes: u64,
    pub blobs_mounted: u64,
    pub source_requests: u64,
    pub destination_requests: u64,
    pub retries: u64,
    /// Needs of which a blob is not at the target.
    pub unfinished: Vec<UnfinishedNeed>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl ShardReport {
    /// A shard that moved nothing.
    pub fn without_transfers(run: Digest, shard: u32, ending: ShardEnding) -> Self {
        Self {
            run,
            shard,
            ending,
            blobs: 0,
            bytes: 0,
            blobs_mounted: 0,
            source_requests: 0,
            destination_requests: 0,
            retries: 0,
            unfinished: Vec::new(),
            failure: None,
        }
    }
}

/// A need of which a blob is not at the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedNeed {
    /// Its place in the part.
    pub need: u32,
    #[serde(flatten)]
    pub reason: Reason,
}
