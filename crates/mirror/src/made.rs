//! Images that a run makes itself, from others and from documents. What is new
//! in them is in the workspace; the rest comes from where the image they stand
//! on is.

use std::collections::BTreeMap;

use mirror_plan::{ImageTree, Origin};
use registry::Location;

/// An image that was made.
#[derive(Debug, Clone)]
pub(crate) struct MadeImage {
    pub(crate) tree: ImageTree,
    /// Where the content is that was not made here.
    pub(crate) base: Location,
}

/// All that a run made.
#[derive(Debug, Clone, Default)]
pub(crate) struct MadeImages(BTreeMap<Origin, MadeImage>);

impl MadeImages {
    pub(crate) fn insert(&mut self, origin: Origin, image: MadeImage) {
        self.0.insert(origin, image);
    }

    pub(crate) fn get(&self, origin: &Origin) -> Option<&MadeImage> {
        self.0.get(origin)
    }
}
