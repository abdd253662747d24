//! Which images a workspace holds: one record per image, in its layout.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mirror_plan::{ImageRecord, Origin};
use oci::{Digest, MAX_MANIFEST_BYTES, RawManifest};
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::atomic_file::{self, Durability};
use crate::disk_error::{At, DiskError, unless_absent};
use crate::image_directory::ImageDirectory;
use crate::layout::{self, Linked};
use crate::merge::merged;

/// The record's file in an image's layout.
pub(crate) const FILE: &str = "image.json";
/// The largest record that is read.
const MAX_BYTES: u64 = 64 << 20;
const VERSION: u32 = 1;

/// A record on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    version: u32,
    pub(crate) saved: Timestamp,
    pub(crate) image: ImageRecord,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("reading {}: not an image record (remove it and run again: the image is mirrored again)", path.display())]
    Unreadable { path: PathBuf, source: serde_json::Error },
    #[error("{} was written by a newer version of oc-mirror (format {version}): use that one", path.display())]
    Newer { path: PathBuf, version: u32 },
    #[error("{} holds {holds}, which does not belong there (this filesystem may not distinguish upper and lower case; use another, or mirror {wanted} under another name)", path.display())]
    Clash { path: PathBuf, holds: Box<Origin>, wanted: Box<Origin> },
    #[error("the record of {origin} names no manifest")]
    Empty { origin: Box<Origin> },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Workspace {
    /// Saves that an image is held, joined with what is known of it. All its
    /// manifests must be in the blob store by now; its blobs too, when the
    /// record states that. One caller at a time per image.
    ///
    /// # Errors
    ///
    /// The record has no manifest, another image has the same path on this filesystem, or the disk
    /// cannot be written to.
    pub fn save_record(&self, record: &ImageRecord) -> Result<(), RecordError> {
        check(record)?;
        let place = ImageDirectory::of(&record.origin);
        let record = match self.stored(&place)? {
            None => record.clone(),
            Some(held) if ImageDirectory::of(&held.image.origin) != place => {
                return Err(RecordError::Clash {
                    path: self.root().join(place.as_path()),
                    holds: Box::new(held.image.origin),
                    wanted: Box::new(record.origin.clone()),
                });
            }
            Some(held) => {
                let order = self.children_of(&record.tree.root().digest);
                let joined = merged(held.image.clone(), record.clone(), &order);
                if joined == held.image {
                    return Ok(());
                }
                joined
            }
        };
        let linked =
            layout::write(self.root(), place.as_path(), &record, &|to, at| symlink(to, at))?;
        if linked == Linked::Unsupported {
            let (layout, blobs) = (self.root().join(place.as_path()), self.blobs().root());
            tracing::debug!(
                "{} has no link to its blobs: read it with --shared-blob-dir {}",
                layout.display(),
                blobs.display()
            );
        }
        let path = self.root().join(place.as_path()).join(FILE);
        let stored = Stored { version: VERSION, saved: Timestamp::now(), image: record };
        let text = serde_json::to_vec(&stored).map_err(io::Error::other).at("writing", &path)?;
        atomic_file::write(&path, &text, Durability::Later)?;
        Ok(())
    }

    /// What is held of the image from `origin`; `None` if there is no record of it.
    ///
    /// # Errors
    ///
    /// The record exists and cannot be read, or a newer version of oc-mirror wrote it.
    pub fn record(&self, origin: &Origin) -> Result<Option<ImageRecord>, RecordError> {
        Ok(self.record_with_time(origin)?.map(|(record, _)| record))
    }

    /// As [`Workspace::record`], with the time it was saved.
    pub(crate) fn record_with_time(
        &self,
        origin: &Origin,
    ) -> Result<Option<(ImageRecord, Timestamp)>, RecordError> {
        let place = ImageDirectory::of(origin);
        let stored =
            self.stored(&place)?.filter(|held| ImageDirectory::of(&held.image.origin) == place);
        let with_origin = |image| ImageRecord { origin: origin.clone(), ..image };
        Ok(stored.map(|held| (with_origin(held.image), held.saved)))
    }

    /// All images that are held, sorted by where they are, one at a time.
    pub fn records(&self) -> Result<Records, DiskError> {
        let mut found = Vec::new();
        find(&self.root().join("images"), &mut found)?;
        found.sort();
        Ok(Records { root: self.root().to_owned(), found: found.into_iter() })
    }

    /// The directory of an image's layout.
    pub fn layout_of(&self, origin: &Origin) -> PathBuf {
        self.root().join(ImageDirectory::of(origin).as_path())
    }

    fn stored(&self, place: &ImageDirectory) -> Result<Option<Stored>, RecordError> {
        load(&self.root().join(place.as_path()).join(FILE))
    }

    /// The manifests that an index lists; none if it is not an index or not here.
    fn children_of(&self, root: &Digest) -> Vec<Digest> {
        let bytes = self.blobs().read(root, MAX_MANIFEST_BYTES).ok();
        let manifest = bytes.and_then(|bytes| RawManifest::new(None, bytes).ok()?.parse().ok());
        let children = manifest.iter().flat_map(|manifest| manifest.children());
        children.map(|child| child.digest).collect()
    }
}

