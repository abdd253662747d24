//! Archives in an object store: S3, and stores that are compatible with it (Ceph RGW, ODF, MinIO).
//!
//! The objects are the files of a workspace, with their names below a prefix: a workstation can
//! copy them with any other tool. Content is not checked here: archives are, when they are pushed.

mod archive_location;
mod credentials_file;
mod upload;

use std::error::Error;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::stream::{self, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{Certificate, ClientOptions, GetOptions, ObjectStore, ObjectStoreExt};
use tokio::io::AsyncWriteExt;

pub use archive_location::{ArchiveLocation, ArchiveLocationError};
use credentials_file::CredentialsFile;

/// Ranges of a file that are fetched at the same time.
const RANGES_AT_ONCE: usize = 8;
/// Code of a server whose bucket does not exist.
const NO_BUCKET: &str = "NoSuchBucket";

/// How a store is connected to. Credentials come from the environment (`AWS_ACCESS_KEY_ID` and
/// `AWS_SECRET_ACCESS_KEY`), from a web identity, from the file of the AWS tools
/// (`AWS_SHARED_CREDENTIALS_FILE`, else `~/.aws/credentials`), or from the metadata service of a
/// machine: the first of these that exists.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// None: that of AWS, or `AWS_ENDPOINT_URL`.
    pub endpoint: Option<String>,
    /// None: `AWS_REGION`, else us-east-1.
    pub region: Option<String>,
    /// Certificates of authorities (PEM), besides the system's.
    pub ca: Option<PathBuf>,
    /// The bucket is part of the host name; most stores outside AWS expect it in the path.
    pub virtual_hosted: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("writing {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} has no certificates that can be read: {reason}", path.display())]
    Certificates { path: PathBuf, reason: String },
    #[error("preparing requests to {place}: {reason}")]
    Settings { place: String, reason: String },
    #[error("the bucket of {place} does not exist")]
    NoBucket { place: String },
    #[error("listing {place}: {reason}")]
    List { place: String, reason: String },
    #[error("storing {name} in {place}: {reason}")]
    Store { name: String, place: String, reason: String },
    #[error("reading {name} from {place}: {reason}")]
    Fetch { name: String, place: String, reason: String },
    #[error("{place} has no {name}")]
    Absent { name: String, place: String },
    #[error("reading {name} from {place}: expected {expected} bytes, found {found}")]
    Short { name: String, place: String, expected: u64, found: u64 },
}

impl StoreError {
    /// Whether a later attempt may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::List { .. } | Self::Store { .. } | Self::Fetch { .. } | Self::Short { .. } => {
                true
            }
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Certificates { .. }
            | Self::Settings { .. }
            | Self::NoBucket { .. }
            | Self::Absent { .. } => false,
        }
    }
}

/// A file in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    pub name: String,
    pub size: u64,
}

/// A prefix of a bucket, or a directory that stands for one: a volume that several nodes mount.
#[derive(Debug)]
pub struct ArchiveStore {
    store: Arc<dyn ObjectStore>,
    /// The same store, where files are stored in parts.
    bucket: Option<AmazonS3>,
    place: ArchiveLocation,
}

