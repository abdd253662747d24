//! Builds programs and tests with cargo, and reads their paths from its messages.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::progress::Ticker;
use crate::repository;

/// What is built in one call of cargo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Program { package: &'a str, name: &'a str },
    Example { package: &'a str, name: &'a str },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Fast to compile.
    Development,
    /// Fast to run.
    Release,
}

/// A binary of tests: unit tests of a package, or a file below its `tests`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TestBinary {
    pub(crate) package: String,
    /// `unit` or the name of the integration test.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Tests run in the folder of their package.
    pub(crate) folder: PathBuf,
}

/// Everything that one build of the workspace produced.
#[derive(Debug, Default)]
pub(crate) struct Build {
    programs: BTreeMap<String, PathBuf>,
    pub(crate) tests: Vec<TestBinary>,
    warnings: usize,
}

impl Build {
    pub(crate) fn program(&self, name: &str) -> Result<&Path> {
        let found = self.programs.get(name).map(PathBuf::as_path);
        found.with_context(|| format!("cargo did not build `{name}`"))
    }

    fn read(&mut self, message: &str) {
        let Ok(message) = serde_json::from_str::<Value>(message) else { return };
        match message["reason"].as_str() {
            Some("compiler-message") => {
                let diagnostic = &message["message"];
                // The summary of a crate ("3 warnings emitted") is not a warning itself.
                let is_finding = !diagnostic["spans"].as_array().is_none_or(Vec::is_empty);
                if is_finding && diagnostic["level"] == "warning" {
                    self.warnings += 1;
                }
                eprint!("{}", diagnostic["rendered"].as_str().unwrap_or_default());
            }
            Some("compiler-artifact") => self.add_artifact(&message),
            _ => {}
        }
    }

    fn add_artifact(&mut self, message: &Value) {
        let Some(path) = message["executable"].as_str().map(PathBuf::from) else { return };
        let target = &message["target"];
        let name = target["name"].as_str().unwrap_or_default().to_owned();
        if message["profile"]["test"] != true {
            self.programs.insert(name, path);
            return;
        }
        let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().unwrap_or(manifest).to_owned();
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kinds = target["kind"].as_array().cloned().unwrap_or_default();
        let name = match kinds.first().and_then(Value::as_str) {
            Some("test") => name,
            Some("bin") => format!("unit, {name}"),
            Some("example") => format!("example {name}"),
            _ => "unit".to_owned(),
        };
        self.tests.push(TestBinary { package, name, path, folder });
    }
}

/// Builds the whole workspace once: libraries, programs, examples and tests, with lints. Warnings
/// are errors.
///
/// Clippy runs as the compiler of our own crates, so that linting does not compile anything a
/// second time; dependencies are compiled by rustc and shared with every other build.
pub(crate) fn workspace() -> Result<Build> {
    let mut build = Build::default();
    let mut cargo = linted(&["build", "--locked", "--workspace"]);
    cargo.args(["--lib", "--bins", "--examples", "--tests", "--message-format=json"]);
    messages(&mut cargo, |line| build.read(line))?;
    build.tests.sort();
    ensure!(build.warnings == 0, "{} warnings; warnings are errors here", build.warnings);
    Ok(build)
}

/// Cargo with clippy as the compiler of our own crates.
pub(crate) fn linted(arguments: &[&str]) -> Command {
    let mut cargo = repository::cargo(arguments);
    cargo.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    cargo
}

/// Builds some targets together, so that they share what they depend on. Returns where each is, in
/// the same order.
pub(crate) fn targets(targets: &[Target<'_>], profile: Profile) -> Result<Vec<PathBuf>> {
    let flags = match profile {
        Profile::Release => &["--release"][..],
        Profile::Development => &[],
    };
    programs(targets, flags)
}

/// Builds development programs without their optional features, which takes a third less time.
pub(crate) fn without_features(targets: &[Target<'_>]) -> Result<Vec<PathBuf>> {
    programs(targets, &["--no-default-features"])
}

fn programs(targets: &[Target<'_>], flags: &[&str]) -> Result<Vec<PathBuf>> {
    let mut arguments = vec!["build", "--locked"];
    for target in targets {
        match target {
            Target::Program { package, name } => {
                arguments.extend(["--package", package, "--bin", name]);
            }
            Target::Example { package, name } => {
                arguments.extend(["--package", package, "--example", name]);
            }
        }
    }
    arguments.extend(flags);
    println!("$ cargo {}", arguments.join(" "));
    // Cargo reports the paths; computing them here would ignore its configuration.
    arguments.push("--message-format=json-render-diagnostics");
    let mut build = Build::default();
    messages(&mut repository::cargo(&arguments), |line| build.read(line))?;
    targets
        .iter()
        .map(|target| {
            let (Target::Program { name, .. } | Target::Example { name, .. }) = target;
            build.program(name).map(Path::to_owned)
        })
        .collect()
}

/// Runs cargo and calls `each` with every message.
fn messages(cargo: &mut Command, mut each: impl FnMut(&str)) -> Result<()> {
    let _ticker = Ticker::of_command(&repository::command_line(cargo));
    let mut child =
        cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("starting cargo")?;
    let output = BufReader::new(child.stdout.take().context("reading from cargo")?);
    for line in output.lines() {
        each(&line.context("reading from cargo")?);
    }
    let status = child.wait().context("waiting for cargo")?;
    ensure!(status.success(), "cargo ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artifact(name: &str, kind: &str, test: bool, executable: Option<&str>) -> String {
        json!({
            "reason": "compiler-artifact",
            "manifest_path": "/w/crates/oci/Cargo.toml",
            "target": { "name": name, "kind": [kind] },
            "profile": { "test": test },
            "executable": executable,
        })
        .to_string()
    }

    #[test]
    fn programs_and_test_binaries_are_distinguished() {
        let mut build = Build::default();
        build.read(&artifact("oc-mirror", "bin", false, Some("/t/oc-mirror")));
        build.read(&artifact("oci", "lib", true, Some("/t/oci-1")));
        build.read(&artifact("integration", "test", true, Some("/t/integration-1")));
        build.read(&artifact("oci", "lib", false, None));
        build.read("not JSON");
        assert_eq!(build.program("oc-mirror").unwrap(), Path::new("/t/oc-mirror"));
        assert!(build.program("integration").is_err());
        let names: Vec<_> =
            build.tests.iter().map(|test| (test.package.as_str(), test.name.as_str())).collect();
        assert_eq!(names, [("oci", "unit"), ("oci", "integration")]);
        assert_eq!(build.tests[0].folder, Path::new("/w/crates/oci"));
    }

    #[test]
    fn a_warning_counts_once_and_the_summary_of_a_crate_does_not() {
        let mut build = Build::default();
        let message = |spans: Value| {
            json!({
                "reason": "compiler-message",
                "message": { "level": "warning", "spans": spans, "rendered": "" },
            })
            .to_string()
        };
        build.read(&message(json!([{ "file_name": "src/lib.rs" }])));
        build.read(&message(json!([])));
        assert_eq!(build.warnings, 1);
    }
}
