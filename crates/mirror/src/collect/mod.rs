//! From what is wanted to what that is: the manifests and blobs of every image.

mod attachments;
mod content;
mod layout;
mod registry_tree;
mod selection;

pub(crate) use content::blob_of;
pub(crate) use layout::Layout;
pub(crate) use registry_tree::{CollectError, Collector, node};
pub(crate) use selection::{NoInstance, select_from};
