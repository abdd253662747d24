//! The root of the must-gather image. `oc adm must-gather` runs `/usr/bin/gather` with bash, watches
//! the size of the volume with the usual programs, and copies the result with tar or rsync. They come
//! from Debian; kubectl is built from the module in `tools/kubernetes`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use test_tools::Tool;

use crate::architecture::Architecture;
use crate::command;
use crate::entries::{Content, Entry};

const SUITE: &str = "bookworm";
const MIRRORS: [&str; 2] = [
    "deb http://deb.debian.org/debian bookworm main",
    "deb http://deb.debian.org/debian-security bookworm-security main",
];
/// What the scripts of `oc adm must-gather` and ours call.
const PACKAGES: [&str; 11] = [
    "bash",
    "coreutils",
    "findutils",
    "grep",
    "gzip",
    "mawk",
    "procps",
    "rsync",
    "sed",
    "tar",
    "util-linux",
];
/// What no script reads.
const LEFT_OUT: [&str; 5] = ["doc", "man", "locale", "info", "lintian"];

/// The files of the image. `work` is a folder for intermediate files on a disk with space.
pub(crate) fn root(checkout: &Path, architecture: Architecture, work: &Path) -> Result<Vec<Entry>> {
    let tree = extract(architecture, &work.join(format!("debian-{architecture}")))?;
    let mut entries = Vec::new();
    collect(&tree, &tree, &mut entries)?;
    let script = checkout.join("deploy/nmstate-operator/must-gather/gather_nmstate");
    let kubectl = kubectl(architecture, work)?;
    entries.extend([
        Entry::program("usr/bin/gather_nmstate", &script),
        Entry::link("usr/bin/gather", "gather_nmstate"),
        Entry::program("usr/bin/kubectl", &kubectl),
        // The script, and scripts of users, call oc; these commands are the same in kubectl.
        Entry::link("usr/bin/oc", "kubectl"),
        // Alternatives are links that Debian's installation scripts create; these are not run here.
        Entry::link("usr/bin/awk", "mawk"),
        Entry::folder("must-gather", 0o777),
        Entry::folder("tmp", 0o1777),
        Entry::folder("root", 0o700),
    ]);
    Ok(entries)
}

/// Downloads and extracts the packages. No script of a package is run, so that any architecture can
/// be extracted.
fn extract(architecture: Architecture, tree: &Path) -> Result<PathBuf> {
    if tree.exists() {
        fs::remove_dir_all(tree).with_context(|| format!("emptying {}", tree.display()))?;
    }
    let mut mmdebstrap = Command::new("unshare");
    // In a separate mount namespace, so that a killed run leaves no mounts.
    mmdebstrap.args(["--mount", "--propagation", "private", "--", "mmdebstrap", "--quiet"]);
    mmdebstrap.args(["--variant=extract", "--aptopt=APT::Install-Recommends \"false\""]);
    mmdebstrap.arg("--aptopt=Acquire::Retries \"3\"");
    mmdebstrap.arg(format!("--architectures={}", architecture.go()));
    mmdebstrap.arg(format!("--include={}", PACKAGES.join(",")));
    mmdebstrap.arg(SUITE).arg(tree).args(MIRRORS);
    command::output(&mut mmdebstrap).context(
        "extracting Debian packages for must-gather; this needs root and a Debian mirror",
    )?;
    Ok(tree.to_owned())
}

/// All files of a tree except documentation, the package database and devices.
fn collect(top: &Path, folder: &Path, entries: &mut Vec<Entry>) -> Result<()> {
    let listing = || format!("listing {}", folder.display());
    for entry in fs::read_dir(folder).with_context(listing)? {
        let path = entry.with_context(listing)?.path();
        let relative = path.strip_prefix(top)?.display().to_string();
        let left_out = LEFT_OUT.iter().any(|name| relative == format!("usr/share/{name}"));
        // apt leaves its lists, caches and configuration; they differ from run to run.
        if left_out
            || ["var", "dev", "proc", "sys", "run", "tmp", "etc/apt"].contains(&relative.as_str())
        {
            continue;
        }
        let metadata =
            fs::symlink_metadata(&path).with_context(|| format!("reading {}", path.display()))?;
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_symlink() {
            let to = fs::read_link(&path).with_context(|| format!("reading {}", path.display()))?;
            entries.push(Entry::link(relative, to.display().to_string()));
        } else if metadata.is_dir() {
            entries.push(Entry::folder(relative, mode));
            collect(top, &path, entries)?;
        } else if metadata.is_file() {
            // setuid and setgid programs have no use in this image.
            entries.push(Entry {
                path: relative,
                mode: mode & 0o755,
                content: Content::File(path),
            });
        } else {
            bail!("{} is neither a file nor a folder nor a link", path.display());
        }
    }
    Ok(())
}

fn kubectl(architecture: Architecture, work: &Path) -> Result<PathBuf> {
    if architecture.is_native() {
        return Ok(test_tools::path(Tool::Kubectl)?);
    }
    let folder = work.join(format!("kubectl-{architecture}"));
    test_tools::build_for(Tool::Kubectl, architecture.go(), &folder)
        .context("building kubectl for must-gather")
}
