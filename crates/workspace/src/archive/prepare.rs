//! Decides what a run's archive holds, before a byte of it is written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mirror_plan::{BlobRef, ImageRecord, Origin};
use oci::Digest;

use super::delivered::Delivered;
use super::entry::{MAX_CHUNK, TRAILER, chunk_name, footprint, parse_chunk_name};
use super::history::Base;
use super::index::{
    ArchiveStatus, BlobEntry, ChunkEntry, FORMAT, Index, Part, checksum, needed, write_json,
};
use super::plan::{NoRoom, PlannedChunk, Room, fill_groups};
use crate::Workspace;
use crate::disk_error::{At, DiskError, unless_absent};
use crate::identity::WorkspaceId;
use crate::redact::redact_urls;
use crate::runs::FailedImage;

/// What to archive.
#[derive(Debug, Clone)]
pub struct ArchiveRequest {
    pub run: u64,
    pub created: Timestamp,
    pub status: ArchiveStatus,
    pub failed: Vec<FailedImage>,
    /// The images of the run; all their blobs are in the store.
    pub images: Vec<ImageRecord>,
    /// Further files by name; their contents are in the store too. They are
    /// small, and in every archive, whatever earlier ones held: what images
    /// are selected by must be available wherever the newest archive is.
    pub files: BTreeMap<String, BlobRef>,
    pub base: Base,
    /// The largest a chunk may be, in bytes.
    pub limit: u64,
}

/// What there is to do.
#[derive(Debug)]
pub enum ArchivePlan {
    /// The archives up to run `base` hold all of it already.
    NothingNew {
        base: u64,
    },
    Write(Box<PlannedArchive>),
}

/// An archive that is ready to be written.
#[derive(Debug)]
pub struct PlannedArchive {
    pub(crate) index: Index,
    pub(crate) index_digest: Digest,
    pub(crate) index_length: u64,
    /// It was begun by a run that did not get to its end.
    pub(crate) resumed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error(
        "chunks of {limit} bytes are too small: the index of this archive takes {needed} in each (raise archiveSize)"
    )]
    TooSmall { limit: u64, needed: u64 },
    #[error(
        "archives of this workspace have used up all numbers up to {MAX_CHUNK}: start a new workspace"
    )]
    Numbers,
    #[error(
        "{origin} cannot be archived: only its manifests are here (mirror it to this disk first)"
    )]
    NotHeld { origin: Box<Origin> },
    #[error(
        "{digest}, which {of} needs, is not in the blob store (run again: it is fetched again)"
    )]
    Missing { digest: Digest, of: String },
    /// Content of the blob store does not match its digest. No archive has it; the same plan can
    /// be written once the content is replaced.
    #[error(
        "content of the workspace is damaged or not readable: {} (check the disk)",
        list(digests)
    )]
    Damaged { digests: Vec<Digest> },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

fn list(digests: &[Digest]) -> String {
    digests.iter().map(Digest::to_string).collect::<Vec<_>>().join(", ")
}

/// Whether content must be in the store when its archive is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Required,
    Expected,
}

impl PlannedArchive {
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The digest of the index as it is written.
    pub fn index_digest(&self) -> Digest {
        self.index_digest
    }

    /// The length of the index as it is written.
    pub fn index_length(&self) -> u64 {
        self.index_length
    }

    /// Whether an earlier run began it.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// The length of all chunk files together.
    pub fn bytes(&self) -> u64 {
        self.index.own_chunks().map(|chunk| self.length_of(chunk)).sum()
    }

    /// The length of a chunk's file.
    pub fn length_of(&self, chunk: &ChunkEntry) -> u64 {
        footprint(self.index_length) + chunk.length + TRAILER
    }
}

impl Workspace {
    /// Plans the archive of a run: what the base does not hold, spread over
    /// chunks of limited size. Writes nothing.
    pub fn plan_archive(&self, request: ArchiveRequest) -> Result<ArchivePlan, ArchiveError> {
        self.plan(request, Held::Required, &|_| None)
    }

    /// As [`Workspace::plan_archive`], for content that other processes fetch and write: what has an
    /// owner is in chunks of that owner alone. The rest is in the store of this workspace.
    pub fn plan_segments(
        &self,
        request: ArchiveRequest,
        owner: &dyn Fn(&Digest) -> Option<u32>,
    ) -> Result<ArchivePlan, ArchiveError> {
        self.plan(request, Held::Expected, owner)
    }

    /// As [`Workspace::plan_archive`], for content that is about to arrive.
    pub(super) fn plan_expected_archive(
        &self,
        request: ArchiveRequest,
    ) -> Result<ArchivePlan, ArchiveError> {
        self.plan(request, Held::Expected, &|_| None)
    }

