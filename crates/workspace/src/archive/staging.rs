//! Writes large blobs into an archive while they arrive.
//!
//! Digests and sizes are known before the transfer, and so is the place of every blob in the archive,
//! provided that every image arrives. Bytes that were hashed on arrival are written to the workspace
//! and to that place. The archive that is planned after the transfer uses what is at the right place
//! and copies the rest, so a failed image only costs time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oci::Digest;

use super::entry::{footprint, parse_partial_name, partial_name};
use super::index::{Index, PlacedPiece};
use super::prepare::{ArchiveError, ArchivePlan, ArchiveRequest, PlannedArchive};
use super::write::reserve;
use crate::direct_io::{self, DirectFile, DirectWriter, LARGE};
use crate::disk_error::{At, DiskError, unless_absent};
use crate::lock::Lock;
use crate::{PartialBlob, Workspace};

/// Below this, planning the archive twice takes longer than copying.
const WORTHWHILE: u64 = 64 << 20;
/// As much as a blob that arrives is written at once.
const BLOCK: usize = 256 << 10;

/// The files of an archive that is expected.
///
/// # Guarantees
/// Files that no archive used are removed when this is dropped.
#[derive(Debug)]
pub struct Staging {
    /// Where the content of large blobs begins.
    places: BTreeMap<Digest, ChunkRange>,
    chunks: Mutex<BTreeMap<u32, StagedChunk>>,
    complete: Arc<Mutex<BTreeSet<Digest>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChunkRange {
    chunk: u32,
    /// From the beginning of the file.
    offset: u64,
    length: u64,
}

#[derive(Debug)]
struct StagedChunk {
    path: PathBuf,
    file: File,
    direct: DirectFile,
}

/// A chunk file with some of its content.
pub(super) struct PartialChunk {
    pub(super) file: File,
    /// Where in the file the content of blobs begins that are complete.
    pub(super) complete: BTreeMap<Digest, u64>,
}

impl Workspace {
    /// Prepares the files of the archive that `request` describes, whose content is about to arrive.
    /// `None` where that is not worthwhile or not possible; the archive is then written as usual.
    pub fn stage_archive(
        &self,
        _lock: &Lock,
        request: ArchiveRequest,
    ) -> Result<Option<Staging>, ArchiveError> {
        if direct_io::is_slow() {
            return Ok(None);
        }
        let planned = match self.plan_expected_archive(request)? {
            // What an interrupted run began is continued, not written again.
            ArchivePlan::Write(planned) if !planned.resumed => planned,
            ArchivePlan::Write(_) | ArchivePlan::NothingNew { .. } => return Ok(None),
        };
        let mut places = self.places(&planned.index, footprint(planned.index_length))?;
        if places.values().map(|place| place.length).sum::<u64>() < WORTHWHILE {
            return Ok(None);
        }
        let numbers: BTreeSet<u32> = places.values().map(|place| place.chunk).collect();
        let mut staging =
            Staging { places: BTreeMap::new(), chunks: Mutex::default(), complete: Arc::default() };
        for number in numbers {
            match self.stage_chunk(&planned, number) {
                Ok(Some(chunk)) => drop(staging.chunks().insert(number, chunk)),
                Ok(None) => return Ok(None),
                // The disk may still have space for the blobs.
                Err(error) => {
                    tracing::debug!("the archive is written after the transfer: {error}");
                    return Ok(None);
                }
            }
        }
        staging.places.append(&mut places);
        Ok(Some(staging))
    }

    /// The places of large blobs that are in one piece and not in the store yet.
    fn places(&self, index: &Index, start: u64) -> Result<BTreeMap<Digest, ChunkRange>, DiskError> {
        let mut places = BTreeMap::new();
        for blob in index.own_blobs() {
            if let [part] = blob.parts[..]
                && blob.size >= LARGE
                && !self.blobs().has(&blob.digest, Some(blob.size))?
            {
                let offset = start + part.offset;
                let place = ChunkRange { chunk: part.chunk, offset, length: part.length };
                places.insert(blob.digest, place);
            }
        }
        Ok(places)
    }

