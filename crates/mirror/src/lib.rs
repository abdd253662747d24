//! The engine: collects images, plans, executes, reports.
//!
//! `collect → select → gather → plan → execute → conclude`: `collect`, `select.rs`, `gather`,
//! `plan`, `transfer` and `conclude.rs`; `pipeline.rs` has what all modes share, `modes` what
//! differs. The plan is a value; nothing is written to a destination before it exists. Each stage
//! returns its value and its issues, and the report is assembled from them at the end. Errors are
//! typed and name the fault (`fault`); they become text in the report.

mod collect;
mod conclude;
mod context;
mod control;
mod delete;
mod error_chain;
mod fault;
mod gather;
mod migrate;
mod modes;
mod pipeline;
mod plan;
mod preflight;
mod progress;
mod reason;
mod record;
mod recorder;
mod repair_workspace;
mod report;
mod results;
mod run;
mod select;
mod settings;
mod shards;
mod transfer;
mod verify_target;

pub use collect::catalogs::{
    CatalogLookup, CatalogLookupError, ContentError, OpenError, OpenedCatalog,
};
pub use collect::charts::{
    CandidateLine, ChartEntry, ChartImageLine, ChartImages, ChartLookup, ChartLookupError,
    ChartSearch, ChartUse, OriginLine,
};
pub use collect::releases::{
    ComponentLine, LookupError, ReleaseContents, ReleaseLookup, ReleaseUse,
};
pub use delete::{
    DeleteReport, DeleteRequest, DeletedImage, Deletion, Fate, GarbageCollection, PlannedDeletion,
    What, execute as execute_deletion, garbage_collection, plan as plan_deletion,
};
pub use plan::stored_plan::{StoredPlan, StoredPlanError};
pub use progress::{Event, ImageDone, Observer, ShardActivity, Unobserved};
pub use reason::{Reason, Remedy};
pub use repair_workspace::{NotRepaired, Repaired, repair_workspace};
pub use report::{ArchiveLine, BrokenBundle, Ending, Failure, ImageLine, Outcome, Report, Totals};
pub use run::run;
pub use settings::{
    ArchiveFormat, Archiving, Attachments, BrokenBundles, CacheChoice, Configuration, DryRun,
    Lookaside, PaceChange, ReleaseSources, Settings, SignatureCheck, TrustPolicy, Workflow,
};
pub use shards::{
    CLAIM_RENEWAL, Claim, Claimant, Claimed, Completion, Files, OwnSegment, RunClaim, RunStore,
    RunStoreError, SegmentIndex, SegmentRunner, ShardEnding, ShardReport, ShardRunner,
    ShardSettings, ShardWatch, StoredPart, UnfinishedNeed, transfer_shard,
};
pub use verify_target::{TargetProblem, TargetVerification, VerifyTargetError, verify_target};