    fn plan(
        &self,
        mut request: ArchiveRequest,
        held: Held,
        owner: &dyn Fn(&Digest) -> Option<u32>,
    ) -> Result<ArchivePlan, ArchiveError> {
        request.images.sort_by(|a, b| a.origin.cmp(&b.origin));
        request.images.dedup_by(|a, b| a.origin == b.origin);
        request.failed.sort_by(|a, b| a.origin.cmp(&b.origin));
        for failure in &mut request.failed {
            failure.error = redact_urls(&failure.error);
        }
        if let Some(image) = request.images.iter().find(|image| !image.blobs_held) {
            return Err(ArchiveError::NotHeld { origin: Box::new(image.origin.clone()) });
        }
        let content = content(&request)?;
        let base = self.base_run(&request.base)?;
        let number = base.as_ref().map(|run| run.run);
        for pending in self.pending()? {
            if let Some(index) = pending.index
                && (index.content, index.base, index.limit) == (content, number, request.limit)
                && is_divided(&index, owner)
            {
                return Ok(ArchivePlan::Write(Box::new(PlannedArchive {
                    index,
                    index_digest: pending.digest,
                    index_length: pending.length,
                    resumed: true,
                })));
            }
        }
        let need = needed(&request.images, &request.files);
        let delivered = self.delivered(&need)?;
        let new: Vec<BlobRef> = need
            .iter()
            .filter(|(digest, _)| delivered.held(digest, number).is_none())
            .map(|(digest, size)| BlobRef { digest: *digest, size: *size })
            .collect();
        // Once the archives were moved elsewhere, a small one is still written for the transfer.
        if let Some(base) = &base
            && new.is_empty()
            && base.content == content
            && base.chunks.iter().all(|chunk| self.chunk_path(chunk.number).exists())
        {
            return Ok(ArchivePlan::NothingNew { base: base.run });
        }
        let mut carried: BTreeSet<BlobRef> = new.into_iter().collect();
        carried.extend(request.files.values());
        let new: Vec<BlobRef> = carried.into_iter().collect();
        if held == Held::Required {
            self.check_held(&request, &new)?;
        }
        let mut groups: BTreeMap<Option<u32>, Vec<BlobRef>> = BTreeMap::new();
        for blob in new {
            groups.entry(owner(&blob.digest)).or_default().push(blob);
        }
        let groups: Vec<Vec<BlobRef>> = groups.into_values().collect();
        let identity = self.identity()?;
        let first = identity.last_chunk.max(self.highest_chunk_here()?) + 1;
        // Moved from draft to draft: of many thousand images, two lists are one too many.
        let images = std::mem::take(&mut request.images);
        let draft =
            Draft { request: &request, content, delivered: &delivered, base: number, need: &need };
        let planned = draft.index(&identity.id, first, &groups, images)?;
        Ok(ArchivePlan::Write(Box::new(planned)))
    }

    /// How many bytes of `content` no archive up to `base` holds.
    ///
    /// # Errors
    ///
    /// The records of archives cannot be read.
    pub fn bytes_to_archive(
        &self,
        content: &BTreeMap<Digest, u64>,
        base: &Base,
    ) -> Result<u64, DiskError> {
        let number = self.base_run(base)?.map(|run| run.run);
        let delivered = self.delivered(content)?;
        let new = content.iter().filter(|(digest, _)| delivered.held(digest, number).is_none());
        Ok(new.map(|(_, size)| size).sum())
    }

    fn check_held(&self, request: &ArchiveRequest, new: &[BlobRef]) -> Result<(), ArchiveError> {
        for blob in new {
            if !self.blobs().has(&blob.digest, Some(blob.size))? {
                let of = needed_by(request, &blob.digest);
                return Err(ArchiveError::Missing { digest: blob.digest, of });
            }
        }
        Ok(())
    }

    /// The highest number of a chunk file in the directory, whatever wrote it.
    fn highest_chunk_here(&self) -> Result<u32, DiskError> {
        let root = self.root();
        let entries = unless_absent(fs::read_dir(root)).at("reading", root)?;
        let mut highest = 0;
        for entry in entries.into_iter().flatten() {
            let name = entry.at("reading", root)?.file_name();
            highest = highest.max(name.to_str().and_then(parse_chunk_name).unwrap_or(0));
        }
        Ok(highest)
    }

    pub(crate) fn chunk_path(&self, number: u32) -> PathBuf {
        self.root().join(chunk_name(number))
    }
}

/// What an index is made of, beside its images.
struct Draft<'a> {
    request: &'a ArchiveRequest,
    content: Digest,
    delivered: &'a Delivered,
    base: Option<u64>,
    need: &'a BTreeMap<Digest, u64>,
}

