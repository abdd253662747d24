//! Files that are written: whole or not at all.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

/// Writes files below `folder`: all of them or none. A file that exists is an error unless `force`
/// is given. Returns where they are.
pub(crate) fn files(
    folder: &Path,
    files: &[(String, impl AsRef<[u8]>)],
    force: bool,
) -> Result<Vec<PathBuf>> {
    let taken: Vec<String> = files
        .iter()
        .map(|(name, _)| folder.join(name))
        .filter(|path| !force && fs::symlink_metadata(path).is_ok())
        .map(|path| path.display().to_string())
        .collect();
    if !taken.is_empty() {
        let (verb, them) = if taken.len() == 1 { ("exists", "it") } else { ("exist", "them") };
        bail!("{} {verb}; give --force to replace {them}, or another --out", taken.join(", "));
    }
    // All contents are on the disk before the first file gets its name.
    let mut ready = Vec::new();
    for (name, text) in files {
        let path = folder.join(name);
        ready.push((temporary(&path, text.as_ref())?, path));
    }
    let mut paths = Vec::new();
    for (temporary, path) in ready {
        let writing = || format!("writing {}", path.display());
        temporary.persist(&path).map_err(|error| error.error).with_context(writing)?;
        paths.push(path);
    }
    Ok(paths)
}

/// Writes manifests below `folder`: all of them or none. Those of a former run are replaced.
pub(crate) fn manifests(folder: &Path, manifests: &[(String, String)]) -> Result<Vec<PathBuf>> {
    files(folder, manifests, true)
}

/// A temporary file with the content, in the directory of the final one.
fn temporary(path: &Path, bytes: &[u8]) -> Result<NamedTempFile> {
    let writing = || format!("writing {}", path.display());
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    // Manifests are readable by all users, like files that an editor creates.
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut temporary = builder.tempfile_in(parent).with_context(writing)?;
    temporary.write_all(bytes).with_context(writing)?;
    Ok(temporary)
}
