//! The directory that the console shows.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mirror_plan::Mode;
use workspace::{RunRecord, Workspace};

use super::{Fault, runs};

/// A workspace, archives, or an empty directory.
#[derive(Debug, Clone)]
pub struct WorkspaceDirectory {
    pub(crate) workspace: Workspace,
    /// `file://DIR`, for command lines.
    pub(crate) argument: String,
}

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceDirectoryError {
    #[error("the directory {} does not exist; create it, or name another", .0.display())]
    Absent(PathBuf),
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{} is not a workspace: expected a folder working-dir, archives (mirror_NNNNNN.tar), or an empty directory",
        .0.display()
    )]
    Other(PathBuf),
}

impl WorkspaceDirectory {
    /// Opens a directory, which must be a workspace, hold archives, or be empty.
    pub fn open(directory: &Path) -> Result<Self, WorkspaceDirectoryError> {
        let read = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => WorkspaceDirectoryError::Absent(directory.to_owned()),
            _ => WorkspaceDirectoryError::Read { path: directory.to_owned(), source },
        };
        let directory = fs::canonicalize(directory).map_err(read)?;
        let mut is_empty = true;
        let mut is_known = false;
        for entry in fs::read_dir(&directory).map_err(read)? {
            let name = entry.map_err(read)?.file_name();
            is_empty = false;
            is_known |= name == "working-dir" || is_archive(&name.to_string_lossy());
        }
        if !is_known && !is_empty {
            return Err(WorkspaceDirectoryError::Other(directory));
        }
        let argument = format!("file://{}", directory.display());
        Ok(Self { workspace: Workspace::open(&directory), argument })
    }

    pub(crate) fn directory(&self) -> &Path {
        self.workspace.root()
    }

    /// Whether source registries can be expected to respond: not where there are archives that no
    /// run of this workspace wrote.
    pub(crate) fn is_connected(&self) -> Result<bool, Fault> {
        let fetches =
            |run: &RunRecord| matches!(run.mode, Mode::MirrorToDisk | Mode::MirrorToMirror);
        if runs::list(&self.workspace)?.iter().any(fetches) {
            return Ok(true);
        }
        let entries = fs::read_dir(self.directory());
        let entries = entries.map_err(|error| Fault::failed("reading the directory", &error))?;
        let mut names = entries.flatten().map(|entry| entry.file_name());
        Ok(!names.any(|name| is_archive(&name.to_string_lossy())))
    }
}

/// The name of a chunk of an archive.
pub(crate) fn is_archive(name: &str) -> bool {
    let number = name.strip_prefix("mirror_").and_then(|rest| rest.strip_suffix(".tar"));
    number.is_some_and(|digits| digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_other_content_is_refused_and_an_empty_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let place = WorkspaceDirectory::open(dir.path()).unwrap();
        assert!(place.argument.starts_with("file:///"), "{}", place.argument);
        fs::write(dir.path().join("thesis.txt"), "").unwrap();
        let error = WorkspaceDirectory::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("is not a workspace: expected a folder working-dir"), "{error}");
        fs::write(dir.path().join("mirror_000001.tar"), "").unwrap();
        assert!(WorkspaceDirectory::open(dir.path()).is_ok());
        assert!(matches!(
            WorkspaceDirectory::open(&dir.path().join("absent")),
            Err(WorkspaceDirectoryError::Absent(_))
        ));
        let file = WorkspaceDirectory::open(&dir.path().join("thesis.txt")).unwrap_err();
        assert!(matches!(file, WorkspaceDirectoryError::Read { .. }), "{file}");
        assert!(!is_archive("mirror_1.tar") && !is_archive("mirror_000001.tar.sig"));
    }
}
