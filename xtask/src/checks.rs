//! `cargo xtask test`: every check that must pass before a change is merged.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::background::BackgroundRun;
use crate::build::{self, Build, TestBinary};
use crate::progress::Ticker;
use crate::steps::{self, Outcome, Step};
use crate::{demo, disk_space, dist, docs, fuzz, repository, test_run, tools};

/// What steps pass to later ones.
#[derive(Default)]
struct Context {
    build: Option<Build>,
    campaigns: Option<BackgroundRun>,
}

impl Context {
    /// The build that all steps use.
    fn build(&mut self) -> Result<&Build> {
        if self.build.is_none() {
            self.build = Some(build::workspace()?);
        }
        self.build.as_ref().context("the workspace was not built")
    }
}

/// In order: setup first, then what fails quickly, then what takes long.
const STEPS: [Step<Context>; 11] = [
    Step { name: "disk", about: "check the free disk space", run: free_space },
    Step { name: "packages", about: "install missing Debian packages", run: packages },
    Step { name: "tools", about: "build missing helper tools", run: test_tools },
    Step { name: "format", about: "check the formatting and lock files", run: format },
    Step { name: "build", about: "compile and lint everything, once", run: build_all },
    Step { name: "deny", about: "check licenses, sources and advisories", run: deny },
    Step { name: "docs", about: "check generated documents, links and tutorials", run: check_docs },
    Step { name: "enhancements", about: "lint our design records", run: enhancements },
    Step {
        name: "test",
        about: "run every test, and the campaigns in the background",
        run: test_all,
    },
    Step { name: "doctest", about: "run the examples in the documentation", run: doctest },
    Step { name: "campaigns", about: "wait for the short campaigns", run: campaigns },
];

/// The short campaigns.
const CAMPAIGNS: [Step<Context>; 9] = [
    Step {
        name: "dist",
        about: "package, install and run what sites download, from debug programs",
        run: check_dist,
    },
    Step { name: "demo", about: "run the demos", run: run_demos },
    Step { name: "bench", about: "run the short benchmarks", run: short_benchmarks },
    Step { name: "torture", about: "kill some runs at random moments", run: short_torture },
    Step {
        name: "torture-jobs",
        about: "kill pods of a run in a cluster",
        run: short_torture_of_jobs,
    },
    Step {
        name: "torture-node",
        about: "kill a handler, NetworkManager and a node during changes",
        run: short_torture_of_nodes,
    },
    Step { name: "fuzz", about: "fuzz some parsers for seconds", run: short_fuzz },
    Step { name: "machine", about: "boot one emulated machine", run: short_machine },
    Step { name: "coverage", about: "run the short coverage measurement", run: short_coverage },
];

/// Those that run beside the tests, one after the other.
const BESIDE_TESTS: [&str; 9] = [
    "dist",
    "demo",
    "bench",
    "torture",
    "torture-jobs",
    "torture-node",
    "fuzz",
    "machine",
    "coverage",
];

/// A separate tier, because emulated machines take minutes to start.
const MACHINE_STEPS: [Step<Context>; 3] = [
    Step { name: "packages", about: "install missing Debian packages", run: machine_packages },
    Step {
        name: "tools",
        about: "build missing helper tools and the disk of test machines",
        run: machine_tools,
    },
    Step { name: "machine", about: "run the tests on whole machines", run: test_machines },
];

/// One boot, as in CI.
const SHORT_MACHINE_STEPS: [Step<Context>; 1] =
    [Step { name: "machine", about: "boot one emulated machine", run: short_machine }];

