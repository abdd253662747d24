//! How much room a filesystem has.

use std::io;
use std::path::Path;

/// Bytes that this user may still write at `path`, or at the nearest directory above it that
/// exists.
///
/// # Errors
///
/// A filesystem that cannot be asked.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    // The empty path stands above every relative one.
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let about = rustix::fs::statvfs(existing)?;
    Ok(about.f_bavail.saturating_mul(about.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_does_not_exist_yet_has_the_room_of_the_one_above() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_space(&dir.path().join("not/yet")).unwrap() > 0);
        assert!(free_space(Path::new("not/yet")).unwrap() > 0);
    }
}
