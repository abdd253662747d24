//! Long measurements: separate commands, each with a short variant that CI runs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::build::{self, Build, Profile, Target};
use crate::{flags, repository, tools};

/// What can be measured.
const EXPECTED: &str = "`mirror`, `shards`, `catalog`, `helm` or `operator`";
const BENCH: Target<'_> = Target::Program { package: "bench", name: "bench" };

/// `cargo xtask bench …`: builds the measured program with optimizations, then measures it.
pub(crate) fn bench(mut arguments: Vec<OsString>) -> Result<()> {
    ensure!(!arguments.is_empty(), "expected {EXPECTED}");
    let what = arguments.remove(0);
    let measured = match what.to_str() {
        Some("mirror" | "helm" | "shards") => {
            Target::Program { package: "oc-mirror", name: "oc-mirror" }
        }
        Some("catalog") => Target::Example { package: "catalog", name: "rebuild" },
        Some("operator") => return bench_operator(arguments),
        _ => bail!("expected {EXPECTED}, found `{}`", what.display()),
    };
    tools::run(&["packages"])?;
    tools::run(&["build", "test", "bench"])?;
    // Separate builds: in one build, cargo would enable the features of both for each.
    let bench = build::targets(&[BENCH], Profile::Release)?;
    let mut command = Command::new(bench.first().context("bench was not built")?);
    command.arg(&what);
    if !arguments.iter().any(|argument| argument == "--program") {
        let programs = build::targets(&[measured], Profile::Release)?;
        command.arg("--program").args(&programs);
    }
    repository::run_interactive(command.args(arguments))
}

fn bench_operator(mut arguments: Vec<OsString>) -> Result<()> {
    tools::run(&["packages"])?;
    tools::run(&["build", "test"])?;
    let programs = build::targets(
        &[
            Target::Program { package: "nmstate-operator", name: "nmstate-operator" },
            Target::Example { package: "nmstate-operator", name: "many_nodes" },
        ],
        Profile::Release,
    )?;
    let [operator, many_nodes] = &programs[..] else { bail!("the operator was not built") };
    let short = arguments.iter().any(|argument| argument == "--short" || argument == "--quick");
    arguments.retain(|argument| argument != "--short" && argument != "--quick");
    let mut command = operator_command(many_nodes, operator);
    if short {
        command.args(["--nodes", "20"]);
    }
    repository::run_interactive(command.args(&arguments))?;
    if arguments.is_empty() {
        let sizes = if short { "5,20" } else { "500,2000" };
        let mut each = operator_command(many_nodes, operator);
        repository::run_interactive(each.args(["--each", sizes]))?;
        let vlans = if short { "5" } else { "100,1500" };
        let mut many = operator_command(many_nodes, operator);
        repository::run_interactive(many.args(["--vlans", vlans]))?;
    }
    Ok(())
}

fn operator_command(many_nodes: &Path, operator: &Path) -> Command {
    let mut command = Command::new(many_nodes);
    command.arg("--program").arg(operator);
    command
}

/// All benchmarks on small inputs, with the programs of the test build: shows that they work.
pub(crate) fn short_benchmarks(build: &Build) -> Result<()> {
    for (what, program) in [
        ("mirror", "oc-mirror"),
        ("shards", "oc-mirror"),
        ("catalog", "rebuild"),
        ("helm", "oc-mirror"),
    ] {
        let mut command = Command::new(build.program("bench")?);
        command.args([what, "--short", "--program"]).arg(build.program(program)?);
        repository::run(&mut command)?;
    }
    let (example, operator) = (build.program("many_nodes")?, build.program("nmstate-operator")?);
    repository::run(operator_command(example, operator).args(["--nodes", "5"]))?;
    repository::run(
        operator_command(example, operator).args(["--each", "4,8", "--change", "100"]),
    )?;
    repository::run(operator_command(example, operator).args(["--vlans", "5"]))
}

