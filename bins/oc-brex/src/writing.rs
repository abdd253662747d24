//! Files that are written: whole or not at all.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// Writes a file below `folder`, which is made when it is not there. A file of that name is
/// replaced in one step. Returns where it is.
pub(crate) fn file(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> Result<PathBuf> {
    let path = folder.join(name);
    let writing = || format!("writing {}", path.display());
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    // Manifests are for everybody to read, as any file an editor makes.
    let mut temporary = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        temporary.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut temporary: NamedTempFile = temporary.tempfile_in(parent).with_context(writing)?;
    temporary.write_all(text.as_ref()).with_context(writing)?;
    temporary.persist(&path).map_err(|error| error.error).with_context(writing)?;
    Ok(path)
}
