//! What earlier runs archived: the sealed indexes in `working-dir/runs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use oci::Digest;
use serde::Deserialize;

use super::entry::chunk_name;
use super::first_entry::{FirstEntry, first_entry};
use super::index::{ArchiveStatus, BlobEntry, ChunkEntry, digest_of};
use crate::Workspace;
use crate::atomic_file::{self, Durability};
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

/// All sealed runs, and where each blob was archived.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Oldest first.
    pub(crate) runs: Vec<SealedRun>,
    /// With the run that archived it first.
    blobs: BTreeMap<Digest, (u64, BlobEntry)>,
}

/// The part of an index that history needs; images are skipped unread.
#[derive(Deserialize)]
struct Sealed {
    run: u64,
    base: Option<u64>,
    created: Timestamp,
    status: ArchiveStatus,
    content: Digest,
    blobs: Vec<BlobEntry>,
    chunks: Vec<ChunkEntry>,
}

impl History {
    fn add(&mut self, sealed: Sealed) {
        let run = sealed.run;
        let mut chunks = sealed.chunks;
        chunks.retain(|chunk| chunk.run == run);
        let own: BTreeSet<u32> = chunks.iter().map(|chunk| chunk.number).collect();
        for blob in sealed.blobs {
            if blob.parts.first().is_some_and(|part| own.contains(&part.chunk)) {
                self.blobs.entry(blob.digest).or_insert((run, blob));
            }
        }
        let Sealed { base, created, status, content, .. } = sealed;
        self.runs.push(SealedRun { run, base, created, status, chunks, content });
    }

    /// The run to build on.
    pub(crate) fn base(&self, base: &Base) -> Option<&SealedRun> {
        match base {
            Base::Newest => self.runs.last(),
            Base::Before(day) => {
                let start = day.to_zoned(TimeZone::UTC).ok()?.timestamp();
                self.runs.iter().rev().find(|run| run.created < start)
            }
        }
    }

    /// Where a blob is that the runs up to `base` archived.
    pub(crate) fn held(&self, digest: &Digest, base: Option<u64>) -> Option<&BlobEntry> {
        let (run, blob) = self.blobs.get(digest)?;
        (*run <= base?).then_some(blob)
    }

    pub(crate) fn chunk(&self, number: u32) -> Option<&ChunkEntry> {
        let chunks = self.runs.iter().flat_map(|run| &run.chunks);
        chunks.into_iter().find(|chunk| chunk.number == number)
    }
}

impl Workspace {
    /// The runs whose archives are complete, oldest first.
    pub fn sealed_runs(&self) -> Result<Vec<SealedRun>, DiskError> {
        Ok(self.history()?.runs)
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

    /// The complete archives of which files are here.
    fn existing_archives(&self) -> Result<Vec<ExistingArchive>, DiskError> {
        let mut existing = Vec::new();
        for sealed in self.sealed_runs()? {
            let mut files = Vec::new();
            let mut digest = None;
            for chunk in &sealed.chunks {
                let path = self.root().join(chunk_name(chunk.number));
                if !path.exists() {
                    continue;
                }
                let index = self.sealed_path(sealed.run);
                let digest = match digest {
                    Some(digest) => digest,
                    None => *digest.insert(file_digest(&index).at("reading", &index)?),
                };
                if let Some(bytes) = is_chunk(&path, chunk.number, &digest).at("reading", &path)? {
                    files.push((path, bytes));
                }
            }
            if !files.is_empty() {
                existing.push(ExistingArchive { run: sealed.run, files });
            }
        }
        Ok(existing)
    }

    pub(crate) fn history(&self) -> Result<History, DiskError> {
        let mut history = History::default();
        for path in self.indexes(".json")? {
            let file = File::open(&path).at("reading", &path)?;
            let sealed = serde_json::from_reader(BufReader::new(file)).map_err(io::Error::other);
            history.add(sealed.at("reading", &path)?);
        }
        Ok(history)
    }

    /// The files `NNNNNN<ending>` in the directory of runs, sorted.
    pub(crate) fn indexes(&self, ending: &str) -> Result<Vec<PathBuf>, DiskError> {
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
        Ok(paths.into_iter().map(|(_, path)| path).collect())
    }

    pub(crate) fn sealed_path(&self, run: u64) -> PathBuf {
        self.runs_dir().join(format!("{run:06}.json"))
    }

    /// Writes `.history/.history-<time>`: the digests of everything archived
    /// so far, one per line, where scripts of oc-mirror's users look for it.
    pub(crate) fn write_history_list(&self, created: Timestamp) -> Result<(), DiskError> {
        let history = self.history()?;
        let name = format!(".history-{}", created.strftime("%Y-%m-%dT%H:%M:%SZ"));
        let path = self.working_dir().join(".history").join(name);
        let written = atomic_file::write_with(&path, Durability::Later, |file| {
            let mut out = io::BufWriter::new(file);
            history.blobs.keys().try_for_each(|digest| writeln!(out, "{digest}"))?;
            out.flush()
        });
        match written {
            // FAT and exFAT allow no colons in names. Nothing of ours reads this.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                tracing::warn!(
                    "not writing {}: its name does not suit the filesystem",
                    path.display()
                );
                Ok(())
            }
            written => written,
        }
    }
}

/// The digest of an index that lies in a file of its own.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn history(times: &[&str]) -> History {
        let mut history = History::default();
        for (position, time) in times.iter().enumerate() {
            let run = position as u64 + 1;
            let blob = |name: &str| {
                let part = super::super::index::Part { chunk: run as u32, offset: 512, length: 1 };
                BlobEntry { digest: Digest::of(name.as_bytes()), size: 1, parts: vec![part] }
            };
            history.add(Sealed {
                run,
                base: None,
                created: time.parse().unwrap(),
                status: ArchiveStatus::Complete,
                content: Digest::of(b""),
                blobs: vec![blob("in all"), blob(time)],
                chunks: vec![ChunkEntry {
                    number: run as u32,
                    run,
                    length: 1024,
                    checksum: Digest::of(b""),
                }],
            });
        }
        history
    }

    #[test]
    fn the_base_is_the_newest_run_before_the_day_or_the_newest_of_all() {
        let times = ["2026-03-01T12:00:00Z", "2026-03-02T23:59:59Z", "2026-03-03T00:00:00Z"];
        let history = history(&times);
        let base = |base: Base| history.base(&base).map(|run| run.run);
        let day = |text: &str| Base::Before(text.parse().unwrap());
        assert_eq!(base(Base::Newest), Some(3));
        assert_eq!(base(day("2026-03-03")), Some(2));
        assert_eq!(base(day("2026-03-02")), Some(1));
        assert_eq!(base(day("2026-03-01")), None);
        assert_eq!(base(day("2030-01-01")), Some(3));
    }

    #[test]
    fn only_runs_up_to_the_base_count_as_delivered() {
        let times = ["2026-03-01T12:00:00Z", "2026-03-02T12:00:00Z"];
        let history = history(&times);
        let held = |name: &str, base| history.held(&Digest::of(name.as_bytes()), base).is_some();
        assert!(held(times[1], Some(2)));
        assert!(!held(times[1], Some(1)));
        assert!(!held(times[0], None));
        assert!(!held("unknown", Some(2)));
        // The first run that archived a blob is where it is.
        let first = history.held(&Digest::of(b"in all"), Some(2)).unwrap();
        assert_eq!(first.parts[0].chunk, 1);
    }
}
