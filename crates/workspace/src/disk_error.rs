//! What failed on disk: what was being done, to which path, why, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// An operation on a file or directory that failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {}{}", path.display(), remedy(source.kind()))]
pub struct DiskError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl DiskError {
    pub fn new(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self { doing, path: path.to_owned(), source }
    }

    /// The file or directory that it happened to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

/// What a user can do about it; empty where the reason is sufficient.
fn remedy(kind: io::ErrorKind) -> &'static str {
    use io::ErrorKind::{
        AlreadyExists, DirectoryNotEmpty, FileTooLarge, IsADirectory, NotADirectory,
        PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    match kind {
        StorageFull | QuotaExceeded => {
            " (free some space and run again; everything finished so far is kept)"
        }
        PermissionDenied | ReadOnlyFilesystem => {
            " (check owner, mode and mount options, or use another directory)"
        }
        AlreadyExists | DirectoryNotEmpty | IsADirectory | NotADirectory => {
            " (another file or directory has this name: move it elsewhere and run again)"
        }
        FileTooLarge => " (this filesystem cannot hold so large a file: use another one)",
        _ => "",
    }
}

/// Adds to an I/O error what was being done, and to what.
pub(crate) trait At<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, DiskError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, DiskError> {
        self.map_err(|source| DiskError::new(doing, path, source))
    }
}

impl<T> At<T> for rustix::io::Result<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, DiskError> {
        self.map_err(|errno| DiskError::new(doing, path, errno.into()))
    }
}

/// `None` where there is nothing at the path; other failures stay failures.
pub(crate) fn unless_absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_common_failure_names_its_remedy() {
        for (kind, wanted) in [
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::ReadOnlyFilesystem, "mount options"),
            (io::ErrorKind::PermissionDenied, "owner, mode"),
            (io::ErrorKind::IsADirectory, "another file or directory has this name"),
            (io::ErrorKind::FileTooLarge, "another one"),
        ] {
            let text = DiskError::new("writing", Path::new("/data/x"), kind.into()).to_string();
            assert!(text.starts_with("writing /data/x (") && text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn the_reason_is_kept_as_the_source_and_not_repeated() {
        let error = DiskError::new("reading", Path::new("/x"), io::Error::other("it broke"));
        assert_eq!(error.to_string(), "reading /x");
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "it broke");
    }
}
