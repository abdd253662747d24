//! What compilation needs: standard libraries, a C compiler per architecture, helpers of cargo.
//! Everything is checked before the first compiler starts. A missing part is an error with the
//! command that installs it; no other target or compiler is used.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use test_tools::{Error, Tool};

use crate::architecture::Architecture;
use crate::command;

/// Programs that compile, all present.
#[derive(Debug, Clone)]
pub(crate) struct Toolchain {
    pub(crate) auditable: PathBuf,
    pub(crate) zigbuild: PathBuf,
    pub(crate) zig: PathBuf,
}

impl Toolchain {
    /// Finds all parts, or lists every missing one.
    pub(crate) fn find(root: &Path, architectures: &[Architecture]) -> Result<Self> {
        let missing = missing(root, architectures)?;
        if !missing.is_empty() {
            bail!("compiling needs parts that are missing:\n  {}", missing.join("\n  "));
        }
        let [auditable, zigbuild, zig] = TOOLS.map(test_tools::path);
        Ok(Self { auditable: auditable?, zigbuild: zigbuild?, zig: zig? })
    }
}

const TOOLS: [Tool; 3] = [Tool::CargoAuditable, Tool::CargoZigbuild, Tool::Zig];

/// Every missing part, with the command that installs it.
pub(crate) fn missing(root: &Path, architectures: &[Architecture]) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    for architecture in architectures {
        if !has_target(root, *architecture)? {
            missing.push(missing_target(*architecture));
        }
    }
    let tools = TOOLS.into_iter();
    missing.extend(tools.filter_map(|tool| missing_tool(tool, test_tools::path(tool).as_ref())));
    Ok(missing)
}

fn missing_target(architecture: Architecture) -> String {
    let triple = architecture.triple();
    format!("the standard library for {triple} is not installed; run `rustup target add {triple}`")
}

fn missing_tool(tool: Tool, path: Result<&PathBuf, &Error>) -> Option<String> {
    let what = match tool {
        Tool::Zig => "the C compiler for other architectures",
        _ => "a helper of cargo",
    };
    path.err().map(|_| format!("{tool} ({what}) is not installed; run `cargo xtask tools --dist`"))
}

/// Whether the compiler of this checkout has the standard library of the target.
fn has_target(root: &Path, architecture: Architecture) -> Result<bool> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", architecture.triple()]).current_dir(root);
    Ok(Path::new(command::output(&mut rustc)?.trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_target_is_an_error_with_the_command_that_installs_it() {
        assert_eq!(
            missing_target(Architecture::Aarch64),
            "the standard library for aarch64-unknown-linux-musl is not installed; run `rustup target add aarch64-unknown-linux-musl`"
        );
    }

    #[test]
    fn a_missing_cross_compiler_is_an_error_with_the_command_that_installs_it() {
        let empty = tempfile::tempdir().unwrap();
        let error = test_tools::Cache::new(empty.path(), None).path(Tool::Zig).unwrap_err();
        let message = missing_tool(Tool::Zig, Err(&error)).unwrap();
        assert_eq!(
            message,
            "zig 0.15.2 (the C compiler for other architectures) is not installed; run `cargo xtask tools --dist`"
        );
    }
}
