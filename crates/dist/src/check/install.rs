//! Packages: installation, upgrade from an earlier version and removal, with dpkg and rpm, in trees
//! that contain only what the packages depend on.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::sandbox;
use crate::architecture::Architecture;
use crate::contents::{Contents, DEBIAN, RPM};
use crate::entries::Entry;
use crate::job::{Artefacts, Job};
use crate::packages::{self, Effort, Package};
use crate::{command, programs};

/// The version that is upgraded from: older than any release.
const EARLIER: &str = "0.0.1";
/// A file of the earlier version that the current one does not have.
const DROPPED: &str = "usr/share/doc/NAME/dropped";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Deb,
    Rpm,
}

pub(crate) fn check(job: &Job, artefacts: &Artefacts) -> Result<()> {
    for contents in artefacts.contents.iter().filter(|one| job.is_packaged(one.built.program)) {
        for format in [Format::Deb, Format::Rpm] {
            check_one(artefacts, contents, format)?;
        }
    }
    Ok(())
}

fn check_one(artefacts: &Artefacts, contents: &Contents, format: Format) -> Result<()> {
    let built = &contents.built;
    let name = built.program.name;
    let work =
        artefacts.work.path().join(format!("install-{format:?}-{name}-{}", built.architecture));
    let root = work.join("root");
    let tree = Tree::create(format, &root, built.architecture, &work)?;
    let before = files(&root)?;

    let dropped = DROPPED.replace("NAME", name);
    let (current, layout) = match format {
        Format::Deb => (
            format!("{name}_{}_{}.deb", artefacts.release.version(), built.architecture.go()),
            &DEBIAN,
        ),
        Format::Rpm => (
            format!("{name}-{}-1.{}.rpm", artefacts.release.version(), built.architecture.rpm()),
            &RPM,
        ),
    };
    let current = artefacts.folder.join(current);
    let mut entries = contents.package(layout)?;
    entries.push(Entry::bytes(dropped.clone(), "of an earlier version"));
    // The earlier one has a small script instead of the program: only the files matter.
    for entry in &mut entries {
        if entry.path.starts_with("usr/bin/") {
            entry.content = crate::entries::Content::Bytes(b"#!/bin/sh\necho earlier\n".to_vec());
        }
    }
    let package = Package::new(contents, EARLIER, artefacts.release.epoch);
    let earlier = match format {
        Format::Deb => packages::deb(&package, &entries, &work, &work.join("deb"), Effort::Check)?,
        Format::Rpm => packages::rpm(&package, &entries, &work, &work.join("rpm"), Effort::Check)?,
    };

    tree.install(&earlier).context("installing an earlier version")?;
    ensure!(root.join(&dropped).is_file(), "{} does not contain {dropped}", earlier.display());
    tree.install(&current).context("upgrading")?;
    ensure!(!root.join(&dropped).exists(), "{dropped} is left after the upgrade");
    let version = tree.version(name)?;
    ensure!(
        version.contains(&artefacts.release.version()),
        "expected version {} after the upgrade, found `{version}`",
        artefacts.release.version()
    );
    let program = format!("/usr/bin/{name}");
    let text = sandbox::output(&root, built.architecture, "0:0", &[&program, "--version"])?;
    ensure!(
        text.starts_with(name),
        "expected the version from the installed {name}, found `{text}`"
    );
    for unit in contents.unit_names() {
        let path = root.join("usr/lib/systemd/system").join(&unit);
        ensure!(path.is_file(), "{unit} is not installed");
    }
    tree.remove(name)?;
    let after = files(&root)?;
    let left: Vec<&String> = after.difference(&before).collect();
    ensure!(left.is_empty(), "files are left after the removal of {name}: {left:?}");

    // A clean installation, which most sites do first.
    tree.install(&current).context("installing")?;
    tree.remove(name)?;
    let file = current.file_name().unwrap_or_default().to_string_lossy();
    println!("    {file}: installed, upgraded from {EARLIER}, removed");
    Ok(())
}

/// A root with a package database.
struct Tree {
    format: Format,
    root: PathBuf,
    architecture: Architecture,
}

