//! This checkout: where it is, and how commands are run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::progress::Ticker;

/// The top folder.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Where cargo writes.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// An empty folder for intermediate files, below the build folder.
pub(crate) fn scratch(name: &str) -> Result<PathBuf> {
    let folder = target().join("xtask").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// A folder for files that later commands read, below the build folder.
pub(crate) fn kept(name: &str) -> Result<PathBuf> {
    let folder = target().join(name);
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// The cargo that started this program, in the top folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments).current_dir(root());
    cargo
}

/// Runs a command to its end. It inherits standard output and standard error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = command_line(command);
    let _ticker = Ticker::of_command(&line);
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// The same for a program that may use the terminal.
pub(crate) fn run_interactive(command: &mut Command) -> Result<()> {
    let line = command_line(command);
    let status = command.status().with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// The command line for messages: the name of the program and its arguments.
pub(crate) fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_folder_is_the_one_with_the_lock_file() {
        assert!(root().join("Cargo.lock").is_file());
    }

    #[test]
    fn a_failed_command_is_named_with_its_status() {
        let error = run(Command::new("/bin/sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3` ended with exit status: 3");
    }
}
