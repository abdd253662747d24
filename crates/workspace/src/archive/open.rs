//! Transferred archives: found, checked, read in place.
//!
//! Nothing is extracted. Blobs are read straight from the chunks, at the
//! places that the indexes name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use error_causes::with_causes;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use mirror_plan::{ImageRecord, Origin};
use oci::Digest;

use super::entry::{BLOCK, TRAILER, chunk_name, footprint, parse_chunk_name};
use super::excerpt::Excerpt;
use super::finding::ArchiveFinding;
use super::first_entry::{FirstEntry, ReadAt, first_entry};
use super::index::{BlobEntry, Index, IndexError, Part, digest_of};
use super::newest::{Listing, Unopened};
use crate::blob_reader::{BlobReader, Extent};
use crate::disk_error::{At, DiskError};
use crate::identity::WorkspaceId;
use crate::image_directory::ImageDirectory;

/// All archives in a directory.
#[derive(Debug)]
pub struct Archives {
    /// Oldest first.
    pub(crate) runs: Vec<RunArchive>,
    findings: Vec<ArchiveFinding>,
    /// Where the records of each image are, oldest first: run, position.
    images: BTreeMap<ImageDirectory, Vec<(usize, usize)>>,
    /// The blobs all of whose parts are here, by digest: run, position in its index.
    blobs: Vec<(u32, u32)>,
    /// Files of earlier runs that are opened only when a blob of theirs is needed.
    pub(super) unopened: Unopened,
    pub(super) listing: Option<Listing>,
}

/// The archive of one run, as far as its files are here.
#[derive(Debug)]
pub(crate) struct RunArchive {
    pub(crate) index: Index,
    pub(crate) chunks: BTreeMap<u32, ChunkFile>,
    /// When it was written, and not before any earlier run of the same workspace.
    pub(crate) time: Timestamp,
}

/// A chunk that is here and has the length it should.
#[derive(Debug)]
pub(crate) struct ChunkFile {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
    /// Where the index ends.
    pub(crate) index_end: u64,
    /// Where its entry ends, padding included.
    pub(crate) start: u64,
    /// What of it is here; none if all of it is.
    pub(crate) excerpt: Option<Excerpt>,
}

impl ChunkFile {
    /// A part of a blob, if its bytes are here.
    pub(super) fn extent(&self, part: &Part) -> Option<Extent> {
        let start = self.start.checked_add(part.offset)?;
        let is_here = |excerpt: &Excerpt| excerpt.has(start, start.saturating_add(part.length));
        let file = self.file.clone();
        self.excerpt.as_ref().is_none_or(is_here).then_some(Extent {
            file,
            start,
            length: part.length,
        })
    }
}

