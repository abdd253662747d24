//! Completion scripts for shells.

use clap::{Command, ValueEnum};
use clap_complete::{Generator, shells};

/// A shell we can write a script for.
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
    fn every_script_knows_the_program_and_its_flags() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Powershell] {
            let command = Command::new("sail").arg(Arg::new("wind").long("wind"));
            let script = String::from_utf8(script(shell, command)).unwrap();
            assert!(script.contains("sail") && script.contains("wind"), "{shell:?}");
        }
    }
}
