//! The architectures that artefacts are built for, and their names in each format.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    pub(crate) const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    pub(crate) fn parse(text: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|one| [one.rpm(), one.go()].contains(&text)) {
            Some(found) => Ok(found),
            None => bail!("invalid value for --arch: expected x86_64 or aarch64, found `{text}`"),
        }
    }

    /// The target of the Rust compiler. musl: a static program runs on every distribution.
    pub(crate) const fn triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-musl",
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// As RPM and uname spell it.
    pub(crate) const fn rpm(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// As Go, OCI images, Debian and krew spell it.
    pub(crate) const fn go(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// `e_machine` of ELF files.
    pub(crate) const fn elf_machine(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
        }
    }

    /// The largest pages of kernels for this architecture, in bytes. Segments have to be aligned to
    /// it, and the allocator has to be built for it.
    pub(crate) const fn largest_page(self) -> u64 {
        match self {
            Self::X86_64 => 4 << 10,
            Self::Aarch64 => 64 << 10,
        }
    }

    pub(crate) fn is_native(self) -> bool {
        std::env::consts::ARCH == self.rpm()
    }

    /// What runs programs of this architecture on this machine, if the kernel does not.
    pub(crate) fn emulator(self) -> Option<String> {
        (!self.is_native()).then(|| format!("qemu-{}-static", self.rpm()))
    }

    /// A command that runs a program of this architecture.
    pub(crate) fn command(self, program: &Path) -> Command {
        match self.emulator() {
            None => Command::new(program),
            Some(emulator) => {
                let mut command = Command::new(emulator);
                command.arg(program);
                command
            }
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rpm())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_usual_names_are_read_and_others_rejected() {
        assert_eq!(Architecture::parse("arm64").unwrap(), Architecture::Aarch64);
        assert_eq!(Architecture::parse("x86_64").unwrap(), Architecture::X86_64);
        let error = Architecture::parse("riscv64").unwrap_err().to_string();
        assert_eq!(error, "invalid value for --arch: expected x86_64 or aarch64, found `riscv64`");
    }
}
