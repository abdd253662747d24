//! An unfinished blob: written as it arrives, kept when the transfer is interrupted.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use oci::{Digest, Hasher};

use crate::archive::StagedBlob;
use crate::blobs::BlobError;
use crate::direct_io::{DirectFile, DirectWriter, LARGE};
use crate::disk_error::At;

/// How much is read at once while hashing what an earlier run left.
const READ_AT_ONCE: usize = 1 << 20;
/// How much is written at once past the page cache; many blobs arrive at the same time.
const BLOCK: usize = 256 << 10;
/// How much of a blob is given up when the disk is full, so that the run can still write its
/// journal and its records.
const LEFT_ON_FULL_DISK: u64 = 1 << 20;

/// A download in progress. Dropping it keeps the bytes for a later
/// [`crate::BlobStore::begin`]; only [`PartialBlob::finish`] makes a blob of them.
#[derive(Debug)]
pub struct PartialBlob {
    file: File,
    path: PathBuf,
    target: PathBuf,
    digest: Digest,
    size: u64,
    hasher: Hasher,
    /// How many bytes an earlier run had left.
    resumed: u64,
    /// Writes past the page cache; none where that is not worth it.
    direct: Option<DirectWriter>,
    /// A place in an archive that gets the same bytes.
    copy: Option<StagedBlob>,
    /// Whether a write failed and left the file in an unknown state.
    is_broken: bool,
}

