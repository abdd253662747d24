//! Media types of manifests, and what each is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The media type of a manifest or blob, as its registry names it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MediaType(Box<str>);

impl MediaType {
    pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
    pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    pub const DOCKER_SCHEMA1: &str = "application/vnd.docker.distribution.manifest.v1+json";
    pub const DOCKER_SCHEMA1_SIGNED: &str =
        "application/vnd.docker.distribution.manifest.v1+prettyjws";
    pub const OCI_EMPTY: &str = "application/vnd.oci.empty.v1+json";

    /// What to send as `Accept` when requesting a manifest. All four kinds,
    /// always: a registry that is not offered the kind it holds may convert
    /// it, and the digest with it.
    pub const ACCEPT: [&str; 4] =
        [Self::OCI_INDEX, Self::OCI_MANIFEST, Self::DOCKER_LIST, Self::DOCKER_MANIFEST];

    /// `text` up to its parameters (`; charset=…`), without blanks.
    pub fn new(text: &str) -> Self {
        Self(text.split(';').next().unwrap_or_default().trim().into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Of an OCI index or a docker manifest list.
    pub fn is_index(&self) -> bool {
        matches!(self.as_str(), Self::OCI_INDEX | Self::DOCKER_LIST)
    }

    /// Of a manifest of one image (or artifact).
    pub fn is_image(&self) -> bool {
        matches!(self.as_str(), Self::OCI_MANIFEST | Self::DOCKER_MANIFEST)
    }

    pub fn is_manifest(&self) -> bool {
        self.is_index() || self.is_image()
    }

    /// Of docker's first manifest format, which is no longer mirrored.
    pub fn is_schema1(&self) -> bool {
        matches!(self.as_str(), Self::DOCKER_SCHEMA1 | Self::DOCKER_SCHEMA1_SIGNED)
    }

    /// Of a layer that its publisher forbids to distribute; such layers stay at
    /// their `urls` and no registry is given them.
    pub fn is_foreign_layer(&self) -> bool {
        self.as_str().contains(".foreign.") || self.as_str().contains(".nondistributable.")
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
