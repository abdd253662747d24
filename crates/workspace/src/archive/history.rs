//! What earlier runs archived: the sealed indexes in `working-dir/runs`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use oci::Digest;
use serde::Deserialize;

use super::entry::{BLOCK, parse_chunk_name};
use super::first_entry::{FirstEntry, ReadAt, first_entry};
use super::index::{ArchiveStatus, BlobEntry, ChunkEntry, digest_of};
use crate::Workspace;
use crate::disk_error::{At, DiskError, unless_absent};
use crate::lock::Lock;

/// What the other side has already, by the runs it is known to have got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// Everything that was archived so far.
    Newest,
    /// What was archived before this day began, in UTC.
    Before(Date),
}

/// A run whose archive is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedRun {
    pub run: u64,
    pub base: Option<u64>,
    pub created: Timestamp,
    pub status: ArchiveStatus,
    /// Its own chunks.
    pub chunks: Vec<ChunkEntry>,
    pub(crate) content: Digest,
}

/// The files that [`Workspace::remove_archives_before`] removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovedArchives {
    pub files: Vec<PathBuf>,
    pub bytes: u64,
}

/// An archive of which files are in the directory of the workspace, with their lengths.
struct ExistingArchive {
    run: u64,
    files: Vec<(PathBuf, u64)>,
}

/// Why archives are not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// `newest` is the last run with an archive here, or the one about to be written.
    #[error(
        "removing the archives before run {before} would leave none: the newest is that of run {newest}{}",
        would_remove(files)
    )]
    NothingLeft { before: u64, newest: u64, files: Vec<PathBuf> },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

fn would_remove(files: &[PathBuf]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    format!("; it would remove {}", names.join(", "))
}

/// The part of an index that history needs; images are skipped unread.
#[derive(Deserialize)]
pub(super) struct Sealed {
    pub(super) run: u64,
    base: Option<u64>,
    created: Timestamp,
    status: ArchiveStatus,
    content: Digest,
    pub(super) blobs: Vec<BlobEntry>,
    pub(super) chunks: Vec<ChunkEntry>,
}

impl Sealed {
    fn run(self) -> SealedRun {
        let Self { run, base, created, status, content, mut chunks, .. } = self;
        chunks.retain(|chunk| chunk.run == run);
        SealedRun { run, base, created, status, chunks, content }
    }
}

impl Workspace {
    /// The runs whose archives are complete, oldest first. Reads the index of each.
    pub fn sealed_runs(&self) -> Result<Vec<SealedRun>, DiskError> {
        let paths = self.indexes(".json")?;
        paths.iter().map(|(_, path)| Ok(read_sealed(path)?.run())).collect()
    }

