//! Root file systems of Debian: for test nodes, with NetworkManager, its Open vSwitch plugin and Open
//! vSwitch; for skopeo; and for the kernel of User-Mode Linux.
//!
//! Each is created once per user and recipe, beside the tools. That of nodes is a folder (for
//! namespaces) and a disk image (for machines). Released Debian has no NetworkManager with that
//! plugin, no skopeo that verifies transparency logs, and no User-Mode Linux that runs processes
//! under seccomp instead of ptrace, which starts programs four times as fast; hence the testing
//! suite. Its packages change from day to day: a tree has those of the day on which it was created,
//! and its package database lists them.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use sha2::{Digest as _, Sha256};

use crate::Cache;

const SUITE: &str = "forky";
const MIRROR: &str = "http://deb.debian.org/debian";
/// What a node runs, and what tests run in it.
const NODE_PACKAGES: [&str; 12] = [
    "dbus",
    "dnsmasq-base",
    "ethtool",
    "iproute2",
    "iputils-ping",
    "kmod",
    "network-manager",
    "network-manager-ovs",
    "openvswitch-switch",
    "procps",
    "systemd-sysv",
    "udev",
];
/// Only their files are unpacked: none of their services and scripts is run.
const SKOPEO_PACKAGES: [&str; 1] = ["skopeo"];
const UML_PACKAGES: [&str; 1] = ["user-mode-linux"];
const OPTIONS: [&str; 9] = [
    "--quiet",
    "--variant=minbase",
    // The index of the testing suite is valid for a week only; mirrors are often older than that.
    "--aptopt=Acquire::Check-Valid-Until \"false\"",
    "--aptopt=Acquire::Retries \"3\"",
    "--aptopt=Acquire::http::Timeout \"60\"",
    "--aptopt=APT::Install-Recommends \"false\"",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
];
/// Size of the disk; unused blocks take no space.
const DISK_SIZE: &str = "1G";
/// Incremented when the creation of the tree changes, but none of the constants above.
const REVISION: &str = "1";
/// Minutes that the creation of a tree takes, rounded up.
pub const MINUTES: u32 = 2;

/// What a tree is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Node,
    Skopeo,
    /// The kernel of User-Mode Linux, its modules, and the C library that it needs.
    Uml,
}

impl Purpose {
    pub const ALL: [Self; 3] = [Self::Node, Self::Skopeo, Self::Uml];

    /// The name in messages and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Skopeo => "skopeo",
            Self::Uml => "uml",
        }
    }

    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Node => &NODE_PACKAGES,
            Self::Skopeo => &SKOPEO_PACKAGES,
            Self::Uml => &UML_PACKAGES,
        }
    }

    /// A hash of the recipe: another recipe gets another folder.
    fn key(self) -> String {
        let mut recipe = vec![SUITE, MIRROR, DISK_SIZE, REVISION];
        recipe.extend(self.packages());
        recipe.extend(self.options());
        hex::encode(&Sha256::digest(recipe.join("\n").as_bytes())[..6])
    }

    fn options(self) -> Vec<&'static str> {
        match self {
            Self::Node => OPTIONS.to_vec(),
            Self::Skopeo | Self::Uml => {
                [&["--variant=extract"], &OPTIONS[..1], &OPTIONS[2..]].concat()
            }
        }
    }
}

/// A finished tree.
#[derive(Debug, Clone)]
pub struct Tree {
    folder: PathBuf,
}

/// A tree that cannot be used or created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the root tree is missing: there is no {}; run `cargo xtask tools` as root",
        path.display()
    )]
    Absent { path: PathBuf },
    #[error("finding the root tree")]
    Cache(#[from] crate::Error),
    #[error("only root can create the root tree; run `cargo xtask tools` as root")]
    NotRoot,
    #[error("creating the root tree: preparing {}", path.display())]
    Prepare { path: PathBuf, source: io::Error },
    #[error(
        "creating the root tree: starting `{program}`; `apt-get install {package}` installs it"
    )]
    Start { program: &'static str, package: &'static str, source: io::Error },
    #[error(
        "creating the root tree: `{program}` ended with {status}; its messages are above. \
         It needs access to Debian {SUITE} at {MIRROR}"
    )]
    Failed { program: &'static str, status: ExitStatus },
}

impl Tree {
    /// The tree of nodes in the user's cache. The error has the command that creates it.
    pub fn of_user() -> Result<Self, Error> {
        Self::find(&Cache::of_user()?, Purpose::Node)
    }

    /// The same for the tree of skopeo.
    pub fn of_skopeo() -> Result<Self, Error> {
        Self::find(&Cache::of_user()?, Purpose::Skopeo)
    }

