//! What the registry holds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use oci::{Digest, Hasher, Pointer, RawManifest, Repository, Tag};
use tempfile::NamedTempFile;

use crate::images::{Blob, Image};

/// Repositories and what they refer to. Blobs are in memory, or, where a
/// directory is given, in files named by their digest.
#[derive(Debug)]
pub(super) struct Store {
    directory: Option<PathBuf>,
    contents: Mutex<StoreContents>,
}

#[derive(Debug, Default)]
struct StoreContents {
    blobs: HashMap<Digest, BlobContent>,
    repositories: BTreeMap<Repository, StoredRepository>,
    uploads: HashMap<String, Upload>,
    uploads_begun: u64,
}

/// One repository.
#[derive(Debug, Default)]
struct StoredRepository {
    blobs: BTreeSet<Digest>,
    manifests: BTreeMap<Digest, RawManifest>,
    tags: BTreeMap<Tag, Digest>,
}

/// A blob, as it is held.
#[derive(Debug, Clone)]
pub(super) enum BlobContent {
    Bytes(Bytes),
    File { path: PathBuf, size: u64 },
}

impl BlobContent {
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { size, .. } => *size,
        }
    }
}

/// A blob on its way in. It hashes as it grows.
///
/// Files are written without leaving the asynchronous thread: no one but the
/// test is waiting.
#[derive(Debug)]
pub(super) struct Upload {
    sink: Sink,
    hasher: Hasher,
}

#[derive(Debug)]
enum Sink {
    Bytes(Vec<u8>),
    File(NamedTempFile),
}

impl Upload {
    pub(super) fn received(&self) -> u64 {
        self.hasher.length()
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Bytes(held) => held.extend_from_slice(bytes),
            Sink::File(file) => file.write_all(bytes)?,
        }
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Store {
    pub(super) fn open(directory: Option<&Path>) -> Result<Self> {
        if let Some(directory) = directory {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("creating the registry's {}", directory.display()))?;
        }
        Ok(Self { directory: directory.map(Path::to_owned), contents: Mutex::default() })
    }

    /// Stores a complete image at once, including attachments.
    pub(super) fn put_image(&self, image: &Image, name: &Repository, tag: &Tag) -> Result<()> {
        for blob in image.blobs.values() {
            self.put_blob(name, blob)?;
        }
        let mut contents = self.lock();
        let shelf = contents.repositories.entry(name.clone()).or_default();
        for manifest in &image.manifests {
            shelf.manifests.insert(manifest.digest, manifest.clone());
        }
        shelf.tags.insert(tag.clone(), image.digest());
        for attachment in &image.attachments {
            let manifest = &attachment.manifest;
            shelf.manifests.insert(manifest.digest, manifest.clone());
            if let Some(tag) = &attachment.tag {
                shelf.tags.insert(tag.clone(), manifest.digest);
            }
        }
        Ok(())
    }

    fn put_blob(&self, name: &Repository, blob: &Blob) -> Result<()> {
        if !self.mount(&blob.digest, name) {
            let putting = || format!("putting the blob {} into the registry", blob.digest);
            let mut upload = self.empty_upload().with_context(putting)?;
            blob.write_to(&mut upload).with_context(putting)?;
            let right = self.finish(upload, name, &blob.digest).with_context(putting)?;
            ensure!(right, "the blob {} does not have the digest it claims", blob.digest);
        }
        Ok(())
    }

    fn empty_upload(&self) -> io::Result<Upload> {
        let sink = match &self.directory {
            None => Sink::Bytes(Vec::new()),
            Some(directory) => Sink::File(NamedTempFile::new_in(directory)?),
        };
        Ok(Upload { sink, hasher: Hasher::new() })
    }

    /// Starts an upload and returns its name.
    pub(super) fn begin(&self) -> io::Result<String> {
        let upload = self.empty_upload()?;
        let mut contents = self.lock();
        contents.uploads_begun += 1;
        let name = format!("{:016x}", contents.uploads_begun);
        contents.uploads.insert(name.clone(), upload);
        Ok(name)
    }

    /// Takes an upload out, to write to it. One that is not returned is lost,
    /// as it is in registries when a connection breaks.
    pub(super) fn take_upload(&self, name: &str) -> Option<Upload> {
        self.lock().uploads.remove(name)
    }

    pub(super) fn put_back(&self, name: &str, upload: Upload) {
        self.lock().uploads.insert(name.into(), upload);
    }

