//! Image set configurations to start from, as YAML with the reasons beside it.
//!
//! Pure: the caller reads the inventory of a cluster, requests the update graphs that are needed, and
//! keeps the text. The same input gives the same text.
//!
//! ```text
//! inventory ──ReleaseRequest::channels──▶ graphs to get ──ReleaseRequest::decide──▶ releases ─┐
//!           └──operators──▶ operators ──check, with their catalogs──▶ operators ─┴──draft──▶ YAML
//! ```
//!
//! # Example
//!
//! ```
//! use image_set_draft::starter;
//! use release::channel::Minor;
//!
//! let text = starter(Minor { major: 4, minor: 18 });
//! assert!(text.contains("stable-4.18"));
//! assert!(image_set::parse_image_set("isc.yaml", &text).is_ok());
//! ```

mod catalog_check;
mod commented_yaml;
mod draft;
mod operators;
mod origin;
mod releases;
mod starter;

pub use catalog_check::check;
pub use draft::{Draft, draft};
pub use operators::{CatalogDraft, Operators, PackageDraft, operators};
pub use releases::{ChannelDraft, ReleaseRequest, Releases, TargetError};
pub use starter::starter;
