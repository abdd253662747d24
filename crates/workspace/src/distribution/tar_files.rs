//! The archives of oc-mirror v2: tar files with a part of its cache and its whole working
//! directory. Scanned once, by their headers; nothing is extracted.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use mirror_plan::Destination;
use oci::{Digest, Repository, Tag};

use crate::blob_reader::{BlobReader, Extent};

const STORAGE: &str = "docker/registry/v2/";
const WORKING_DIR: &str = "working-dir/";
const CONFIGURATION: &str = "isc_";
const BLOCK: u64 = 512;
/// Two empty blocks end a tar file.
const TRAILER: u64 = 2 * BLOCK;
const MAX_LINK: u64 = 128;
/// Folders and files below `working-dir` that images are selected by. The rest are logs, generated
/// files, and copies of what the images contain.
const DOCUMENTS: [&str; 6] = [
    "hold-release/",
    "signatures/",
    "helm/charts/",
    "helm/indexes/",
    "isc_pinned_",
    "internal/oc-mirror-version.json",
];

/// What all tar files of a directory contain.
#[derive(Debug, Default)]
pub struct TarFiles {
    paths: Vec<PathBuf>,
    blobs: BTreeMap<Digest, FilePosition>,
    tags: BTreeMap<Destination, Digest>,
    documents: BTreeMap<String, FilePosition>,
}

/// A file inside of a tar file.
#[derive(Debug, Clone)]
struct FilePosition {
    tar: usize,
    extent: Extent,
}

/// Something that is wrong with a tar file. Nothing of it is used then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TarProblem {
    pub file: PathBuf,
    pub reason: String,
}

impl fmt::Display for TarProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, reason } = self;
        write!(f, "{} is not a complete archive of oc-mirror v2: {reason}", file.display())
    }
}

impl TarFiles {
    /// Scans these files. Of each that is wrong, the problem is returned.
    pub fn scan(paths: &[PathBuf]) -> (Self, Vec<TarProblem>) {
        let mut files = Self::default();
        let mut problems = Vec::new();
        for path in paths {
            if let Err(error) = files.add(path) {
                problems.push(TarProblem { file: path.clone(), reason: error.to_string() });
            }
        }
        (files, problems)
    }

    /// Whether an entry of this name is one of oc-mirror v2.
    pub(crate) fn is_entry(name: &str) -> bool {
        [STORAGE, WORKING_DIR, CONFIGURATION].iter().any(|start| name.starts_with(start))
    }

    fn add(&mut self, path: &Path) -> io::Result<()> {
        let file = Arc::new(File::open(path)?);
        let length = file.metadata()?.len();
        let tar = self.paths.len();
        let mut found = Found::default();
        let mut end = 0;
        let mut archive = tar::Archive::new(Positioned { file: Arc::clone(&file), position: 0 });
        for entry in archive.entries_with_seek()? {
            let damaged = |error: io::Error| {
                io::Error::other(format!("it is truncated or damaged: {error}; copy it again"))
            };
            let entry = entry.map_err(damaged)?;
            let (start, size) = (entry.raw_file_position(), entry.size());
            let stop = start.checked_add(size.div_ceil(BLOCK).saturating_mul(BLOCK));
            let Some(stop) = stop.filter(|_| start.saturating_add(size) <= length) else {
                return Err(io::Error::other(format!(
                    "it is truncated: it ends in the middle of {:?}; copy it again",
                    String::from_utf8_lossy(&entry.path_bytes())
                )));
            };
            end = stop.max(end);
            if entry.header().entry_type().is_gnu_sparse() {
                return Err(io::Error::other("it has a sparse file, which no archive has"));
            }
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let extent = Extent { file: Arc::clone(&file), start, length: size };
            found.add(&name, FilePosition { tar, extent })?;
        }
        if length < end.saturating_add(TRAILER) {
            return Err(io::Error::other(
                "it is truncated: the end of the tar file is missing; copy it again",
            ));
        }
        self.paths.push(path.to_owned());
        self.tags.extend(found.tags);
        for (digest, placed) in found.blobs {
            self.blobs.entry(digest).or_insert(placed);
        }
        self.documents.extend(found.documents);
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub(super) fn blob(&self, digest: &Digest) -> Option<BlobReader> {
        self.blobs.get(digest).map(|placed| BlobReader::new([placed.extent.clone()].into()))
    }

    pub(super) fn file_of(&self, digest: &Digest) -> Option<&Path> {
        self.blobs.get(digest).map(|placed| self.paths[placed.tar].as_path())
    }

    pub(super) fn tag(&self, name: &Destination) -> Option<Digest> {
        self.tags.get(name).copied()
    }

    pub(super) fn document(&self, name: &str) -> Option<BlobReader> {
        self.documents.get(name).map(|placed| BlobReader::new([placed.extent.clone()].into()))
    }

    pub(super) fn document_names(&self) -> impl Iterator<Item = &String> {
        self.documents.keys()
    }

    /// The digests of all blobs.
    pub fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.blobs.keys()
    }
}

