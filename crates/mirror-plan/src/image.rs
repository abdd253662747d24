//! An image as it is requested, and its content: everything that must arrive for it
//! to be complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use oci::{Descriptor, Digest, ImageRef, MediaType, Platform, Repository, Tag};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Destination;

/// Why an image is mirrored. Decides its name at the destination, the cluster
/// resources that mention it, and the exit bit when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    ReleasePayload,
    ReleaseComponent,
    KubeVirt,
    Graph,
    Catalog,
    Bundle,
    RelatedImage,
    Additional,
    /// An image that a Helm chart uses.
    Helm,
    /// A Helm chart itself.
    Chart,
}

/// The bits of the exit code, one per kind of content that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(pub u8);

impl Exit {
    pub const GENERIC: Self = Self(1);
    pub const RELEASE: Self = Self(2);
    pub const OPERATOR: Self = Self(4);
    pub const ADDITIONAL: Self = Self(8);
    pub const HELM: Self = Self(16);
}

impl Kind {
    pub fn exit(self) -> Exit {
        match self {
            Self::ReleasePayload | Self::ReleaseComponent | Self::KubeVirt | Self::Graph => {
                Exit::RELEASE
            }
            Self::Catalog | Self::Bundle | Self::RelatedImage => Exit::OPERATOR,
            Self::Additional => Exit::ADDITIONAL,
            Self::Helm | Self::Chart => Exit::HELM,
        }
    }
}

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// A registry.
    Registry(ImageRef),
    /// An OCI layout on disk (`oci://path`).
    Layout(PathBuf),
    /// Nowhere else: made by this program, under the name it gets below any
    /// registry. What it consists of is in the workspace.
    Made(Repository),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(image) => image.fmt(f),
            Self::Layout(path) => write!(f, "oci://{}", path.display()),
            Self::Made(name) => write!(f, "made:{name}"),
        }
    }
}

/// One image that the configuration selects. Collectors make these; all later
/// stages work on them alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wanted {
    pub kind: Kind,
    pub origin: Origin,
    /// Repository at the destination, where it is not the origin's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_repository: Option<Repository>,
    /// Tag at the destination, where it is not the origin's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_tag: Option<Tag>,
    /// Which images of an index to take; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
}

/// A blob and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlobRef {
    pub digest: Digest,
    pub size: u64,
}

/// A manifest and the blobs it needs. The bytes are kept elsewhere, by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestNode {
    pub media_type: MediaType,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Config and layers; empty for an index.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "exact_list")]
    pub blobs: Vec<BlobRef>,
}

/// Something that belongs to a manifest: a signature, an attestation, an SBOM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The manifest it belongs to.
    pub subject: Digest,
    /// Cosign's tag (`sha256-<hex>.sig`), or `None` for an OCI referrer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
    /// How an index of referrers lists it; for referrers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed_as: Option<Descriptor>,
    /// Its manifest first; if that is an index, then its children.
    #[serde(deserialize_with = "exact_list")]
    pub manifests: Vec<ManifestNode>,
}

/// A whole image: an index and its manifests, or one manifest, with what is attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageTree {
    /// The root first, then (for an index) the manifests below it, in its order.
    #[serde(deserialize_with = "exact_list")]
    pub manifests: Vec<ManifestNode>,
    /// Manifests the root lists that the platforms filter leaves out: with any
    /// of these the image is a sparse list at the destination.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub left_out: BTreeSet<Digest>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "exact_list")]
    pub attachments: Vec<Attachment>,
}

/// Reads a list that takes no more memory than its items. A list that grows while it is read has room
/// for four items at least, which is three manifests too many for most of many thousand images.
pub fn exact_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let mut list = Vec::deserialize(deserializer)?;
    list.shrink_to_fit();
    Ok(list)
}

impl ImageTree {
    /// The manifest the image is known by.
    ///
    /// # Panics
    /// Never for a tree made by a collector: those start with the root.
    pub fn root(&self) -> &ManifestNode {
        &self.manifests[0]
    }

    /// Every manifest, attached ones included.
    pub fn all_manifests(&self) -> impl Iterator<Item = &ManifestNode> {
        self.manifests.iter().chain(self.attachments.iter().flat_map(|a| &a.manifests))
    }

    /// Every blob with its size, each once: config and layers of every manifest.
    pub fn blobs(&self) -> BTreeMap<Digest, u64> {
        self.all_manifests()
            .flat_map(|manifest| &manifest.blobs)
            .map(|blob| (blob.digest, blob.size))
            .collect()
    }
}

/// An image that a workspace or an archive holds, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRecord {
    pub origin: Origin,
    pub kind: Kind,
    pub tree: ImageTree,
    /// Whether the blobs are held too, or only manifests (after mirror to mirror).
    pub blobs_held: bool,
    /// Attachments were not requested: the run omits them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attachments_unknown: bool,
    /// What configurations call it, below any registry: the names under which
    /// it is pushed and served.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub names: BTreeSet<Destination>,
}
