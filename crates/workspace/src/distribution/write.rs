//! Writes archives that oc-mirror v2 can push: links of its cache, blobs, and files of its working
//! directory, in the order in which it writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mirror_plan::{BlobRef, Destination, ImageTree, ManifestNode};
use oci::{Digest, Hasher};
use tar::Header;

use crate::archive::{ArchiveError, PlannedArchive};
use crate::disk_error::{At, DiskError};
use crate::lock::Lock;
use crate::{BlobStore, Workspace};

const STORAGE: &str = "docker/registry/v2";

/// What an archive for oc-mirror v2 has, besides the blobs of a planned archive.
#[derive(Debug, Clone, Default)]
pub struct V2Request {
    /// Images under the names that oc-mirror v2 gives them in its cache.
    pub images: Vec<(Destination, ImageTree)>,
    /// Files below `working-dir`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The configuration, and the time in the name of its file.
    pub configuration: Vec<u8>,
    pub created: Timestamp,
    /// The largest a chunk may be, in bytes. Headers and padding are not counted, as oc-mirror v2
    /// does not count them either.
    pub limit: u64,
    /// Whether a blob that is larger than a chunk is an error. Otherwise it gets a chunk of its own.
    pub is_strict: bool,
}

/// An archive for oc-mirror v2 that is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct V2Archive {
    pub chunks: Vec<PathBuf>,
    pub bytes: u64,
    /// Blobs that are larger than a chunk may be.
    pub oversized: Vec<BlobRef>,
}

#[derive(Debug, thiserror::Error)]
pub enum V2ArchiveError {
    #[error(
        "{digest} has {size} bytes, more than archiveSize allows: oc-mirror v2 cannot read a blob that is split over several files (raise archiveSize, or leave --strict-archive out)"
    )]
    Oversized { digest: Digest, size: u64 },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Workspace {
    /// Writes what is new in `planned` as an archive for oc-mirror v2, and records it as delivered.
    /// `progress` is called with the bytes that were written so far.
    ///
    /// # Guarantees
    /// Files get their names when all of them are complete. Every blob has the digest it is stored
    /// under.
    pub fn write_v2_archive(
        &self,
        lock: &Lock,
        planned: &PlannedArchive,
        request: &V2Request,
        progress: &mut dyn FnMut(u64),
    ) -> Result<V2Archive, V2ArchiveError> {
        let wanted: BTreeSet<Digest> =
            request.images.iter().flat_map(|(_, tree)| all(tree)).collect();
        let new = planned.index().own_blobs().filter(|blob| wanted.contains(&blob.digest));
        let new: Vec<BlobRef> =
            new.map(|blob| BlobRef { digest: blob.digest, size: blob.size }).collect();
        if let Some(large) = new.iter().find(|blob| request.is_strict && blob.size > request.limit)
        {
            let BlobRef { digest, size } = *large;
            return Err(V2ArchiveError::Oversized { digest, size });
        }
        let first = planned.index().own_chunks().map(|chunk| chunk.number).min().unwrap_or(1);
        let mut chunks = Chunks::new(self, first, request);
        for (name, digest) in links(&request.images) {
            chunks.add(&name, digest.to_string().as_bytes())?;
        }
        let mut damaged = Vec::new();
        for blob in &new {
            if !chunks.add_blob(self.blobs(), blob)? {
                damaged.push(blob.digest);
            }
            progress(chunks.written);
        }
        for (name, content) in &request.files {
            chunks.add(&format!("working-dir/{name}"), content)?;
        }
        let name = format!("isc_{}", request.created.strftime("%Y-%m-%dT%H:%M:%SZ"));
        chunks.add(&name, &request.configuration)?;
        if !damaged.is_empty() {
            chunks.discard();
            return Err(ArchiveError::Damaged { digests: damaged }.into());
        }
        let archive = chunks.finish()?;
        self.record_delivered(lock, planned, first + count(&archive) - 1)?;
        Ok(archive)
    }
}

fn count(archive: &V2Archive) -> u32 {
    u32::try_from(archive.chunks.len()).unwrap_or(u32::MAX)
}

/// Every manifest and blob of an image.
fn all(tree: &ImageTree) -> Vec<Digest> {
    let manifests = tree.all_manifests().map(|node| node.digest);
    manifests.chain(tree.blobs().into_keys()).collect()
}

/// The link files of docker distribution for these images, each once.
fn links(images: &[(Destination, ImageTree)]) -> BTreeMap<String, Digest> {
    let mut links = BTreeMap::new();
    for (name, tree) in images {
        let of = format!("{STORAGE}/repositories/{}", name.repository);
        let mut tag = |tag: &str, digest: Digest| {
            let tags = format!("{of}/_manifests/tags/{tag}");
            links.insert(format!("{tags}/current/link"), digest);
            links.insert(format!("{tags}/index/sha256/{}/link", digest.hex()), digest);
        };
        tag(name.tag.as_str(), tree.root().digest);
        for attachment in &tree.attachments {
            if let (Some(name), Some(root)) = (&attachment.tag, attachment.manifests.first()) {
                tag(name.as_str(), root.digest);
            }
        }
        for ManifestNode { digest, blobs, .. } in tree.all_manifests() {
            let hex = digest.hex();
            links.insert(format!("{of}/_manifests/revisions/sha256/{hex}/link"), *digest);
            for blob in blobs {
                let hex = blob.digest.hex();
                links.insert(format!("{of}/_layers/sha256/{hex}/link"), blob.digest);
            }
        }
    }
    links
}

