//! Files of archives of which only some ranges are here.
//!
//! A shard reads the blobs that it owns, and planning reads indexes, manifests and documents. So
//! they fetch these ranges of an archive in an object store, into a file that has holes elsewhere.
//! A second file beside it, `mirror_NNNNNN.tar.ranges`, lists which ranges exist: blobs in
//! holes are treated as absent, never as damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use oci::Digest;
use serde::{Deserialize, Serialize};
use tar::Header;

use super::entry::{BLOCK, TRAILER, footprint, header, index_name, parse_index_name};
use super::index::{BlobEntry, MAX_BYTES};
use super::open::Archives;
use crate::atomic_file::{self, Durability};
use crate::disk_error::{At, DiskError, unless_absent};

const SUFFIX: &str = ".ranges";

/// The ranges of a file that are here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// From where to where, sorted; they do not touch each other.
    ranges: Vec<(u64, u64)>,
}

/// Ranges of a file, and its whole length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRanges {
    pub length: u64,
    pub excerpt: Excerpt,
}

impl Excerpt {
    pub fn new(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut sorted: Vec<(u64, u64)> =
            ranges.into_iter().filter(|(start, end)| start < end).collect();
        sorted.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
        for (start, end) in sorted {
            match ranges.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => ranges.push((start, end)),
            }
        }
        Self { ranges }
    }

    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// Both together.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self::new(self.ranges.iter().chain(&other.ranges).copied())
    }

    /// What this one has and `other` has not.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        for (mut start, end) in self.ranges.iter().copied() {
            for (from, to) in &other.ranges {
                if *to <= start || *from >= end {
                    continue;
                }
                if start < *from {
                    left.push((start, *from));
                }
                start = *to;
            }
            left.push((start, end));
        }
        Self::new(left)
    }

    /// Whether all bytes from `start` to `end` are there.
    pub fn has(&self, start: u64, end: u64) -> bool {
        let at = self.ranges.partition_point(|(from, _)| *from <= start);
        let before = at.checked_sub(1).and_then(|at| self.ranges.get(at));
        start >= end || before.is_some_and(|(_, to)| end <= *to)
    }

    /// What of a file is here; none if all of it is.
    ///
    /// # Errors
    /// The list of ranges cannot be read.
    pub fn of(file: &Path) -> io::Result<Option<Self>> {
        match fs::read(list_of(file)) {
            Ok(text) => {
                let read: Self = serde_json::from_slice(&text).map_err(io::Error::other)?;
                Ok(Some(Self::new(read.ranges)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Notes that these ranges of a file are here. Before the file has other content than its
    /// ranges, so that nothing is read from a hole.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn save(&self, file: &Path) -> Result<(), DiskError> {
        let path = list_of(file);
        let text = serde_json::to_vec(self).map_err(io::Error::other).at("writing", &path)?;
        atomic_file::write(&path, &text, Durability::Later)
    }

    /// Notes that all of a file is here.
    ///
    /// # Errors
    /// The list cannot be removed.
    pub fn forget(file: &Path) -> Result<(), DiskError> {
        let path = list_of(file);
        unless_absent(fs::remove_file(&path)).at("removing", &path).map(drop)
    }
}

fn list_of(file: &Path) -> PathBuf {
    let mut name = file.file_name().map(OsString::from).unwrap_or_default();
    name.push(SUFFIX);
    file.with_file_name(name)
}

/// The length of everything up to the first blob, from the first 512 bytes of a file. None for a
/// file that is not an archive of this format.
pub fn head_length(block: &[u8]) -> Option<u64> {
    let block: &[u8; BLOCK as usize] = block.get(..BLOCK as usize)?.try_into().ok()?;
    let found = Header::from_byte_slice(block);
    let name = String::from_utf8_lossy(&found.path_bytes()).into_owned();
    parse_index_name(&name)?;
    let length = found.entry_size().ok()?;
    (header(&name, length) == *block && length <= MAX_BYTES).then(|| footprint(length))
}

/// The first 512 bytes of a file of an archive. They name the index by digest, which describes the
/// whole archive: files with the same first bytes and the same length are the same.
pub fn first_block(chunk: u32, index: &Digest, index_length: u64) -> Vec<u8> {
    header(&index_name(chunk, index), index_length).to_vec()
}

/// The digest of the first 512 bytes of a file, which tells it from every other archive.
///
/// # Errors
/// The file cannot be read, or is shorter.
pub fn first_block_digest(file: &Path) -> io::Result<Digest> {
    let mut block = [0; BLOCK as usize];
    fs::File::open(file)?.read_exact(&mut block)?;
    Ok(Digest::of(&block))
}

impl Archives {
    /// What describes the content: manifests of images, and files that came with them.
    pub fn descriptions(&self) -> BTreeSet<Digest> {
        let mut digests = BTreeSet::new();
        for index in self.indexes() {
            digests.extend(index.files.values().map(|file| file.digest));
            let manifests = index.images.iter().flat_map(|image| image.tree.all_manifests());
            digests.extend(manifests.map(|node| node.digest));
        }
        digests
    }

    /// The content of the files that were opened, with its size; also where the bytes are not here.
    pub fn sizes(&self) -> BTreeMap<Digest, u64> {
        let mut sizes = BTreeMap::new();
        for run in self.runs() {
            let is_here = |blob: &&BlobEntry| {
                blob.parts.iter().all(|part| run.chunks.contains_key(&part.chunk))
            };
            let blobs = run.index.own_blobs().filter(is_here);
            sizes.extend(blobs.map(|blob| (blob.digest, blob.size)));
        }
        sizes
    }

    /// Where content is, by file, with the index of each file; also where the bytes are not here.
    /// Content of files that were not opened is left out.
    pub fn ranges_of(&self, is_needed: impl Fn(&Digest) -> bool) -> BTreeMap<PathBuf, FileRanges> {
        let mut found: BTreeMap<PathBuf, (u64, Vec<(u64, u64)>)> = BTreeMap::new();
        let mut known = BTreeSet::new();
        for run in self.runs() {
            for blob in run.index.own_blobs().filter(|blob| is_needed(&blob.digest)) {
                let chunks = blob.parts.iter().map(|part| {
                    let chunk = run.chunks.get(&part.chunk)?;
                    Some((part, chunk, run.index.chunk(part.chunk)?))
                });
                let Some(chunks) = chunks.collect::<Option<Vec<_>>>() else { continue };
                if !known.insert(blob.digest) {
                    continue;
                }
                for (part, chunk, entry) in chunks {
                    let length = chunk.start + entry.length + TRAILER;
                    let (_, ranges) = found
                        .entry(chunk.path.clone())
                        .or_insert_with(|| (length, vec![(0, chunk.start)]));
                    let start = chunk.start + part.offset;
                    ranges.push((start, start + part.length));
                }
            }
        }
        let files = found.into_iter().map(|(path, (length, ranges))| {
            (path, FileRanges { length, excerpt: Excerpt::new(ranges) })
        });
        files.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_subtracted() {
        let excerpt = Excerpt::new([(20, 30), (0, 10), (10, 12), (25, 40), (50, 50)]);
        assert_eq!(excerpt.ranges(), [(0, 12), (20, 40)]);
        let known = Excerpt::new([(5, 25), (30, 35)]);
        assert_eq!(excerpt.without(&known).ranges(), [(0, 5), (25, 30), (35, 40)]);
        assert_eq!(excerpt.without(&excerpt).ranges(), []);
        assert_eq!(excerpt.with(&known).ranges(), [(0, 40)]);
        for (start, end, is_there) in
            [(0, 12, true), (11, 13, false), (20, 40, true), (12, 20, false), (60, 60, true)]
        {
            assert_eq!(excerpt.has(start, end), is_there, "{start} {end}");
        }
    }

    #[test]
    fn a_list_of_ranges_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mirror_000001.tar");
        assert_eq!(Excerpt::of(&file).unwrap(), None);
        let excerpt = Excerpt::new([(0, 512)]);
        excerpt.save(&file).unwrap();
        assert_eq!(Excerpt::of(&file).unwrap(), Some(excerpt));
        Excerpt::forget(&file).unwrap();
        assert_eq!(Excerpt::of(&file).unwrap(), None);
        fs::write(list_of(&file), "ranges").unwrap();
        assert!(Excerpt::of(&file).is_err());
    }

    #[test]
    fn the_head_of_an_archive_is_its_index() {
        let block = header(&index_name(3, &Digest::of(b"x")), 600);
        assert_eq!(first_block(3, &Digest::of(b"x"), 600), block);
        assert_eq!(head_length(&block), Some(512 + 1024));
        assert_eq!(head_length(&header("working-dir/x", 600)), None);
        assert_eq!(head_length(&block[..511]), None);
        assert_eq!(head_length(&header(&index_name(3, &Digest::of(b"x")), MAX_BYTES + 1)), None);
    }
}