/// The records of a workspace.
#[derive(Debug)]
pub struct Records {
    root: PathBuf,
    found: std::vec::IntoIter<PathBuf>,
}

impl Records {
    /// How many are still to come.
    pub fn remaining(&self) -> usize {
        self.found.len()
    }

    /// The next record, when it was saved, and its file.
    pub(crate) fn next_stored(&mut self) -> Option<(PathBuf, Result<Stored, RecordError>)> {
        loop {
            let path = self.found.next()?;
            let stored = load(&path).and_then(|stored| match stored {
                Some(stored) => self.in_its_place(&path, stored).map(Some),
                None => Ok(None),
            });
            // Gone since the directory was read: not held, and no error.
            if let Some(result) = stored.transpose() {
                return Some((path, result));
            }
        }
    }

    fn in_its_place(&self, path: &Path, stored: Stored) -> Result<Stored, RecordError> {
        let own = self.root.join(ImageDirectory::of(&stored.image.origin).as_path()).join(FILE);
        if own == path {
            return Ok(stored);
        }
        let origin = Box::new(stored.image.origin);
        Err(RecordError::Clash { path: path.to_owned(), holds: origin.clone(), wanted: origin })
    }
}

impl Iterator for Records {
    type Item = Result<ImageRecord, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (_, stored) = self.next_stored()?;
        Some(stored.map(|stored| stored.image))
    }
}

/// Refuses records no other code could work with.
pub(crate) fn check(record: &ImageRecord) -> Result<(), RecordError> {
    let attached = record.tree.attachments.iter().all(|it| !it.manifests.is_empty());
    if record.tree.manifests.is_empty() || !attached {
        return Err(RecordError::Empty { origin: Box::new(record.origin.clone()) });
    }
    Ok(())
}

fn load(path: &Path) -> Result<Option<Stored>, RecordError> {
    let Some(file) = unless_absent(fs::File::open(path)).at("reading", path)? else {
        return Ok(None);
    };
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).at("reading", path)?;
    let unreadable = |source| RecordError::Unreadable { path: path.to_owned(), source };
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = serde_json::from_slice(&text).map_err(unreadable)?;
    if version > VERSION {
        return Err(RecordError::Newer { path: path.to_owned(), version });
    }
    let stored: Stored = serde_json::from_slice(&text).map_err(unreadable)?;
    check(&stored.image)?;
    Ok(Some(stored))
}

