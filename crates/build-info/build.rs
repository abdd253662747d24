//! Determines the commit: from the environment (`cargo xtask dist`) or, in release builds, from git.

use std::env;
use std::path::Path;
use std::process::Command;

/// What `cargo xtask dist` sets: the full hash, `YYYY-MM-DD` in UTC, `clean` or `dirty`.
const VARIABLES: [&str; 3] = ["LANDFALL_COMMIT", "LANDFALL_COMMIT_DATE", "LANDFALL_TREE_STATE"];

/// The sources of the programs, relative to this folder. Other changes do not affect them.
const SOURCES: [&str; 6] = [
    "../../crates",
    "../../bins",
    "../../Cargo.toml",
    "../../Cargo.lock",
    "../../.cargo",
    "../../rust-toolchain.toml",
];

struct Source {
    commit: String,
    date: String,
    tree_state: String,
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for variable in VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let number = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let source = match from_environment() {
        None if is_debug => None,
        None => from_git(),
        given => given,
    };
    let version = match &source {
        Some(Source { commit, date, tree_state }) => {
            let short = commit.get(..12).unwrap_or(commit);
            let dirty = if tree_state == "dirty" { ", dirty" } else { "" };
            format!("{number} (commit {short}, {date}{dirty})")
        }
        None if is_debug => format!("{number} (debug build)"),
        None => format!("{number} (commit unknown)"),
    };
    let Source { commit, date, tree_state } = source.unwrap_or(Source {
        commit: String::new(),
        date: String::new(),
        tree_state: String::new(),
    });
    println!("cargo::rustc-env=LANDFALL_BUILD_VERSION={version}");
    println!("cargo::rustc-env=LANDFALL_BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=LANDFALL_BUILD_DATE={date}");
    println!("cargo::rustc-env=LANDFALL_BUILD_TREE_STATE={tree_state}");
}

fn from_environment() -> Option<Source> {
    let [commit, date, tree_state] = VARIABLES.map(|name| env::var(name).unwrap_or_default());
    if commit.is_empty() {
        return None;
    }
    if date.is_empty() || !matches!(tree_state.as_str(), "clean" | "dirty") {
        let [_, date_name, state_name] = VARIABLES;
        println!(
            "cargo::error=expected {date_name}=YYYY-MM-DD and {state_name}=clean|dirty with the \
             commit, found \"{date}\" and \"{tree_state}\""
        );
    }
    Some(Source { commit, date, tree_state })
}

fn from_git() -> Option<Source> {
    // The log of HEAD changes with every commit and checkout.
    for file in ["logs/HEAD", "HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
            break;
        }
    }
    for path in SOURCES {
        println!("cargo::rerun-if-changed={path}");
    }
    let commit = git(&["rev-parse", "HEAD"])?;
    let date = git(&["log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%d"])?;
    let changes = git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    let tree_state = if changes.is_empty() { "clean" } else { "dirty" };
    Some(Source { commit, date, tree_state: tree_state.to_owned() })
}

/// The output of git, or nothing if git or the repository is missing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).env("TZ", "UTC").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
