//! File-based operator catalogs: read, select, walk, write again.
//!
//! Pure: the caller reads the files and the manifests, and stores the result. All input
//! is untrusted. Everything borrows from the files: a catalog of hundreds of megabytes needs a few
//! megabytes more.
//!
//! ```text
//! layers ──Unpacked──▶ files ──Files::read──▶ JSON ──Catalog::load──▶ catalog
//!
//! catalog ──filter──▶ Filtered ──files──▶ layer ──rebuild──▶ image
//!    │                   └──related_images──▶ what to mirror
//!    ├──upgrade──▶ paths
//!    └──listing──▶ tables
//! ```
//!
//! # Example
//!
//! ```
//! use catalog::{Catalog, Files};
//!
//! let text = format!(
//!     "---\nschema: olm.package\nname: etcd\ndefaultChannel: stable\n\
//!      ---\nschema: olm.channel\npackage: etcd\nname: stable\nentries: [{{name: etcd.v1.0.0}}]\n\
//!      ---\nschema: olm.bundle\npackage: etcd\nname: etcd.v1.0.0\nimage: quay.io/x/etcd@sha256:{}\n\
//!      properties: [{{type: olm.package, value: {{packageName: etcd, version: 1.0.0}}}}]\n",
//!     "0".repeat(64)
//! );
//! let files = Files::read([("etcd/catalog.yaml", text.as_bytes())])?;
//! let catalog = Catalog::load(&files)?;
//! assert!(catalog.packages["etcd"].channels.contains_key("stable"));
//! # Ok::<(), catalog::LoadError>(())
//! ```

mod constraint;
mod dependencies;
mod document;
mod files;
mod filter;
mod filter_hash;
mod finding;
mod layer;
mod listing;
mod load;
mod load_error;
mod model;
mod narrowing;
mod nearest;
mod rebuild;
mod related_images;
mod rules;
mod text;
mod unpacked;
pub mod upgrade;
mod version;
mod write;
mod yaml;

pub use diagnostic::Severity;
pub use document::{Deprecation, Entry, RelatedImage};
pub use files::{Files, LeftOut};
pub use filter::{BundleName, Filtered, KeptChannel, KeptPackage, filter};
pub use filter_hash::filter_hash;
pub use finding::{Finding, Problem};
pub use layer::{CATALOG_FOLDER, Layer, catalog_layer, hiding_layer};
pub use listing::{ChannelRow, PackageRow, channels, display_name, packages, versions};
pub use load_error::LoadError;
pub use model::{
    Api, Blob, Bundle, Catalog, Channel, Definition, Deprecations, Package, Requirement,
};
pub use nearest::nearest;
pub use rebuild::{BaseImage, RebuildError, RebuiltImage, catalog_folder, rebuild, rebuilt_index};
pub use related_images::{RelatedImages, UnusableImage, WantedImage, folder_name, related_images};
pub use rules::{ChannelFlaw, Flaw, FlawList, flaws};
pub use text::Text;
pub use unpacked::{UnpackError, Unpacked};
pub use version::{CatalogRange, Membership, VersionRange};
pub use write::CatalogFile;
