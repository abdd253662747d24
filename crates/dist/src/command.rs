//! Runs other programs. An error names the command and what it printed.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a command that prints messages for the user, such as a compiler.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    println!("    $ {line}");
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}; its messages are above");
    }
    Ok(())
}

/// Runs a command and returns its standard output. The error has its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = line(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("starting `{line}`"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        bail!("`{line}` ended with {}:\n{}{}", output.status, text, errors.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading the output of `{line}`"))
}

fn line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
