//! Content in the directory layout of docker distribution, as the caches and archives of oc-mirror
//! v2 have it.
//!
//! ```text
//! docker/registry/v2/blobs/sha256/<2 digits>/<hex>/data
//! docker/registry/v2/repositories/<repository>/_manifests/tags/<tag>/current/link
//! working-dir/…                 documents: update graphs, signatures, charts
//! ```
//!
//! A cache is a directory; an archive is a set of tar files with such a directory in them, which is
//! read in place. Both are untrusted: names are parsed, sizes are bounded, and content counts only
//! if it has the digest that it was looked up by. Nothing in them is ever modified.

mod cache;
mod image;
mod tar_files;
mod working_dir;
mod write;

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use mirror_plan::Destination;
use oci::{Digest, MAX_MANIFEST_BYTES, ManifestError, RawManifest};

use crate::blob_reader::BlobReader;
use crate::disk_error::DiskError;
use crate::documents::MAX_DOCUMENT_BYTES;

pub use cache::{Cache, CacheError};
pub use tar_files::{TarFiles, TarProblem};
pub use working_dir::{V2History, V2WorkingDir};
pub use write::{V2Archive, V2ArchiveError, V2Request};

/// Caches and archives of oc-mirror v2, searched in the order in which they were added.
#[derive(Debug, Default)]
pub struct Distribution {
    sources: Vec<Source>,
}

#[derive(Debug)]
enum Source {
    Cache(Cache),
    TarFiles(TarFiles),
    WorkingDir(V2WorkingDir),
}

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DistributionError {
    #[error(
        "the archive of oc-mirror v2 names {digest} as {name}, but neither it nor a cache here has its content"
    )]
    Absent { name: Box<Destination>, digest: Digest },
    #[error("{name} is {has} in the archive or cache of oc-mirror v2, and {wanted} was requested")]
    OtherDigest { name: Box<Destination>, has: Digest, wanted: Digest },
    #[error("the manifest {0} in the archive or cache of oc-mirror v2 is damaged")]
    Damaged(Digest),
    #[error("reading the manifest {digest}")]
    Manifest { digest: Digest, source: ManifestError },
    #[error("{0} has more manifests, or lists nested deeper, than an image can have")]
    Unbounded(Box<Destination>),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Distribution {
    pub fn add_cache(&mut self, cache: Cache) {
        self.sources.push(Source::Cache(cache));
    }

    pub fn add_working_dir(&mut self, working_dir: V2WorkingDir) {
        self.sources.push(Source::WorkingDir(working_dir));
    }

    pub fn add_archives(&mut self, files: TarFiles) {
        self.sources.push(Source::TarFiles(files));
    }

    /// Reads a blob that is here. The reader's user checks the digest.
    pub fn blob(&self, digest: &Digest) -> Result<Option<BlobReader>, DiskError> {
        for source in &self.sources {
            let found = match source {
                Source::Cache(cache) => cache.blob(digest)?,
                Source::TarFiles(files) => files.blob(digest),
                Source::WorkingDir(_) => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The file that has a blob, for messages.
    pub fn file_of(&self, digest: &Digest) -> Option<PathBuf> {
        self.sources.iter().find_map(|source| match source {
            Source::Cache(cache) => cache.blob(digest).ok()?.map(|_| cache.blob_path(digest)),
            Source::TarFiles(files) => files.file_of(digest).map(Path::to_owned),
            Source::WorkingDir(_) => None,
        })
    }

    /// What a tag is in the cache or the archives.
    pub fn tag(&self, name: &Destination) -> Result<Option<Digest>, DiskError> {
        for source in &self.sources {
            let found = match source {
                Source::Cache(cache) => cache.tag(name)?,
                Source::TarFiles(files) => files.tag(name),
                Source::WorkingDir(_) => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// A file below `working-dir`, whole.
    pub fn document(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        for source in &self.sources {
            let reader = match source {
                Source::Cache(_) => None,
                Source::TarFiles(files) => files.document(name),
                Source::WorkingDir(folder) => folder.document(name)?,
            };
            let Some(reader) = reader else { continue };
            if reader.length() > MAX_DOCUMENT_BYTES {
                let large = format!("it is larger than {MAX_DOCUMENT_BYTES} bytes");
                return Err(io::Error::other(large));
            }
            let mut bytes = Vec::new();
            reader.take(MAX_DOCUMENT_BYTES).read_to_end(&mut bytes)?;
            return Ok(Some(bytes));
        }
        Ok(None)
    }

    /// The names of all files below `working-dir` that are kept as documents.
    pub fn document_names(&self) -> BTreeSet<String> {
        let names = self.sources.iter().flat_map(|source| match source {
            Source::Cache(_) => Vec::new(),
            Source::TarFiles(files) => files.document_names().cloned().collect(),
            Source::WorkingDir(folder) => folder.document_names(),
        });
        names.collect()
    }

    /// A manifest with this digest; `None` when it is not here.
    fn manifest(&self, digest: &Digest) -> Result<Option<RawManifest>, DistributionError> {
        let digest = *digest;
        let Some(reader) = self.blob(&digest)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = reader.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut bytes);
        if read.is_err() || Digest::of(&bytes) != digest {
            return Err(DistributionError::Damaged(digest));
        }
        let raw = RawManifest::new(None, bytes);
        raw.map(Some).map_err(|source| DistributionError::Manifest { digest, source })
    }
}

#[cfg(test)]
mod tests;