/// `cargo xtask test`.
pub(crate) fn test(arguments: Vec<OsString>) -> Result<()> {
    let (mut only, mut list, mut machine, mut short) = (Vec::new(), false, false, false);
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            lexopt::Arg::Long("only") => only.push(parser.value()?.to_string_lossy().into_owned()),
            lexopt::Arg::Long("list") => list = true,
            lexopt::Arg::Long("machine") => machine = true,
            lexopt::Arg::Long("short") => short = true,
            other => return Err(other.unexpected().into()),
        }
    }
    ensure!(machine || !short, "`--short` requires `--machine`");
    let (all, further, rerun): (&[Step<Context>], &[Step<Context>], _) = if short {
        (&SHORT_MACHINE_STEPS, &[], "cargo xtask test --machine --short --only")
    } else if machine {
        (&MACHINE_STEPS, &[], "cargo xtask test --machine --only")
    } else {
        (&STEPS, &CAMPAIGNS, "cargo xtask test --only")
    };
    if list {
        for Step { name, about, .. } in all.iter().chain(further) {
            println!("{name:14} {about}");
        }
        return Ok(());
    }
    let selected = if only.is_empty() {
        all.iter().collect()
    } else {
        steps::select(all.iter().chain(further), &only)?
    };
    println!("{}", steps::run(&selected, &mut Context::default(), rerun)?);
    Ok(())
}

fn free_space(_: &mut Context) -> Result<Outcome> {
    disk_space::check()?;
    Ok(Outcome::Done)
}

fn packages(_: &mut Context) -> Result<Outcome> {
    tools::run(&["packages"])?;
    Ok(Outcome::Done)
}

fn test_tools(_: &mut Context) -> Result<Outcome> {
    tools::run(&["build", "test"])?;
    Ok(Outcome::Done)
}

fn machine_packages(_: &mut Context) -> Result<Outcome> {
    tools::run(&["packages", "machine"])?;
    Ok(Outcome::Done)
}

fn machine_tools(_: &mut Context) -> Result<Outcome> {
    tools::run(&["build", "machine"])?;
    Ok(Outcome::Done)
}

fn format(_: &mut Context) -> Result<Outcome> {
    repository::run(&mut repository::cargo(&["fmt", "--all", "--check"]))
        .context("checking the formatting; `cargo fmt --all` corrects it")?;
    fuzz::check_lock_file()?;
    Ok(Outcome::Done)
}

fn build_all(context: &mut Context) -> Result<Outcome> {
    let count = context.build()?.tests.len();
    println!("    {count} test binaries");
    Ok(Outcome::Done)
}

/// Advisories are in a database on the internet. If it is not reachable, the rest is checked and the
/// summary lists what was skipped.
fn deny(_: &mut Context) -> Result<Outcome> {
    let program = tools::path("cargo-deny")?;
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(repository::root());
        command
    };
    repository::run(&mut deny(&[
        "--locked",
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ]))?;
    let fetched = deny(&["fetch", "db"]).output().context("starting `cargo-deny fetch db`")?;
    if !fetched.status.success() {
        let output = String::from_utf8_lossy(&fetched.stderr);
        let reason =
            output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        return Ok(Outcome::Skipped(vec![format!(
            "advisories: their database cannot be fetched: {}",
            reason.trim()
        )]));
    }
    repository::run(&mut deny(&["--locked", "check", "--disable-fetch", "advisories"]))?;
    Ok(Outcome::Done)
}

fn check_docs(context: &mut Context) -> Result<Outcome> {
    let skipped = docs::check(context.build()?)?;
    Ok(if skipped.is_empty() { Outcome::Done } else { Outcome::Skipped(skipped) })
}

fn enhancements(context: &mut Context) -> Result<Outcome> {
    let mut enhance = Command::new(context.build()?.program("enhance")?);
    enhance.args(["lint", "enhancements", "--deny-warnings"]).current_dir(repository::root());
    repository::run(&mut enhance)?;
    Ok(Outcome::Done)
}

fn test_all(context: &mut Context) -> Result<Outcome> {
    context.campaigns = Some(start_campaigns(context)?);
    let skipped = test_run::run(&context.build()?.tests)?;
    Ok(if skipped.is_empty() { Outcome::Done } else { Outcome::Skipped(skipped) })
}

