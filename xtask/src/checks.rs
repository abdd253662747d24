//! `cargo xtask test`: everything that must hold before a change is taken.

use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use lab::tools::{self, Tool};

use crate::steps::{self, Outcome, Step};
use crate::{demo, dist, docs, program, repository, set_up};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run this step alone; may be given several times
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// List the steps and end
    #[arg(long)]
    list: bool,
    /// Run the tests on whole machines instead, with all they need; about ten minutes
    #[arg(long)]
    machine: bool,
}

/// In order: set-up first, then what fails quickly, then what takes long.
const STEPS: [Step; 10] = [
    Step {
        name: "packages",
        about: "installs Debian packages that are missing",
        run: set_up::packages,
    },
    Step { name: "tools", about: "builds helper tools that are missing", run: set_up::test_tools },
    Step { name: "format", about: "checks that rustfmt would change nothing", run: format },
    Step { name: "clippy", about: "lints everything, warnings denied", run: clippy },
    Step {
        name: "deny",
        about: "checks licences, sources, bans and advisories of dependencies",
        run: deny,
    },
    Step {
        name: "docs",
        about: "checks that generated documents are up to date",
        run: docs::check,
    },
    Step { name: "enhancements", about: "checks our own enhancement documents", run: enhancements },
    Step { name: "test", about: "runs every test", run: test_all },
    Step {
        name: "dist",
        about: "builds the program for nodes: static, small, quick to start",
        run: dist::check_step,
    },
    Step { name: "demo", about: "runs the demo of the README", run: demo::check },
];

/// A tier of its own, as emulated machines take minutes to start.
const MACHINE_STEPS: [Step; 3] = [
    Step {
        name: "packages",
        about: "installs Debian packages that are missing",
        run: set_up::machine_packages,
    },
    Step {
        name: "tools",
        about: "builds helper tools and the machines' disk, where missing",
        run: set_up::machine_tools,
    },
    Step { name: "machine", about: "runs the tests on whole machines", run: test_machines },
];

/// `cargo xtask test`.
pub(crate) fn test(arguments: &Arguments) -> Result<()> {
    let (all, rerun): (&[Step], _) = if arguments.machine {
        (&MACHINE_STEPS, "cargo xtask test --machine --only")
    } else {
        (&STEPS, "cargo xtask test --only")
    };
    if arguments.list {
        for Step { name, about, .. } in all {
            println!("{name:12} {about}");
        }
        return Ok(());
    }
    let chosen = steps::select(all, &arguments.only)?;
    println!("{}", steps::run(&chosen, rerun)?);
    Ok(())
}

fn format() -> Result<Outcome> {
    repository::run(&mut repository::cargo(&["fmt", "--all", "--check"]))
        .context("`cargo fmt --all` puts it right")?;
    Ok(Outcome::Done)
}

fn clippy() -> Result<Outcome> {
    let lint = ["clippy", "--locked", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    repository::run(&mut repository::cargo(&lint))?;
    Ok(Outcome::Done)
}

/// Advisories come from a database on the internet. Where that cannot be reached, the rest is
/// still checked, and it is said what was not.
fn deny() -> Result<Outcome> {
    let program = tools::path(Tool::CargoDeny)?;
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(repository::root());
        command
    };
    repository::run(&mut deny(&["--locked", "check", "licenses", "bans", "sources"]))?;
    let fetched = deny(&["fetch", "db"]).output().context("starting `cargo-deny fetch db`")?;
    if !fetched.status.success() {
        let said = String::from_utf8_lossy(&fetched.stderr);
        let reason =
            said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        return Ok(Outcome::NotChecked(format!(
            "advisories, as their database cannot be fetched: {}",
            reason.trim()
        )));
    }
    repository::run(&mut deny(&["--locked", "check", "--disable-fetch", "advisories"]))?;
    Ok(Outcome::Done)
}

fn enhancements() -> Result<Outcome> {
    let programs = program::build_all()?;
    let mut enhance = Command::new(programs.path("enhance")?);
    enhance.args(["lint", "enhancements", "--deny-warnings"]).current_dir(repository::root());
    repository::run(&mut enhance)?;
    Ok(Outcome::Done)
}

fn test_all() -> Result<Outcome> {
    repository::run(&mut repository::cargo(&[
        "test",
        "--locked",
        "--workspace",
        "--no-fail-fast",
    ]))?;
    let data = repository::root().join("../shared/data");
    if data.is_dir() {
        Ok(Outcome::Done)
    } else {
        Ok(Outcome::NotChecked(
            "data tier: ../shared/data is absent, its tests were not run".into(),
        ))
    }
}

/// They are marked as ignored, with the reason, so that a plain run leaves them out and says so.
fn test_machines() -> Result<Outcome> {
    let packages = ["--package", "lab", "--package", "brex-firstboot"];
    let mut test = repository::cargo(&["test", "--locked"]);
    repository::run(test.args(packages).args(["--test", "machine", "--", "--ignored"]))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_step_has_a_name_of_its_own() {
        for steps in [&STEPS[..], &MACHINE_STEPS] {
            let names: BTreeSet<&str> = steps.iter().map(|step| step.name).collect();
            assert_eq!(names.len(), steps.len());
        }
    }
}
