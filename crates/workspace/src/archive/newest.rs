//! Opens only the newest archives of a directory, where it is known that they list everything.
//!
//! Every index lists all blobs of its images, also those in the files of earlier runs. So once all
//! archives of a directory were opened, the next run opens the newest and those that arrived since,
//! and a file of an earlier run when a blob in it is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use mirror_plan::{Attachment, ImageRecord};
use oci::{Digest, Hasher};
use serde::{Deserialize, Serialize};

use super::entry::{TRAILER, footprint, parse_chunk_name};
use super::open::{Archives, ChunkFile, OpenError, RunArchive, candidate, chunk_files, read_index};
use crate::Workspace;
use crate::atomic_file::{self, Durability};
use crate::blob_reader::Extent;
use crate::disk_error::{At, DiskError};
use crate::identity::WorkspaceId;
use crate::image_directory::ImageDirectory;
use crate::merge::same_attachment;

/// Files that were not opened, by the number in their names.
#[derive(Debug, Default)]
pub(crate) struct Unopened {
    files: BTreeMap<u32, PathBuf>,
    /// Those that were opened since; none where a file is not what the newest index expects.
    opened: Mutex<BTreeMap<u32, Option<Arc<EarlierChunk>>>>,
}

/// A chunk of an earlier run.
#[derive(Debug)]
pub(super) struct EarlierChunk {
    chunk: ChunkFile,
    pub(super) created: Timestamp,
}

/// Names, lengths and times of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listing {
    files: usize,
    digest: Digest,
}

/// The content of `working-dir/internal/archives.json`: what an earlier run found in a directory.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    /// The first files of the directory, by name.
    listing: Listing,
    /// The workspace that wrote all of them.
    workspace: WorkspaceId,
    /// The files of the newest run.
    newest: BTreeSet<PathBuf>,
}

impl Unopened {
    pub(super) fn has(&self, number: u32) -> bool {
        self.files.contains_key(&number)
    }
}

impl Listing {
    /// None where a file cannot be examined.
    pub(super) fn of(files: &[PathBuf]) -> Option<Self> {
        let mut hasher = Hasher::new();
        for file in files {
            let about = fs::metadata(file).ok()?;
            let name = file.file_name()?.to_string_lossy().into_owned();
            let (length, seconds) = (about.len(), about.mtime());
            let line = format!("{name}\t{length}\t{seconds}\t{}\n", about.mtime_nsec());
            hasher.update(line.as_bytes());
        }
        Some(Self { files: files.len(), digest: hasher.finish() })
    }
}

impl Archives {
    /// Opens the archives in the directory of `workspace`, and only the newest of them if an
    /// earlier run found nothing wrong with the others and noted that.
    pub fn open_newest(workspace: &Workspace) -> Result<Self, OpenError> {
        let directory = workspace.root();
        let files = chunk_files(directory)?;
        let Some(known) = read_known(workspace) else { return Self::open(directory) };
        let Some((before, new)) = files.split_at_checked(known.listing.files) else {
            return Self::open(directory);
        };
        if Listing::of(before) != Some(known.listing) {
            return Self::open(directory);
        }
        let newest = before.iter().filter(|file| {
            file.file_name().is_some_and(|name| known.newest.contains(&PathBuf::from(name)))
        });
        let chosen: Vec<PathBuf> = newest.chain(new).cloned().collect();
        let listing = Listing::of(&files);
        let mut archives = Self::of_files(directory, chosen.clone());
        if archives.covering_workspace() != Some(&known.workspace) {
            return Self::open(directory);
        }
        let others = before.iter().filter(|file| !chosen.contains(file));
        let numbered = others.filter_map(|file| {
            let number = parse_chunk_name(file.file_name()?.to_str()?)?;
            Some((number, file.clone()))
        });
        archives.unopened.files = numbered.collect();
        archives.listing = listing;
        Ok(archives)
    }

    /// Whether files were left unopened: then an image may be in one of them that is not known.
    pub fn is_partial(&self) -> bool {
        !self.unopened.files.is_empty()
    }

    /// Notes what is here for [`Archives::open_newest`], if the newest archive lists everything.
    pub fn remember(&self, workspace: &Workspace) -> Result<(), DiskError> {
        let path = known_path(workspace);
        let (Some(listing), Some(writer), Some(newest)) =
            (self.listing, self.covering_workspace(), self.runs.last())
        else {
            return crate::disk_error::unless_absent(fs::remove_file(&path))
                .at("removing", &path)
                .map(|_| ());
        };
        let names = newest.chunks.values().filter_map(|chunk| chunk.path.file_name());
        let known = Known {
            listing,
            workspace: writer.clone(),
            newest: names.map(PathBuf::from).collect(),
        };
        let text = serde_json::to_vec(&known).map_err(io::Error::other).at("writing", &path)?;
        if fs::read(&path).is_ok_and(|before| before == text) {
            return Ok(());
        }
        atomic_file::write(&path, &text, Durability::Later)
    }