fn doctest(context: &mut Context) -> Result<Outcome> {
    // Compiled with the same compiler as the libraries, which are not built again.
    context.build()?;
    let mut cargo = build::linted(&["test", "--locked", "--workspace", "--doc", "--quiet"]);
    repository::run(&mut cargo)?;
    Ok(Outcome::Done)
}

fn campaigns(context: &mut Context) -> Result<Outcome> {
    let running = match context.campaigns.take() {
        Some(running) => running,
        None => start_campaigns(context)?,
    };
    running.finish()?;
    Ok(Outcome::Done)
}

fn start_campaigns(context: &mut Context) -> Result<BackgroundRun> {
    BackgroundRun::start(context.build()?.program("xtask")?, &BESIDE_TESTS)
}

fn check_dist(context: &mut Context) -> Result<Outcome> {
    dist::short(context.build()?)?;
    Ok(Outcome::Done)
}

fn run_demos(context: &mut Context) -> Result<Outcome> {
    demo::check(context.build()?)?;
    Ok(Outcome::Done)
}

fn short_benchmarks(context: &mut Context) -> Result<Outcome> {
    crate::campaigns::short_benchmarks(context.build()?)?;
    Ok(Outcome::Done)
}

fn short_torture(context: &mut Context) -> Result<Outcome> {
    crate::campaigns::short_torture(context.build()?)?;
    Ok(Outcome::Done)
}

fn short_torture_of_jobs(context: &mut Context) -> Result<Outcome> {
    crate::campaigns::short_torture_of_jobs(context.build()?)?;
    Ok(Outcome::Done)
}

fn short_torture_of_nodes(context: &mut Context) -> Result<Outcome> {
    crate::campaigns::short_torture_of_nodes(context.build()?)?;
    Ok(Outcome::Done)
}

fn short_fuzz(_: &mut Context) -> Result<Outcome> {
    fuzz::short()?;
    Ok(Outcome::Done)
}

/// The test of the machine itself; the tests of units need more tools and four more boots.
fn short_machine(context: &mut Context) -> Result<Outcome> {
    tools::run(&["packages", "machine"])?;
    tools::run(&["build", "machine-disk"])?;
    let is_lab = |test: &&TestBinary| test.package == "lab-cluster" && test.name == "integration";
    let test = context.build()?.tests.iter().find(is_lab).context("lab-cluster has no tests")?;
    let mut command = Command::new(&test.path);
    command.args(["machine::", "--ignored"]).current_dir(&test.folder);
    run_machine_tests(&mut command)
}

fn short_coverage(_: &mut Context) -> Result<Outcome> {
    if !crate::campaigns::has_llvm_tools() {
        let why = "coverage: `rustup component add llvm-tools` failed, and Debian's llvm-22 is not installed";
        return Ok(Outcome::Skipped(vec![why.to_owned()]));
    }
    crate::campaigns::short_coverage()?;
    Ok(Outcome::Done)
}

/// Machine tests are marked as ignored, with the reason, so that `cargo test` skips and reports them.
fn test_machines(_: &mut Context) -> Result<Outcome> {
    let packages = ["--package", "lab-cluster", "--package", "brex-firstboot"];
    let mut test = repository::cargo(&["test", "--locked"]);
    test.args(packages).args(["--test", "integration", "--", "machine", "--ignored"]);
    run_machine_tests(&mut test)
}

fn run_machine_tests(command: &mut Command) -> Result<Outcome> {
    let ticker = Ticker::of_command("tests on machines");
    let output = command.stdin(Stdio::null()).output().context("starting the tests")?;
    drop(ticker);
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "tests on machines failed");
    let totals = test_run::Totals::of(&String::from_utf8_lossy(&output.stdout));
    ensure!(totals.passed > 0, "no test on a machine was run");
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_step_has_its_own_name() {
        let both = || STEPS.iter().chain(&CAMPAIGNS);
        let names: BTreeSet<&str> = both().map(|step| step.name).collect();
        assert_eq!(names.len(), both().count());
    }
}
