//! From the configuration to the images it selects: sections that name images only indirectly
//! (releases, catalogs, charts) are resolved to wanted images here.

pub(crate) mod built_images;
pub(crate) mod catalogs;
pub(crate) mod charts;
pub(crate) mod documents;
pub(crate) mod layered_image;
mod lookup_source;
pub(crate) mod pairs;
pub(crate) mod releases;
pub(crate) mod sections;
