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
//!
//! # Example
//!
//! ```
//! use std::collections::{BTreeMap, BTreeSet};
//!
//! use delete_plan::{RepositoryState, Step, plan_repository};
//! use oci::{Digest, Tag};
//!
//! let digest: Digest = format!("sha256:{}", "1".repeat(64)).parse().unwrap();
//! let [old, new]: [Tag; 2] = ["4.16.1-etcd", "4.16.2-etcd"].map(|tag| tag.parse().unwrap());
//! let state = RepositoryState {
//!     tags: BTreeMap::from([(old.clone(), digest), (new.clone(), digest)]),
//!     ..RepositoryState::default()
//! };
//! let plan = plan_repository(&state, &BTreeMap::from([(old.clone(), Some(digest))]), &BTreeSet::new());
//! // The other tag leads to the same manifest, which stays.
//! assert_eq!(plan.steps, [Step::Tag { tag: old, digest, kept_by: vec![new] }]);
//! ```

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
