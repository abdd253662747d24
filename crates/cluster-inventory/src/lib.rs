//! What a cluster has, as far as mirroring is concerned: its version, the operators installed on it,
//! the catalogs they came from, and where its images are mirrored.
//!
//! Written on the disconnected side, transferred, and read on the connected side. Pure: the caller
//! queries the cluster. Objects and transferred documents are untrusted input.
//!
//! ```text
//! objects ──Survey::add──▶ survey ──inventory──▶ Inventory ──json──▶ cluster.json ──parse──▶ Inventory
//! ```
//!
//! # Example
//!
//! ```
//! use cluster_inventory::{Inventory, Survey};
//!
//! let inventory = Survey::new().inventory();
//! let text = inventory.json().unwrap();
//! assert_eq!(Inventory::parse(text.as_bytes()).unwrap(), inventory);
//! ```

mod document;
mod kind;
mod object;
mod survey;

pub use document::{
    CatalogSource, Cluster, Installed, Inventory, MAX_BYTES, Mirror, MirrorSet, ParseError,
    PastUpdate, Reason, Subscription, Unread,
};
pub use kind::Kind;
pub use survey::Survey;
