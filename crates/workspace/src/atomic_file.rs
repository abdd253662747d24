//! Files that appear whole or not at all: written beside their place, then renamed.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

use crate::disk_error::{At, DiskError};

/// How sure a file must be to survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Left to the next flush of the filesystem; see [`crate::Run::end`].
    Later,
    /// After a power cut it is the new file, whole, or what was there before.
    Whole,
    /// On the disk before the call returns.
    Now,
}

/// Writes `bytes` to `path`, making its directory if need be. A reader sees
/// the old content or the new, never a mixture.
pub fn write(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), DiskError> {
    write_with(path, durability, |file| file.write_all(bytes))
}

/// As [`write`], with content that is produced while it is written.
pub fn write_with(
    path: &Path,
    durability: Durability,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), DiskError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).at("creating", directory)?;
    let mut draft = draft_in(directory, ".new-").at("writing in", directory)?;
    fill(draft.as_file_mut()).at("writing", path)?;
    if durability != Durability::Later {
        draft.as_file().sync_all().at("writing", path)?;
    }
    draft.persist(path).map_err(|failed| failed.error).at("writing", path)?;
    if durability == Durability::Now {
        sync_directory(directory)?;
    }
    Ok(())
}

/// A nameless-to-be file in `directory`, readable as the umask has it: a
/// workspace is transferred to other machines and read by other users there.
pub(crate) fn draft_in(directory: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    Builder::new().prefix(prefix).permissions(Permissions::from_mode(0o666)).tempfile_in(directory)
}

/// Makes renames in `directory` survive a power cut.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), DiskError> {
    File::open(directory).and_then(|open| open.sync_all()).at("writing", directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_content_and_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.json");
        write(&path, b"old", Durability::Now).unwrap();
        let full = |_: &mut File| Err(io::ErrorKind::StorageFull.into());
        let error = write_with(&path, Durability::Later, full).unwrap_err();
        assert_eq!(error.path(), path);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_at_the_path_is_named_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image.json");
        fs::create_dir_all(path.join("theirs")).unwrap();
        let error = write(&path, b"x", Durability::Later).unwrap_err().to_string();
        assert!(
            error.contains("image.json")
                && error.contains("another file or directory has this name"),
            "{error}"
        );
        assert!(path.join("theirs").is_dir());
    }

    #[test]
    fn files_are_readable_by_others_as_the_umask_allows() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("ours"), b"x", Durability::Later).unwrap();
        fs::write(dir.path().join("plain"), b"x").unwrap();
        let mode = |name| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode("ours"), mode("plain"));
    }
}
