//! ImageSetConfiguration and DeleteImageSetConfiguration: read, check, write.
//!
//! Pure: the input is text, the result a checked configuration or the list of all that is
//! wrong with it. Every finding has its line and column and states
//! what to write instead.
//!
//! ```text
//! text ──tree──▶ nodes with places ──sections──▶ configuration | findings
//! ```
//!
//! # Example
//!
//! ```
//! use image_set::parse_image_set;
//!
//! let head = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n";
//! let good = format!("{head}  additionalImages:\n  - name: quay.io/org/app:v1\n");
//! assert_eq!(parse_image_set("isc.yaml", &good).unwrap().mirror.additional_images.len(), 1);
//!
//! let findings = parse_image_set("isc.yaml", &format!("{head}  additionalImage: []\n")).unwrap_err();
//! assert!(findings.to_string().contains("isc.yaml:4:3: unknown field"), "{findings}");
//! ```

mod document;
mod extension;
mod finding;
mod helm;
mod image;
mod operator;
mod platform;
mod section;
mod short_name;
mod version;
mod write;

pub use document::{
    Delete, DeleteImageSetConfiguration, Document, ImageSetConfiguration, Mirror, Parsed, Sample,
    TransferTimes, parse, parse_delete, parse_image_set, parse_image_set_with_warnings,
};
pub use extension::Extension;
pub use finding::{EntryPosition, Finding, Findings, Problem};
pub use helm::{Chart, Helm, HelmRepository, LocalChart};
pub use image::{AdditionalImage, BlockedImage, ImageSource};
pub use operator::{Operator, Package, PackageChannel};
pub use platform::{Architecture, Distribution, PlatformSection, ReleaseChannel};
pub use short_name::{ShortName, short_names};
pub use version::PackageVersion;
pub use write::WriteError;

/// The version that is written.
pub const API_VERSION: &str = "mirror.openshift.io/v2alpha1";
/// Not a version that exists. oc-mirror v2 does not check the version, so files
/// with this one are in use.
pub const API_VERSION_ALIAS: &str = "mirror.openshift.io/v2";
/// The version before it. Its files are read, too, unless they use removed keys.
pub const OLDER_API_VERSION: &str = "mirror.openshift.io/v1alpha2";
