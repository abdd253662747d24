//! Kubernetes Jobs that run a mirror in shards. Pure: settings in, manifests out; objects of the
//! API in, progress out.
//!
//! Two Indexed Jobs make a run. The first has one pod per shard, which transfers the blobs that
//! the shard owns. The second has one pod, which waits for the results of the first and then
//! publishes: manifests, indexes, attachments and tags, then catalogs and cluster resources.
//!
//! # Example
//!
//! ```
//! use mirror_job::{JobProgress, RunName};
//!
//! let run = RunName::of(&oci::Digest::of(b"the plan"));
//! assert_eq!(run.blobs_job(), format!("{run}-blobs"));
//!
//! let job = serde_json::json!({
//!     "spec": {"completions": 4},
//!     "status": {"succeeded": 3, "active": 1},
//! });
//! let progress = JobProgress::of(&job);
//! assert_eq!((progress.succeeded, progress.completions), (3, 4));
//! assert!(!progress.has_failed());
//! ```

mod manifests;
mod progress;
mod run_name;

pub use manifests::{
    ARCHIVES, FAILURES, Manifest, PodArchives, PodSettings, REPETITIONS, Run, manifests,
};
pub use progress::{
    Condition, JobProgress, LogProgress, PodState, ShardState, log_progress, shard_states,
};
pub use run_name::{RunName, RunNameError};

/// Exit codes of pods. The failure policies of the Jobs follow from them.
pub mod exit {
    /// The pod did its part.
    pub const DONE: u8 = 0;
    /// Another pod would fail in the same way: wrong flags, a plan that was modified or that
    /// another version made, credentials that are rejected.
    pub const PERMANENT: u8 = 1;
    /// A later pod may succeed (`EX_TEMPFAIL`).
    pub const RETRY: u8 = 75;
}

/// Labels that objects of a run have.
pub const RUN_LABEL: &str = "landfall.io/mirror-run";
pub const PHASE_LABEL: &str = "landfall.io/mirror-phase";
/// The target of a run, as an annotation: it may be longer than a label.
pub const TARGET_ANNOTATION: &str = "landfall.io/mirror-target";
