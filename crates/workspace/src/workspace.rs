//! The directory of a user's `file://DIR`, and where things are in it.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::BlobStore;
use crate::disk_error::{At, DiskError, unless_absent};
use crate::distribution::Cache;

/// A workspace on disk. Opening one reads and writes nothing: what does not
/// exist yet is empty, and is created by the first write.
///
/// # Guarantees
///
/// - A blob is complete if its name exists: it is written under another name, and renamed when its
///   digest matches. An image is complete if its record exists.
/// - One process writes at a time ([`Workspace::lock`]). Readers need no lock, and never see a
///   partial file.
/// - After a kill at any moment, the workspace can be used without a repair. After a power failure,
///   the next writer hashes again what may not have reached the disk.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    blobs: BlobStore,
}

impl Workspace {
    pub fn open(directory: &Path) -> Self {
        let blobs = BlobStore::new(directory.join("blobs"));
        Self { root: directory.to_owned(), blobs }
    }

    /// The same workspace, which takes content over from the cache of oc-mirror v2.
    #[must_use]
    pub fn with_cache(self, cache: Cache) -> Self {
        Self { blobs: self.blobs.with_cache(cache), ..self }
    }

    /// `DIR`: archives are here.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn blobs(&self) -> &BlobStore {
        &self.blobs
    }

    /// `DIR/working-dir`: all that is neither content nor archive.
    pub fn working_dir(&self) -> PathBuf {
        self.root.join("working-dir")
    }

    pub fn cluster_resources(&self) -> PathBuf {
        self.working_dir().join("cluster-resources")
    }

    /// All that a dry run may write.
    pub fn dry_run(&self) -> PathBuf {
        self.working_dir().join("dry-run")
    }

    /// What the last dry run built: its plan refers to it.
    pub fn dry_run_content(&self) -> BlobStore {
        BlobStore::new(self.dry_run().join("blobs"))
    }

    /// The same, without what earlier dry runs built.
    ///
    /// # Errors
    ///
    /// The content of earlier dry runs cannot be removed.
    pub fn new_dry_run_content(&self) -> Result<BlobStore, DiskError> {
        let content = self.dry_run_content();
        unless_absent(fs::remove_dir_all(content.root())).at("removing", content.root())?;
        Ok(content)
    }

    pub fn logs(&self) -> PathBuf {
        self.working_dir().join("logs")
    }

    /// Where a run that started at `started` logs for users.
    pub fn log_file(&self, started: Timestamp) -> PathBuf {
        self.logs().join(format!("oc-mirror-{}.log", file_time(started)))
    }

    /// Where a run that started at `started` lists what failed.
    pub fn errors_file(&self, started: Timestamp) -> PathBuf {
        self.logs().join(format!("mirroring_errors_{}.txt", file_time(started)))
    }

    pub(crate) fn internal(&self) -> PathBuf {
        self.working_dir().join("internal")
    }

    pub(crate) fn runs_dir(&self) -> PathBuf {
        self.working_dir().join("runs")
    }
}

/// `YYYYMMDD_HHMMSS`, in UTC, as the names of logs have it.
pub(crate) fn file_time(time: Timestamp) -> String {
    time.strftime("%Y%m%d_%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_named_by_the_time_of_their_run() {
        let workspace = Workspace::open(Path::new("/data"));
        let started = "2026-03-04T05:06:07.8Z".parse().unwrap();
        let log = workspace.log_file(started);
        assert_eq!(log, Path::new("/data/working-dir/logs/oc-mirror-20260304_050607.log"));
        let errors = workspace.errors_file(started);
        assert!(errors.ends_with("logs/mirroring_errors_20260304_050607.txt"), "{errors:?}");
    }
}