/// Where a blob would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbsentBlob {
    pub digest: Digest,
    pub run: u64,
    /// File names of the chunks that hold it and are not here.
    pub absent: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(r#"no tar archives matching "mirror_[0-9]{{6}}\\.tar" found in {}"#, .0.display())]
    None(PathBuf),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// A chunk whose index is being read.
pub(super) struct Candidate {
    path: PathBuf,
    pub(super) file: File,
    pub(super) number: u32,
    pub(super) index_length: u64,
    pub(super) excerpt: Option<Excerpt>,
}

impl Archives {
    /// Finds the archives in `directory` and reads their indexes. What is
    /// wrong with them is in [`Archives::findings`]; an error means that there
    /// is no archive to read.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let files = chunk_files(directory)?;
        if files.is_empty() {
            return Err(OpenError::None(directory.to_owned()));
        }
        let listing = Listing::of(&files);
        Ok(Self { listing, ..Self::of_files(directory, files) })
    }

    /// Reads the indexes of these files, all in `directory`, whatever else is there.
    pub fn of_files(directory: &Path, files: Vec<PathBuf>) -> Self {
        let mut findings = Vec::new();
        let mut groups: BTreeMap<Digest, Vec<Candidate>> = BTreeMap::new();
        for path in files {
            match candidate(&path) {
                Ok((digest, candidate)) => groups.entry(digest).or_default().push(candidate),
                Err(finding) => findings.push(finding),
            }
        }
        let mut runs = Vec::new();
        for (digest, candidates) in groups {
            runs.extend(RunArchive::gather(directory, &digest, candidates, &mut findings));
        }
        sort(&mut runs);
        find_replaced(&runs, &mut findings);
        findings.sort();
        let (images, blobs) = (recorded_images(&runs), readable_blobs(&runs));
        let (unopened, listing) = (Unopened::default(), None);
        Self { runs, findings, images, blobs, unopened, listing }
    }

    /// What is wrong, as far as it shows without reading all content; sorted.
    pub fn findings(&self) -> &[ArchiveFinding] {
        &self.findings
    }

    /// The archives of oc-mirror v2 that are here, sorted.
    pub fn of_oc_mirror_v2(&self) -> Vec<PathBuf> {
        let files = self.findings.iter().filter_map(|finding| match finding {
            ArchiveFinding::OcMirrorV2 { file } => Some(file.clone()),
            _ => None,
        });
        files.collect()
    }

    /// The indexes of all runs that are here, oldest first.
    pub fn indexes(&self) -> impl Iterator<Item = &Index> {
        self.runs.iter().map(|run| &run.index)
    }

    /// All images, sorted by where a workspace would have them. Where several
    /// runs contain one, it is the newest.
    pub fn images(&self) -> impl Iterator<Item = &ImageRecord> {
        let newest = self.images.values().filter_map(|records| records.last());
        newest.map(|(run, image)| &self.runs[*run].index.images[*image])
    }

    /// Frees what is known of images: with many thousands that is most of an index.
    pub(crate) fn forget_images(&mut self) {
        self.images.clear();
        for run in &mut self.runs {
            run.index.images = Vec::new();
        }
    }

    /// The newest record of an image.
    pub fn image(&self, origin: &Origin) -> Option<&ImageRecord> {
        self.records(origin).last().map(|(record, _)| record)
    }

    /// Every record of an image, oldest first, and the run that archived it.
    pub(crate) fn records(
        &self,
        origin: &Origin,
    ) -> impl Iterator<Item = (&ImageRecord, &RunArchive)> {
        let records = self.images.get(&ImageDirectory::of(origin)).into_iter().flatten();
        records.map(|(run, image)| {
            let run = &self.runs[*run];
            (&run.index.images[*image], run)
        })
    }

    /// The archives of all runs that are here, oldest first.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &RunArchive> {
        self.runs.iter()
    }

    /// Where a blob is, if all of it is in files that were opened.
    fn opened_blob(&self, digest: &Digest) -> Option<Arc<[Extent]>> {
        let at = self.blobs.binary_search_by_key(&digest, |place| &entry(&self.runs, place).digest);
        let place = self.blobs.get(at.ok()?)?;
        self.runs[place.0 as usize].extents(entry(&self.runs, place))
    }

    /// The length of a blob that is here.
    pub fn size(&self, digest: &Digest) -> Option<u64> {
        let extents = self.opened_blob(digest).or_else(|| self.earlier_blob(digest))?;
        Some(extents.iter().map(|extent| extent.length).sum())
    }

    /// Reads a blob that is here.
    pub fn blob(&self, digest: &Digest) -> Option<BlobReader> {
        self.opened_blob(digest).or_else(|| self.earlier_blob(digest)).map(BlobReader::new)
    }

    /// The files that contain a blob.
    pub fn files_of(&self, digest: &Digest) -> Vec<PathBuf> {
        let holding = self.runs.iter().rev().find_map(|run| {
            let parts = &run.index.blob(digest)?.parts;
            parts.iter().map(|part| Some(run.chunks.get(&part.chunk)?.path.clone())).collect()
        });
        let mut files: Vec<PathBuf> =
            holding.or_else(|| self.earlier_files(digest)).unwrap_or_default();
        files.dedup();
        files
    }

    /// The day, in UTC, on which a blob that is here was archived.
    pub fn written(&self, digest: &Digest) -> Option<Date> {
        let holding = self
            .runs
            .iter()
            .rev()
            .find(|run| run.index.own_blobs().any(|blob| blob.digest == *digest));
        let created = match holding {
            Some(run) => run.index.created,
            None => self.earlier_chunks(digest)?.first()?.created,
        };
        Some(created.to_zoned(TimeZone::UTC).date())
    }

    /// Which files would hold a blob that is not here. `None` when no index
    /// knows it, or it is here.
    pub fn whereabouts(&self, digest: &Digest) -> Option<AbsentBlob> {
        if self.size(digest).is_some() {
            return None;
        }
        let newest_first = self.runs.iter().rev();
        let (index, blob) =
            newest_first.filter_map(|run| Some((&run.index, run.index.blob(digest)?))).next()?;
        let run = index.chunk(blob.parts.first()?.chunk)?.run;
        let here = |number: u32| {
            let mut same_run = self
                .runs
                .iter()
                .filter(|other| other.index.workspace == index.workspace && other.index.run == run);
            same_run.any(|other| other.chunks.contains_key(&number)) || self.unopened.has(number)
        };
        let mut absent: Vec<u32> = blob.parts.iter().map(|part| part.chunk).collect();
        absent.retain(|number| !here(*number));
        absent.dedup();
        Some(AbsentBlob {
            digest: *digest,
            run,
            absent: absent.into_iter().map(chunk_name).collect(),
        })
    }
}

