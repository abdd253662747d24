//! Reads every byte of a workspace and compares it with its digest. Reads only, so a server or
//! another reader may use the workspace at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use mirror_plan::{ImageRecord, Origin};
use oci::Digest;

use crate::Workspace;
use crate::archive::{ArchiveFinding, ArchiveSeverity, Archives, OpenError};
use crate::blob_reader::BlobReader;
use crate::disk_error::{At, DiskError, unless_absent};
use crate::workers;

/// What was found.
#[derive(Debug, Default)]
pub struct Verification {
    /// Files of content that were read, and their bytes; those of archives included.
    pub blobs: usize,
    pub bytes: u64,
    /// Images whose content was looked for.
    pub images: usize,
    /// Content that is missing or wrong, by digest.
    pub damaged: Vec<DamagedBlob>,
    /// Records that cannot be read, with the reason.
    pub records: Vec<(PathBuf, String)>,
    /// What is wrong with the archives in the directory.
    pub archives: Vec<ArchiveFinding>,
}

/// Content that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedBlob {
    pub digest: Digest,
    pub damage: Damage,
    /// What needs it. Nothing: it can be removed.
    pub needed_by: Vec<Need>,
}

/// What content is needed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    Image(Origin),
    /// A document below `working-dir`, such as an update graph.
    Document(String),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(origin) => origin.fmt(f),
            Self::Document(name) => write!(f, "the document {name}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("missing")]
    Missing,
    #[error("its content has the digest {0}")]
    Content(Digest),
    #[error("not readable: {0}")]
    Unreadable(String),
}

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(
        "{} is not a workspace: expected blobs, images and working-dir, or archives named mirror_NNNNNN.tar, in it",
        .0.display()
    )]
    NotAWorkspace(PathBuf),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Verification {
    /// Whether every byte is as it was written and everything recorded is there.
    pub fn is_sound(&self) -> bool {
        let minor = |finding: &ArchiveFinding| finding.severity() == ArchiveSeverity::Note;
        self.damaged.is_empty() && self.records.is_empty() && self.archives.iter().all(minor)
    }
}

impl Workspace {
    /// Whether the directory holds a workspace, as opposed to anything else or nothing.
    pub fn exists(&self) -> bool {
        self.working_dir().is_dir() && (self.blobs().root().is_dir() || self.runs_dir().is_dir())
    }

