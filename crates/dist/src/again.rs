//! The second build, which shows that builds are reproducible: from a clone of the commit in another
//! folder, with another build folder.
//!
//! It is kept, and a second build that was stopped continues if the commit and the compiler are the
//! same. Nothing is taken from the first build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::compile;
use crate::job::{Artefacts, Job};
use crate::packages::Effort;
use crate::programs::Program;
use crate::release::Release;
use crate::{check, command};

/// Builds again and compares. With `selected` programs, only those that are compiled together with
/// them are built.
pub(crate) fn check(job: &Job, first: &Artefacts, selected: &[Program]) -> Result<()> {
    // It may have changed since the start.
    ensure_clean(&first.release)?;
    let programs = compiled_together(&job.programs, selected, job.effort);
    let mut rustc = Command::new("rustc");
    let compiler = command::output(rustc.arg("-vV").current_dir(&job.root))?;
    let folders = Folders::new(&job.target.join("dist-again"));
    let identity = identity(&first.release, &compiler);
    if folders.prepare(&job.root, &first.release.commit, &identity)? {
        println!("    continuing the second build in {}", folders.top.display());
    }
    let second = Job {
        root: folders.checkout,
        target: folders.target,
        out: folders.out,
        programs,
        key: None,
        ..job.clone()
    };
    check::reproducible(first, &second.run()?, second.programs == job.programs)
}

/// Fails if the checkout has changes: a clone does not have them.
pub(crate) fn ensure_clean(release: &Release) -> Result<()> {
    ensure!(
        !release.is_dirty,
        "two builds of a commit are compared, and the checkout has changes that are not committed"
    );
    Ok(())
}

/// The programs that one call of cargo compiles together with one of `selected`; all if none is
/// selected. Features of shared dependencies are those that any program of a call needs, so a program
/// that is compiled alone may differ.
fn compiled_together(all: &[Program], selected: &[Program], effort: Effort) -> Vec<Program> {
    let is_together = |program: &&Program| {
        let profile = compile::profile(program, effort);
        selected.is_empty() || selected.iter().any(|one| compile::profile(one, effort) == profile)
    };
    all.iter().filter(is_together).copied().collect()
}

/// What the second build depends on.
fn identity(release: &Release, compiler: &str) -> String {
    format!("commit {}\n{compiler}", release.commit)
}

struct Folders {
    top: PathBuf,
    checkout: PathBuf,
    target: PathBuf,
    out: PathBuf,
    /// The identity of what is in the other folders; it is written after the clone.
    identity: PathBuf,
}

impl Folders {
    fn new(top: &Path) -> Self {
        Self {
            top: top.to_owned(),
            checkout: top.join("another/checkout"),
            target: top.join("another-build-folder"),
            out: top.join("out"),
            identity: top.join("identity"),
        }
    }

    /// Clones a commit of `root`, unless there is a clone with the same identity. Returns whether
    /// there is.
    fn prepare(&self, root: &Path, commit: &str, identity: &str) -> Result<bool> {
        if fs::read_to_string(&self.identity).is_ok_and(|known| known == identity) {
            return Ok(true);
        }
        if self.top.exists() {
            fs::remove_dir_all(&self.top)
                .with_context(|| format!("emptying {}", self.top.display()))?;
        }
        let mut git = Command::new("git");
        command::output(git.args(["clone", "--quiet", "--shared"]).arg(root).arg(&self.checkout))?;
        // The checkout may have moved on since the first build.
        let mut git = Command::new("git");
        git.args(["checkout", "--quiet", "--detach", commit]).current_dir(&self.checkout);
        command::output(&mut git)?;
        fs::write(&self.identity, identity)
            .with_context(|| format!("writing {}", self.identity.display()))?;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::{self, PROGRAMS};

    fn release(is_dirty: bool) -> Release {
        Release {
            number: "0.1.0".into(),
            commit: "c".repeat(40),
            date: "2026-01-02".into(),
            epoch: 0,
            is_dirty,
        }
    }

    #[test]
    fn a_dirty_checkout_is_not_built_again() {
        let error = ensure_clean(&release(true)).unwrap_err().to_string();
        assert!(error.contains("changes that are not committed"), "{error}");
        assert!(ensure_clean(&release(false)).is_ok());
    }

    #[test]
    fn programs_of_one_profile_are_built_again_together() {
        let report = programs::find("--program", "brex-report").unwrap();
        let names = |effort| -> Vec<&str> {
            let found = compiled_together(&PROGRAMS, &[report], effort);
            found.iter().map(|program| program.name).collect()
        };
        assert_eq!(names(Effort::Release), ["brex-firstboot", "brex-report"]);
        assert_eq!(names(Effort::Check).len(), PROGRAMS.len(), "there is one profile for trials");
        assert_eq!(compiled_together(&PROGRAMS, &[], Effort::Release), PROGRAMS);
    }

    /// A checkout with two commits; returns the first.
    fn checkout(root: &Path) -> String {
        let git = |line: &str| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]);
            command::output(git.args(line.split(' ')).current_dir(root)).unwrap()
        };
        fs::create_dir_all(root).unwrap();
        git("init --quiet");
        git("commit --quiet --allow-empty -m first");
        let first = git("rev-parse HEAD").trim().to_owned();
        git("commit --quiet --allow-empty -m second");
        first
    }

    #[test]
    fn the_commit_of_the_first_build_is_cloned_although_there_is_a_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("checkout");
        let commit = checkout(&root);
        let folders = Folders::new(&folder.path().join("again"));
        assert!(!folders.prepare(&root, &commit, "identity").unwrap());
        let mut git = Command::new("git");
        git.args(["rev-parse", "HEAD"]).current_dir(&folders.checkout);
        assert_eq!(command::output(&mut git).unwrap().trim(), commit);
    }

    #[test]
    fn a_second_build_continues_only_for_the_same_commit_and_compiler() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("checkout");
        let commit = checkout(&root);
        let folders = Folders::new(&folder.path().join("again"));
        let compiled = folders.target.join("compiled");
        let first = identity(&release(false), "rustc 1.95.0");
        assert!(!folders.prepare(&root, &commit, &first).unwrap());
        fs::create_dir_all(&folders.target).unwrap();
        fs::write(&compiled, "").unwrap();
        assert!(folders.prepare(&root, &commit, &first).unwrap());
        assert!(compiled.exists());
        for other in [
            identity(&release(false), "rustc 1.96.0"),
            identity(&Release { commit: "d".repeat(40), ..release(false) }, "rustc 1.95.0"),
        ] {
            fs::create_dir_all(&folders.target).unwrap();
            fs::write(&compiled, "").unwrap();
            assert!(!folders.prepare(&root, &commit, &other).unwrap());
            assert!(!compiled.exists());
        }
    }

    #[test]
    fn a_clone_that_was_interrupted_is_cloned_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("checkout");
        let commit = checkout(&root);
        let folders = Folders::new(&folder.path().join("again"));
        fs::create_dir_all(folders.checkout.join("half")).unwrap();
        assert!(!folders.prepare(&root, &commit, "identity").unwrap());
        assert!(folders.checkout.join(".git").exists());
        assert!(!folders.checkout.join("half").exists());
    }
}