/// `cargo xtask torture …`.
pub(crate) fn torture(mut arguments: Vec<OsString>) -> Result<()> {
    ensure!(!arguments.is_empty(), "expected `mirror`, `jobs` or `node`");
    let what = arguments.remove(0);
    let (what, program) = match what.to_str() {
        Some("mirror") => ("mirror", "oc-mirror"),
        Some("jobs") => ("jobs", "oc-mirror"),
        Some("node") => ("node", "nmstate-operator"),
        _ => bail!("expected `mirror`, `jobs` or `node`, found `{}`", what.display()),
    };
    if what != "mirror" {
        tools::run(&["packages"])?;
        tools::run(&["build", "test"])?;
    }
    let keeps_progress = |argument: &OsString| argument == "--short" || argument == "--progress";
    if what == "node" && !arguments.iter().any(keeps_progress) {
        // A campaign that is stopped continues at the next call.
        let file = repository::kept("torture")?.join("node.json");
        arguments.extend(["--progress".into(), file.into_os_string()]);
    }
    let makes_image = what == "jobs" && !arguments.iter().any(|argument| argument == "--image");
    let mut targets = vec![
        Target::Program { package: program, name: program },
        Target::Program { package: "torture", name: "torture" },
    ];
    if makes_image {
        targets.push(Target::Program { package: "dist", name: "dist" });
    }
    let programs = build::targets(&targets, Profile::Development)?;
    let [killed, torture, dist @ ..] = &programs[..] else { bail!("{program} was not built") };
    let mut command = torture_command(torture, what, killed);
    if let [dist, ..] = dist {
        command.arg("--image").arg(crate::dist::debug_image(dist, killed)?);
    }
    repository::run_interactive(command.args(arguments))
}

/// The variant that CI runs: pods run from the image of a release, with a debug program in it.
pub(crate) fn short_torture_of_jobs(build: &Build) -> Result<()> {
    let (torture, oc_mirror) = (build.program("torture")?, build.program("oc-mirror")?);
    let image = crate::dist::debug_image(build.program("dist")?, oc_mirror)?;
    let mut command = torture_command(torture, "jobs", oc_mirror);
    repository::run(command.arg("--short").arg("--image").arg(image))
}

/// The variant that CI runs.
pub(crate) fn short_torture(build: &Build) -> Result<()> {
    let (torture, oc_mirror) = (build.program("torture")?, build.program("oc-mirror")?);
    repository::run(torture_command(torture, "mirror", oc_mirror).arg("--short"))
}

/// The variant that CI runs.
pub(crate) fn short_torture_of_nodes(build: &Build) -> Result<()> {
    let (torture, operator) = (build.program("torture")?, build.program("nmstate-operator")?);
    repository::run(torture_command(torture, "node", operator).arg("--short"))
}

fn torture_command(torture: &Path, what: &str, program: &Path) -> Command {
    let mut command = Command::new(torture);
    command.args([what, "--program"]).arg(program);
    command
}

/// The part of the workspace that the short measurement covers: crates whose instrumented build
/// takes less than two minutes.
const SHORT_PACKAGES: [&str; 4] = ["drawing", "enhancement", "located-yaml", "machine-config"];

/// `cargo xtask coverage`.
pub(crate) fn coverage(arguments: Vec<OsString>) -> Result<()> {
    let [short] = flags(arguments, ["short"])?;
    tools::run(&["packages"])?;
    tools::run(&["build", "test"])?;
    ensure!(
        has_llvm_tools(),
        "the LLVM tools are missing; `rustup component add llvm-tools` installs them"
    );
    if short { short_coverage() } else { measure_coverage("all", &["--workspace"]) }
}

/// Whether the LLVM tools of the compiler's version are installed; installs them if rustup can.
pub(crate) fn has_llvm_tools() -> bool {
    let are_installed =
        || ["llvm-cov", "llvm-profdata"].iter().all(|name| llvm_tool(name).is_some());
    let mut install = Command::new("rustup");
    install.args(["component", "add", "llvm-tools"]).current_dir(repository::root());
    are_installed()
        || (install.output().is_ok_and(|output| output.status.success()) && are_installed())
}

