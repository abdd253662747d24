//! What is deleted from a target registry, and what is kept because it is in use. Pure.
//!
//! ```text
//! requested × record ──choose──▶ items, kept ──list──▶ delete-images.yaml, delete-reasons.yaml
//!                                   └─ × observed target ──plan_repository──▶ steps
//! ```
//!
//! [`choose`] decides by names: configurations, bundles, channels. [`plan_repository`] decides by
//! digests, from what the target holds at the time of the deletion. Both keep what they cannot
//! prove to be unused.

mod catalogs;
mod choose;
mod image_list;
mod reasons;
mod repository;
mod savings;
mod undo;

pub use catalogs::{Narrowed, narrowed};
pub use choose::{Choice, ChoiceError, Item, Keep, Kept, KeptBecause, Request, Requested, choose};
pub use image_list::{ImageList, ListError, ListedImage, ListedType};
pub use reasons::{ItemReason, KeptReason, Reasons, ReasonsError};
pub use repository::{
    ChangedTag, RepositoryPlan, RepositoryState, Step, plan_repository, subject_of_tag,
};
pub use savings::{RepositoryBytes, savings};
pub use undo::{Deleted, undo};
