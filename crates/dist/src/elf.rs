//! Reads ELF headers: the machine that a program is for, whether it is static, and for which pages.

use anyhow::{Context, Result, ensure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elf {
    pub(crate) machine: u16,
    /// Whether it needs a dynamic linker.
    pub(crate) has_interpreter: bool,
    /// The smallest alignment of a loaded segment, in bytes. A kernel with larger pages cannot load
    /// the program.
    pub(crate) alignment: u64,
}

const LOAD: u64 = 1;
const INTERPRETER: u64 = 3;
/// Where a program header has its alignment.
const ALIGNMENT: usize = 48;

impl Elf {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        ensure!(bytes.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF file");
        let word = |at: usize, length: usize| -> Result<u64> {
            let end = at.checked_add(length).context("the ELF file is truncated")?;
            let part = bytes.get(at..end).context("the ELF file is truncated")?;
            let mut word = [0; 8];
            word[..length].copy_from_slice(part);
            Ok(u64::from_le_bytes(word))
        };
        let (offset, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
        let (mut has_interpreter, mut alignment) = (false, None);
        for index in 0..count {
            let at = offset.checked_add(index * size).context("the ELF file is truncated")?;
            let at = usize::try_from(at)?;
            match word(at, 4)? {
                LOAD => {
                    let found = word(at.saturating_add(ALIGNMENT), 8)?;
                    alignment = Some(alignment.map_or(found, |known: u64| known.min(found)));
                }
                INTERPRETER => has_interpreter = true,
                _ => {}
            }
        }
        let alignment = alignment.context("the ELF file has no segment to load")?;
        Ok(Self { machine: u16::try_from(word(18, 2)?)?, has_interpreter, alignment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Architecture;

    /// The headers of static programs that `zig cc -target aarch64-linux-musl` linked with
    /// `-z max-page-size` of 65536 and of 4096.
    const PAGES_OF_64_KIB: &[u8] = include_bytes!("elf/aarch64-64k.bin");
    const PAGES_OF_4_KIB: &[u8] = include_bytes!("elf/aarch64-4k.bin");

    #[test]
    fn this_test_is_a_dynamic_program_of_this_machine() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::parse(&own).unwrap();
        assert!(elf.has_interpreter);
        let native = Architecture::ALL.into_iter().find(|one| one.is_native());
        assert_eq!(Some(elf.machine), native.map(|one| one.elf_machine()));
        assert!(elf.alignment >= 4096, "{}", elf.alignment);
        assert!(Elf::parse(&own[..64]).is_err(), "headers are missing");
        assert!(Elf::parse(b"#!/bin/sh").is_err());
    }

    #[test]
    fn the_alignment_of_segments_is_read() {
        let expected = |alignment| Elf {
            machine: Architecture::Aarch64.elf_machine(),
            has_interpreter: false,
            alignment,
        };
        assert_eq!(Elf::parse(PAGES_OF_64_KIB).unwrap(), expected(65_536));
        assert_eq!(Elf::parse(PAGES_OF_4_KIB).unwrap(), expected(4096));
    }

    #[test]
    fn one_segment_with_a_smaller_alignment_decides() {
        let mut bytes = PAGES_OF_64_KIB.to_vec();
        // The third of eight headers is the second segment: PHDR is before the first.
        let at = 64 + 2 * 56;
        assert_eq!(bytes[at], 1);
        bytes[at + ALIGNMENT..at + ALIGNMENT + 8].copy_from_slice(&4096_u64.to_le_bytes());
        assert_eq!(Elf::parse(&bytes).unwrap().alignment, 4096);
    }

    #[test]
    fn a_file_without_segments_is_rejected() {
        let mut bytes = PAGES_OF_64_KIB.to_vec();
        bytes[56..58].fill(0);
        let error = Elf::parse(&bytes).unwrap_err().to_string();
        assert_eq!(error, "the ELF file has no segment to load");
        let truncated = Elf::parse(&PAGES_OF_64_KIB[..200]).unwrap_err().to_string();
        assert_eq!(truncated, "the ELF file is truncated");
    }
}