impl ArchiveStore {
    /// Opens a store. Sends no request.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn open(place: &ArchiveLocation, settings: &Settings) -> Result<Self, StoreError> {
        let unusable = |error: object_store::Error| StoreError::Settings {
            place: place.to_string(),
            reason: explain(&error),
        };
        match place {
            ArchiveLocation::Bucket { bucket, .. } => {
                let bucket = open_bucket(bucket, settings, unusable)?;
                let store = Arc::new(bucket.clone());
                Ok(Self { store, bucket: Some(bucket), place: place.clone() })
            }
            ArchiveLocation::Directory(path) => {
                std::fs::create_dir_all(path)
                    .map_err(|source| StoreError::Write { path: path.clone(), source })?;
                let store = LocalFileSystem::new_with_prefix(path).map_err(unusable)?;
                Ok(Self { store: Arc::new(store), bucket: None, place: place.clone() })
            }
        }
    }

    /// The files below the prefix, in the order of their names.
    ///
    /// # Errors
    /// The bucket does not exist, or cannot be listed.
    pub async fn list(&self) -> Result<Vec<StoredFile>, StoreError> {
        let prefix = self.place.prefix().map(Key::from);
        let listed = self.store.list_with_delimiter(prefix.as_ref()).await;
        let listed = listed.map_err(|error| {
            let (place, reason) = (self.place.to_string(), explain(&error));
            match reason.contains(NO_BUCKET) {
                true => StoreError::NoBucket { place },
                false => StoreError::List { place, reason },
            }
        })?;
        let directly = |key: &Key| {
            let rest = match &prefix {
                Some(prefix) => {
                    key.prefix_match(prefix)?.map(|part| part.as_ref().to_owned()).collect()
                }
                None => key.parts().map(|part| part.as_ref().to_owned()).collect::<Vec<_>>(),
            };
            <[String; 1]>::try_from(rest).ok().map(|[name]| name)
        };
        let files = listed.objects.into_iter().filter_map(|object| {
            Some(StoredFile { name: directly(&object.location)?, size: object.size })
        });
        let mut files: Vec<StoredFile> = files.collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// Fetches a file into `directory`. It has its name once it is complete.
    ///
    /// # Errors
    /// The store does not have it, or it cannot be written.
    pub async fn download(&self, file: &StoredFile, directory: &Path) -> Result<(), StoreError> {
        let StoredFile { name, size } = file;
        let failed = |error| self.unread(name, &error);
        let partial = directory.join(format!("{name}.part"));
        let unwritable = |source| StoreError::Write { path: partial.clone(), source };
        let mut content = self.store.get(&self.key(name)).await.map_err(failed)?.into_stream();
        let mut output = tokio::fs::File::create(&partial).await.map_err(unwritable)?;
        let mut found = 0;
        while let Some(piece) = content.try_next().await.map_err(failed)? {
            found += piece.len() as u64;
            output.write_all(&piece).await.map_err(unwritable)?;
        }
        output.sync_all().await.map_err(unwritable)?;
        if found != *size {
            let (name, place) = (name.clone(), self.place.to_string());
            return Err(StoreError::Short { name, place, expected: *size, found });
        }
        tokio::fs::rename(&partial, directory.join(name)).await.map_err(unwritable)
    }

    /// The bytes of a file from its start. It may have fewer.
    ///
    /// # Errors
    /// The store does not have it, or it cannot be read.
    pub async fn start_of(&self, name: &str, length: u64) -> Result<Vec<u8>, StoreError> {
        let failed = |error| self.unread(name, &error);
        let options = GetOptions::new().with_range(Some(0..length));
        let found = self.store.get_opts(&self.key(name), options).await.map_err(failed)?;
        Ok(found.bytes().await.map_err(failed)?.to_vec())
    }

    /// Fetches ranges of a file into `path`, at their places. The rest of the file stays as it is;
    /// a new file has holes there.
    ///
    /// # Errors
    /// The store does not have the file or a range of it, or it cannot be written.
    pub async fn download_ranges(
        &self,
        file: &StoredFile,
        ranges: &[(u64, u64)],
        path: &Path,
    ) -> Result<(), StoreError> {
        let unwritable = |source| StoreError::Write { path: path.to_owned(), source };
        let mut options = std::fs::OpenOptions::new();
        let output = options.create(true).truncate(false).write(true).open(path);
        let output = output.map_err(unwritable)?;
        output.set_len(file.size).map_err(unwritable)?;
        stream::iter(ranges.iter().map(|(start, end)| Ok(*start..*end)))
            .try_for_each_concurrent(RANGES_AT_ONCE, |range| {
                self.download_range(&file.name, range, (&output, path))
            })
            .await
    }

    async fn download_range(
        &self,
        name: &str,
        range: Range<u64>,
        (output, path): (&std::fs::File, &Path),
    ) -> Result<(), StoreError> {
        let failed = |error| self.unread(name, &error);
        let (mut at, end) = (range.start, range.end);
        let options = GetOptions::new().with_range(Some(range));
        let found = self.store.get_opts(&self.key(name), options).await.map_err(failed)?;
        let mut content = found.into_stream();
        while let Some(piece) = content.try_next().await.map_err(failed)? {
            // Into the page cache: a copy of some hundred kilobytes.
            output
                .write_all_at(&piece, at)
                .map_err(|source| StoreError::Write { path: path.to_owned(), source })?;
            at += piece.len() as u64;
        }
        match at == end {
            true => Ok(()),
            false => {
                let (name, place) = (name.to_owned(), self.place.to_string());
                Err(StoreError::Short { name, place, expected: end, found: at })
            }
        }
    }

    /// Stores a small document.
    ///
    /// # Errors
    /// The store does not accept it.
    pub async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let put = self.store.put(&self.key(name), bytes.into()).await;
        put.map(drop).map_err(|error| self.unwritten(name, &error))
    }

    /// Makes a file of this place one of another place of the same bucket or volume, without
    /// transferring it. Buckets copy files of up to 5 GiB; a directory moves the file.
    ///
    /// # Errors
    /// The store does not have the file, or refuses.
    pub async fn copy_to(&self, name: &str, to: &Self) -> Result<(), StoreError> {
        if let (ArchiveLocation::Directory(from), ArchiveLocation::Directory(to_directory)) =
            (&self.place, &to.place)
        {
            // Each store has its own root, so keys of one mean nothing to the other. Moving the file
            // needs no space, and is atomic.
            return std::fs::rename(from.join(name), to_directory.join(name)).map_err(|error| {
                let (name, place) = (name.to_owned(), to.place.to_string());
                match error.kind() {
                    std::io::ErrorKind::NotFound => StoreError::Absent { name, place },
                    _ => StoreError::Store { name, place, reason: error.to_string() },
                }
            });
        }
        let copied = self.store.copy(&self.key(name), &to.key(name)).await;
        copied.map_err(|error| match error {
            object_store::Error::NotFound { .. } => self.unread(name, &error),
            _ => to.unwritten(name, &error),
        })
    }

    /// Removes a file. One that does not exist is not an error.
    ///
    /// # Errors
    /// The store refuses.
    pub async fn remove(&self, name: &str) -> Result<(), StoreError> {
        match self.store.delete(&self.key(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.unwritten(name, &error)),
        }
    }

    /// Removes the directory of this place, if it has no files any more. A bucket has none.
    pub fn remove_if_empty(&self) {
        if let ArchiveLocation::Directory(path) = &self.place {
            // Another run may use it.
            let _ = std::fs::remove_dir(path);
        }
    }

    fn unwritten(&self, name: &str, error: &object_store::Error) -> StoreError {
        let (name, place) = (name.to_owned(), self.place.to_string());
        StoreError::Store { name, place, reason: explain(error) }
    }

    fn unread(&self, name: &str, error: &object_store::Error) -> StoreError {
        let (name, place) = (name.to_owned(), self.place.to_string());
        match error {
            object_store::Error::NotFound { .. } => StoreError::Absent { name, place },
            _ => StoreError::Fetch { name, place, reason: explain(error) },
        }
    }

    fn key(&self, name: &str) -> Key {
        match self.place.prefix() {
            Some(prefix) => Key::from(format!("{prefix}/{name}")),
            None => Key::from(name),
        }
    }
}

