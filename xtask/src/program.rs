//! The program that is shown and measured: built by cargo, found where cargo put it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::repository;

/// How it is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Quick to compile: it shares what was compiled for this very program.
    Development,
    /// Quick to run.
    Release,
}

/// Builds oc-mirror and tells where it is.
pub(crate) fn build(profile: Profile) -> Result<PathBuf> {
    build_target(&["--bin", "oc-mirror"], "oc-mirror", profile)
}

/// Builds a program of ours, quick to run, and tells where it is.
pub(crate) fn build_release(package: &str, name: &str) -> Result<PathBuf> {
    build_target(&["--package", package, "--bin", name], name, Profile::Release)
}

/// Builds an example of one of our crates, quick to run, and tells where it is.
pub(crate) fn build_example(package: &str, example: &str) -> Result<PathBuf> {
    build_target(&["--package", package, "--example", example], example, Profile::Release)
}

fn build_target(target: &[&str], name: &str, profile: Profile) -> Result<PathBuf> {
    let mut arguments = vec!["build", "--locked"];
    arguments.extend(target);
    if profile == Profile::Release {
        arguments.push("--release");
    }
    println!("$ cargo {}", arguments.join(" "));
    // Cargo knows where it puts things; a guess would miss CARGO_TARGET_DIR and the like.
    arguments.push("--message-format=json-render-diagnostics");
    let mut child = repository::cargo(&arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting cargo")?;
    let messages = BufReader::new(child.stdout.take().context("reading from cargo")?);
    let mut program = None;
    for line in messages.lines() {
        let line = line.context("reading from cargo")?;
        program = executable(&line, name).or(program);
    }
    let status = child.wait().context("waiting for cargo")?;
    ensure!(status.success(), "`cargo build` ended with {status}");
    program.with_context(|| format!("cargo built no {name}"))
}

/// The program, when a message of cargo's is about it.
fn executable(message: &str, name: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    (message["target"]["name"] == name).then_some(())?;
    message["executable"].as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_message_about_the_program_names_it() {
        let about = |name: &str, executable: &str| {
            format!(
                r#"{{"reason": "compiler-artifact", "target": {{"name": "{name}"}}, "executable": {executable}}}"#
            )
        };
        assert_eq!(
            executable(&about("oc-mirror", r#""/t/oc-mirror""#), "oc-mirror"),
            Some("/t/oc-mirror".into())
        );
        assert_eq!(executable(&about("oc-mirror", "null"), "oc-mirror"), None);
        assert_eq!(executable(&about("build-script-build", r#""/t/x""#), "oc-mirror"), None);
        assert_eq!(executable("not JSON", "oc-mirror"), None);
    }
}
