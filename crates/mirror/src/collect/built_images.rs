//! Images of which a run knows what they consist of before it requests them:
//! those it builds itself, from others and from documents, and those it read
//! while collecting. The new content of a built image is in the workspace; the rest
//! comes from the source of its base image.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mirror_plan::{ContentSource, ImageTree, Origin, Wanted};
use oci::{Platform, RegistryHost, Repository};
use registry::Location;
use serde::{Deserialize, Serialize};

/// An image that was made.
#[derive(Debug, Clone)]
pub(crate) struct BuiltImage {
    pub(crate) tree: ImageTree,
    pub(crate) base: Base,
}

/// Where the content is that was not made here.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Base {
    Registry(#[serde(with = "LocationFields")] Location),
    Layout(PathBuf),
}

impl Base {
    /// The same in the form that is passed to another process.
    pub(crate) fn source(&self) -> ContentSource {
        match self {
            Self::Registry(Location { registry, repository }) => ContentSource::Registry {
                registry: registry.clone(),
                repository: repository.clone(),
            },
            Self::Layout(path) => ContentSource::Layout { path: path.clone() },
        }
    }
}

/// A location in a stored plan.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Location")]
struct LocationFields {
    registry: RegistryHost,
    repository: Repository,
}

/// All that a run made, and all it read.
#[derive(Debug, Clone, Default)]
pub(crate) struct BuiltImages {
    made: BTreeMap<Origin, BuiltImage>,
    read: BTreeMap<Origin, (Vec<Platform>, ImageTree)>,
}

impl BuiltImages {
    pub(crate) fn insert(&mut self, origin: Origin, image: BuiltImage) {
        self.made.insert(origin, image);
    }

    /// Records an image that was read, with the requested
    /// platforms: requested again, its tag might be another image.
    pub(crate) fn insert_read(&mut self, wanted: &Wanted, tree: ImageTree) {
        self.read.insert(wanted.origin.clone(), (wanted.platforms.clone(), tree));
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.made.extend(other.made);
        self.read.extend(other.read);
    }

    /// Where the content of each made image is that was not made here.
    pub(crate) fn bases(&self) -> impl Iterator<Item = (&Origin, &Base)> {
        self.made.iter().map(|(origin, image)| (origin, &image.base))
    }

    pub(crate) fn get(&self, origin: &Origin) -> Option<&BuiltImage> {
        self.made.get(origin)
    }

    /// What `wanted` consists of, where that is known.
    pub(crate) fn tree(&self, wanted: &Wanted) -> Option<&ImageTree> {
        if let Some(image) = self.made.get(&wanted.origin) {
            return Some(&image.tree);
        }
        let (platforms, tree) = self.read.get(&wanted.origin)?;
        (*platforms == wanted.platforms).then_some(tree)
    }
}