    /// The run that an archive builds on.
    pub(crate) fn base_run(&self, base: &Base) -> Result<Option<SealedRun>, DiskError> {
        let start = match base {
            Base::Newest => Timestamp::MAX,
            Base::Before(day) => match day.to_zoned(TimeZone::UTC) {
                Ok(start) => start.timestamp(),
                Err(_) => return Ok(None),
            },
        };
        for (_, path) in self.indexes(".json")?.iter().rev() {
            let run = read_sealed(path)?.run();
            if run.created < start {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// Whether [`Workspace::remove_archives_before`] would leave an archive here. `own` is the
    /// number of a run that is about to write one.
    pub fn check_removal(&self, before: u64, own: Option<u64>) -> Result<(), RemoveError> {
        let existing = self.existing_archives()?;
        let newest = existing.iter().map(|archive| archive.run).max();
        match newest.or(own) {
            Some(newest) if before > newest => {
                let files = existing.into_iter().flat_map(|archive| archive.files);
                let files = files.map(|(path, _)| path).collect();
                Err(RemoveError::NothingLeft { before, newest, files })
            }
            _ => Ok(()),
        }
    }

    /// Removes the archives of runs before `run` from this directory. What they held stays known
    /// as delivered. Only files that are provably those archives are touched, and nothing is
    /// removed unless an archive of `run` or a later one is here.
    pub fn remove_archives_before(
        &self,
        _lock: &Lock,
        run: u64,
    ) -> Result<RemovedArchives, RemoveError> {
        self.check_removal(run, None)?;
        let mut removed = RemovedArchives::default();
        for archive in self.existing_archives()?.into_iter().filter(|archive| archive.run < run) {
            for (path, bytes) in archive.files {
                fs::remove_file(&path).at("removing", &path)?;
                removed.files.push(path);
                removed.bytes += bytes;
            }
        }
        Ok(removed)
    }

    /// The complete archives of which files are here. Reads those files and their indexes only.
    fn existing_archives(&self) -> Result<Vec<ExistingArchive>, DiskError> {
        let mut existing: BTreeMap<u64, ExistingArchive> = BTreeMap::new();
        let root = self.root();
        let entries = unless_absent(fs::read_dir(root)).at("reading", root)?;
        let mut digests: BTreeMap<u64, Digest> = BTreeMap::new();
        for entry in entries.into_iter().flatten() {
            let entry = entry.at("reading", root)?;
            let Some(number) = entry.file_name().to_str().and_then(parse_chunk_name) else {
                continue;
            };
            let path = entry.path();
            let Some(run) = run_of_chunk(&path).at("reading", &path)? else { continue };
            let index = self.sealed_path(run);
            let digest = match digests.get(&run) {
                Some(digest) => *digest,
                None => match unless_absent(file_digest(&index)).at("reading", &index)? {
                    Some(digest) => *digests.entry(run).or_insert(digest),
                    None => continue,
                },
            };
            if let Some(bytes) = is_chunk(&path, number, &digest).at("reading", &path)? {
                let files = Vec::new();
                let archive = existing.entry(run).or_insert(ExistingArchive { run, files });
                archive.files.push((path, bytes));
            }
        }
        let mut existing: Vec<ExistingArchive> = existing.into_values().collect();
        existing.iter_mut().for_each(|archive| archive.files.sort());
        Ok(existing)
    }

    /// The files `NNNNNN<ending>` in the directory of runs with their numbers, sorted.
    pub(crate) fn indexes(&self, ending: &str) -> Result<Vec<(u64, PathBuf)>, DiskError> {
        let directory = self.runs_dir();
        let entries = unless_absent(fs::read_dir(&directory)).at("reading", &directory)?;
        let mut paths = Vec::new();
        for entry in entries.into_iter().flatten() {
            let entry = entry.at("reading", &directory)?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(ending));
            if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
                paths.push((number, entry.path()));
            }
        }
        paths.sort();
        Ok(paths)
    }

    pub(crate) fn sealed_path(&self, run: u64) -> PathBuf {
        self.runs_dir().join(format!("{run:06}.json"))
    }
}

/// Reads what history needs of a sealed index.
pub(super) fn read_sealed(path: &Path) -> Result<Sealed, DiskError> {
    let file = File::open(path).at("reading", path)?;
    serde_json::from_reader(BufReader::new(file)).map_err(io::Error::other).at("reading", path)
}

/// The run that a chunk names; none if the file is not a chunk.
fn run_of_chunk(path: &Path) -> io::Result<Option<u64>> {
    #[derive(Deserialize)]
    struct Run {
        run: u64,
    }
    let file = File::open(path)?;
    let FirstEntry::Index { length, .. } = first_entry(&file)? else { return Ok(None) };
    let index = BufReader::new(ReadAt { file: &file, position: BLOCK }.take(length));
    Ok(serde_json::from_reader(index).ok().map(|Run { run }| run))
}

/// The digest of an index that is in a file of its own.
pub(crate) fn file_digest(path: &Path) -> io::Result<Digest> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    digest_of(file, length).map_err(io::Error::other)
}

/// The length of the file at `path`, if it is chunk `number` of the archive
/// whose index has `digest`.
pub(crate) fn is_chunk(path: &Path, number: u32, digest: &Digest) -> io::Result<Option<u64>> {
    let Some(file) = unless_absent(File::open(path))? else { return Ok(None) };
    let ours = match first_entry(&file)? {
        FirstEntry::Index { chunk, digest: found, .. } => chunk == number && found == *digest,
        _ => false,
    };
    if ours { Ok(Some(file.metadata()?.len())) } else { Ok(None) }
}
