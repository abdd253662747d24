//! How much room a filesystem has.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes that this user may still write at `path`, or at the nearest directory above it that
/// exists.
///
/// # Errors
///
/// The system does not report the free space of the filesystem.
pub fn free_space(path: &Path) -> io::Result<u64> {
    filesystem(path).map(|filesystem| filesystem.free)
}

/// A filesystem: a number that no other has, and the bytes that this user may still write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filesystem {
    pub device: u64,
    pub free: u64,
}

/// The filesystem of `path`, or of the nearest directory above it that exists.
///
/// # Errors
///
/// The system does not report the free space of the filesystem.
pub fn filesystem(path: &Path) -> io::Result<Filesystem> {
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    // The empty path is an ancestor of every relative one.
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let about = rustix::fs::statvfs(existing)?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    Ok(Filesystem { device: existing.metadata()?.dev(), free })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_does_not_exist_yet_has_the_room_of_the_one_above() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_space(&dir.path().join("not/yet")).unwrap() > 0);
        assert!(free_space(Path::new("not/yet")).unwrap() > 0);
        let device = |path: &Path| filesystem(path).unwrap().device;
        assert_eq!(device(&dir.path().join("not/yet")), device(dir.path()));
        assert_ne!(device(Path::new("/proc")), device(dir.path()));
    }
}
