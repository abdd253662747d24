//! The image that every test machine boots: a kernel, its initial root, and a disk. Created once per
//! user and recipe from the root tree of nodes and a stable kernel of Debian.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::Cache;
use crate::initrd::Archive;
use crate::tree::{Purpose, Tree};

/// The suite of the kernel: an old one rarely changes.
const SUITE: &str = "bookworm";
const MIRROR: &str = "http://deb.debian.org/debian";
const PACKAGES: &str = "linux-image-cloud-amd64,busybox-static";
const DISK_SIZE: &str = "1500M";
/// What the kernel needs to find its disks, in the order of their dependencies.
const MODULES: [&str; 6] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_blk",
];
const INIT: &str = include_str!("initrd.sh");
/// Changes of the tree before it becomes a disk. `$1` is the kernel's version.
const PREPARE: &str = r#"set -e
depmod "$1"
: > /etc/resolv.conf
: > /etc/machine-id
printf 'openvswitch\nbonding\n8021q\n' > /etc/modules-load.d/lab.conf
echo 'options bonding max_bonds=0' > /etc/modprobe.d/lab.conf
"#;

/// A finished image.
#[derive(Debug, Clone)]
pub struct Image {
    folder: PathBuf,
}

impl Image {
    /// The image in the user's cache. The error names the command that creates it.
    pub fn of_user() -> Result<Self> {
        let cache = Cache::of_user()?;
        let folder = folder_in(&cache)?;
        ensure!(
            folder.is_dir(),
            "the disk of test machines is missing: there is no {}; run `cargo xtask tools \
             --machine` as root",
            folder.display()
        );
        Ok(Self { folder })
    }

    /// Creates it unless it exists.
    pub fn create(cache: &Cache) -> Result<Self> {
        let tree = Tree::create(cache, Purpose::Node)?;
        let folder = folder_in(cache)?;
        let _lock = cache.lock("machine-disk").context("locking the disk of test machines")?;
        if folder.is_dir() {
            return Ok(Self { folder });
        }
        // Beside the final folder, so that the rename stays within one file system.
        let temporary =
            tempfile::tempdir_in(cache.root()).context("creating a folder for a disk")?;
        fill(temporary.path(), &tree.root()).context("creating the disk of test machines")?;
        fs::rename(temporary.keep(), &folder)
            .with_context(|| format!("renaming a disk to {}", folder.display()))?;
        Ok(Self { folder })
    }

    pub fn kernel(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    pub fn initrd(&self) -> PathBuf {
        self.folder.join("initrd")
    }

    pub fn disk(&self) -> PathBuf {
        self.folder.join("root.ext4")
    }

    /// The folder of the image.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The folder of the image of this recipe, whether it exists or not.
fn folder_in(cache: &Cache) -> Result<PathBuf> {
    let tree = Tree::folder_in(cache, Purpose::Node);
    let tree = tree.file_name().context("the tree has no name")?.to_string_lossy();
    let recipe = [&*tree, SUITE, MIRROR, PACKAGES, DISK_SIZE, &MODULES.join(" "), INIT, PREPARE];
    let hash = Sha256::digest(recipe.join("\n").as_bytes());
    Ok(cache.root().join(format!("node-machine-{}", hex::encode(&hash[..6]))))
}

fn fill(folder: &Path, tree: &Path) -> Result<()> {
    let (parts, root) = (folder.join("parts"), folder.join("root"));
    run(Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--", "mmdebstrap", "--quiet"])
        .args(["--variant=extract", "--aptopt=Acquire::Retries \"3\""])
        .args(["--aptopt=APT::Install-Recommends \"false\"", &format!("--include={PACKAGES}")])
        .arg(SUITE)
        .arg(&parts)
        .arg(MIRROR))
    .with_context(|| format!("fetching a kernel of Debian {SUITE} from {MIRROR}"))?;
    let modules = parts.join("lib/modules");
    let version = only_entry(&modules)?;
    fs::rename(parts.join("boot").join(format!("vmlinuz-{version}")), folder.join("vmlinuz"))
        .context("moving the kernel")?;
    fs::write(folder.join("initrd"), initrd(&parts, &modules.join(&version))?)
        .context("writing the initial root")?;

    run(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(tree).arg(&root))?;
    let target = root.join("usr/lib/modules");
    fs::create_dir_all(&target).context("creating a folder for kernel modules")?;
    run(Command::new("cp").arg("--archive").arg(modules.join(&version)).arg(&target))?;
    run(Command::new("chroot").arg(&root).args(["/bin/sh", "-c", PREPARE, "sh", &version]))?;
    run(Command::new("/sbin/mke2fs")
        .args(["-q", "-t", "ext4", "-m", "0", "-d"])
        .arg(&root)
        .arg(folder.join("root.ext4"))
        .arg(DISK_SIZE))?;
    fs::remove_dir_all(&root).context("removing intermediate files")?;
    fs::remove_dir_all(&parts).context("removing intermediate files")
}

fn initrd(parts: &Path, modules: &Path) -> Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("reading {}", path.display()));
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "modules", "proc", "root"] {
        archive.folder(folder);
    }
    archive.program("bin/busybox", &read(&parts.join("bin/busybox"))?);
    archive.program("init", INIT.as_bytes());
    for (number, module) in (10..).zip(MODULES) {
        // The kernel may have it built in.
        if let Some(path) = find(&modules.join("kernel/drivers"), &format!("{module}.ko"))? {
            archive.file(&format!("modules/{number}-{module}.ko"), &read(&path)?);
        }
    }
    Ok(archive.finish())
}

/// The file of this name, anywhere below a folder.
fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    let listing = || format!("listing {}", folder.display());
    for entry in fs::read_dir(folder).with_context(listing)? {
        let entry = entry.with_context(listing)?;
        if entry.file_type().with_context(listing)?.is_dir() {
            if let Some(found) = find(&entry.path(), name)? {
                return Ok(Some(found));
            }
        } else if entry.file_name() == name {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

fn only_entry(folder: &Path) -> Result<String> {
    let listing = || format!("listing {}", folder.display());
    let entries: Vec<_> = fs::read_dir(folder).with_context(listing)?.flatten().collect();
    match entries.as_slice() {
        [entry] => Ok(entry.file_name().to_string_lossy().into_owned()),
        _ => bail!("{}: expected one kernel, found {} entries", folder.display(), entries.len()),
    }
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("starting `{program}`"))?;
    ensure!(status.success(), "`{program}` ended with {status}; its messages are above");
    Ok(())
}