/// Collects the record files below `directory`, without following links.
fn find(directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), DiskError> {
    let Some(entries) = unless_absent(fs::read_dir(directory)).at("reading", directory)? else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry.at("reading", directory)?;
        let kind = entry.file_type().at("reading", directory)?;
        if kind.is_dir() {
            find(&entry.path(), found)?;
        } else if kind.is_file() && entry.file_name() == FILE {
            found.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use oci::MediaType;

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        (dir, workspace)
    }

    fn all(workspace: &Workspace) -> Vec<String> {
        let records = workspace.records().unwrap();
        records.map(|record| record.unwrap().origin.to_string()).collect()
    }

    #[test]
    fn what_was_saved_is_listed_sorted_and_found_by_its_origin() {
        let (_dir, workspace) = workspace();
        assert_eq!(all(&workspace), Vec::<String>::new());
        for reference in ["q.io/b:2", "q.io/b:1", "q.io/a/b:1", "a.io:5000/x"] {
            let record = sample::image(workspace.blobs(), reference, reference.as_bytes());
            assert_eq!(workspace.record(&record.origin).unwrap(), None);
            workspace.save_record(&record).unwrap();
            assert_eq!(workspace.record(&record.origin).unwrap(), Some(record));
        }
        assert_eq!(all(&workspace), ["a.io:5000/x", "q.io/a/b:1", "q.io/b:1", "q.io/b:2"]);
    }

    #[test]
    fn two_configurations_with_other_platforms_share_one_image() {
        let (_dir, workspace) = workspace();
        let blobs = workspace.blobs();
        let node = |layer: &[u8]| sample::manifest(blobs, MediaType::OCI_MANIFEST, layer);
        let (arm, amd) = (node(b"arm"), node(b"amd"));
        let root = sample::index(blobs, &[&arm, &amd]);
        let mut first = sample::record("q.io/a:1", vec![root.clone(), amd.clone()]);
        first.tree.left_out.insert(arm.digest);
        let mut second = sample::record("q.io/a:1", vec![root.clone(), arm.clone()]);
        second.tree.left_out.insert(amd.digest);
        workspace.save_record(&first).unwrap();
        workspace.save_record(&second).unwrap();
        let wanted = sample::record("q.io/a:1", vec![root, arm, amd]);
        assert_eq!(workspace.record(&first.origin).unwrap(), Some(wanted));
    }

    #[test]
    fn saving_what_is_known_writes_nothing() {
        let (_dir, workspace) = workspace();
        let record = sample::image(workspace.blobs(), "q.io/a:1", b"layer");
        workspace.save_record(&record).unwrap();
        let path = workspace.layout_of(&record.origin).join(FILE);
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        workspace.save_record(&record).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
    }

    #[test]
    fn a_layout_without_its_record_is_not_held() {
        let (_dir, workspace) = workspace();
        let record = sample::image(workspace.blobs(), "q.io/a:1", b"layer");
        workspace.save_record(&record).unwrap();
        fs::remove_file(workspace.layout_of(&record.origin).join(FILE)).unwrap();
        assert_eq!(workspace.record(&record.origin).unwrap(), None);
        assert_eq!(all(&workspace), Vec::<String>::new());
    }

    #[test]
    fn records_that_are_damaged_newer_misplaced_or_empty_are_named() {
        let (_dir, workspace) = workspace();
        let record = sample::image(workspace.blobs(), "q.io/a:1", b"layer");
        workspace.save_record(&record).unwrap();
        let path = workspace.layout_of(&record.origin).join(FILE);
        let good = fs::read_to_string(&path).unwrap();
        for (text, wanted) in [
            (String::new(), "not an image record"),
            (r#"{"version":99}"#.to_owned(), "newer version"),
            (good.replace("q.io/a:1", "q.io/A"), "not an image record"),
            (good.replace("q.io/a:1", "q.io/b:1"), "does not belong there"),
        ] {
            fs::write(&path, text).unwrap();
            let error = workspace.records().unwrap().next().unwrap().unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains("image.json"), "{error}");
        }
        // Still the last text: another image has our place, as on a
        // filesystem that does not distinguish `a` from `A`.
        assert_eq!(workspace.record(&record.origin).unwrap(), None);
        let error = workspace.save_record(&record).unwrap_err().to_string();
        assert!(error.contains("q.io/b:1") && error.contains("q.io/a:1"), "{error}");
        let empty = sample::record("q.io/a:2", Vec::new());
        assert!(matches!(workspace.save_record(&empty), Err(RecordError::Empty { .. })));
    }
}
