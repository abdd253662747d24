//! The files of the node. All changes are made here, each whole or not at all, and on the disk
//! before the next one starts: power may be lost at any moment.

use std::cell::RefCell;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::Builder;

/// Larger files are not among those that this program reads.
const LARGEST: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
#[error("{doing} {}", path.display())]
pub(crate) struct DiskError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

trait At<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, DiskError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, DiskError> {
        self.map_err(|source| DiskError { doing, path: path.to_owned(), source })
    }
}

/// Called before each change. Refusing it leaves the disk as a power cut at that moment would.
pub(crate) type BeforeChange = Box<dyn FnMut() -> io::Result<()>>;

/// The files below a folder that represents `/`.
pub(crate) struct Disk {
    root: PathBuf,
    fuse: RefCell<BeforeChange>,
}

/// Something in a folder of profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    File { bytes: Vec<u8>, mode: u32 },
    Link { target: PathBuf },
}

impl Disk {
    pub(crate) fn new(root: &Path) -> Self {
        Self::with_fuse(root, Box::new(|| Ok(())))
    }

    pub(crate) fn with_fuse(root: &Path, fuse: BeforeChange) -> Self {
        Self { root: root.to_owned(), fuse: RefCell::new(fuse) }
    }

    /// Where a path of the node is.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn change(&self, doing: &'static str, path: &Path) -> Result<(), DiskError> {
        (self.fuse.borrow_mut())().at(doing, path)
    }

    /// The content of a file, if it exists.
    pub(crate) fn read(&self, path: &str) -> Result<Option<Vec<u8>>, DiskError> {
        let full = self.path(path);
        match fs::metadata(&full) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Reading a pipe would not end.
            Ok(known) if !known.is_file() => {
                return Err(io::Error::other("not a file")).at("reading", &full);
            }
            Ok(known) if known.len() > LARGEST => {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge)).at("reading", &full);
            }
            Ok(_) => {}
            Err(error) => return Err(error).at("reading", &full),
        }
        fs::read(&full).map(Some).at("reading", &full)
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    /// Names in a folder, sorted; none when there is no such folder.
    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let full = self.path(folder);
        let entries = match fs::read_dir(&full) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.at("listing", &full)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            // No profile or document has a name that is not text.
            names.extend(entry.at("listing", &full)?.file_name().into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    /// A file or link as it is; nothing for folders and for what was removed meanwhile.
    pub(crate) fn content(&self, path: &str) -> Result<Option<Content>, DiskError> {
        let full = self.path(path);
        let known = match fs::symlink_metadata(&full) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            known => known.at("reading", &full)?,
        };
        if known.is_symlink() {
            let target = fs::read_link(&full).at("reading", &full)?;
            return Ok(Some(Content::Link { target }));
        }
        if !known.is_file() {
            return Ok(None);
        }
        let mode = known.mode() & 0o7777;
        Ok(self.read(path)?.map(|bytes| Content::File { bytes, mode }))
    }

    /// Writes a file, making its folder if need be. Readers see the old content or the new.
    pub(crate) fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), DiskError> {
        let full = self.path(path);
        let folder = full.parent().unwrap_or(&self.root);
        self.change("writing", &full)?;
        fs::create_dir_all(folder).at("creating", folder)?;
        let mut draft = Builder::new()
            .prefix(".brex-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)
            .at("writing in", folder)?;
        draft.write_all(bytes).at("writing", &full)?;
        // The umask may have taken bits away.
        draft.as_file().set_permissions(Permissions::from_mode(mode)).at("writing", &full)?;
        draft.as_file().sync_all().at("writing", &full)?;
        draft.persist(&full).map_err(|failed| failed.error).at("writing", &full)?;
        sync(folder)
    }

    /// Replaces what exists at the path with a file or link.
    pub(crate) fn put(&self, path: &str, content: &Content) -> Result<(), DiskError> {
        match content {
            Content::File { bytes, mode } => self.write(path, bytes, *mode),
            Content::Link { target } => {
                let full = self.path(path);
                let folder = full.parent().unwrap_or(&self.root);
                self.remove(path)?;
                self.change("linking", &full)?;
                fs::create_dir_all(folder).at("creating", folder)?;
                symlink(target, &full).at("linking", &full)?;
                sync(folder)
            }
        }
    }

    /// Removes a file or link; one that is not there is removed already.
    pub(crate) fn remove(&self, path: &str) -> Result<(), DiskError> {
        let full = self.path(path);
        if fs::symlink_metadata(&full).is_err() {
            return Ok(());
        }
        self.change("removing", &full)?;
        fs::remove_file(&full).at("removing", &full)?;
        sync(full.parent().unwrap_or(&self.root))
    }

    /// Gives a folder its final name in one step.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let (from, to) = (self.path(from), self.path(to));
        self.change("renaming", &from)?;
        fs::rename(&from, &to).at("renaming", &from)?;
        sync(to.parent().unwrap_or(&self.root))
    }

    /// Makes what other programs wrote survive a power cut. NetworkManager does not sync profiles
    /// that it creates.
    pub(crate) fn sync_others(&self) -> Result<(), DiskError> {
        self.change("syncing", &self.root)?;
        rustix::fs::sync();
        Ok(())
    }

    pub(crate) fn make_folder(&self, path: &str) -> Result<(), DiskError> {
        let full = self.path(path);
        self.change("creating", &full)?;
        fs::create_dir_all(&full).at("creating", &full)?;
        fs::set_permissions(&full, Permissions::from_mode(0o700)).at("creating", &full)
    }

    /// Removes a folder of this program with its content.
    pub(crate) fn remove_folder(&self, path: &str) -> Result<(), DiskError> {
        let full = self.path(path);
        if fs::symlink_metadata(&full).is_err() {
            return Ok(());
        }
        self.change("removing", &full)?;
        fs::remove_dir_all(&full).at("removing", &full)?;
        sync(full.parent().unwrap_or(&self.root))
    }
}

/// Makes what happened in a folder survive a power cut.
fn sync(folder: &Path) -> Result<(), DiskError> {
    File::open(folder).and_then(|open| open.sync_all()).at("writing", folder)
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("root", &self.root).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_change_leaves_the_old_content() {
        let folder = tempfile::tempdir().unwrap();
        Disk::new(folder.path()).write("/etc/x", b"old", 0o600).unwrap();
        let blown = Disk::with_fuse(folder.path(), Box::new(|| Err(io::ErrorKind::Other.into())));
        let error = blown.write("/etc/x", b"new", 0o600).unwrap_err();
        assert!(error.to_string().starts_with("writing ") && error.to_string().ends_with("/etc/x"));
        assert_eq!(blown.read("/etc/x").unwrap().unwrap(), b"old");
        assert_eq!(blown.names("/etc").unwrap(), ["x"]);
    }

    #[test]
    fn files_and_links_are_put_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path());
        disk.write("/run/a.nmconnection", b"secret", 0o600).unwrap();
        let link = Content::Link { target: "/dev/null".into() };
        disk.put("/run/b.nmmeta", &link).unwrap();
        assert_eq!(disk.content("/run/b.nmmeta").unwrap(), Some(link.clone()));
        disk.put("/run/b.nmmeta", &link).unwrap();
        let file = disk.content("/run/a.nmconnection").unwrap().unwrap();
        assert_eq!(file, Content::File { bytes: b"secret".to_vec(), mode: 0o600 });
        disk.remove("/run/a.nmconnection").unwrap();
        disk.remove("/run/a.nmconnection").unwrap();
        assert_eq!(disk.content("/run/a.nmconnection").unwrap(), None);
    }
}