impl fmt::Display for AbsentBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { digest, run, absent } = self;
        if absent.is_empty() {
            return write!(f, "{digest} is in an archive of run {run} that is damaged");
        }
        write!(f, "{digest} is in {} of run {run}, not in this directory", absent.join(", "))
    }
}

impl RunArchive {
    /// Reads the one index of `candidates` and checks each file against it.
    fn gather(
        directory: &Path,
        digest: &Digest,
        candidates: Vec<Candidate>,
        findings: &mut Vec<ArchiveFinding>,
    ) -> Option<Self> {
        let mut index = None;
        let mut sound = Vec::new();
        for candidate in candidates {
            // Parsed once; the other copies need only be the same.
            let read = match &index {
                None => read_index(&candidate, digest).map(|read| index = Some(read)),
                Some(_) => check_copy(&candidate, digest),
            };
            match read {
                Ok(()) => sound.push(candidate),
                Err(error) => {
                    let reason = with_causes(&error);
                    findings.push(ArchiveFinding::BadIndex { file: candidate.path, reason });
                }
            }
        }
        let index: Index = index?;
        let time = index.created;
        let mut run = Self { index, chunks: BTreeMap::new(), time };
        let mut seen = Vec::new();
        for candidate in sound {
            seen.push(candidate.number);
            run.take(candidate, findings);
        }
        let chunks = run.index.own_chunks().count();
        for chunk in run.index.own_chunks().filter(|chunk| !seen.contains(&chunk.number)) {
            let file = directory.join(chunk_name(chunk.number));
            findings.push(ArchiveFinding::Missing { file, run: run.index.run, chunks });
        }
        Some(run)
    }

    /// The parts of a blob; none if one of them is not here.
    fn extents(&self, blob: &BlobEntry) -> Option<Arc<[Extent]>> {
        blob.parts.iter().map(|part| self.chunks.get(&part.chunk)?.extent(part)).collect()
    }

    /// Takes a chunk in when the index lists it and its length is right.
    fn take(&mut self, candidate: Candidate, findings: &mut Vec<ArchiveFinding>) {
        let Candidate { path, file, number, index_length, excerpt } = candidate;
        let listed = self.index.own_chunks().find(|chunk| chunk.number == number);
        let start = footprint(index_length);
        let expected =
            listed.and_then(|chunk| start.checked_add(chunk.length)?.checked_add(TRAILER));
        let Some(expected) = expected else {
            let reason = format!("its number is {number}, which its index does not list");
            findings.push(ArchiveFinding::BadIndex { file: path, reason });
            return;
        };
        match file.metadata() {
            Ok(meta) if meta.len() == expected => {
                let (file, index_end) = (Arc::new(file), BLOCK + index_length);
                self.chunks.insert(number, ChunkFile { path, file, index_end, start, excerpt });
            }
            Ok(meta) => {
                let (run, length) = (self.index.run, meta.len());
                findings.push(ArchiveFinding::Length { file: path, run, length, expected });
            }
            Err(error) => {
                findings.push(ArchiveFinding::Unreadable { file: path, reason: error.to_string() });
            }
        }
    }
}

/// Sorts runs, oldest first. In one workspace the number decides, as its clock may have been set
/// back; between workspaces the clock does.
fn sort(runs: &mut [RunArchive]) {
    runs.sort_by(|a, b| {
        let key = |run: &RunArchive| (run.index.run, run.index.created);
        key(a).cmp(&key(b)).then_with(|| a.index.content.cmp(&b.index.content))
    });
    let mut latest: BTreeMap<WorkspaceId, Timestamp> = BTreeMap::new();
    for run in runs.iter_mut() {
        let known = latest.entry(run.index.workspace.clone()).or_insert(run.index.created);
        *known = run.index.created.max(*known);
        run.time = *known;
    }
    // Stable: runs of one workspace keep their order.
    runs.sort_by_key(|run| run.time);
}

