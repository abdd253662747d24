//! Files that a user named for a result. A reader never sees half of one.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;

/// What happens to a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Replace,
    Keep,
}

/// Rights as the rest of the user's files have them: results hold no secrets.
const MODE: u32 = 0o644;

pub(crate) fn write(path: &Path, bytes: &[u8], existing: Existing) -> anyhow::Result<()> {
    let writing = || format!("writing {}", path.display());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new()
        .prefix(".oc-mirror-")
        .permissions(fs::Permissions::from_mode(MODE))
        .tempfile_in(folder)
        .with_context(writing)?;
    draft.write_all(bytes).with_context(writing)?;
    draft.as_file().sync_all().with_context(writing)?;
    let kept = match existing {
        Existing::Replace => draft.persist(path),
        Existing::Keep => draft.persist_noclobber(path),
    };
    match kept {
        Ok(_) => Ok(()),
        Err(failed) if failed.error.kind() == std::io::ErrorKind::AlreadyExists => {
            anyhow::bail!(
                "{} exists and was not touched; name another file, or add --force to replace it",
                path.display()
            )
        }
        Err(failed) => Err(failed.error).with_context(writing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_only_with_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("isc.yaml");
        write(&path, b"one", Existing::Keep).unwrap();
        let error = write(&path, b"two", Existing::Keep).unwrap_err().to_string();
        assert!(error.contains("isc.yaml exists and was not touched"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write(&path, b"three", Existing::Replace).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = write(Path::new("/nowhere/a.json"), b"", Existing::Replace).unwrap_err();
        assert!(format!("{error:#}").starts_with("writing /nowhere/a.json: "), "{error:#}");
    }
}