impl Draft<'_> {
    /// The index with `new` blobs in chunks from `first` on. How much room an
    /// index leaves depends on its length, and that on how many chunks there
    /// are; so the room is guessed, and guessed smaller until it is enough.
    fn index(
        &self,
        workspace: &WorkspaceId,
        first: u32,
        new: &[Vec<BlobRef>],
        mut images: Vec<ImageRecord>,
    ) -> Result<PlannedArchive, ArchiveError> {
        let limit = self.request.limit;
        let mut reserved = 0;
        loop {
            let chunks = fill_groups(new, Room { limit, reserved }).map_err(
                |NoRoom { limit, reserved }| ArchiveError::TooSmall { limit, needed: reserved },
            )?;
            let index = self.assemble(workspace, first, &chunks, images)?;
            let (index_length, index_digest) = describe(&index, first)?;
            let takes = footprint(index_length) + TRAILER;
            if takes <= reserved {
                return Ok(PlannedArchive { index, index_digest, index_length, resumed: false });
            }
            reserved = takes + takes / 16;
            images = index.images;
        }
    }

    fn assemble(
        &self,
        workspace: &WorkspaceId,
        first: u32,
        planned: &[PlannedChunk],
        images: Vec<ImageRecord>,
    ) -> Result<Index, ArchiveError> {
        let request = self.request;
        let count = planned.iter().map(|chunk| chunk.pieces.len()).sum();
        let mut parts: Vec<(Digest, Part)> = Vec::with_capacity(count);
        let mut chunks = Vec::with_capacity(planned.len());
        for (position, chunk) in planned.iter().enumerate() {
            let number = u32::try_from(position).ok().and_then(|n| first.checked_add(n));
            let number = number.filter(|n| *n <= MAX_CHUNK).ok_or(ArchiveError::Numbers)?;
            for piece in &chunk.pieces {
                let part = Part { chunk: number, offset: piece.offset, length: piece.length };
                parts.push((piece.blob, part));
            }
            let checksum = checksum(&[]);
            chunks.push(ChunkEntry { number, run: request.run, length: chunk.length, checksum });
        }
        // Stable: parts of a blob keep their order.
        parts.sort_by_key(|(digest, _)| *digest);
        let mut earlier = BTreeSet::new();
        let mut blobs = Vec::with_capacity(self.need.len());
        for (digest, size) in self.need {
            let own = parts.partition_point(|(other, _)| other < digest);
            let own = parts[own..].iter().take_while(|(other, _)| other == digest);
            let mut own: Vec<Part> = own.map(|(_, part)| *part).collect();
            own.shrink_to_fit();
            let parts = match self.delivered.held(digest, self.base) {
                Some(held) if own.is_empty() => {
                    earlier.extend(held.parts.iter().map(|part| part.chunk));
                    held.parts.clone()
                }
                _ => own,
            };
            blobs.push(BlobEntry { digest: *digest, size: *size, parts });
        }
        drop(parts);
        chunks.extend(earlier.into_iter().filter_map(|number| self.delivered.chunk(number)));
        chunks.sort_by_key(|chunk| chunk.number);
        let mut index = Index {
            format: FORMAT,
            workspace: workspace.clone(),
            run: request.run,
            base: self.base,
            created: request.created,
            status: request.status,
            content: self.content,
            limit: request.limit,
            failed: request.failed.clone(),
            files: request.files.clone(),
            images,
            blobs,
            chunks,
        };
        for (number, pieces) in index.own_pieces() {
            let entry = index.chunks.iter_mut().find(|chunk| chunk.number == number);
            if let Some(entry) = entry {
                entry.checksum = checksum(&pieces);
            }
        }
        Ok(index)
    }
}

/// Whether each chunk has content of one owner only, who can write it. An archive that was begun for
/// another number of shards is divided in another way.
fn is_divided(index: &Index, owner: &dyn Fn(&Digest) -> Option<u32>) -> bool {
    let mut owners: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    index.own_blobs().all(|blob| {
        let owner = owner(&blob.digest);
        blob.parts.iter().all(|part| *owners.entry(part.chunk).or_insert(owner) == owner)
    })
}

/// The digest of the request. How failures are worded may differ from
/// run to run, so only their images count.
fn content(request: &ArchiveRequest) -> Result<Digest, DiskError> {
    let failed: Vec<&Origin> = request.failed.iter().map(|failure| &failure.origin).collect();
    let requested = (request.status, failed, &request.files, &request.images);
    let written = write_json(&requested, io::sink());
    Ok(written.at("describing the archive of", Path::new("this run"))?.1)
}

/// Length and digest of an index that is not written yet. It can fail on names
/// of layouts that JSON cannot hold.
fn describe(index: &Index, first: u32) -> Result<(u64, Digest), DiskError> {
    write_json(index, io::sink()).at("writing the index of", Path::new(&chunk_name(first)))
}

fn needed_by(request: &ArchiveRequest, digest: &Digest) -> String {
    let has = |image: &&ImageRecord| {
        let mut manifests = image.tree.all_manifests();
        manifests.any(|m| m.digest == *digest || m.blobs.iter().any(|b| b.digest == *digest))
    };
    let image = request.images.iter().find(has).map(|image| image.origin.to_string());
    let file = request.files.iter().find(|(_, file)| file.digest == *digest);
    image.or(file.map(|(name, _)| name.clone())).unwrap_or_else(|| "this run".to_owned())
}
