//! A repository of a registry: where blobs are stored and requested.

use std::fmt;

use oci::{ImageRef, RegistryHost, Repository};

/// `registry/repository`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    pub registry: RegistryHost,
    pub repository: Repository,
}

impl Location {
    pub fn new(registry: RegistryHost, repository: Repository) -> Self {
        Self { registry, repository }
    }
}

impl From<&ImageRef> for Location {
    fn from(image: &ImageRef) -> Self {
        Self { registry: image.registry.clone(), repository: image.repository.clone() }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)
    }
}
