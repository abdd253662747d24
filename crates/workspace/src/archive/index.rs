//! The index of an archive: what it carries, and where every byte of it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, BufWriter, Read, Write};

use jiff::Timestamp;
use mirror_plan::{BlobRef, ImageRecord, exact_list};
use oci::{Digest, Hasher};
use serde::{Deserialize, Serialize};

use super::entry::{BLOCK, MAX_CHUNK, blob_name, padded};
use crate::identity::WorkspaceId;
use crate::records;
use crate::runs::FailedImage;

/// The format this program writes, and the newest it reads.
pub(crate) const FORMAT: u32 = 1;
/// The largest index that is read: some 80,000 images.
pub(crate) const MAX_BYTES: u64 = 256 << 20;

/// Whether all images of the run are in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ArchiveStatus {
    Complete,
    /// Some failed; `failed` lists them.
    Partial,
    /// The run was paused; `failed` lists what it did not reach.
    Paused,
}

/// An archive's table of contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub format: u32,
    pub workspace: WorkspaceId,
    pub run: u64,
    /// The run this one builds on: what it and those before it archived is not
    /// archived again.
    pub base: Option<u64>,
    pub created: Timestamp,
    pub status: ArchiveStatus,
    /// The digest of what the archive is for; equal for equal requests.
    pub content: Digest,
    /// The largest size of a chunk that was requested.
    pub limit: u64,
    pub failed: Vec<FailedImage>,
    /// Files that came with the images, the configuration for example. Their
    /// contents are among the blobs.
    pub files: BTreeMap<String, BlobRef>,
    /// Sorted by origin.
    pub images: Vec<ImageRecord>,
    /// Everything the images and files need, sorted by digest: blobs of this
    /// run's chunks and of earlier ones.
    pub blobs: Vec<BlobEntry>,
    /// This run's chunks, and those of earlier runs that hold some of the blobs.
    pub chunks: Vec<ChunkEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobEntry {
    pub digest: Digest,
    pub size: u64,
    /// In the blob's order. All are in chunks of one run.
    #[serde(deserialize_with = "exact_list")]
    pub parts: Vec<Part>,
}

