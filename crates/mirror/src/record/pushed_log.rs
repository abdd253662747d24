//! What earlier runs brought to a target, so that one question per image is
//! enough to know that it is still whole there.
//!
//! The log alone is never believed: a target may be made anew. It says only
//! that everything below a root manifest went along with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use mirror_plan::ImageTree;
use oci::{Digest, Hasher, ImageRef, RegistryHost};
use serde::{Deserialize, Serialize};
use workspace::atomic_file::{self, Durability};
use workspace::{DiskError, Workspace};

/// The log of one target registry.
#[derive(Debug)]
pub(crate) struct Pushed {
    path: PathBuf,
    images: BTreeMap<String, Digest>,
    changed: bool,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    images: BTreeMap<String, Digest>,
}

impl Pushed {
    /// The log for `registry`; empty when there is none or it cannot be read,
    /// which costs questions and no more.
    pub(crate) fn open(workspace: &Workspace, registry: &RegistryHost) -> Self {
        let name = format!("{}.json", registry.as_str().replace(':', "_"));
        let path = workspace.working_dir().join("targets").join(name);
        let read = fs::read(&path).ok();
        let document = read.and_then(|text| serde_json::from_slice::<Document>(&text).ok());
        let images = document.filter(|d| d.version == 1).map(|d| d.images).unwrap_or_default();
        Self { path, images, changed: false }
    }

    /// Whether `tree`, all of it, was brought to `destination` before.
    pub(crate) fn has(&self, destination: &ImageRef, tree: &ImageTree) -> bool {
        self.images.get(&destination.to_string()) == Some(&fingerprint(tree))
    }

    pub(crate) fn insert(&mut self, destination: &ImageRef, tree: &ImageTree) {
        let known = self.images.insert(destination.to_string(), fingerprint(tree));
        self.changed |= known != Some(fingerprint(tree));
    }

    pub(crate) fn save(&self) -> Result<(), DiskError> {
        if !self.changed {
            return Ok(());
        }
        let document = Document { version: 1, images: self.images.clone() };
        let text = serde_json::to_vec_pretty(&document).unwrap_or_default();
        atomic_file::write(&self.path, &text, Durability::Later)
    }
}

/// One digest for all manifests of a tree and where they go.
fn fingerprint(tree: &ImageTree) -> Digest {
    let mut hasher = Hasher::new();
    for node in &tree.manifests {
        hasher.update(format!("{}\n", node.digest).as_bytes());
    }
    for attachment in &tree.attachments {
        let tag = attachment.tag.as_ref().map(ToString::to_string).unwrap_or_default();
        hasher.update(format!("{} {tag}\n", attachment.subject).as_bytes());
        for node in &attachment.manifests {
            hasher.update(format!("{}\n", node.digest).as_bytes());
        }
    }
    hasher.finish()
}