/// The variant that CI runs.
pub(crate) fn short_coverage() -> Result<()> {
    let mut selection = Vec::new();
    for package in SHORT_PACKAGES {
        selection.extend(["--package", package]);
    }
    measure_coverage("short", &selection)
}

/// Measures, and compares with the floor of this name.
fn measure_coverage(name: &str, selection: &[&str]) -> Result<()> {
    let out = repository::scratch("coverage")?.join("coverage.json");
    let mut command = Command::new(tools::path("cargo-llvm-cov")?);
    // As `cargo llvm-cov`: the first argument is the name of the subcommand.
    command.arg("llvm-cov").args(selection).current_dir(repository::root());
    command.args(["--locked", "--json", "--summary-only", "--output-path"]).arg(&out);
    for (variable, program) in [("LLVM_COV", "llvm-cov"), ("LLVM_PROFDATA", "llvm-profdata")] {
        if let Some(path) = llvm_tool(program) {
            command.env(variable, path);
        }
    }
    repository::run(&mut command)?;
    let text = fs::read_to_string(&out).with_context(|| format!("reading {}", out.display()))?;
    let covered = percent(&text).with_context(|| format!("reading {}", out.display()))?;
    compare(name, covered)
}

/// Fails below the floor; raises the floor in the working tree if more is covered.
fn compare(name: &str, covered: f64) -> Result<()> {
    let path = repository::root().join("xtask/coverage-floor");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let floor = floor_of(&text, name).with_context(|| format!("no floor `{name}`"))?;
    println!("    {covered:.2} % of lines are covered; the floor is {floor:.2} %");
    ensure!(covered >= floor, "coverage is below the floor: add the missing tests");
    if let Some(raised) = raised(&text, name, covered) {
        fs::write(&path, raised).with_context(|| format!("writing {}", path.display()))?;
        println!("    xtask/coverage-floor was raised; commit it");
    }
    Ok(())
}

fn floor_of(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// The file with a higher floor, half a percentage point below the measured value, so that small
/// changes do not fall below it. None if the floor would not rise.
fn raised(text: &str, name: &str, covered: f64) -> Option<String> {
    let floor = floor_of(text, name)?;
    let next = ((covered - 0.5) * 10.0).floor() / 10.0;
    (next > floor).then(|| {
        let lines = text.lines().map(|line| match line.strip_prefix(name) {
            Some(_) => format!("{name} {next:.1}\n"),
            None => format!("{line}\n"),
        });
        lines.collect()
    })
}

fn percent(json: &str) -> Result<f64> {
    let value: Value = serde_json::from_str(json)?;
    let percent = &value["data"][0]["totals"]["lines"]["percent"];
    percent.as_f64().context("the report has no total of lines")
}

/// The tool of the compiler's LLVM version: a component of the toolchain, or Debian's package.
fn llvm_tool(program: &str) -> Option<PathBuf> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    let own = sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/bin").join(program);
    if own.is_file() {
        return Some(own);
    }
    let debian = PathBuf::from(format!("/usr/bin/{program}-22"));
    debian.is_file().then_some(debian)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOORS: &str = "all 80.0\nshort 90.5\n";

    #[test]
    fn a_floor_only_rises() {
        assert_eq!(floor_of(FLOORS, "short"), Some(90.5));
        assert_eq!(raised(FLOORS, "short", 90.9), None);
        assert_eq!(raised(FLOORS, "short", 80.0), None);
        assert_eq!(raised(FLOORS, "all", 85.04).as_deref(), Some("all 84.5\nshort 90.5\n"));
    }

    #[test]
    fn the_total_is_read_from_the_report() {
        let json = r#"{"data": [{"totals": {"lines": {"percent": 81.25}}}]}"#;
        assert_eq!(percent(json).unwrap(), 81.25);
        assert!(percent("{}").is_err());
    }
}
