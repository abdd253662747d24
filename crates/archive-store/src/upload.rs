//! Files into a store. A large file goes to a bucket in parts, which cost space and are not listed
//! until all are there. The upload is noted beside the file while it lasts, so that a later one can
//! remove what a killed process left.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::{MultipartId, ObjectStoreExt, PutPayload, WriteMultipart};
use tokio::io::AsyncReadExt;

use crate::{ArchiveStore, StoreError};

/// Size of a part. S3 allows 10,000 parts: objects of up to 312 GiB.
const PART: u64 = 32 << 20;
/// Parts under way at the same time.
const PARTS_AT_ONCE: usize = 4;
/// Read from a file at once.
const PIECE: usize = 1 << 20;
/// What the name of a note ends with.
const NOTE: &str = ".upload";
/// Names of uploads have some hundred bytes.
const LONGEST_NOTE: u64 = 16 << 10;

impl ArchiveStore {
    /// Stores a file under its name. A store that fails leaves no object, and no parts.
    ///
    /// # Errors
    /// The file cannot be read, or the store does not accept it.
    pub async fn upload(&self, path: &Path, name: &str) -> Result<(), StoreError> {
        let unreadable = |source| StoreError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        match &self.bucket {
            Some(bucket) if size > PART => {
                self.upload_in_parts(bucket, (Arc::new(file), path, size), name).await
            }
            _ => self.upload_at_once(path, name).await,
        }
    }

    /// Removes the parts of uploads whose process was killed. An upload that is under way fails, and
    /// its process tries again.
    ///
    /// # Errors
    /// The store cannot be listed, or refuses.
    pub async fn abort_unfinished(&self) -> Result<(), StoreError> {
        for file in self.list().await? {
            if let Some(name) = file.name.strip_suffix(NOTE) {
                self.abort_noted(name).await?;
            }
        }
        Ok(())
    }

    async fn upload_in_parts(
        &self,
        bucket: &AmazonS3,
        (file, path, size): (Arc<File>, &Path, u64),
        name: &str,
    ) -> Result<(), StoreError> {
        self.abort_noted(name).await?;
        let failed = |error| self.unwritten(name, &error);
        let key = self.key(name);
        let id = bucket.create_multipart(&key).await.map_err(failed)?;
        let stored = async {
            self.put(&note(name), id.clone().into_bytes()).await?;
            let parts = (0..size.div_ceil(PART)).map(|part| {
                let file = Arc::clone(&file);
                let (key, id) = (&key, &id);
                async move {
                    let start = part * PART;
                    let bytes = read(file, start, PART.min(size - start)).await;
                    let bytes = bytes
                        .map_err(|source| StoreError::Read { path: path.to_owned(), source })?;
                    let index = usize::try_from(part).unwrap_or(usize::MAX);
                    let payload = PutPayload::from(bytes);
                    bucket.put_part(key, id, index, payload).await.map_err(failed)
                }
            });
            let parts: Vec<PartId> =
                stream::iter(parts).buffered(PARTS_AT_ONCE).try_collect().await?;
            bucket.complete_multipart(&key, &id, parts).await.map(drop).map_err(failed)
        };
        let stored: Result<(), StoreError> = stored.await;
        if stored.is_err() {
            // The first error is what is reported.
            let _ = bucket.abort_multipart(&key, &id).await;
        }
        let forgotten = self.remove(&note(name)).await;
        stored.and(forgotten)
    }

    /// Removes the parts of an upload that was noted.
    async fn abort_noted(&self, name: &str) -> Result<(), StoreError> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let id = match self.start_of(&note(name), LONGEST_NOTE).await {
            Err(StoreError::Absent { .. }) => return Ok(()),
            id => id?,
        };
        let id: MultipartId = String::from_utf8_lossy(&id).into_owned();
        // It may have been completed, or removed by the bucket's own rules.
        let _ = bucket.abort_multipart(&self.key(name), &id).await;
        self.remove(&note(name)).await
    }

    async fn upload_at_once(&self, path: &Path, name: &str) -> Result<(), StoreError> {
        let failed = |error| self.unwritten(name, &error);
        let unreadable = |source| StoreError::Read { path: path.to_owned(), source };
        let mut file = tokio::fs::File::open(path).await.map_err(unreadable)?;
        if self.bucket.is_some() {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).await.map_err(unreadable)?;
            return self.put(name, bytes).await;
        }
        let upload = self.store.put_multipart(&self.key(name)).await.map_err(failed)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PIECE);
        let mut piece = vec![0; PIECE];
        let written = async {
            loop {
                upload.wait_for_capacity(PARTS_AT_ONCE).await.map_err(failed)?;
                match file.read(&mut piece).await.map_err(unreadable)? {
                    0 => return Ok(()),
                    count => upload.write(&piece[..count]),
                }
            }
        };
        let written: Result<(), StoreError> = written.await;
        if let Err(error) = written {
            let _ = upload.abort().await;
            return Err(error);
        }
        upload.finish().await.map(drop).map_err(failed)
    }
}

fn note(name: &str) -> String {
    format!("{name}{NOTE}")
}

async fn read(file: Arc<File>, start: u64, length: u64) -> std::io::Result<Vec<u8>> {
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = vec![0; usize::try_from(length).map_err(std::io::Error::other)?];
        file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    });
    read.await.map_err(std::io::Error::other)?
}