/// The chunk files of a directory, sorted by name.
pub(super) fn chunk_files(directory: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).at("reading", directory)? {
        let entry = entry.at("reading", directory)?;
        if entry.file_name().to_str().and_then(parse_chunk_name).is_some() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn candidate(path: &Path) -> Result<(Digest, Candidate), ArchiveFinding> {
    let owned = || path.to_owned();
    let unreadable =
        |error: io::Error| ArchiveFinding::Unreadable { file: owned(), reason: error.to_string() };
    // Before it is opened: that would wait for the other end of a pipe.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(ArchiveFinding::Unreadable {
            file: owned(),
            reason: "not a regular file".to_owned(),
        });
    }
    let file = File::open(path).map_err(unreadable)?;
    match first_entry(&file).map_err(unreadable)? {
        FirstEntry::Index { chunk: number, digest, length: index_length } => {
            let excerpt = Excerpt::of(path).map_err(unreadable)?;
            Ok((digest, Candidate { path: owned(), file, number, index_length, excerpt }))
        }
        FirstEntry::Nothing => Err(ArchiveFinding::Empty { file: owned() }),
        FirstEntry::OcMirrorV2 => Err(ArchiveFinding::OcMirrorV2 { file: owned() }),
        FirstEntry::Foreign => Err(ArchiveFinding::Foreign { file: owned() }),
    }
}

pub(super) fn read_index(candidate: &Candidate, digest: &Digest) -> Result<Index, IndexError> {
    let open = || -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(ReadAt { file: &candidate.file, position: BLOCK }))
    };
    Index::read(open, candidate.index_length, digest)
}

fn check_copy(candidate: &Candidate, want: &Digest) -> Result<(), IndexError> {
    let text = ReadAt { file: &candidate.file, position: BLOCK };
    let got = digest_of(text, candidate.index_length)?;
    if got == *want { Ok(()) } else { Err(IndexError::Digest { want: *want, got }) }
}

/// Two runs may differ under one number, when a workspace was restored from a
/// backup. What one of them builds on is then not what the other wrote.
fn find_replaced(runs: &[RunArchive], findings: &mut Vec<ArchiveFinding>) {
    for run in runs {
        let earlier = run.index.chunks.iter().filter(|chunk| chunk.run != run.index.run);
        for wanted in earlier {
            let same = |other: &&RunArchive| {
                other.index.workspace == run.index.workspace && other.index.run == wanted.run
            };
            let here = runs.iter().filter(same).filter_map(|other| {
                let file = other.chunks.get(&wanted.number)?;
                Some((other.index.chunk(wanted.number)?, file))
            });
            let here: Vec<_> = here.collect();
            let right = here.iter().any(|(chunk, _)| chunk.checksum == wanted.checksum);
            if let (false, Some((_, file))) = (right, here.first()) {
                findings
                    .push(ArchiveFinding::Replaced { file: file.path.clone(), run: run.index.run });
            }
        }
    }
}

fn recorded_images(runs: &[RunArchive]) -> BTreeMap<ImageDirectory, Vec<(usize, usize)>> {
    let mut images: BTreeMap<ImageDirectory, Vec<(usize, usize)>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        for (position, image) in run.index.images.iter().enumerate() {
            // Most images are in one archive.
            let records = images.entry(ImageDirectory::of(&image.origin));
            records.or_insert_with(|| Vec::with_capacity(1)).push((at, position));
        }
    }
    images
}

/// The blobs all of whose parts are here, by digest. Each is looked for in the run that
/// wrote it, whose index is in its own chunks. Only their places are kept: with many thousand
/// images the indexes are large enough.
fn readable_blobs(runs: &[RunArchive]) -> Vec<(u32, u32)> {
    let mut blobs = Vec::new();
    for (at, run) in (0..).zip(runs) {
        let own: BTreeSet<u32> = run.index.own_chunks().map(|chunk| chunk.number).collect();
        for (position, blob) in (0..).zip(&run.index.blobs) {
            let is_own = blob.parts.first().is_some_and(|part| own.contains(&part.chunk));
            if is_own && run.extents(blob).is_some() {
                blobs.push((at, position));
            }
        }
    }
    // Stable: of several runs that have a blob, the oldest comes first.
    blobs.sort_by_key(|place| &entry(runs, place).digest);
    blobs.dedup_by_key(|place| &entry(runs, place).digest);
    blobs.shrink_to_fit();
    blobs
}

/// What the index of a run lists of a blob.
fn entry<'a>(runs: &'a [RunArchive], (run, position): &(u32, u32)) -> &'a BlobEntry {
    &runs[*run as usize].index.blobs[*position as usize]
}
