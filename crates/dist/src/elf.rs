//! Reads ELF headers: the machine that a program is for, and whether it is static.

use anyhow::{Context, Result, ensure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elf {
    pub(crate) machine: u16,
    /// Whether it needs a dynamic linker.
    pub(crate) has_interpreter: bool,
}

const INTERPRETER: u64 = 3;

impl Elf {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        ensure!(bytes.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF file");
        let word = |at: usize, length: usize| -> Result<u64> {
            let part = bytes.get(at..at + length).context("the ELF file is truncated")?;
            let mut word = [0; 8];
            word[..length].copy_from_slice(part);
            Ok(u64::from_le_bytes(word))
        };
        let (offset, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
        let mut has_interpreter = false;
        for index in 0..count {
            let at = offset.checked_add(index * size).context("the ELF file is truncated")?;
            has_interpreter |= word(usize::try_from(at)?, 4)? == INTERPRETER;
        }
        Ok(Self { machine: u16::try_from(word(18, 2)?)?, has_interpreter })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_a_dynamic_program_of_this_machine() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::parse(&own).unwrap();
        assert!(elf.has_interpreter);
        let native = crate::architecture::Architecture::ALL.into_iter().find(|one| one.is_native());
        assert_eq!(Some(elf.machine), native.map(|one| one.elf_machine()));
        assert!(Elf::parse(&own[..64]).is_err(), "headers are missing");
        assert!(Elf::parse(b"#!/bin/sh").is_err());
    }
}
