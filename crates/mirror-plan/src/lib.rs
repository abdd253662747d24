//! What to copy where. Pure: wanted images in, a plan out.
//!
//! `wanted × held → plan`, the names images get at their destination, and the
//! resources a cluster needs to find them there.

mod image;

pub use image::{
    Attachment, BlobRef, Exit, ImageRecord, ImageTree, Kind, ManifestNode, Origin, Wanted,
};