    fn stage_chunk(
        &self,
        planned: &PlannedArchive,
        number: u32,
    ) -> Result<Option<StagedChunk>, DiskError> {
        let Some(chunk) = planned.index.chunk(number) else { return Ok(None) };
        let path = self.root().join(partial_name(number));
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        let file = file.at("writing", &path)?;
        let Some(direct) = DirectFile::open(&path, &file) else {
            fs::remove_file(&path).at("removing", &path)?;
            return Ok(None);
        };
        // From here on the file is removed with this value.
        let staged = StagedChunk { path, file, direct };
        reserve(&staged.file, planned.length_of(chunk)).at("writing", &staged.path)?;
        Ok(Some(staged))
    }

    /// Removes chunk files that a killed run left and that no archive continues.
    pub fn remove_abandoned_chunks(&self, _lock: &Lock) -> Result<(), DiskError> {
        let root = self.root();
        let mut abandoned = BTreeSet::new();
        for entry in unless_absent(fs::read_dir(root)).at("reading", root)?.into_iter().flatten() {
            let entry = entry.at("reading", root)?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let number = entry.file_name().to_str().and_then(parse_partial_name);
            abandoned.extend(number.filter(|_| is_file));
        }
        if abandoned.is_empty() {
            return Ok(());
        }
        for pending in self.pending()? {
            for chunk in pending.index.iter().flat_map(Index::own_chunks) {
                abandoned.remove(&chunk.number);
            }
        }
        for number in abandoned {
            let path = root.join(partial_name(number));
            unless_absent(fs::remove_file(&path)).at("removing", &path)?;
        }
        Ok(())
    }
}

impl Staging {
    /// Whether to prepare an archive that gets blobs of these sizes. Planning it takes memory, too.
    pub fn is_worthwhile(sizes: impl Iterator<Item = u64>) -> bool {
        sizes.filter(|size| *size >= LARGE).fold(0, u64::saturating_add) >= WORTHWHILE
    }

    fn complete(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.complete.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chunks(&self) -> MutexGuard<'_, BTreeMap<u32, StagedChunk>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same blob, whose bytes also go to their place in the archive if they have one. A blob
    /// that an earlier run began is copied later.
    #[must_use]
    pub fn attach(&self, blob: PartialBlob) -> PartialBlob {
        let digest = blob.announced();
        let Some(place) = self.places.get(&digest) else { return blob };
        if blob.offset() > 0 || blob.size() != place.length || direct_io::is_slow() {
            return blob;
        }
        let chunks = self.chunks();
        let Some(chunk) = chunks.get(&place.chunk) else { return blob };
        self.complete().remove(&digest);
        let writer = chunk.direct.writer(place.offset, BLOCK);
        blob.with_copy(StagedBlob { writer, digest, complete: Arc::clone(&self.complete) })
    }

    /// Hands over the file of a chunk whose content begins at `start`, and what is complete in it.
    /// `None` if the chunk was planned otherwise: bytes at other places would remain in it as
    /// padding. No blob may be arriving.
    pub(super) fn take(
        &self,
        number: u32,
        start: u64,
        pieces: &[PlacedPiece],
    ) -> Option<PartialChunk> {
        let chunk = self.chunks().remove(&number)?;
        let planned: BTreeMap<&Digest, (u64, u64)> = pieces
            .iter()
            .map(|piece| (&piece.blob, (start + piece.part.offset, piece.part.length)))
            .collect();
        let complete = self.complete();
        let mut offsets = BTreeMap::new();
        for (digest, place) in self.places.iter().filter(|(_, place)| place.chunk == number) {
            if planned.get(digest) != Some(&(place.offset, place.length)) {
                return None;
            }
            if complete.contains(digest) {
                offsets.insert(*digest, place.offset);
            }
        }
        let file = chunk.file.try_clone().ok()?;
        chunk.keep();
        Some(PartialChunk { file, complete: offsets })
    }
}

impl StagedChunk {
    /// Leaves the file to its next owner.
    fn keep(mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for StagedChunk {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            // What is left is removed by the next run.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The place of a blob in an archive, which gets the blob's bytes as they arrive.
#[derive(Debug)]
pub(crate) struct StagedBlob {
    writer: DirectWriter,
    digest: Digest,
    complete: Arc<Mutex<BTreeSet<Digest>>>,
}

impl StagedBlob {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write(bytes)
    }

    /// Ends a blob whose bytes have its digest.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.writer.finish()?;
        self.complete.lock().unwrap_or_else(PoisonError::into_inner).insert(self.digest);
        Ok(())
    }
}
