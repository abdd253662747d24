//! `cargo xtask tools`: installs and builds what the tests need, with the program `test-tools`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::build::{self, Profile, Target};
use crate::{flags, repository};

/// `cargo xtask tools`.
pub(crate) fn tools(arguments: Vec<OsString>) -> Result<()> {
    let [bench, machine, dist] = flags(arguments, ["bench", "machine", "dist"])?;
    run(&["packages"])?;
    for (is_given, purpose) in [(machine, "machine"), (dist, "dist")] {
        if is_given {
            run(&["packages", purpose])?;
        }
    }
    if dist {
        // A machine that builds releases does not need the tools of the tests.
        return run(&["build", "dist"]);
    }
    let mut purposes = vec!["build", "test"];
    purposes.extend(bench.then_some("bench"));
    purposes.extend(machine.then_some("machine"));
    run(&purposes)
}

/// Runs `test-tools` with these arguments.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    repository::run(&mut command(arguments)?)
}

/// Where a tool is. The error names the command that builds it.
pub(crate) fn path(tool: &str) -> Result<PathBuf> {
    let output = command(&["path", tool])?.output().context("starting test-tools")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    ensure!(output.status.success(), "{}", text(&output.stderr));
    Ok(text(&output.stdout).into())
}

fn command(arguments: &[&str]) -> Result<Command> {
    let target = Target::Program { package: "test-tools", name: "test-tools" };
    let programs = build::targets(&[target], Profile::Development)?;
    let mut command = Command::new(programs.first().context("test-tools was not built")?);
    command.args(arguments).current_dir(repository::root());
    Ok(command)
}