impl Tree {
    fn create(
        format: Format,
        root: &Path,
        architecture: Architecture,
        work: &Path,
    ) -> Result<Self> {
        let tree = Self { format, root: root.to_owned(), architecture };
        for folder in ["bin", "tmp", "var/lib"] {
            let path = root.join(folder);
            fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        }
        match format {
            Format::Deb => {
                let database = root.join("var/lib/dpkg");
                for folder in ["info", "updates", "triggers"] {
                    fs::create_dir_all(database.join(folder))
                        .context("creating a package database")?;
                }
                fs::write(database.join("status"), "").context("creating a package database")?;
                // A shell is part of every Debian system.
                shell(root)?;
            }
            Format::Rpm => {
                // /bin/sh is the only dependency; a package provides it.
                let folder = work.join("shell");
                let provided = [
                    Entry::program("bin/busybox", Path::new(BUSYBOX)),
                    Entry::program("bin/sh", Path::new(BUSYBOX)),
                ];
                let program = programs::Program {
                    name: "test-shell",
                    summary: "A shell for tests",
                    description: "A shell for tests",
                    profile: "release",
                    has_units: false,
                    plugin: None,
                };
                let package = Package {
                    program,
                    architecture,
                    version: "1.0.0",
                    epoch: 0,
                    units: Vec::new(),
                };
                fs::create_dir_all(&folder).context("creating a folder")?;
                let file = packages::rpm(&package, &provided, work, &folder, Effort::Check)?;
                tree.install(&file).context("installing the shell")?;
            }
        }
        Ok(tree)
    }

    fn install(&self, package: &Path) -> Result<()> {
        let mut command = self.manager();
        match self.format {
            Format::Deb => command.arg("--install"),
            Format::Rpm => command.arg("--upgrade"),
        };
        if self.format == Format::Rpm && !self.architecture.is_native() {
            command.arg("--ignorearch");
        }
        command::output(command.arg(package))?;
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut command = self.manager();
        match self.format {
            Format::Deb => command.arg("--purge"),
            Format::Rpm => command.arg("--erase"),
        };
        command::output(command.arg(name))?;
        Ok(())
    }

    fn version(&self, name: &str) -> Result<String> {
        match self.format {
            Format::Deb => {
                let mut query = Command::new("dpkg-query");
                query.arg(format!("--admindir={}", self.root.join("var/lib/dpkg").display()));
                command::output(query.args(["--show", "--showformat=${Version}", name]))
            }
            Format::Rpm => {
                command::output(self.manager().args(["--query", "--queryformat=%{VERSION}", name]))
            }
        }
    }

    fn manager(&self) -> Command {
        match self.format {
            Format::Deb => {
                let mut dpkg = Command::new("dpkg");
                dpkg.arg(format!("--root={}", self.root.display()));
                dpkg.env("DEBIAN_FRONTEND", "noninteractive");
                if !self.architecture.is_native() {
                    dpkg.arg("--force-architecture");
                }
                dpkg
            }
            Format::Rpm => {
                let mut rpm = Command::new("rpm");
                rpm.arg("--root").arg(&self.root).args(["--dbpath", "/var/lib/rpm"]);
                rpm
            }
        }
    }
}

/// Debian's static busybox.
const BUSYBOX: &str = "/bin/busybox";

fn shell(root: &Path) -> Result<()> {
    fs::copy(BUSYBOX, root.join("bin/busybox")).with_context(|| {
        format!("reading {BUSYBOX}; `apt-get install busybox-static` installs it")
    })?;
    for name in ["sh", "rm"] {
        symlink("busybox", root.join("bin").join(name)).context("linking the shell")?;
    }
    Ok(())
}

/// All files of a tree except the package database.
fn files(root: &Path) -> Result<BTreeSet<String>> {
    let mut find = Command::new("find");
    find.arg(root).args(["-path", "*/var/lib", "-prune", "-o", "-not", "-type", "d", "-print"]);
    Ok(command::output(&mut find)?.lines().map(str::to_owned).collect())
}
