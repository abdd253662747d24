//! The working directory of oc-mirror v2: documents, and what was archived so far.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use oci::Digest;

use super::tar_files::is_document;
use crate::blob_reader::BlobReader;
use crate::disk_error::{At, DiskError, unless_absent};

const HISTORY: &str = ".history-";

/// `DIR/working-dir` of oc-mirror v2. It is only read.
#[derive(Debug, Clone)]
pub struct V2WorkingDir {
    path: PathBuf,
}

/// What oc-mirror v2 archived so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct V2History {
    /// When the last archive was written.
    pub written: Timestamp,
    pub digests: BTreeSet<Digest>,
}

impl V2WorkingDir {
    /// The working directory in `directory`, or `directory` itself if that is one. `None` if there
    /// is none.
    pub fn find(directory: &Path) -> Option<Self> {
        let inside = directory.join("working-dir");
        let is_itself = directory.file_name().is_some_and(|name| name == "working-dir");
        let path = if inside.is_dir() || !is_itself { inside } else { directory.to_owned() };
        path.is_dir().then_some(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn document(&self, name: &str) -> io::Result<Option<BlobReader>> {
        if !is_document(name) {
            return Ok(None);
        }
        let Some(file) = unless_absent(File::open(self.path.join(name)))? else { return Ok(None) };
        match file.metadata()?.is_file() {
            true => BlobReader::of_file(file).map(Some),
            false => Ok(None),
        }
    }

    pub(super) fn document_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                // Links are not followed: they could lead anywhere.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(path),
                    Ok(kind) if kind.is_file() => {
                        let name = path.strip_prefix(&self.path).ok().and_then(Path::to_str);
                        names.extend(name.filter(|name| is_document(name)).map(str::to_owned));
                    }
                    _ => {}
                }
            }
        }
        names
    }

    /// The newest pinned configuration. Names end in times, so it is the last by name.
    pub fn pinned_configuration(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(&self.path).ok()?.flatten();
        let is_pinned = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("isc_pinned_"))
        };
        entries.map(|entry| entry.path()).filter(is_pinned).max()
    }

    /// What the newest history file lists; nothing if there is none.
    pub fn history(&self) -> Result<V2History, DiskError> {
        let folder = self.path.join(".history");
        let entries = unless_absent(fs::read_dir(&folder)).at("reading", &folder)?;
        let mut newest: Option<(Timestamp, PathBuf)> = None;
        for entry in entries.into_iter().flatten() {
            let path = entry.at("reading", &folder)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let time = name.strip_prefix(HISTORY).and_then(|time| time.parse().ok());
            newest = newest.max(time.map(|time| (time, path)));
        }
        let Some((written, path)) = newest else { return Ok(V2History::default()) };
        let lines = BufReader::new(File::open(&path).at("reading", &path)?).lines();
        let mut digests = BTreeSet::new();
        for line in lines {
            // A line that is not a digest was not archived under one.
            digests.extend(line.at("reading", &path)?.trim().parse::<Digest>().ok());
        }
        Ok(V2History { written, digests })
    }
}
