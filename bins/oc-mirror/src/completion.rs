//! Completion scripts for shells.

use clap_complete::{Generator, shells};

use crate::arguments::{self, Shell};

/// The script for `shell`, to be sourced or installed.
pub(crate) fn script(shell: Shell) -> Vec<u8> {
    match shell {
        Shell::Bash => generate(shells::Bash),
        Shell::Zsh => generate(shells::Zsh),
        Shell::Fish => generate(shells::Fish),
        Shell::Powershell => generate(shells::PowerShell),
    }
}

fn generate(generator: impl Generator) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut arguments::command(), "oc-mirror", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_knows_the_flags_and_not_the_refused_ones() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Powershell] {
            let script = String::from_utf8(script(shell)).unwrap();
            assert!(script.contains("parallel-images"), "{shell:?}");
            assert!(script.contains("completion"), "{shell:?}");
        }
    }
}
