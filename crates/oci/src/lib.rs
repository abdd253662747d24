//! The nouns of container images: digests, references, platforms, manifests.
//!
//! Pure: nothing here touches network, disk, clock or environment. Text is
//! parsed once, at the edge, into these types; code that has one need not
//! check it again.
//!
//! # Example
//!
//! ```
//! use oci::ImageRef;
//!
//! let image: ImageRef = "quay.io/org/app:v1".parse()?;
//! assert_eq!(image.to_string(), "quay.io/org/app:v1");
//! assert!("quay.io/ORG/app:v1".parse::<ImageRef>().is_err());
//! # Ok::<(), oci::ReferenceError>(())
//! ```

mod digest;
mod hashing_writer;
mod manifest;
mod media_type;
mod platform;
mod reference;
pub mod simple_signing;

pub use digest::{Digest, DigestError, Hasher};
pub use hashing_writer::HashingWriter;
pub use manifest::{About, Descriptor, Manifest, ManifestError, RawManifest, referrers_index};
pub use media_type::MediaType;
pub use platform::{Platform, PlatformError};
pub use reference::{ImageRef, Pointer, ReferenceError, RegistryHost, Repository, Tag};

/// The largest manifest that is read. Registries refuse bigger ones, and a
/// hostile one could otherwise fill the memory.
pub const MAX_MANIFEST_BYTES: u64 = 4 << 20;