    /// Checks all content, records and archives. `progress` is called from several threads with the
    /// bytes that are done and their total.
    ///
    /// # Errors
    ///
    /// A directory that is neither a workspace nor holds archives, or cannot be listed. Damage is
    /// not an error, it is the result.
    pub fn verify(
        &self,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Verification, VerifyError> {
        let archives = match Archives::open(self.root()) {
            Ok(archives) => Some(archives),
            Err(OpenError::None(_)) if self.exists() => None,
            Err(OpenError::None(directory)) => {
                return Err(VerifyError::NotAWorkspace(directory));
            }
            Err(OpenError::Disk(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err(VerifyError::NotAWorkspace(self.root().to_owned()));
            }
            Err(OpenError::Disk(error)) => return Err(error.into()),
        };
        let mut found = Verification::default();
        let needs = self.needs(&mut found)?;
        let held = self.held()?;
        let of_archives = archives.as_ref().map_or(0, Archives::bytes_to_verify);
        let total = held.iter().map(|(_, size)| size).sum::<u64>() + of_archives;
        let done = AtomicU64::new(0);
        let moved = |bytes: u64| progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes, total);
        let damage = workers::map(&held, workers::processors(), |(digest, _)| {
            check(&self.blobs().path(digest), digest, &moved)
        });
        let damage = held
            .iter()
            .zip(damage)
            .filter_map(|((digest, _), damage)| damage.map(|damage| (*digest, damage)));
        let mut damaged: BTreeMap<Digest, Damage> = damage.collect();
        let here: BTreeSet<Digest> = held.iter().map(|(digest, _)| *digest).collect();
        for digest in needs.keys().filter(|digest| !here.contains(digest)) {
            // It may have arrived since the directory was listed.
            if self.blobs().size(digest)?.is_none() {
                damaged.insert(*digest, Damage::Missing);
            }
        }
        found.blobs = held.len();
        found.damaged = damaged
            .into_iter()
            .map(|(digest, damage)| {
                let needed_by = needs.get(&digest).cloned().unwrap_or_default();
                DamagedBlob { digest, damage, needed_by }
            })
            .collect();
        if let Some(archives) = archives {
            let before = done.load(Ordering::Relaxed);
            found.archives = archives.findings().to_vec();
            found.archives.extend(archives.verify(&|bytes| progress(before + bytes, total)));
            found.archives.sort();
            found.archives.dedup();
            let of_runs = archives.indexes().flat_map(crate::archive::Index::own_blobs);
            found.blobs += of_runs.count();
        }
        found.bytes = total;
        Ok(found)
    }

    /// All content that recorded images need, and which images.
    fn needs(&self, found: &mut Verification) -> Result<BTreeMap<Digest, Vec<Need>>, DiskError> {
        let mut needs: BTreeMap<Digest, Vec<Need>> = BTreeMap::new();
        for (name, document) in self.documents()? {
            needs.entry(document.blob.digest).or_default().push(Need::Document(name));
        }
        let mut records = self.records()?;
        while let Some((path, stored)) = records.next_stored() {
            match stored {
                Ok(stored) => {
                    found.images += 1;
                    for digest in content(&stored.image) {
                        let need = Need::Image(stored.image.origin.clone());
                        needs.entry(digest).or_default().push(need);
                    }
                }
                Err(error) => found.records.push((path, error.to_string())),
            }
        }
        Ok(needs)
    }

    /// The files of the blob store with their lengths, sorted.
    pub(crate) fn held(&self) -> Result<Vec<(Digest, u64)>, DiskError> {
        let directory = self.blobs().root().join("sha256");
        let entries = unless_absent(fs::read_dir(&directory)).at("reading", &directory)?;
        let mut held = Vec::new();
        for entry in entries.into_iter().flatten() {
            let entry = entry.at("reading", &directory)?;
            let name = entry.file_name();
            let digest = name.to_str().and_then(|hex| format!("sha256:{hex}").parse().ok());
            let (Some(digest), Ok(meta)) = (digest, entry.metadata()) else { continue };
            held.push((digest, meta.len()));
        }
        held.sort_unstable();
        Ok(held)
    }
}

/// What an image needs in the blob store: its manifests, and its blobs unless they went straight
/// to a registry.
pub(crate) fn content(record: &ImageRecord) -> BTreeSet<Digest> {
    let manifests = record.tree.all_manifests().map(|node| node.digest);
    let blobs = record.blobs_held.then(|| record.tree.blobs()).into_iter().flatten();
    manifests.chain(blobs.map(|(digest, _)| digest)).collect()
}

fn check(path: &Path, digest: &Digest, moved: &dyn Fn(u64)) -> Option<Damage> {
    match hash(path, moved) {
        Ok(got) if got == *digest => None,
        Ok(got) => Some(Damage::Content(got)),
        // Removed since the directory was listed; whether it is needed is checked later.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Damage::Unreadable(error.to_string())),
    }
}

fn hash(path: &Path, moved: &dyn Fn(u64)) -> io::Result<Digest> {
    BlobReader::of_file(File::open(path)?)?.hash(moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn two_images() -> (tempfile::TempDir, Workspace, [ImageRecord; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        workspace.lock(&[]).unwrap();
        let records = [("q.io/a:1", &b"layer a"[..]), ("q.io/b:1", b"layer b")]
            .map(|(name, layer)| sample::image(workspace.blobs(), name, layer));
        for record in &records {
            workspace.save_record(record).unwrap();
        }
        (dir, workspace, records)
    }

    #[test]
    fn damage_is_found_with_the_images_that_need_the_content() {
        let (_dir, workspace, [a, b]) = two_images();
        let sound = workspace.verify(&|_, _| {}).unwrap();
        assert!(sound.is_sound(), "{sound:?}");
        assert_eq!((sound.images, sound.blobs), (2, 6));
        fs::write(workspace.blobs().path(&Digest::of(b"layer a")), b"lAyer a").unwrap();
        fs::remove_file(workspace.blobs().path(&Digest::of(b"layer b"))).unwrap();
        let found = workspace.verify(&|_, _| {}).unwrap();
        assert!(!found.is_sound());
        let mut expected = [
            (Digest::of(b"layer a"), Damage::Content(Digest::of(b"lAyer a")), a.origin),
            (Digest::of(b"layer b"), Damage::Missing, b.origin),
        ];
        expected.sort_by_key(|(digest, _, _)| *digest);
        let damaged = found.damaged.iter().map(|blob| {
            let [Need::Image(needed_by)] = &blob.needed_by[..] else { panic!("{blob:?}") };
            (blob.digest, blob.damage.clone(), needed_by.clone())
        });
        assert_eq!(damaged.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_reported() {
        let (_dir, workspace, [a, _]) = two_images();
        fs::write(workspace.layout_of(&a.origin).join("image.json"), b"{").unwrap();
        let found = workspace.verify(&|_, _| {}).unwrap();
        assert_eq!(found.records.len(), 1);
        assert!(!found.is_sound());
    }

    #[test]
    fn content_of_no_image_is_checked_too_and_progress_reaches_the_end() {
        let (_dir, workspace, _) = two_images();
        let path = workspace.blobs().path(&Digest::of(b"none"));
        fs::write(path, b"something").unwrap();
        let last = std::sync::Mutex::new((0, 0));
        let found = workspace.verify(&|done, of| {
            let mut last = last.lock().unwrap();
            *last = (done.max(last.0), of);
        });
        let found = found.unwrap();
        assert_eq!(found.damaged.len(), 1);
        assert!(found.damaged[0].needed_by.is_empty());
        let (done, of) = *last.lock().unwrap();
        assert_eq!((done, of), (found.bytes, found.bytes));
    }

    #[test]
    fn a_directory_that_is_not_a_workspace_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for directory in [dir.path().to_owned(), dir.path().join("absent")] {
            let error = Workspace::open(&directory).verify(&|_, _| {}).unwrap_err();
            assert!(matches!(error, VerifyError::NotAWorkspace(_)), "{error}");
        }
    }
}