impl PartialBlob {
    pub(crate) fn resume(
        file: File,
        path: PathBuf,
        target: PathBuf,
        digest: Digest,
        size: u64,
    ) -> Result<Self, BlobError> {
        // Two writers of one file would mix their bytes.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BlobError::Busy { digest }),
            Err(TryLockError::Error(error)) => Err(error).at("locking", &path)?,
        }
        let mut blob = Self {
            file,
            path,
            target,
            digest,
            size,
            hasher: Hasher::new(),
            resumed: 0,
            direct: None,
            copy: None,
            is_broken: false,
        };
        let left = blob.file.metadata().at("reading", &blob.path)?.len();
        if left > size {
            blob.restart()?;
        } else if left > 0 {
            blob.hash_what_is_there()?;
            blob.resumed = blob.offset();
        }
        Ok(blob)
    }

    /// Writes what follows past the page cache, if it is much.
    pub(crate) fn past_page_cache(mut self) -> Self {
        let offset = self.offset();
        if self.size - offset >= LARGE {
            let file = DirectFile::open(&self.path, &self.file);
            self.direct = file.map(|file| file.writer(offset, BLOCK));
        }
        self
    }

    /// Writes the same bytes to a place in an archive. If that fails, the blob is still stored.
    pub(crate) fn with_copy(mut self, copy: StagedBlob) -> Self {
        self.copy = Some(copy);
        self
    }

    /// The digest that the bytes must have.
    pub(crate) fn announced(&self) -> Digest {
        self.digest
    }

    fn hash_what_is_there(&mut self) -> Result<(), BlobError> {
        let mut buffer = vec![0; READ_AT_ONCE];
        loop {
            let count = self.file.read(&mut buffer).at("reading", &self.path)?;
            if count == 0 {
                return Ok(());
            }
            self.hasher.update(&buffer[..count]);
        }
    }

    /// How many bytes are here: where the sender has to continue.
    pub fn offset(&self) -> u64 {
        self.hasher.length()
    }

    /// The length the blob will have.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends what arrived.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.append(bytes)?;
        if let Some(Err(error)) = self.copy.as_mut().map(|copy| copy.write(bytes)) {
            tracing::debug!("{} is archived after the transfer: {error}", self.digest);
            self.copy = None;
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        if self.offset() + bytes.len() as u64 > self.size {
            return Err(BlobError::Long { digest: self.digest, want: self.size });
        }
        self.check()?;
        let written = match &mut self.direct {
            Some(direct) => direct.write(bytes),
            None => self.file.write_all(bytes),
        };
        if let Err(error) = written {
            self.keep_beginning(&error);
            Err(error).at("writing", &self.path)?;
        }
        self.hasher.update(bytes);
        Ok(())
    }

    /// Leaves a beginning of what was hashed in the file after a failed write, which may have taken
    /// part of the bytes: anything else could not be resumed.
    fn keep_beginning(&mut self, error: &io::Error) {
        let length = self.file.metadata().map_or(0, |metadata| metadata.len());
        let mut kept = length.min(self.offset());
        if error.kind() == io::ErrorKind::StorageFull {
            kept = kept.saturating_sub(LEFT_ON_FULL_DISK);
        }
        self.direct = None;
        self.copy = None;
        self.hasher = Hasher::new();
        let again = self.file.set_len(kept).and_then(|()| self.file.rewind());
        self.is_broken = again.is_err() || self.hash_what_is_there().is_err();
    }

    fn check(&self) -> Result<(), BlobError> {
        let earlier = || io::Error::other("an earlier write failed");
        Ok(if self.is_broken { Err(earlier()) } else { Ok(()) }.at("writing", &self.path)?)
    }

    /// Drops what is here; the sender starts from zero.
    pub fn restart(&mut self) -> Result<(), BlobError> {
        self.direct = None;
        self.copy = None;
        self.file.set_len(0).at("writing", &self.path)?;
        self.file.seek(SeekFrom::Start(0)).at("writing", &self.path)?;
        self.hasher = Hasher::new();
        self.resumed = 0;
        self.is_broken = false;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlobError> {
        self.check()?;
        match self.direct.take() {
            Some(direct) => Ok(direct.finish().at("writing", &self.path)?),
            None => Ok(()),
        }
    }

    /// The digest of all bytes, which must all be here. The file is not changed.
    pub fn digest(mut self) -> Result<Digest, BlobError> {
        self.flush()?;
        let got = self.offset();
        if got < self.size {
            return Err(BlobError::Short { digest: self.digest, want: self.size, got });
        }
        Ok(self.hasher.finish())
    }

    /// Makes a blob of it, once length and hash agree. Too short: the bytes are
    /// kept for another attempt. Another hash: they are dropped.
    pub fn finish(mut self) -> Result<(), BlobError> {
        self.flush()?;
        let got = self.offset();
        if got < self.size {
            return Err(BlobError::Short { digest: self.digest, want: self.size, got });
        }
        let hash = self.hasher.finish();
        if hash != self.digest {
            fs::remove_file(&self.path).at("removing", &self.path)?;
            let resumed = self.resumed > 0;
            return Err(BlobError::Mismatch { want: self.digest, got: hash, resumed });
        }
        fs::rename(&self.path, &self.target).at("writing", &self.target)?;
        if let Some(Err(error)) = self.copy.take().map(StagedBlob::finish) {
            tracing::debug!("{} is archived after the transfer: {error}", self.digest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlobStore;

    const TEXT: &[u8] = b"a blob that comes in pieces";

    fn store() -> (tempfile::TempDir, BlobStore, Digest) {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::new(dir.path().to_owned());
        (dir, store, Digest::of(TEXT))
    }

    #[test]
    fn an_interrupted_download_continues_where_it_stopped() {
        let (_dir, store, digest) = store();
        let mut first = store.begin(&digest, TEXT.len() as u64).unwrap();
        assert_eq!(first.offset(), 0);
        first.write(&TEXT[..10]).unwrap();
        drop(first);
        let mut second = store.begin(&digest, TEXT.len() as u64).unwrap();
        assert_eq!(second.offset(), 10);
        second.write(&TEXT[10..]).unwrap();
        assert!(!store.has(&digest, None).unwrap());
        second.finish().unwrap();
        assert_eq!(store.read(&digest, 100).unwrap(), TEXT);
        assert!(!store.partial_path(&digest).exists());
    }

    #[test]
    fn a_resumed_download_with_a_wrong_start_is_dropped_and_reported() {
        let (_dir, store, digest) = store();
        fs::create_dir_all(store.root().join("partial")).unwrap();
        fs::create_dir_all(store.root().join("sha256")).unwrap();
        fs::write(store.partial_path(&digest), b"A BLOB").unwrap();
        let mut blob = store.begin(&digest, TEXT.len() as u64).unwrap();
        blob.write(&TEXT[6..]).unwrap();
        let error = blob.finish().unwrap_err();
        assert!(matches!(error, BlobError::Mismatch { resumed: true, .. }), "{error}");
        let again = store.begin(&digest, TEXT.len() as u64).unwrap();
        assert_eq!(again.offset(), 0);
    }

    #[test]
    fn a_restart_discards_what_was_resumed() {
        let (_dir, store, digest) = store();
        store.begin(&digest, 27).unwrap().write(b"wrong").unwrap();
        let mut blob = store.begin(&digest, 27).unwrap();
        blob.restart().unwrap();
        assert_eq!(blob.offset(), 0);
        blob.write(TEXT).unwrap();
        blob.finish().unwrap();
        assert!(store.has(&digest, Some(27)).unwrap());
    }

    #[test]
    fn a_left_over_longer_than_the_blob_is_started_again() {
        let (_dir, store, digest) = store();
        store.begin(&digest, 100).unwrap().write(&[b'x'; 50]).unwrap();
        assert_eq!(store.begin(&digest, TEXT.len() as u64).unwrap().offset(), 0);
    }

    #[test]
    fn too_little_is_kept_and_too_much_is_refused() {
        let (_dir, store, digest) = store();
        let mut blob = store.begin(&digest, TEXT.len() as u64).unwrap();
        blob.write(&TEXT[..20]).unwrap();
        assert!(matches!(blob.write(TEXT), Err(BlobError::Long { want: 27, .. })));
        assert!(matches!(blob.finish(), Err(BlobError::Short { want: 27, got: 20, .. })));
        assert_eq!(store.begin(&digest, 27).unwrap().offset(), 20);
    }

    #[test]
    fn a_full_disk_is_an_error_with_a_remedy_and_nothing_counts_as_written() {
        let full = fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let paths = ("/data/blobs/partial/x".into(), "/data/blobs/sha256/x".into());
        let mut blob = PartialBlob::resume(full, paths.0, paths.1, Digest::of(TEXT), 27).unwrap();
        let error = blob.write(TEXT).unwrap_err().to_string();
        assert!(error.contains("/data/blobs/partial/x (free some space"), "{error}");
        assert_eq!(blob.offset(), 0);
        // The device cannot be cut to a length: what it holds is not known.
        assert!(blob.write(TEXT).is_err() && blob.finish().is_err());
    }

    #[test]
    fn a_full_disk_keeps_room_for_records_and_what_fits_beside_it() {
        let (_dir, store, _) = store();
        let content = vec![7; 3 << 20];
        let digest = Digest::of(&content);
        let mut blob = store.begin(&digest, content.len() as u64).unwrap();
        blob.write(&content[..2 << 20]).unwrap();
        blob.keep_beginning(&io::ErrorKind::StorageFull.into());
        assert_eq!(blob.offset(), 1 << 20);
        drop(blob);
        let mut blob = store.begin(&digest, content.len() as u64).unwrap();
        assert_eq!(blob.offset(), 1 << 20);
        blob.write(&content[1 << 20..]).unwrap();
        blob.finish().unwrap();
        assert_eq!(store.read(&digest, 4 << 20).unwrap(), content);
    }

    #[test]
    fn another_failed_write_keeps_everything_that_was_hashed() {
        let (_dir, store, digest) = store();
        let mut blob = store.begin(&digest, TEXT.len() as u64).unwrap();
        blob.write(&TEXT[..10]).unwrap();
        // As a write that failed after some bytes leaves it.
        blob.file.write_all(&TEXT[10..15]).unwrap();
        blob.keep_beginning(&io::Error::other("lost"));
        assert_eq!(blob.offset(), 10);
        blob.write(&TEXT[10..]).unwrap();
        blob.finish().unwrap();
        assert_eq!(store.read(&digest, 100).unwrap(), TEXT);
    }

    #[test]
    fn one_blob_has_one_writer() {
        let (_dir, store, digest) = store();
        let _first = store.begin(&digest, 27).unwrap();
        assert!(matches!(store.begin(&digest, 27), Err(BlobError::Busy { .. })));
    }

    #[test]
    fn an_empty_blob_is_a_blob() {
        let (_dir, store, _) = store();
        let digest = Digest::of(b"");
        store.begin(&digest, 0).unwrap().finish().unwrap();
        assert!(store.has(&digest, Some(0)).unwrap());
    }
}
