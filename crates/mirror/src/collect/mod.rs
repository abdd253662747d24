//! From what is wanted to what that is: the manifests and blobs of every image.

mod attachments;
mod layout;
mod registry_tree;
mod selection;

pub(crate) use layout::Layout;
pub(crate) use registry_tree::{CollectError, Collector};
pub(crate) use selection::{NoInstance, select_from};