/// What one tar file has.
#[derive(Debug, Default)]
struct Found {
    blobs: BTreeMap<Digest, FilePosition>,
    tags: BTreeMap<Destination, Digest>,
    documents: BTreeMap<String, FilePosition>,
}

impl Found {
    /// Takes note of an entry, if its name is one that counts. Nothing is ever written under a name
    /// from an archive, so a hostile one is an entry that is not used.
    fn add(&mut self, name: &str, placed: FilePosition) -> io::Result<()> {
        if let Some(inside) = name.strip_prefix(STORAGE) {
            if let Some(digest) = stored_blob(inside) {
                self.blobs.insert(digest, placed);
            } else if let Some(tag) = tag_link(inside)
                && placed.extent.length <= MAX_LINK
            {
                let mut text = String::new();
                BlobReader::new([placed.extent].into()).read_to_string(&mut text)?;
                if let Ok(digest) = text.trim().parse() {
                    self.tags.insert(tag, digest);
                }
            }
        } else if let Some(inside) = name.strip_prefix(WORKING_DIR) {
            // Catalogs and payloads are also there, as OCI layouts.
            if let Some(digest) = layout_blob(inside) {
                self.blobs.entry(digest).or_insert(placed);
            } else if is_document(inside) {
                self.documents.insert(inside.to_owned(), placed);
            }
        }
        Ok(())
    }
}

/// `blobs/sha256/ab/abcd…/data`
fn stored_blob(inside: &str) -> Option<Digest> {
    let rest = inside.strip_prefix("blobs/sha256/")?.strip_suffix("/data")?;
    let (first, hex) = rest.split_once('/')?;
    let digest = Digest::from_hex(hex).ok()?;
    hex.starts_with(first).then_some(digest).filter(|_| first.len() == 2)
}

/// `repositories/NAME/_manifests/tags/TAG/current/link`
fn tag_link(inside: &str) -> Option<Destination> {
    let rest = inside.strip_prefix("repositories/")?.strip_suffix("/current/link")?;
    let (repository, tag) = rest.split_once("/_manifests/tags/")?;
    let repository: Repository = repository.parse().ok()?;
    let tag: Tag = tag.parse().ok()?;
    Some(Destination { repository, tag })
}

/// `…/blobs/sha256/abcd…`
fn layout_blob(inside: &str) -> Option<Digest> {
    let (folder, hex) = inside.rsplit_once('/')?;
    let in_layout = folder.ends_with("/blobs/sha256");
    in_layout.then(|| Digest::from_hex(hex).ok()).flatten()
}

/// Whether a file below `working-dir` is one that images are selected by.
pub(super) fn is_document(name: &str) -> bool {
    DOCUMENTS.iter().any(|start| name.starts_with(start)) && is_plain(name)
}

fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    parts.all(|part| matches!(part, Component::Normal(_))) && !name.contains(['\\', '\0'])
}

/// Reads a shared file from a position of its own.
struct Positioned {
    file: Arc<File>,
    position: u64,
}

impl Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Positioned {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
            SeekFrom::End(offset) => self.file.metadata()?.len().checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_layout_count() {
        let hex = "ab".repeat(32);
        let digest = Digest::from_hex(&hex).unwrap();
        assert_eq!(stored_blob(&format!("blobs/sha256/ab/{hex}/data")), Some(digest));
        for name in [
            format!("blobs/sha256/ac/{hex}/data"),
            format!("blobs/sha256//{hex}/data"),
            format!("blobs/sha256/ab/{hex}/data/data"),
            format!("blobs/sha256/ab/../{hex}/data"),
            "blobs/sha256/ab/ab/data".to_owned(),
        ] {
            assert_eq!(stored_blob(&name), None, "{name}");
        }
        let name = tag_link("repositories/a/b/_manifests/tags/v1/current/link").unwrap();
        assert_eq!(name.to_string(), "a/b:v1");
        for name in [
            "repositories/../b/_manifests/tags/v1/current/link",
            "repositories/b/_manifests/tags/../current/link",
            "repositories/b/_manifests/tags/v1/index/sha256/x/link",
        ] {
            assert_eq!(tag_link(name), None, "{name}");
        }
        assert_eq!(layout_blob(&format!("a/b/blobs/sha256/{hex}")), Some(digest));
        assert!(!is_plain("signatures/../x") && !is_plain("/x") && is_plain("signatures/x"));
    }
}
