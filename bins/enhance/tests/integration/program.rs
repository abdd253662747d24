//! Runs the program on files in a temporary directory.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

pub(crate) fn enhance(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_enhance"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

pub(crate) fn git(directory: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A directory with one new document.
pub(crate) fn new_document() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let created =
        enhance(directory.path(), &["new", "Mirror release signatures", "--area", "network"]);
    assert!(created.status.success(), "{}", stderr(&created));
    assert_eq!(stdout(&created), "enhancements/network/mirror-release-signatures.md\n");
    directory
}

/// Completes the metadata and every section.
pub(crate) fn complete(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let text = text
        .replace(
            "tracking-link: # the issue or epic that tracks the work\n  - TBD",
            "tracking-link:\n  - https://x.example/1",
        )
        .replace("- TBD", "- \"@ann\"");
    let sections: Vec<String> = text
        .lines()
        .map(|line| match line.starts_with('#') {
            true => format!("{line}\n\nText."),
            false => line.to_owned(),
        })
        .collect();
    fs::write(path, sections.join("\n")).unwrap();
}
