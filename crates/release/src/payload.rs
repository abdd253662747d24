//! What is in a release payload: the images a release is made of, and what it
//! states about itself.
//!
//! The files are found in the layers of the payload image ([`layers`]) and read
//! here. All of them are hostile input until proven otherwise.

pub mod boot_images;
pub mod layers;
pub mod metadata;
pub mod references;

pub use boot_images::{BootImages, BootImagesError, KubeVirtDisk};
pub use layers::{LayerError, PayloadFiles, Wanted};
pub use metadata::{MetadataError, ReleaseMetadata};
pub use references::{Component, ImageReferences, ReferencesError};