fn open_bucket(
    bucket: &str,
    settings: &Settings,
    unusable: impl FnOnce(object_store::Error) -> StoreError,
) -> Result<AmazonS3, StoreError> {
    let mut options = ClientOptions::new();
    if let Some(path) = &settings.ca {
        let pem = std::fs::read(path)
            .map_err(|source| StoreError::Read { path: path.clone(), source })?;
        let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| {
            StoreError::Certificates { path: path.clone(), reason: explain(&error) }
        })?;
        for certificate in certificates {
            options = options.with_root_certificate(certificate);
        }
    }
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_virtual_hosted_style_request(settings.virtual_hosted);
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    // A user who names an http:// endpoint wants it.
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    let is_plain = endpoint.is_some_and(|url| url.starts_with("http://"));
    builder = builder.with_client_options(options.with_allow_http(is_plain));
    if let Some(region) = &settings.region {
        builder = builder.with_region(region);
    }
    let is_given = |key| builder.get_config_value(&key).is_some();
    let has_other_credentials = is_given(AmazonS3ConfigKey::AccessKeyId)
        || is_given(AmazonS3ConfigKey::SecretAccessKey)
        || is_given(AmazonS3ConfigKey::WebIdentityTokenFile);
    if !has_other_credentials && let Some(file) = CredentialsFile::of_process() {
        builder = builder.with_credentials(Arc::new(file));
    }
    builder.build().map_err(unusable)
}

/// What the store reports, without what surrounds it: errors of the library repeat their causes,
/// and have the whole document of the server.
fn explain(error: &object_store::Error) -> String {
    let mut deepest: &(dyn Error + 'static) = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    let text = deepest.to_string();
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{} ({code})", message.trim_end_matches('.')),
        (Some(code), None) => code.to_owned(),
        _ => text,
    }
}
