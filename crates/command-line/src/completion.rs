//! Completion scripts for shells.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::{Command, ValueEnum};
use clap_complete::{Generator, shells};

/// A shell with a completion script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

/// The script for `shell`, to be sourced or installed.
pub fn script(shell: Shell, command: Command) -> Vec<u8> {
    match shell {
        Shell::Bash => generate(shells::Bash, command),
        Shell::Zsh => generate(shells::Zsh, command),
        Shell::Fish => generate(shells::Fish, command),
        Shell::Powershell => generate(shells::PowerShell, command),
    }
}

/// Writes the scripts below `out/completions`, each under the name that its shell expects:
/// `NAME` for bash, `_NAME` for zsh, `NAME.fish` for fish.
pub fn write(out: &Path, command: &Command) -> anyhow::Result<()> {
    let folder = out.join("completions");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let name = command.get_name();
    let files = [
        (Shell::Bash, name.to_owned()),
        (Shell::Zsh, format!("_{name}")),
        (Shell::Fish, format!("{name}.fish")),
    ];
    for (shell, file) in files {
        let path = folder.join(file);
        fs::write(&path, script(shell, command.clone()))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn generate(generator: impl Generator, mut command: Command) -> Vec<u8> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut command, name, &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn scripts_have_the_names_that_shells_expect() {
        let out = tempfile::tempdir().unwrap();
        write(out.path(), &Command::new("copy")).unwrap();
        for name in ["copy", "_copy", "copy.fish"] {
            assert!(out.path().join("completions").join(name).is_file(), "{name}");
        }
    }

    #[test]
    fn every_script_contains_the_program_and_its_flags() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Powershell] {
            let command = Command::new("copy").arg(Arg::new("rate").long("rate"));
            let script = String::from_utf8(script(shell, command)).unwrap();
            assert!(script.contains("copy") && script.contains("rate"), "{shell:?}");
        }
    }
}
