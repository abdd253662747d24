//! A small separate disk.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A filesystem, in memory unless it is in a file. Unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mounted {
    at: PathBuf,
}

impl Mounted {
    /// Mounts a new one, of so many KiB, on a directory it makes.
    pub(crate) fn new(at: &Path, kib: u64) -> Self {
        std::fs::create_dir_all(at).unwrap();
        mount(&["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"], at);
        Self { at: at.to_owned() }
    }

    /// Mounts a new filesystem of this type, such as `xfs`, in a file that is `at` with the type
    /// appended. The file takes no more space than what is written to it.
    pub(crate) fn in_file(at: &Path, kind: &str, bytes: u64) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let file = at.with_extension(kind);
        std::fs::File::create(&file).unwrap().set_len(bytes).unwrap();
        let mkfs = format!("/sbin/mkfs.{kind}");
        let made = Command::new(&mkfs).arg("-q").arg(&file).status();
        assert!(made.unwrap_or_else(|error| panic!("{mkfs}: {error}")).success(), "{mkfs}");
        mount(&["-o", "loop", file.to_str().unwrap()], at);
        Self { at: at.to_owned() }
    }

    /// Makes it larger or smaller.
    pub(crate) fn resize(&self, kib: u64) {
        mount(&["-o", &format!("remount,size={kib}k")], &self.at);
    }

    /// Forbids all writing.
    pub(crate) fn make_read_only(&self) {
        mount(&["-o", "remount,ro"], &self.at);
    }

    /// Allows writing again.
    pub(crate) fn make_writable(&self) {
        mount(&["-o", "remount,rw"], &self.at);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}

fn mount(args: &[&str], at: &Path) {
    let status = Command::new("mount").args(args).arg(at).status().unwrap();
    assert!(status.success(), "mount {args:?} {}: only root may", at.display());
}
