//! Image set configurations to start from, as YAML with the reasons beside it.
//!
//! Pure: the caller reads the inventory of a cluster, asks for the update graphs that are needed, and
//! keeps the text. The same input gives the same text.
//!
//! ```text
//! inventory ──Wish::channels──▶ graphs to get ──Wish::decide──▶ releases ─┐
//!           └──operators──▶ operators ──check, with their catalogs──▶ operators ─┴──draft──▶ YAML
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
pub use releases::{ChannelDraft, Releases, TargetError, Wish};
pub use starter::starter;