    /// Ends an upload. `false`: the content does not match the digest.
    pub(super) fn finish(
        &self,
        upload: Upload,
        name: &Repository,
        digest: &Digest,
    ) -> io::Result<bool> {
        let size = upload.received();
        if upload.hasher.finish() != *digest {
            return Ok(false);
        }
        let held = match upload.sink {
            Sink::Bytes(bytes) => BlobContent::Bytes(bytes.into()),
            Sink::File(file) => {
                let directory = self.directory.as_deref().unwrap_or(Path::new("."));
                let path = directory.join(digest.hex());
                file.persist(&path).map_err(|e| e.error)?;
                BlobContent::File { path, size }
            }
        };
        let mut contents = self.lock();
        contents.blobs.insert(*digest, held);
        contents.repositories.entry(name.clone()).or_default().blobs.insert(*digest);
        Ok(true)
    }

    /// Gives a repository a blob that is held somewhere. `false`: it is not.
    fn mount(&self, digest: &Digest, to: &Repository) -> bool {
        let mut contents = self.lock();
        let held = contents.blobs.contains_key(digest);
        if held {
            contents.repositories.entry(to.clone()).or_default().blobs.insert(*digest);
        }
        held
    }

    /// Gives a repository a blob that another one has. `false`: it has not.
    pub(super) fn mount_from(&self, digest: &Digest, from: &Repository, to: &Repository) -> bool {
        self.blob(from, digest).is_some() && self.mount(digest, to)
    }

    pub(super) fn blob(&self, name: &Repository, digest: &Digest) -> Option<BlobContent> {
        let contents = self.lock();
        let linked = contents.repositories.get(name)?.blobs.contains(digest);
        if linked { contents.blobs.get(digest).cloned() } else { None }
    }

    pub(super) fn manifest(&self, name: &Repository, pointer: &Pointer) -> Option<RawManifest> {
        let contents = self.lock();
        let shelf = contents.repositories.get(name)?;
        let digest = match pointer {
            Pointer::Digest(digest) => digest,
            Pointer::Tag(tag) => shelf.tags.get(tag)?,
        };
        shelf.manifests.get(digest).cloned()
    }

    pub(super) fn put_manifest(&self, name: &Repository, tag: Option<&Tag>, raw: RawManifest) {
        let mut contents = self.lock();
        let shelf = contents.repositories.entry(name.clone()).or_default();
        if let Some(tag) = tag {
            shelf.tags.insert(tag.clone(), raw.digest);
        }
        shelf.manifests.insert(raw.digest, raw);
    }

    /// Removes a manifest with its tags, or a tag alone. `false`: there was none.
    pub(super) fn delete_manifest(&self, name: &Repository, pointer: &Pointer) -> bool {
        let mut contents = self.lock();
        let Some(shelf) = contents.repositories.get_mut(name) else { return false };
        match pointer {
            Pointer::Tag(tag) => shelf.tags.remove(tag).is_some(),
            Pointer::Digest(digest) => {
                shelf.tags.retain(|_, tagged| tagged != digest);
                shelf.manifests.remove(digest).is_some()
            }
        }
    }

    /// Takes a blob from a repository. `false`: it was not there.
    pub(super) fn delete_blob(&self, name: &Repository, digest: &Digest) -> bool {
        let mut contents = self.lock();
        contents.repositories.get_mut(name).is_some_and(|shelf| shelf.blobs.remove(digest))
    }

    pub(super) fn repositories(&self) -> Vec<String> {
        self.lock().repositories.keys().map(ToString::to_string).collect()
    }

    /// The tags of a repository; `None`: there is no such repository.
    pub(super) fn tags(&self, name: &Repository) -> Option<Vec<String>> {
        let contents = self.lock();
        let shelf = contents.repositories.get(name)?;
        Some(shelf.tags.keys().map(ToString::to_string).collect())
    }

    /// Every tag, manifest and blob, one line each.
    pub(super) fn content(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        for (name, shelf) in &self.lock().repositories {
            lines.extend(shelf.tags.iter().map(|(tag, digest)| format!("{name}:{tag} {digest}")));
            lines.extend(shelf.manifests.keys().map(|digest| format!("{name} manifest {digest}")));
            lines.extend(shelf.blobs.iter().map(|digest| format!("{name} blob {digest}")));
        }
        lines
    }

    /// Manifests of a repository whose `subject` is `digest`.
    pub(super) fn referrers(&self, name: &Repository, digest: &Digest) -> Vec<RawManifest> {
        let contents = self.lock();
        let Some(shelf) = contents.repositories.get(name) else { return Vec::new() };
        let refers = |raw: &&RawManifest| {
            raw.parse().is_ok_and(|manifest| {
                manifest.about().subject.as_ref().is_some_and(|subject| subject.digest == *digest)
            })
        };
        shelf.manifests.values().filter(refers).cloned().collect()
    }

    /// Removes everything.
    pub(super) fn clear(&self) {
        *self.lock() = StoreContents::default();
    }

    fn lock(&self) -> MutexGuard<'_, StoreContents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
