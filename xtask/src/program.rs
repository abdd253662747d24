//! Our programs: built by cargo, found where cargo put them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
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

/// Builds all programs, quick to compile, and tells where each is. What is compiled for one program
/// alone differs in features from what tests are linked with, so that it would be compiled twice.
pub(crate) fn build_all() -> Result<Programs> {
    let mut programs = BTreeMap::new();
    cargo_build(&["--workspace", "--bins"], Profile::Development, |message| {
        if let Some((name, path)) = executable(message) {
            programs.insert(name, path);
        }
    })?;
    Ok(Programs(programs))
}

/// Programs by name.
#[derive(Debug)]
pub(crate) struct Programs(BTreeMap<String, PathBuf>);

impl Programs {
    pub(crate) fn path(&self, name: &str) -> Result<&Path> {
        self.0.get(name).map(PathBuf::as_path).with_context(|| format!("cargo built no {name}"))
    }
}

/// Builds a program of ours and tells where it is.
pub(crate) fn build_program(package: &str, name: &str, profile: Profile) -> Result<PathBuf> {
    build_target(&["--package", package, "--bin", name], name, profile)
}

/// Builds an example of one of our crates, quick to run, and tells where it is.
pub(crate) fn build_example(package: &str, example: &str) -> Result<PathBuf> {
    build_target(&["--package", package, "--example", example], example, Profile::Release)
}

fn build_target(target: &[&str], name: &str, profile: Profile) -> Result<PathBuf> {
    let mut program = None;
    cargo_build(target, profile, |message| match executable(message) {
        Some((built, path)) if built == name => program = Some(path),
        _ => {}
    })?;
    program.with_context(|| format!("cargo built no {name}"))
}

/// Runs `cargo build` and hands on its messages.
fn cargo_build(target: &[&str], profile: Profile, mut told: impl FnMut(&str)) -> Result<()> {
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
    for line in messages.lines() {
        told(&line.context("reading from cargo")?);
    }
    let status = child.wait().context("waiting for cargo")?;
    ensure!(status.success(), "`cargo build` ended with {status}");
    Ok(())
}

/// The program that a message of cargo's is about, if it is about one.
fn executable(message: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = message["executable"].as_str()?;
    Some((message["target"]["name"].as_str()?.to_owned(), path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_about_a_program_names_it() {
        let about = |name: &str, executable: &str| {
            format!(
                r#"{{"reason": "compiler-artifact", "target": {{"name": "{name}"}}, "executable": {executable}}}"#
            )
        };
        assert_eq!(
            executable(&about("oc-mirror", r#""/t/oc-mirror""#)),
            Some(("oc-mirror".to_owned(), "/t/oc-mirror".into()))
        );
        assert_eq!(executable(&about("oc-mirror", "null")), None);
        assert_eq!(executable("not JSON"), None);
    }
}
