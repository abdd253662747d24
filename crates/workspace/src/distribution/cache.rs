//! The cache of oc-mirror v2: the storage directory of its embedded registry.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use mirror_plan::Destination;
use oci::{Digest, Repository, Tag};
use rustix::fs::OFlags;

use crate::blob_reader::BlobReader;
use crate::disk_error::{At, DiskError, unless_absent};

/// Where oc-mirror v2 keeps its cache below the directory that `--cache-dir` names.
const BELOW: &str = ".oc-mirror/.cache";
const STORAGE: &str = "docker/registry/v2";
/// `sha256:` and 64 digits; a line break does no harm.
const MAX_LINK: u64 = 128;

/// A storage directory of docker distribution.
#[derive(Debug, Clone)]
pub struct Cache {
    /// `…/docker/registry/v2`
    root: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error(
        "the cache {} is in use: process {pid} ({name}) has {} open",
        root.display(),
        file.display()
    )]
    InUse { root: PathBuf, pid: u32, name: String, file: PathBuf },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Cache {
    /// The cache in `directory`: the directory that `--cache-dir` names, or the storage directory
    /// itself. `None` if there is no content.
    ///
    /// # Errors
    /// If the directory cannot be read, or another process has a file of the cache open: it may be
    /// writing to it.
    pub fn find(directory: &Path) -> Result<Option<Self>, CacheError> {
        let places =
            [directory.join(BELOW).join(STORAGE), directory.join(STORAGE), directory.to_owned()];
        for root in places {
            // A workspace of this program has blobs, too, but no repositories.
            if is_directory(&root.join("blobs/sha256"))?
                && is_directory(&root.join("repositories"))?
            {
                let cache = Self { root };
                cache.check_unused()?;
                return Ok(Some(cache));
            }
        }
        Ok(None)
    }

    /// `…/docker/registry/v2`
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.root.join("blobs/sha256").join(&hex[..2]).join(hex).join("data")
    }

    /// Opens a blob's file; `None` when it is not here.
    pub fn open(&self, digest: &Digest) -> Result<Option<File>, DiskError> {
        open_plain(&self.blob_path(digest))
    }

    pub(super) fn blob(&self, digest: &Digest) -> Result<Option<BlobReader>, DiskError> {
        let Some(file) = self.open(digest)? else { return Ok(None) };
        BlobReader::of_file(file).map(Some).at("reading", &self.blob_path(digest))
    }

    /// What the link of a tag names. One that cannot be read as a link is treated as absent, as
    /// docker distribution does.
    pub fn tag(&self, name: &Destination) -> Result<Option<Digest>, DiskError> {
        let tags = self.repository(name.repository.as_str()).join("_manifests/tags");
        let path = tags.join(name.tag.as_str()).join("current/link");
        let Some(file) = open_plain(&path)? else { return Ok(None) };
        let mut text = String::new();
        let read = file.take(MAX_LINK).read_to_string(&mut text);
        read.at("reading", &path)?;
        Ok(text.trim().parse().ok())
    }

    fn repository(&self, name: &str) -> PathBuf {
        self.root.join("repositories").join(name)
    }

    /// The digests of all blobs.
    pub fn digests(&self) -> Result<Vec<Digest>, DiskError> {
        let mut digests = Vec::new();
        let all = self.root.join("blobs/sha256");
        for first in fs::read_dir(&all).at("reading", &all)? {
            let first = first.at("reading", &all)?.path();
            if !first.is_dir() {
                continue;
            }
            for entry in fs::read_dir(&first).at("reading", &first)? {
                let name = entry.at("reading", &first)?.file_name();
                digests.extend(name.to_str().and_then(|hex| Digest::from_hex(hex).ok()));
            }
        }
        digests.sort();
        Ok(digests)
    }

    /// The names of all tags, without those of signatures; sorted.
    pub fn names(&self) -> Result<Vec<Destination>, DiskError> {
        let root = self.root.join("repositories");
        let mut names = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            let tags = folder.join("_manifests/tags");
            let repository = folder.strip_prefix(&root).ok().and_then(Path::to_str);
            let repository: Option<Repository> = repository.and_then(|name| name.parse().ok());
            if let (Some(repository), Ok(entries)) = (repository, fs::read_dir(&tags)) {
                for entry in entries.flatten() {
                    let tag = entry.file_name().to_str().and_then(|tag| tag.parse::<Tag>().ok());
                    let tag = tag.filter(|tag| !tag.as_str().ends_with(".sig"));
                    let repository = repository.clone();
                    names.extend(tag.map(|tag| Destination { repository, tag }));
                }
            }
            for entry in fs::read_dir(&folder).at("reading", &folder)? {
                let entry = entry.at("reading", &folder)?;
                let is_part = entry.file_name().to_string_lossy().starts_with('_');
                if !is_part && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(entry.path());
                }
            }
        }
        names.sort();
        Ok(names)
    }

    /// Looks for a process that has a file of the cache open. oc-mirror v2 does not lock its cache.
    fn check_unused(&self) -> Result<(), CacheError> {
        let Ok(root) = self.root.canonicalize() else { return Ok(()) };
        // Where /proc is not mounted, or a process belongs to another user, nothing is known.
        let Ok(processes) = fs::read_dir("/proc") else { return Ok(()) };
        for process in processes.flatten() {
            let pid = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let Some(pid) = pid.filter(|pid| *pid != std::process::id()) else { continue };
            let Ok(open) = fs::read_dir(process.path().join("fd")) else { continue };
            let links = open.flatten().filter_map(|file| fs::read_link(file.path()).ok());
            if let Some(file) = links.into_iter().find(|file| file.starts_with(&root)) {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                let name = name.trim().to_owned();
                return Err(CacheError::InUse { root: self.root.clone(), pid, name, file });
            }
        }
        Ok(())
    }
}

fn is_directory(path: &Path) -> Result<bool, DiskError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        meta => Ok(unless_absent(meta).at("reading", path)?.is_some_and(|meta| meta.is_dir())),
    }
}

/// Opens a plain file; `None` when it is not there. Links are not followed, and pipes not waited
/// for.
fn open_plain(path: &Path) -> Result<Option<File>, DiskError> {
    let mut options = OpenOptions::new();
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = options.read(true).custom_flags(flags).open(path);
    let Some(file) = unless_absent(opened).at("opening", path)? else { return Ok(None) };
    match file.metadata().at("reading", path)?.is_file() {
        true => Ok(Some(file)),
        false => {
            let other = io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file");
            Err(DiskError::new("opening", path, other))
        }
    }
}
