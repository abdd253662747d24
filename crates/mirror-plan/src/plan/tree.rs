//! An image's manifests inside a plan, their blobs given by place in its table.

use std::collections::BTreeSet;

use oci::{Descriptor, Digest, MediaType, Platform, Tag};
use serde::{Deserialize, Serialize};

use crate::{Attachment, BlobRef, ImageTree, ManifestNode};

/// Where in the plan's table a blob stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobIndex(pub(super) u32);

impl BlobIndex {
    /// # Panics
    /// Never in a table that fits into memory: 2³² blobs take 160 GB.
    pub(super) fn new(place: usize) -> Self {
        Self(u32::try_from(place).expect("a plan has fewer than 2³² blobs"))
    }

    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// An [`ImageTree`] in compact form; [`crate::Plan::tree`] gives the full one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTree {
    pub manifests: Box<[PlannedManifest]>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub left_out: BTreeSet<Digest>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub attachments: Box<[PlannedAttachment]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedManifest {
    pub media_type: MediaType,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub blobs: Box<[BlobIndex]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedAttachment {
    pub subject: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed_as: Option<Descriptor>,
    pub manifests: Box<[PlannedManifest]>,
}

impl PlannedTree {
    pub(super) fn new(tree: ImageTree, mut place: impl FnMut(BlobRef) -> BlobIndex) -> Self {
        let mut compact = |nodes: Vec<ManifestNode>| -> Box<[PlannedManifest]> {
            nodes.into_iter().map(|node| PlannedManifest::new(node, &mut place)).collect()
        };
        Self {
            manifests: compact(tree.manifests),
            left_out: tree.left_out,
            attachments: tree
                .attachments
                .into_iter()
                .map(|attachment| PlannedAttachment {
                    subject: attachment.subject,
                    tag: attachment.tag,
                    listed_as: attachment.listed_as,
                    manifests: compact(attachment.manifests),
                })
                .collect(),
        }
    }

    pub(super) fn expanded(&self, blob: impl Fn(BlobIndex) -> BlobRef) -> ImageTree {
        let expand = |manifests: &[PlannedManifest]| -> Vec<ManifestNode> {
            manifests.iter().map(|manifest| manifest.expanded(&blob)).collect()
        };
        ImageTree {
            manifests: expand(&self.manifests),
            left_out: self.left_out.clone(),
            attachments: self
                .attachments
                .iter()
                .map(|attachment| Attachment {
                    subject: attachment.subject,
                    tag: attachment.tag.clone(),
                    listed_as: attachment.listed_as.clone(),
                    manifests: expand(&attachment.manifests),
                })
                .collect(),
        }
    }

    /// The manifest the image is known by.
    ///
    /// # Panics
    /// Never in a plan that was made or read by this crate.
    pub fn root(&self) -> &PlannedManifest {
        &self.manifests[0]
    }

    /// Every manifest, attached ones included.
    pub fn all_manifests(&self) -> impl Iterator<Item = &PlannedManifest> {
        self.manifests.iter().chain(self.attachments.iter().flat_map(|a| &a.manifests))
    }

    /// Whether a manifest is missing where one must be.
    pub(super) fn is_hollow(&self) -> bool {
        self.manifests.is_empty() || self.attachments.iter().any(|a| a.manifests.is_empty())
    }

    pub(crate) fn blob_indexes(&self) -> impl Iterator<Item = &BlobIndex> {
        self.all_manifests().flat_map(|manifest| &manifest.blobs)
    }

    pub(super) fn blob_indexes_mut(&mut self) -> impl Iterator<Item = &mut BlobIndex> {
        self.manifests
            .iter_mut()
            .chain(self.attachments.iter_mut().flat_map(|a| &mut a.manifests))
            .flat_map(|manifest| &mut manifest.blobs)
    }
}

impl PlannedManifest {
    fn new(node: ManifestNode, place: &mut impl FnMut(BlobRef) -> BlobIndex) -> Self {
        Self {
            media_type: node.media_type,
            digest: node.digest,
            size: node.size,
            platform: node.platform,
            blobs: node.blobs.into_iter().map(place).collect(),
        }
    }

    fn expanded(&self, blob: &impl Fn(BlobIndex) -> BlobRef) -> ManifestNode {
        ManifestNode {
            media_type: self.media_type.clone(),
            digest: self.digest,
            size: self.size,
            platform: self.platform.clone(),
            blobs: self.blobs.iter().map(|index| blob(*index)).collect(),
        }
    }
}