/// The tar files of an archive, as they are written.
struct Chunks<'a> {
    root: &'a Path,
    next: u32,
    limit: u64,
    time: u64,
    /// The chunk that is filled, and what it has so far.
    open: Option<(tar::Builder<BufWriter<File>>, u64)>,
    /// Under their temporary names, with the names they get.
    done: Vec<(PathBuf, PathBuf)>,
    written: u64,
    oversized: Vec<BlobRef>,
}

impl<'a> Chunks<'a> {
    fn new(workspace: &'a Workspace, first: u32, request: &V2Request) -> Self {
        Self {
            root: workspace.root(),
            next: first,
            limit: request.limit,
            time: u64::try_from(request.created.as_second()).unwrap_or(0),
            open: None,
            done: Vec::new(),
            written: 0,
            oversized: Vec::new(),
        }
    }

    fn begin(&mut self) -> Result<tar::Builder<BufWriter<File>>, DiskError> {
        let name = format!("mirror_{:06}.tar", self.next);
        self.next += 1;
        let partial = self.root.join(format!(".{name}.partial"));
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&partial);
        let file = file.at("writing", &partial)?;
        self.done.push((partial, self.root.join(name)));
        Ok(tar::Builder::new(BufWriter::with_capacity(1 << 20, file)))
    }

    /// The chunk for a file of this length.
    fn room_for(&mut self, length: u64) -> Result<&mut tar::Builder<BufWriter<File>>, DiskError> {
        let is_full = |(_, used): &(_, u64)| *used > 0 && used.saturating_add(length) > self.limit;
        if self.open.as_ref().is_some_and(is_full) {
            self.close()?;
        }
        if self.open.is_none() {
            self.open = Some((self.begin()?, 0));
        }
        self.written += length;
        match &mut self.open {
            Some((builder, used)) => {
                *used += length;
                Ok(builder)
            }
            None => unreachable!("a chunk was opened"),
        }
    }

    fn close(&mut self) -> Result<(), DiskError> {
        let Some((builder, _)) = self.open.take() else { return Ok(()) };
        finish(builder).at("writing", self.root)
    }

    fn add(&mut self, name: &str, content: &[u8]) -> Result<(), DiskError> {
        let (mut header, root) = (self.header(content.len() as u64), self.root);
        let builder = self.room_for(content.len() as u64)?;
        builder.append_data(&mut header, name, content).at("writing", root)
    }

    /// Adds a blob; false if its content does not match its digest.
    fn add_blob(&mut self, store: &BlobStore, blob: &BlobRef) -> Result<bool, DiskError> {
        let hex = blob.digest.hex();
        let name = format!("{STORAGE}/blobs/sha256/{}/{hex}/data", &hex[..2]);
        let (mut header, root) = (self.header(blob.size), self.root);
        let file = store.open(&blob.digest)?;
        let length = file.metadata().at("reading", &store.path(&blob.digest))?.len();
        if length != blob.size {
            return Ok(false);
        }
        let mut reader = Hashing { inner: file.take(blob.size), hasher: Hasher::new() };
        if blob.size > self.limit {
            self.oversized.push(*blob);
            let mut builder = self.begin()?;
            self.written += blob.size;
            builder.append_data(&mut header, name, &mut reader).at("writing", root)?;
            finish(builder).at("writing", root)?;
        } else {
            let builder = self.room_for(blob.size)?;
            builder.append_data(&mut header, name, &mut reader).at("writing", root)?;
        }
        Ok(reader.hasher.finish() == blob.digest)
    }

    fn header(&self, length: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_size(length);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(self.time);
        header
    }

    /// Gives all files their names.
    fn finish(mut self) -> Result<V2Archive, DiskError> {
        self.close()?;
        let mut archive = V2Archive { oversized: self.oversized, ..V2Archive::default() };
        for (partial, _) in &self.done {
            archive.bytes += fs::metadata(partial).at("reading", partial)?.len();
        }
        for (partial, path) in self.done {
            fs::rename(&partial, &path).at("writing", &path)?;
            archive.chunks.push(path);
        }
        Ok(archive)
    }

    fn discard(mut self) {
        self.open = None;
        for (partial, _) in &self.done {
            // What is left is removed or replaced by the next run.
            let _ = fs::remove_file(partial);
        }
    }
}

fn finish(builder: tar::Builder<BufWriter<File>>) -> io::Result<()> {
    let mut file = builder.into_inner()?;
    file.flush()?;
    file.get_ref().sync_data()
}

/// Hashes what is read through it.
struct Hashing<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}
