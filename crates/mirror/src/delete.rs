//! Deletes images from a target registry, in two phases: a plan that changes nothing, and its
//! execution, which compares the plan with the target first.
//!
//! ```text
//! configuration ──select offline──▶ requested ──choose──▶ plan (files)
//! plan ──observe the target──▶ steps per repository ──perform──▶ report
//! ```
//!
//! Decisions are in the crate `delete-plan`. Nothing but the target is contacted.

mod execute;
mod executor;
mod forget_content;
mod garbage_collection;
mod observe;
mod perform;
mod plan;
mod report;
mod selection;
mod undo_file;
mod update_catalogs;
mod version_1_names;

pub use execute::{Deletion, execute};
pub use garbage_collection::{GarbageCollection, garbage_collection};
pub use plan::{DeleteRequest, DeleteScope, PlannedDeletion, plan};
pub use report::{DeleteReport, DeletedImage, DeletionOutcome};