    /// The same for the tree of User-Mode Linux.
    pub fn of_uml() -> Result<Self, Error> {
        Self::find(&Cache::of_user()?, Purpose::Uml)
    }

    /// The tree in `cache`.
    pub fn find(cache: &Cache, purpose: Purpose) -> Result<Self, Error> {
        let folder = Self::folder_in(cache, purpose);
        if folder.is_dir() { Ok(Self { folder }) } else { Err(Error::Absent { path: folder }) }
    }

    /// The folder of the tree in `cache`, whether it exists or not.
    pub(crate) fn folder_in(cache: &Cache, purpose: Purpose) -> PathBuf {
        cache.root().join(format!("{}-tree-{SUITE}-{}", purpose.name(), purpose.key()))
    }

    /// Creates the tree unless it exists.
    ///
    /// Other processes that create the same tree wait for this one. An interrupted run leaves
    /// nothing that could be mistaken for a tree, and no mount.
    pub fn create(cache: &Cache, purpose: Purpose) -> Result<Self, Error> {
        let path = match Self::find(cache, purpose) {
            Err(Error::Absent { path }) => path,
            found => return found,
        };
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let prepare = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Prepare { path, source }
        };
        let _lock =
            cache.lock(&format!("tree-{}", purpose.name())).map_err(prepare(cache.root()))?;
        // Another process or thread that had the lock may have created it.
        if let Ok(tree) = Self::find(cache, purpose) {
            return Ok(tree);
        }

        // Beside the final folder, so that the rename stays within one file system.
        let temporary = tempfile::tempdir_in(cache.root()).map_err(prepare(cache.root()))?;
        let attempt = Self { folder: temporary.path().to_owned() };
        fs::set_permissions(&attempt.folder, Permissions::from_mode(0o755))
            .map_err(prepare(&attempt.folder))?;
        let root = attempt.root();
        run("mmdebstrap", "mmdebstrap", &mut debootstrap(&root, purpose))?;
        match purpose {
            Purpose::Node => {
                run("mke2fs", "e2fsprogs", &mut make_disk(&root, &attempt.disk()))?;
            }
            // A package of the base system, which is not unpacked, has these.
            Purpose::Skopeo | Purpose::Uml => {
                for name in ["bin", "lib", "lib64", "sbin"] {
                    let link = root.join(name);
                    if !link.exists() {
                        symlink(format!("usr/{name}"), &link).map_err(prepare(&link))?;
                    }
                }
            }
        }
        fs::rename(temporary.keep(), &path).map_err(prepare(&path))?;
        Ok(Self { folder: path })
    }

    /// The lower folder of overlays. It must not be written to.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// The same as an ext4 file system in a file, of nodes only. It must not be written to.
    pub fn disk(&self) -> PathBuf {
        self.folder.join("root.ext4")
    }

    /// The folder of the tree.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// In a separate mount namespace, so that a killed run leaves no mounts.
fn debootstrap(root: &Path, purpose: Purpose) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "--", "mmdebstrap"])
        .args(purpose.options())
        .arg(format!("--include={}", purpose.packages().join(",")))
        .arg(SUITE)
        .arg(root)
        .arg(MIRROR);
    command
}

fn make_disk(root: &Path, disk: &Path) -> Command {
    let mut command = Command::new("/sbin/mke2fs");
    command.args(["-q", "-t", "ext4", "-m", "0", "-d"]).arg(root).arg(disk).arg(DISK_SIZE);
    command
}

fn run(program: &'static str, package: &'static str, command: &mut Command) -> Result<(), Error> {
    let status = command.stdin(Stdio::null()).status().map_err(|source| Error::Start {
        program,
        package,
        source,
    })?;
    if status.success() { Ok(()) } else { Err(Error::Failed { program, status }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tree_is_an_error_that_names_the_command_which_creates_it() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path(), None);
        for (purpose, name) in [
            (Purpose::Node, "node-tree-forky-"),
            (Purpose::Skopeo, "skopeo-tree-forky-"),
            (Purpose::Uml, "uml-tree-forky-"),
        ] {
            let error = Tree::find(&cache, purpose).unwrap_err().to_string();
            assert!(error.contains("cargo xtask tools"), "{error}");
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn an_existing_tree_is_not_created_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path(), None);
        let found = Tree::find(&cache, Purpose::Node);
        let Err(Error::Absent { path }) = found else { panic!("expected no tree") };
        fs::create_dir(&path).unwrap();
        assert_eq!(Tree::create(&cache, Purpose::Node).unwrap().folder(), path);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }
}
