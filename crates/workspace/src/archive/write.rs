//! Writes a planned archive: chunk by chunk, then the seal.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use oci::{Digest, Hasher};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with};
use rustix::io::Errno;

use super::copy::{CopyError, Range, Source, copy, copy_directly, copy_hashed, hash};
use super::entry::{BLOCK, chunk_name, footprint, header, index_name, partial_name};
use super::history::is_chunk;
use super::index::{ChunkEntry, PlacedPiece, write_json};
use super::prepare::{ArchiveError, PlannedArchive};
use super::staging::{PartialChunk, Staging};
use crate::Workspace;
use crate::atomic_file::{self, Durability};
use crate::direct_io::{DirectFile, LARGE};
use crate::disk_error::{At, DiskError};
use crate::lock::Lock;
use crate::workers;

/// An archive that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedArchive {
    /// The run it is of: an earlier one, if that began it and was killed.
    pub run: u64,
    pub base: Option<u64>,
    pub chunks: Vec<PathBuf>,
    /// The length of all chunk files together.
    pub bytes: u64,
    pub resumed: bool,
}

impl Workspace {
    /// Writes an archive and seals it. `progress` is called with how many of
    /// [`PlannedArchive::bytes`] are written. Killed at any moment, a run that
    /// requests the same continues with the chunks that are finished.
    ///
    /// # Errors
    ///
    /// Content of the blob store is missing or does not match its digest, or the disk cannot be
    /// written to.
    pub fn write_archive(
        &self,
        lock: &Lock,
        planned: &PlannedArchive,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<SealedArchive, ArchiveError> {
        self.write_staged_archive(lock, planned, None, progress)
    }

    /// As [`Workspace::write_archive`]. What `staging` has at its place is not copied.
    pub fn write_staged_archive(
        &self,
        _lock: &Lock,
        planned: &PlannedArchive,
        staging: Option<&Staging>,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<SealedArchive, ArchiveError> {
        self.begin(planned)?;
        let chunks = self.write_chunks(planned, staging, &|_| true, progress)?;
        self.seal(planned)?;
        let (index, bytes) = (&planned.index, planned.bytes());
        let (run, base, resumed) = (index.run, index.base, planned.resumed);
        Ok(SealedArchive { run, base, chunks, bytes, resumed })
    }

    /// Takes the numbers of an archive, and writes its index where a later run finds what was begun.
    pub(super) fn begin(&self, planned: &PlannedArchive) -> Result<(), ArchiveError> {
        let index = &planned.index;
        if planned.resumed {
            return Ok(());
        }
        for left in self.pending()? {
            self.clear(&left)?;
        }
        let mut identity = self.identity()?;
        let last = index.own_chunks().map(|chunk| chunk.number).max().unwrap_or(0);
        identity.last_chunk = identity.last_chunk.max(last);
        self.save_identity(&identity, Durability::Now)?;
        let pending = self.pending_path(index.run);
        atomic_file::write_with(&pending, Durability::Now, |file| {
            write_json(index, file).map(|_| ())
        })?;
        Ok(())
    }

    /// The blobs of an archive that was begun count as delivered from now on; see `durability` for
    /// what happens after a power failure before they are on the disk.
    pub(super) fn seal(&self, planned: &PlannedArchive) -> Result<(), ArchiveError> {
        let index = &planned.index;
        let (pending, sealed) = (self.pending_path(index.run), self.sealed_path(index.run));
        fs::rename(&pending, &sealed).at("writing", &sealed)?;
        Ok(self.note_delivered(index.created)?)
    }

    /// Writes the chunks of an archive that are wanted here.
    pub(super) fn write_chunks(
        &self,
        planned: &PlannedArchive,
        staging: Option<&Staging>,
        is_wanted: &dyn Fn(u32) -> bool,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Vec<PathBuf>, ArchiveError> {
        let index = &planned.index;
        let pieces = index.own_pieces();
        let mut done = 0;
        let mut chunks = Vec::new();
        let mut content = ContentCheck::default();
        for chunk in index.own_chunks().filter(|chunk| is_wanted(chunk.number)) {
            let path = self.chunk_path(chunk.number);
            let held = is_chunk(&path, chunk.number, &planned.index_digest).at("reading", &path)?;
            // It got its name when it was complete, so its length is sufficient.
            if held == Some(planned.length_of(chunk)) {
                self.check_held_end(planned, chunk.number, &mut content);
            } else {
                let none = Vec::new();
                let pieces = pieces.get(&chunk.number).unwrap_or(&none);
                let mut so_far = done;
                let start = footprint(planned.index_length);
                let staged = staging.and_then(|staging| staging.take(chunk.number, start, pieces));
                self.write_chunk(planned, (chunk, staged), pieces, &mut content, &mut |bytes| {
                    so_far += bytes;
                    progress(so_far);
                })?;
            }
            done += planned.length_of(chunk);
            progress(done);
            chunks.push(path);
        }
        drop(pieces);
        if !content.damaged.is_empty() {
            return Err(self.damaged(planned, content.damaged)?);
        }
        Ok(chunks)
    }

    /// Records a planned archive as written, without writing it: another program wrote one with the
    /// same content, or this one in another format. Its blobs count as delivered from now on, and
    /// numbers up to `last_chunk` as used.
    pub fn record_delivered(
        &self,
        _lock: &Lock,
        planned: &PlannedArchive,
        last_chunk: u32,
    ) -> Result<(), ArchiveError> {
        let index = &planned.index;
        let mut identity = self.identity()?;
        let last = index.own_chunks().map(|chunk| chunk.number).max().unwrap_or(0);
        identity.last_chunk = identity.last_chunk.max(last).max(last_chunk);
        self.save_identity(&identity, Durability::Now)?;
        let sealed = self.sealed_path(index.run);
        atomic_file::write_with(&sealed, Durability::Now, |file| {
            write_json(index, file).map(|_| ())
        })?;
        self.note_delivered(index.created)?;
        Ok(())
    }

    /// Writes a chunk under its temporary name. It gets its own name only if all content that
    /// ends in it matches its digest.
    fn write_chunk(
        &self,
        planned: &PlannedArchive,
        (chunk, staged): (&ChunkEntry, Option<PartialChunk>),
        pieces: &[PlacedPiece],
        content: &mut ContentCheck,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), DiskError> {
        let partial = self.root().join(partial_name(chunk.number));
        let (file, complete) = match staged {
            Some(PartialChunk { file, complete }) => (file, complete),
            None => {
                let new = OpenOptions::new().write(true).create(true).truncate(true).open(&partial);
                (new.at("writing", &partial)?, BTreeMap::new())
            }
        };
        reserve(&file, planned.length_of(chunk)).at("writing", &partial)?;
        self.write_index(planned, chunk.number, &file, &partial, progress)?;
        let start = footprint(planned.index_length);
        let damaged = content.damaged.len();
        let direct = DirectFile::open(&partial, &file);
        let is_whole = |piece: &&PlacedPiece| {
            planned.index.blob(&piece.blob).is_some_and(|blob| blob.size == piece.part.length)
        };
        let (whole, parts): (Vec<&PlacedPiece>, Vec<&PlacedPiece>) =
            pieces.iter().partition(|piece| is_whole(piece));
        let shared = Mutex::new(progress);
        let tell = |bytes| (shared.lock().unwrap_or_else(PoisonError::into_inner))(bytes);
        let write = |piece: &PlacedPiece, open: &mut Option<(Digest, Hasher)>| {
            let at = start + piece.part.offset;
            let head = header(&piece.name(), piece.part.length);
            file.write_all_at(&head, at - BLOCK).map_err(CopyError::Write)?;
            // It was hashed when it arrived, and written from the same memory.
            if complete.get(&piece.blob) == Some(&at) {
                tell(piece.part.length);
                return Ok(true);
            }
            let to = Target { file: &file, direct: direct.as_ref(), at };
            self.write_piece(planned, piece, to, open, &mut |bytes| tell(bytes))
        };
        let mut written = Vec::with_capacity(pieces.len());
        // The last part of a blob needs what the parts before it were.
        for piece in parts {
            written.push((piece.blob, write(piece, &mut content.open)));
        }
        let results = workers::map(&whole, workers::processors(), |piece| write(piece, &mut None));
        written.extend(whole.iter().map(|piece| piece.blob).zip(results));
        for (blob, result) in written {
            match result {
                Ok(true) => {}
                Ok(false) => content.damaged.push(blob),
                // A disk that cannot give the bytes back has damaged them too.
                Err(CopyError::Read(error)) => {
                    tracing::warn!("reading the blob {blob}: {error}");
                    content.damaged.push(blob);
                }
                Err(CopyError::Write(error)) => Err(error).at("writing", &partial)?,
            }
        }
        if content.damaged.len() > damaged {
            drop(file);
            return fs::remove_file(&partial).at("removing", &partial);
        }
        // What was not written reads as zeros: padding, and the end of the tar.
        file.set_len(planned.length_of(chunk)).at("writing", &partial)?;
        drop(file);
        rename_new(&partial, &self.root().join(chunk_name(chunk.number)))
    }

    /// Copies a piece of a blob and hashes it; with its last piece the blob is checked.
    /// Returns whether it matches its digest, as far as that is known. `open` has what parts before
    /// this one were.
    fn write_piece(
        &self,
        planned: &PlannedArchive,
        piece: &PlacedPiece,
        to: Target<'_>,
        open: &mut Option<(Digest, Hasher)>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<bool, CopyError> {
        let source = self.blobs().open(&piece.blob);
        let source = source.map_err(|error| CopyError::Read(io::Error::other(error)))?;
        let mut hasher = match open.take() {
            Some((blob, hasher)) if blob == piece.blob && hasher.length() == piece.from => hasher,
            _ => self.hash_written(planned, piece)?,
        };
        let size = planned.index.blob(&piece.blob).map_or(0, |blob| blob.size);
        match to.direct {
            Some(direct) if piece.part.length == size && size >= LARGE => {
                let path = self.blobs().path(&piece.blob);
                let source = Source { file: &source, path: &path, length: size };
                copy_directly(source, direct, to.at, &mut hasher, progress)?;
            }
            _ => {
                let range = Range { from: piece.from, to: to.at, length: piece.part.length };
                copy_hashed(&source, to.file, range, &mut hasher, progress)?;
            }
        }
        if hasher.length() < size {
            *open = Some((piece.blob, hasher));
            return Ok(true);
        }
        Ok(hasher.finish() == piece.blob)
    }

    /// Checks a blob that continues in a chunk which an earlier attempt finished.
    fn check_held_end(&self, planned: &PlannedArchive, number: u32, content: &mut ContentCheck) {
        let Some((blob, mut hasher)) = content.open.take() else { return };
        let Some(entry) = planned.index.blob(&blob) else { return };
        for part in entry.parts.iter().filter(|part| part.chunk == number) {
            let from = footprint(planned.index_length) + part.offset;
            let chunk = File::open(self.chunk_path(number)).map_err(CopyError::Read);
            let hashed = chunk
                .and_then(|chunk| hash(&chunk, from, part.length, &mut hasher, &mut |_| Ok(())));
            if hashed.is_err() {
                return content.damaged.push(blob);
            }
        }
        if hasher.length() < entry.size {
            content.open = Some((blob, hasher));
        } else if hasher.finish() != blob {
            content.damaged.push(blob);
        }
    }

    /// Hashes the pieces of a blob that an earlier, interrupted attempt wrote before `piece`.
    fn hash_written(
        &self,
        planned: &PlannedArchive,
        piece: &PlacedPiece,
    ) -> Result<Hasher, CopyError> {
        let mut hasher = Hasher::new();
        let parts = planned.index.blob(&piece.blob).into_iter().flat_map(|blob| &blob.parts);
        for part in parts {
            if hasher.length() == piece.from {
                break;
            }
            let chunk = File::open(self.chunk_path(part.chunk)).map_err(CopyError::Read)?;
            let from = footprint(planned.index_length) + part.offset;
            hash(&chunk, from, part.length, &mut hasher, &mut |_| Ok(()))?;
        }
        Ok(hasher)
    }

    /// Removes the chunks that hold pieces of damaged blobs; they are written again once the
    /// content is replaced.
    fn damaged(
        &self,
        planned: &PlannedArchive,
        mut digests: Vec<Digest>,
    ) -> Result<ArchiveError, DiskError> {
        digests.sort_unstable();
        digests.dedup();
        let blobs = digests.iter().filter_map(|digest| planned.index.blob(digest));
        for part in blobs.flat_map(|blob| &blob.parts) {
            let path = self.chunk_path(part.chunk);
            let own = is_chunk(&path, part.chunk, &planned.index_digest).at("reading", &path)?;
            if own.is_some() {
                fs::remove_file(&path).at("removing", &path)?;
            }
        }
        Ok(ArchiveError::Damaged { digests })
    }

    /// Writes the index first, from the same file that is sealed later.
    fn write_index(
        &self,
        planned: &PlannedArchive,
        number: u32,
        file: &File,
        partial: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), DiskError> {
        let name = index_name(number, &planned.index_digest);
        let head = header(&name, planned.index_length);
        file.write_all_at(&head, 0).at("writing", partial)?;
        let pending = self.pending_path(planned.index.run);
        let source = File::open(&pending).at("reading", &pending)?;
        let range = Range { from: 0, to: BLOCK, length: planned.index_length };
        copy(&source, file, range, progress).at("writing", partial)
    }
}

/// Where a piece goes.
#[derive(Clone, Copy)]
struct Target<'a> {
    file: &'a File,
    /// The same file, past the page cache.
    direct: Option<&'a DirectFile>,
    at: u64,
}

/// What is known of the content while it is written.
#[derive(Default)]
struct ContentCheck {
    /// A blob that continues in the next chunk, hashed so far.
    open: Option<(Digest, Hasher)>,
    /// Blobs whose content in the store does not match their digest.
    damaged: Vec<Digest>,
}

/// Takes the room a chunk will need, so that a full disk shows before hours of
/// copying. Filesystems that cannot do that are filled without.
pub(super) fn reserve(file: &File, length: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, length) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(errno.into()),
        _ => Ok(()),
    }
}

/// Renames to a name that must be free: an archive is never replaced.
fn rename_new(from: &Path, to: &Path) -> Result<(), DiskError> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Filesystems without this flag; the lock keeps others of us away.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(DiskError::new("writing", to, io::ErrorKind::AlreadyExists.into()));
            }
            fs::rename(from, to).at("writing", to)
        }
        renamed => renamed.at("writing", to),
    }
}