    /// The workspace that wrote all archives that were opened, if nothing is wrong with them and no
    /// record of an earlier one adds to that of a later one.
    fn covering_workspace(&self) -> Option<&WorkspaceId> {
        let newest = self.runs.last()?;
        let writer = &newest.index.workspace;
        let is_sound = self.findings().is_empty()
            && self.runs.iter().all(|run| run.index.workspace == *writer)
            // Names have the numbers by which files are opened later.
            && self.runs.iter().all(|run| run.chunks.iter().all(has_its_name));
        (is_sound && self.runs.windows(2).all(|pair| adds_nothing(&pair[0], &pair[1])))
            .then_some(writer)
    }

    /// The chunks of earlier runs that a blob is in; none if one of them is not here.
    pub(super) fn earlier_chunks(&self, digest: &Digest) -> Option<Vec<Arc<EarlierChunk>>> {
        if !self.is_partial() {
            return None;
        }
        let newest = self.runs.last()?;
        let parts = &newest.index.blob(digest)?.parts;
        let chunks = parts.iter().map(|part| self.earlier_chunk(newest, part.chunk));
        chunks.collect()
    }

    pub(super) fn earlier_blob(&self, digest: &Digest) -> Option<Arc<[Extent]>> {
        let chunks = self.earlier_chunks(digest)?;
        let parts = &self.runs.last()?.index.blob(digest)?.parts;
        let extents = chunks.iter().zip(parts).map(|(earlier, part)| earlier.chunk.extent(part));
        extents.collect()
    }

    pub(super) fn earlier_files(&self, digest: &Digest) -> Option<Vec<PathBuf>> {
        let chunks = self.earlier_chunks(digest)?;
        Some(chunks.iter().map(|earlier| earlier.chunk.path.clone()).collect())
    }

    fn earlier_chunk(&self, newest: &RunArchive, number: u32) -> Option<Arc<EarlierChunk>> {
        let mut opened = self.unopened.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || self.unopened.files.get(&number).and_then(|path| open(newest, number, path));
        opened.entry(number).or_insert_with(|| open().map(Arc::new)).clone()
    }
}

/// Opens a file of an earlier run, if it is the one that the newest run builds on.
fn open(newest: &RunArchive, number: u32, path: &Path) -> Option<EarlierChunk> {
    let expected = newest.index.chunk(number)?;
    let (digest, candidate) = candidate(path).ok()?;
    let index = read_index(&candidate, &digest).ok()?;
    let start = footprint(candidate.index_length);
    let is_it = candidate.number == number
        && index.workspace == newest.index.workspace
        && index.chunk(number).is_some_and(|chunk| chunk == expected)
        && candidate.file.metadata().ok()?.len() == start + expected.length + TRAILER;
    let index_end = super::entry::BLOCK + candidate.index_length;
    is_it.then(|| EarlierChunk {
        created: index.created,
        chunk: ChunkFile {
            path: path.to_owned(),
            file: Arc::new(candidate.file),
            index_end,
            start,
            excerpt: candidate.excerpt,
        },
    })
}

fn has_its_name((number, chunk): (&u32, &ChunkFile)) -> bool {
    let name = chunk.path.file_name().and_then(|name| name.to_str());
    name.and_then(parse_chunk_name) == Some(*number)
}

/// Whether a later run has all that an earlier one has attached to the same images. Platforms need
/// no comparison: one that a later run left out is noticed where it is needed.
fn adds_nothing(earlier: &RunArchive, later: &RunArchive) -> bool {
    let known: BTreeMap<ImageDirectory, &ImageRecord> =
        later.index.images.iter().map(|image| (ImageDirectory::of(&image.origin), image)).collect();
    earlier.index.images.iter().all(|older| {
        let Some(newer) = known.get(&ImageDirectory::of(&older.origin)) else { return true };
        let is_attached = |attachment: &Attachment| {
            newer.tree.attachments.iter().any(|known| same_attachment(known, attachment))
        };
        older.tree.root().digest != newer.tree.root().digest
            || older.tree.attachments.iter().all(is_attached)
    })
}

fn known_path(workspace: &Workspace) -> PathBuf {
    workspace.internal().join("archives.json")
}

/// What an earlier run noted; what cannot be read was not noted.
fn read_known(workspace: &Workspace) -> Option<Known> {
    serde_json::from_slice(&fs::read(known_path(workspace)).ok()?).ok()
}