/// Where a piece of a blob is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub chunk: u32,
    /// Where its content begins, counted from the end of the chunk's index entry.
    pub offset: u64,
    pub length: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkEntry {
    pub number: u32,
    pub run: u64,
    /// Length behind the index entry, without the end of the tar file.
    pub length: u64,
    /// The digest of the chunk's table of entries; see [`checksum`].
    pub checksum: Digest,
}

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the index is {0} bytes long, more than the {MAX_BYTES} that are read")]
    Large(u64),
    #[error("the index has the digest {got}, expected {want} as in its file name")]
    Digest { want: Digest, got: Digest },
    #[error(
        "the index has format {0}, which is newer than this program: use the one that wrote it"
    )]
    Newer(u32),
    #[error("the index is not valid JSON of an index")]
    Json(#[source] serde_json::Error),
    #[error("the index contradicts itself: {0}")]
    Contradiction(String),
    #[error("reading the index")]
    Io(#[source] io::Error),
}

impl Index {
    /// The chunks this run wrote itself.
    pub fn own_chunks(&self) -> impl Iterator<Item = &ChunkEntry> {
        self.chunks.iter().filter(|chunk| chunk.run == self.run)
    }

    /// The blobs in this run's own chunks.
    pub fn own_blobs(&self) -> impl Iterator<Item = &BlobEntry> {
        let own: BTreeSet<u32> = self.own_chunks().map(|chunk| chunk.number).collect();
        let is_own = move |part: &Part| own.contains(&part.chunk);
        self.blobs.iter().filter(move |blob| blob.parts.first().is_some_and(&is_own))
    }

    /// Where a blob is; `None` if nothing here needs it.
    pub fn blob(&self, digest: &Digest) -> Option<&BlobEntry> {
        let at = self.blobs.binary_search_by_key(digest, |blob| blob.digest).ok()?;
        self.blobs.get(at)
    }

    pub(crate) fn chunk(&self, number: u32) -> Option<&ChunkEntry> {
        self.chunks.iter().find(|chunk| chunk.number == number)
    }

    /// Reads an index of `length` bytes that must have the digest `want`,
    /// and checks that it is consistent.
    pub(crate) fn read<'a>(
        open: impl Fn() -> io::Result<Box<dyn Read + 'a>>,
        length: u64,
        want: &Digest,
    ) -> Result<Self, IndexError> {
        let got = digest_of(open().map_err(IndexError::Io)?, length)?;
        if got != *want {
            return Err(IndexError::Digest { want: *want, got });
        }
        let text = || Ok(BufReader::new(open().map_err(IndexError::Io)?.take(length)));
        // First, as later formats may have other fields.
        let Format { format } = serde_json::from_reader(text()?).map_err(IndexError::Json)?;
        if format > FORMAT {
            return Err(IndexError::Newer(format));
        }
        let index: Self = serde_json::from_reader(text()?).map_err(IndexError::Json)?;
        index.check().map_err(IndexError::Contradiction)?;
        Ok(index)
    }

    /// Whether the index is consistent. An archive comes
    /// from elsewhere; what is wrong here must not surface while pushing.
    fn check(&self) -> Result<(), String> {
        let mut chunks = BTreeMap::new();
        for chunk in &self.chunks {
            let known = chunks.insert(chunk.number, chunk).is_some();
            let number = (1..=MAX_CHUNK).contains(&chunk.number);
            if known || !number || chunk.run > self.run || chunk.length % BLOCK != 0 {
                return Err(format!("chunk {} is listed wrongly", chunk.number));
            }
        }
        for blob in &self.blobs {
            check_parts(blob, &chunks)
                .ok_or_else(|| format!("blob {} has no place", blob.digest))?;
        }
        if !self.blobs.is_sorted_by(|a, b| a.digest < b.digest) {
            return Err("its blobs are not sorted".to_owned());
        }
        let pieces = self.own_pieces();
        let none = Vec::new();
        for chunk in self.own_chunks() {
            let pieces = pieces.get(&chunk.number).unwrap_or(&none);
            let mut end = 0;
            for piece in pieces {
                if piece.part.offset != end + BLOCK {
                    return Err(format!("chunk {} has a gap or an overlap", chunk.number));
                }
                end = piece.part.offset + padded(piece.part.length);
            }
            if end != chunk.length || checksum(pieces) != chunk.checksum {
                return Err(format!(
                    "the content of chunk {} does not match its checksum",
                    chunk.number
                ));
            }
        }
        if self.own_chunks().next().is_none() {
            return Err("it has no chunk".to_owned());
        }
        for image in &self.images {
            records::check(image).map_err(|error| error.to_string())?;
        }
        for need in needed(&self.images, &self.files) {
            if self.blob(&need.0).is_none_or(|blob| blob.size != need.1) {
                return Err(format!("blob {} is needed and not listed", need.0));
            }
        }
        Ok(())
    }

    /// The pieces in every chunk of this run, in the order of their positions.
    pub(crate) fn own_pieces(&self) -> BTreeMap<u32, Vec<PlacedPiece>> {
        // Counted first: lists that grow would be half empty, and copied while they are.
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for part in self.own_blobs().flat_map(|blob| &blob.parts) {
            *counts.entry(part.chunk).or_default() += 1;
        }
        let mut pieces: BTreeMap<u32, Vec<PlacedPiece>> =
            counts.into_iter().map(|(chunk, count)| (chunk, Vec::with_capacity(count))).collect();
        for blob in self.own_blobs() {
            let several = blob.parts.len() > 1;
            let mut from = 0;
            for (position, part) in blob.parts.iter().enumerate() {
                let number = several.then_some(position + 1);
                let piece = PlacedPiece { number, blob: blob.digest, from, part: *part };
                pieces.entry(part.chunk).or_default().push(piece);
                from += part.length;
            }
        }
        for chunk in pieces.values_mut() {
            chunk.sort_by_key(|piece| piece.part.offset);
        }
        pieces
    }
}

