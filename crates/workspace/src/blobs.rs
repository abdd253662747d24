//! The blob store: content by digest, shared by all images of a workspace.
//!
//! A name under `sha256/` appears only when its content is whole and hashed.
//! Nothing is synced file by file, which would take several times as long; a workspace that
//! lost power is checked instead.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use oci::{Digest, Hasher};
use rustix::fs::OFlags;

use crate::atomic_file::draft_in;
use crate::disk_error::{At, DiskError, unless_absent};
use crate::distribution::Cache;
use crate::partial_blob::PartialBlob;
use crate::workers;

/// How temporary files of [`BlobStore::put`] begin.
const DRAFT: &str = ".put-";

/// A directory of blobs.
#[derive(Debug, Clone)]
pub struct BlobStore {
    root: PathBuf,
    /// The cache of oc-mirror v2 that content is taken over from.
    cache: Option<Cache>,
}

/// What was taken over from a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adopted {
    pub blobs: u64,
    pub bytes: u64,
    /// Blobs whose content does not match their digests.
    pub damaged: Vec<Digest>,
}

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("the content has the digest {got}, expected {want}")]
    Mismatch {
        want: Digest,
        got: Digest,
        /// Part of it came from an earlier run; starting from zero may help.
        resumed: bool,
    },
    #[error("{digest}: expected {want} bytes, received only {got}")]
    Short { digest: Digest, want: u64, got: u64 },
    #[error("{digest}: expected {want} bytes, received more")]
    Long { digest: Digest, want: u64 },
    #[error("{digest} is being written already")]
    Busy { digest: Digest },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl BlobStore {
    /// The store below `root`, which is a workspace's `blobs` directory.
    pub fn new(root: PathBuf) -> Self {
        Self { root, cache: None }
    }

    /// The same store, which takes content over from `cache`.
    #[must_use]
    pub fn with_cache(self, cache: Cache) -> Self {
        Self { cache: Some(cache), ..self }
    }

    pub fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the blob is, or would be.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.root.join("sha256").join(digest.hex())
    }

    pub(crate) fn partial_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("partial").join(digest.hex())
    }

    /// The length of a blob that is held.
    pub fn size(&self, digest: &Digest) -> Result<Option<u64>, DiskError> {
        let path = self.path(digest);
        match unless_absent(fs::symlink_metadata(&path)).at("reading", &path)? {
            Some(meta) if meta.is_file() => Ok(Some(meta.len())),
            Some(_) => Err(DiskError::new("reading", &path, io::ErrorKind::AlreadyExists.into())),
            None => Ok(None),
        }
    }

    /// Whether the blob is held, with the length it must have if that is known.
    pub fn has(&self, digest: &Digest, size: Option<u64>) -> Result<bool, DiskError> {
        Ok(self.size(digest)?.is_some_and(|held| size.is_none_or(|size| size == held)))
    }

    /// Opens a blob. Links are not followed, and pipes not waited for: a
    /// workspace from elsewhere could point with a link to any file of this
    /// machine.
    pub fn open(&self, digest: &Digest) -> Result<File, DiskError> {
        let path = self.path(digest);
        OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(&path)
            .at("opening", &path)
    }

    /// Reads a small blob into memory, a manifest for example. Does not verify its digest.
    ///
    /// # Errors
    ///
    /// The blob does not exist, cannot be read, or is larger than `limit`.
    pub fn read(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, DiskError> {
        let mut bytes = Vec::new();
        let path = self.path(digest);
        let read = self.open(digest)?.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        if read.at("reading", &path)? as u64 > limit {
            let large = io::Error::other(format!("it is larger than {limit} bytes"));
            return Err(DiskError::new("reading", &path, large));
        }
        Ok(bytes)
    }

    /// Stores `bytes`, which must have the digest `want`.
    ///
    /// # Errors
    ///
    /// [`BlobError::Mismatch`] if the digest is another one; the disk cannot be written to.
    pub fn put(&self, want: &Digest, bytes: &[u8]) -> Result<(), BlobError> {
        let got = Digest::of(bytes);
        if got != *want {
            return Err(BlobError::Mismatch { want: *want, got, resumed: false });
        }
        if self.has(want, Some(bytes.len() as u64))? {
            return Ok(());
        }
        let path = self.path(want);
        let mut draft = self.in_partial(|partial| draft_in(partial, DRAFT))?;
        draft.write_all(bytes).at("writing", &path)?;
        draft.persist(&path).map_err(|failed| failed.error).at("writing", &path)?;
        Ok(())
    }

    /// Whether the blob is held, after it was taken over from the cache of oc-mirror v2 if that has
    /// it. A blob that is damaged in the cache is not taken over.
    ///
    /// # Guarantees
    /// The cache is not modified. On a file system that supports it, the blob takes no space of its
    /// own: it is cloned (reflink) or linked.
    pub fn adopt(&self, digest: &Digest, size: Option<u64>) -> Result<bool, BlobError> {
        if self.has(digest, size)? {
            return Ok(true);
        }
        let Some(cache) = &self.cache else { return Ok(false) };
        let Some(file) = cache.open(digest)? else { return Ok(false) };
        let from = cache.blob_path(digest);
        let length = file.metadata().at("reading", &from)?.len();
        if size.is_some_and(|size| size != length) || hash(&file).at("reading", &from)? != *digest {
            tracing::warn!(
                "{} is damaged in the cache and is not used: {} is fetched instead",
                from.display(),
                digest
            );
            return Ok(false);
        }
        self.take_over(digest, &file, &from)?;
        Ok(true)
    }

    /// Takes over everything in the cache of oc-mirror v2. `progress` is called with the bytes of
    /// each blob; returning false from it ends the work.
    pub fn adopt_all(&self, progress: &(dyn Fn(u64) -> bool + Sync)) -> Result<Adopted, BlobError> {
        let Some(cache) = &self.cache else { return Ok(Adopted::default()) };
        let digests = cache.digests()?;
        let results = workers::map(&digests, workers::processors(), |digest| {
            let length = match cache.open(digest)? {
                Some(file) => file.metadata().at("reading", &cache.blob_path(digest))?.len(),
                None => return Ok((false, 0)),
            };
            if !progress(0) {
                return Ok((true, 0));
            }
            let adopted = self.adopt(digest, Some(length))?;
            progress(length);
            Ok::<_, BlobError>((adopted, length))
        });
        let mut all = Adopted::default();
        for (digest, result) in digests.into_iter().zip(results) {
            match result? {
                (true, length) => {
                    all.blobs += 1;
                    all.bytes += length;
                }
                (false, _) => all.damaged.push(digest),
            }
        }
        Ok(all)
    }

    /// Gives the content of a file that was hashed its name in this store.
    fn take_over(&self, digest: &Digest, file: &File, from: &Path) -> Result<(), DiskError> {
        let path = self.path(digest);
        let draft = self.in_partial(|partial| draft_in(partial, DRAFT))?;
        if rustix::fs::ioctl_ficlone(draft.as_file(), file).is_ok() {
            draft.persist(&path).map_err(|failed| failed.error).at("writing", &path)?;
            return Ok(());
        }
        let same = |linked: &fs::Metadata| {
            use std::os::unix::fs::MetadataExt;
            file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (linked.dev(), linked.ino()))
        };
        if fs::hard_link(from, &path).is_ok() {
            if fs::symlink_metadata(&path).is_ok_and(|linked| same(&linked)) {
                return Ok(());
            }
            fs::remove_file(&path).at("removing", &path)?;
        }
        // Another file system, or a file of another user.
        let (mut reader, mut draft) = (ReadFrom { file, position: 0 }, draft);
        io::copy(&mut reader, &mut draft).at("writing", &path)?;
        draft.persist(&path).map_err(|failed| failed.error).at("writing", &path)?;
        Ok(())
    }

    /// Removes a blob whose content does not match its digest, so that it is fetched again.
    pub fn remove(&self, digest: &Digest) -> Result<(), DiskError> {
        let path = self.path(digest);
        unless_absent(fs::remove_file(&path)).at("removing", &path)?;
        Ok(())
    }

    /// Starts or resumes the download of a blob. What an earlier run left is
    /// hashed again, so that its bytes count as checked.
    pub fn begin(&self, digest: &Digest, size: u64) -> Result<PartialBlob, BlobError> {
        let path = self.partial_path(digest);
        let file = self.in_partial(|_| {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)
        })?;
        PartialBlob::resume(file, path, self.path(digest), *digest, size)
    }

    /// As [`BlobStore::begin`], for a blob that no one reads before it is complete: a large one is
    /// written past the page cache.
    pub fn begin_unread(&self, digest: &Digest, size: u64) -> Result<PartialBlob, BlobError> {
        Ok(self.begin(digest, size)?.past_page_cache())
    }

    /// Whether there is a part of a download.
    pub fn has_partial(&self, digest: &Digest) -> bool {
        self.partial_path(digest).exists()
    }

    /// Opens what there is of a download for reading.
    pub fn open_partial(&self, digest: &Digest) -> Result<File, DiskError> {
        let path = self.partial_path(digest);
        File::open(&path).at("opening", &path)
    }

    /// Removes a download that is not needed any more.
    pub fn discard_partial(&self, digest: &Digest) -> Result<(), DiskError> {
        let path = self.partial_path(digest);
        unless_absent(fs::remove_file(&path)).at("removing", &path)?;
        Ok(())
    }

    /// Removes what killed writers left behind and cannot be resumed.
    pub(crate) fn sweep(&self) -> Result<(), DiskError> {
        let partial = self.root.join("partial");
        let Some(entries) = unless_absent(fs::read_dir(&partial)).at("reading", &partial)? else {
            return Ok(());
        };
        for entry in entries {
            let entry = entry.at("reading", &partial)?;
            if entry.file_name().to_string_lossy().starts_with(DRAFT) {
                let path = entry.path();
                fs::remove_file(&path).at("removing", &path)?;
            }
        }
        Ok(())
    }

    /// Runs `make` on the directory of unfinished blobs, making the store's
    /// directories when they are not there yet.
    fn in_partial<T>(&self, make: impl Fn(&Path) -> io::Result<T>) -> Result<T, DiskError> {
        let partial = self.root.join("partial");
        match make(&partial) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // `partial` last: another writer takes its presence for that of both.
                for directory in [&self.root.join("sha256"), &partial] {
                    fs::create_dir_all(directory).at("creating", directory)?;
                }
                make(&partial).at("writing in", &partial)
            }
            made => made.at("writing in", &partial),
        }
    }
}

