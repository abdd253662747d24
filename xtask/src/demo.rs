//! `cargo xtask demo`: builds what the demo runs, and runs it.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, Build, Profile, Target};
use crate::{flags, repository, tools};

const DEMO: Target<'_> = Target::Program { package: "demo", name: "demo" };

/// `cargo xtask demo`.
pub(crate) fn demo(mut arguments: Vec<OsString>) -> Result<()> {
    if arguments.first().is_some_and(|first| first == "policies") {
        arguments.remove(0);
        return policies(arguments);
    }
    let [keep] = flags(arguments, ["keep"])?;
    println!("==> Building oc-mirror and the demo; the first time 3 to 5 minutes on two cores");
    let oc_mirror = Target::Program { package: "oc-mirror", name: "oc-mirror" };
    // A release build takes far longer, and a few megabytes do not need it. The optional features
    // are for clusters, which this demo does not have.
    let programs = build::without_features(&[oc_mirror, DEMO])?;
    let [oc_mirror, demo] = &programs[..] else { unreachable!("two targets give two programs") };
    let mut command = demo_command(demo, "mirroring", oc_mirror);
    if keep {
        command.arg("--keep");
    }
    repository::run_interactive(&mut command)
}

fn policies(arguments: Vec<OsString>) -> Result<()> {
    let [stay] = flags(arguments, ["stay"])?;
    println!(
        "==> Preparing an API server and nodes; the first time about ten minutes on two cores"
    );
    tools::run(&["packages"])?;
    tools::run(&["build", "cluster"])?;
    let operator = Target::Program { package: "nmstate-operator", name: "nmstate-operator" };
    let programs = build::targets(&[operator, DEMO], Profile::Development)?;
    let [operator, demo] = &programs[..] else { unreachable!("two targets give two programs") };
    let mut command = demo_command(demo, "policies", operator);
    if stay {
        command.arg("--stay");
    }
    repository::run_interactive(&mut command)
}

/// The step of `cargo xtask test`: both demos, with the programs of the test build.
pub(crate) fn check(build: &Build) -> Result<()> {
    let demo = build.program("demo")?;
    repository::run(&mut demo_command(demo, "mirroring", build.program("oc-mirror")?))
        .context("the demo of oc-mirror failed")?;
    repository::run(&mut demo_command(demo, "policies", build.program("nmstate-operator")?))
        .context("the demo of nmstate-operator failed")
}

fn demo_command(demo: &Path, what: &str, program: &Path) -> Command {
    let mut command = Command::new(demo);
    command.arg(what).arg("--program").arg(program);
    command
}
