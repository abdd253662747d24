//! skopeo 1.22 of Debian forky, in its own root file system.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder inside the root that is removed at the end.
pub(crate) struct ForkySkopeo {
    root: PathBuf,
    folder: TempDir,
}

impl ForkySkopeo {
    pub(crate) fn new() -> Self {
        let root = lab::tools::tree::Tree::of_skopeo().unwrap().root();
        let folder = tempfile::tempdir_in(root.join("tmp")).unwrap();
        Self { root, folder }
    }

    /// Where skopeo finds a file of the folder.
    pub(crate) fn inside(&self, name: &str) -> String {
        let folder = self.folder.path().file_name().unwrap().to_str().unwrap();
        format!("/tmp/{folder}/{name}")
    }

    /// Writes a file and returns where skopeo finds it.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self.inside(name)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new("chroot");
        command.arg(&self.root).arg("skopeo").args(args).output().unwrap()
    }
}