/// A piece of a blob in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacedPiece {
    /// Which piece of its blob it is, from 1; `None` when it is all of it.
    number: Option<usize>,
    pub(crate) blob: Digest,
    pub(crate) from: u64,
    pub(crate) part: Part,
}

impl PlacedPiece {
    /// The name of its entry.
    pub(crate) fn name(&self) -> String {
        blob_name(&self.blob, self.number)
    }
}

/// The checksum of a chunk: the digest of its table of entries, one line each
/// with name, length, digest of the whole blob, and where in the blob the
/// entry's content begins. With the blobs' digests it pins every byte, and it
/// is known before any byte is copied.
pub(crate) fn checksum(pieces: &[PlacedPiece]) -> Digest {
    let mut hasher = Hasher::new();
    for piece in pieces {
        let PlacedPiece { blob, from, part, .. } = piece;
        let name = piece.name();
        hasher.update(format!("{name}\t{}\t{blob}\t{from}\n", part.length).as_bytes());
    }
    hasher.finish()
}

/// Every blob that `images` and `files` need, manifests included, by size.
pub(crate) fn needed(
    images: &[ImageRecord],
    files: &BTreeMap<String, BlobRef>,
) -> BTreeMap<Digest, u64> {
    let manifests = images.iter().flat_map(|image| image.tree.all_manifests());
    let blobs = images.iter().flat_map(|image| image.tree.blobs());
    let mut needed: BTreeMap<Digest, u64> =
        manifests.map(|node| (node.digest, node.size)).chain(blobs).collect();
    needed.extend(files.values().map(|file| (file.digest, file.size)));
    needed
}

fn check_parts(blob: &BlobEntry, chunks: &BTreeMap<u32, &ChunkEntry>) -> Option<()> {
    let run = chunks.get(&blob.parts.first()?.chunk)?.run;
    let mut size: u64 = 0;
    for part in &blob.parts {
        let chunk = chunks.get(&part.chunk)?;
        let end = part.offset.checked_add(part.length)?.checked_next_multiple_of(BLOCK)?;
        let inside = part.offset >= BLOCK && part.offset % BLOCK == 0 && end <= chunk.length;
        if !inside || chunk.run != run {
            return None;
        }
        size = size.checked_add(part.length)?;
    }
    (size == blob.size).then_some(())
}

/// Writes `value` to `out`; gives length and digest of what was written.
pub(crate) fn write_json(value: &impl Serialize, out: impl Write) -> io::Result<(u64, Digest)> {
    let hashing = Hashing::new(out);
    let mut out = BufWriter::with_capacity(1 << 16, hashing);
    serde_json::to_writer(&mut out, value)?;
    let Hashing { hasher, .. } = out.into_inner().map_err(|error| error.into_error())?;
    Ok((hasher.length(), hasher.finish()))
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// The digest of the first `length` bytes.
pub(crate) fn digest_of(text: impl Read, length: u64) -> Result<Digest, IndexError> {
    if length > MAX_BYTES {
        return Err(IndexError::Large(length));
    }
    let mut hashing = Hashing::new(io::sink());
    io::copy(&mut text.take(length), &mut hashing).map_err(IndexError::Io)?;
    Ok(hashing.finish())
}

/// Hashes what is written through it.
pub(crate) struct Hashing<W> {
    inner: W,
    hasher: Hasher,
}

impl<W> Hashing<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, hasher: Hasher::new() }
    }

    /// The digest of everything that was written.
    pub(crate) fn finish(self) -> Digest {
        self.hasher.finish()
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
