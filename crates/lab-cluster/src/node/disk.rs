//! A disk in memory: what a node writes, over the tree that all share. It survives a
//! reboot of the node and ends with its value.

use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use tempfile::TempDir;

use super::options::NodeFile;

/// Mounts the memory in its own namespace, so that the host never sees it, and holds it as
/// long as its standard input lasts: also a killed test leaves nothing.
const HOLD: &str = r#"mount -t tmpfs -o mode=755,size=1g tmpfs "$0" && echo up && exec cat"#;

/// The disk.
#[derive(Debug)]
pub(super) struct Disk {
    holder: Child,
    place: TempDir,
}

impl Disk {
    /// An empty one.
    pub(super) fn new() -> Result<Self> {
        let place = TempDir::new().context("making a folder for the node's disk")?;
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "--", "sh", "-c", HOLD])
            .arg(place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("running unshare")?;
        let mut line = String::new();
        if let Some(stdout) = holder.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).context("waiting for the node's disk")?;
        }
        let mut disk = Self { holder, place };
        if line.trim() != "up" {
            let mut why = String::new();
            if let Some(mut stderr) = disk.holder.stderr.take() {
                stderr.read_to_string(&mut why).context("reading why")?;
            }
            bail!("making the node's disk: {}; it takes root's capabilities", why.trim());
        }
        Ok(disk)
    }

    /// Where it is, in [its namespace](Self::namespace).
    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// The mount namespace in which it is to be seen.
    pub(super) fn namespace(&self) -> String {
        format!("/proc/{}/ns/mnt", self.holder.id())
    }

    /// Writes a file that the node finds when it starts.
    pub(super) fn put(&self, file: &NodeFile) -> Result<()> {
        let upper = format!("/proc/{}/root{}/upper", self.holder.id(), self.path().display());
        file.put_below(Path::new(&upper))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The files of a running node, read and written from the host. Links are followed as the node
/// would follow them, never out of its root.
#[derive(Debug)]
pub(super) struct Files {
    root: OwnedFd,
}

impl Files {
    /// Those of the process `pid`.
    pub(super) fn of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/root");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&path, flags, Mode::empty())
            .with_context(|| format!("opening {path}: is the node up?"))?;
        Ok(Self { root })
    }

    pub(super) fn open(&self, path: &str) -> std::io::Result<File> {
        self.open_with(path, OFlags::RDONLY, Mode::empty())
    }

    pub(super) fn write(&self, path: &str, content: &[u8], mode: u32) -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let mut file = self.open_with(path, flags, Mode::from_raw_mode(mode))?;
        // The umask of this process must not affect the node.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(content)
    }

    /// Names in a folder, sorted; none when there is no such folder.
    pub(super) fn names(&self, path: &str) -> std::io::Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = match self.open_with(path, flags, Mode::empty()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn open_with(&self, path: &str, flags: OFlags, mode: Mode) -> std::io::Result<File> {
        let path = PathBuf::from(path);
        let flags = flags | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&self.root, &path, flags, mode, ResolveFlags::IN_ROOT)?.into())
    }
}
