//! Reads an image from an OCI layout on disk (`oci://path`).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use mirror_plan::{ImageTree, ManifestNode};
use oci::{
    Descriptor, Digest, MAX_MANIFEST_BYTES, ManifestError, Platform, RawManifest, referrers_index,
};
use serde::Deserialize;

use super::registry_tree::{CollectError, node};
use super::selection::select_from;
use crate::fault::{EngineError, Fault};

/// A directory with `index.json` and `blobs/sha256/`.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    path: PathBuf,
}

/// Why a layout cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    #[error("{}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is too large for a manifest", .0.display())]
    Large(PathBuf),
    #[error("its index.json is not an index")]
    Index(#[from] serde_json::Error),
    #[error("its index.json lists no image")]
    Empty,
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{0} has other content than its digest")]
    Digest(Digest),
}

impl EngineError for LayoutError {
    fn fault(&self) -> Fault {
        match self {
            Self::Read { .. } => Fault::Disk,
            Self::Large(_) | Self::Index(_) | Self::Empty | Self::Manifest(_) | Self::Digest(_) => {
                Fault::Content
            }
        }
    }
}

#[derive(Deserialize)]
struct TopIndex {
    manifests: Vec<Descriptor>,
}

impl Layout {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The image of this layout and its manifests. A layout with several
    /// top-level manifests becomes one list of them.
    pub(crate) fn tree(
        &self,
        platforms: &[Platform],
    ) -> Result<(ImageTree, Vec<RawManifest>), CollectError> {
        let text = self.read(&self.path.join("index.json"))?;
        let top: TopIndex = serde_json::from_slice(&text).map_err(|e| self.error(e))?;
        let root = match top.manifests.as_slice() {
            [] => return Err(self.error(LayoutError::Empty)),
            [one] => self.manifest(one)?,
            // Without the names of the tags: these are the layout's, not the image's.
            many => referrers_index(
                many.iter()
                    .map(|d| Descriptor { annotations: Default::default(), ..d.clone() })
                    .collect(),
            ),
        };
        let mut raws = vec![root];
        let mut manifests: Vec<ManifestNode> = Vec::new();
        let mut left_out = BTreeSet::new();
        let mut pending = vec![(0, None)];
        while let Some((at, platform)) = pending.pop() {
            let parsed = raws[at].parse().map_err(|e| self.error(e))?;
            let selection = select_from(&parsed, platforms)?;
            left_out.extend(selection.left_out);
            manifests.push(node(&raws[at], &parsed, platform));
            for child in selection.taken.into_iter().rev() {
                if raws.iter().any(|raw| raw.digest == child.digest) {
                    continue;
                }
                raws.push(self.manifest(child)?);
                pending.push((raws.len() - 1, child.platform.clone()));
            }
        }
        Ok((ImageTree { manifests, left_out, attachments: Vec::new() }, raws))
    }

    /// A blob's file.
    pub(crate) fn open(&self, digest: &Digest) -> std::io::Result<File> {
        File::open(self.blob_path(digest))
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.path.join("blobs").join("sha256").join(digest.hex())
    }

    /// A manifest by its digest alone.
    pub(crate) fn manifest_of(&self, digest: &Digest) -> Result<RawManifest, CollectError> {
        let bytes = self.read(&self.blob_path(digest))?;
        let raw = RawManifest::new(None, bytes).map_err(|e| self.error(e))?;
        match raw.digest == *digest {
            true => Ok(raw),
            false => Err(self.error(LayoutError::Digest(*digest))),
        }
    }

    fn manifest(&self, listed: &Descriptor) -> Result<RawManifest, CollectError> {
        let bytes = self.read(&self.blob_path(&listed.digest))?;
        let raw =
            RawManifest::new(Some(listed.media_type.as_str()), bytes).map_err(|e| self.error(e))?;
        if raw.digest != listed.digest {
            return Err(self.error(LayoutError::Digest(listed.digest)));
        }
        Ok(raw)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, CollectError> {
        let fail = |source| self.error(LayoutError::Read { path: path.to_owned(), source });
        let size = fs::metadata(path).map_err(fail)?.len();
        if size > MAX_MANIFEST_BYTES {
            return Err(self.error(LayoutError::Large(path.to_owned())));
        }
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_MANIFEST_BYTES).read_to_end(&mut bytes))
            .map_err(fail)?;
        Ok(bytes)
    }

    fn error(&self, source: impl Into<LayoutError>) -> CollectError {
        CollectError::Layout { path: self.path.clone(), source: source.into() }
    }
}