/// The digest of a whole file.
fn hash(file: &File) -> io::Result<Digest> {
    let mut reader = ReadFrom { file, position: 0 };
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 512 << 10];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Reads a file without moving its own position.
struct ReadFrom<'a> {
    file: &'a File,
    position: u64,
}

impl Read for ReadFrom<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, BlobStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::new(dir.path().join("blobs"));
        (dir, store)
    }

    #[test]
    fn what_is_put_can_be_read() {
        let (_dir, store) = store();
        let digest = Digest::of(b"hello");
        assert!(!store.has(&digest, None).unwrap());
        store.put(&digest, b"hello").unwrap();
        assert_eq!(store.read(&digest, 5).unwrap(), b"hello");
        assert!(store.has(&digest, Some(5)).unwrap());
        assert!(store.read(&digest, 4).unwrap_err().to_string().contains("reading"));
    }

    #[test]
    fn a_blob_of_another_length_is_not_held_and_is_written_again() {
        let (_dir, store) = store();
        let digest = Digest::of(b"hello");
        store.put(&digest, b"hello").unwrap();
        fs::write(store.path(&digest), b"").unwrap();
        assert!(!store.has(&digest, Some(5)).unwrap());
        store.put(&digest, b"hello").unwrap();
        assert!(store.has(&digest, Some(5)).unwrap());
    }

    #[test]
    fn content_with_another_digest_is_refused() {
        let (_dir, store) = store();
        let digest = Digest::of(b"hello");
        let error = store.put(&digest, b"jello").unwrap_err();
        assert!(matches!(error, BlobError::Mismatch { resumed: false, .. }));
        assert!(!store.has(&digest, None).unwrap());
    }

    #[test]
    fn a_directory_or_a_link_in_a_blobs_place_is_named() {
        let (dir, store) = store();
        let digest = Digest::of(b"hello");
        fs::create_dir_all(store.path(&digest)).unwrap();
        assert!(
            store
                .put(&digest, b"hello")
                .unwrap_err()
                .to_string()
                .contains("another file or directory has this name")
        );
        fs::remove_dir(store.path(&digest)).unwrap();
        let secret = dir.path().join("secret");
        fs::write(&secret, b"secret").unwrap();
        std::os::unix::fs::symlink(&secret, store.path(&digest)).unwrap();
        assert!(store.open(&digest).is_err());
        assert!(store.has(&digest, None).is_err());
        assert_eq!(fs::read(&secret).unwrap(), b"secret");
    }

    #[test]
    fn sweeping_takes_drafts_and_leaves_downloads() {
        let (_dir, store) = store();
        let digest = Digest::of(b"hello");
        store.begin(&digest, 5).unwrap().write(b"he").unwrap();
        let left = store.root().join("partial/.put-killed");
        fs::write(&left, b"half").unwrap();
        store.sweep().unwrap();
        assert!(!left.exists());
        assert_eq!(fs::read(store.partial_path(&digest)).unwrap(), b"he");
    }
}
