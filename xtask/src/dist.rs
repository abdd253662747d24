//! `cargo xtask dist`: the program for nodes, static, stripped, small and fast to start.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::repository;

const PROGRAM: &str = "brex-firstboot";
/// Nothing of the node's system is needed to run it.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// The same with glibc's static library, where the standard library for musl is not available.
const FALLBACK: &str = "x86_64-unknown-linux-gnu";
const STATIC: (&str, &str) =
    ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static");
const LARGEST: u64 = 12 << 20;
/// The best of several starts must be within this.
const SLOWEST: Duration = Duration::from_millis(10);
const STARTS: usize = 20;

/// `cargo xtask dist`.
pub(crate) fn dist(arguments: Vec<OsString>) -> Result<()> {
    let (mut out, mut only_check) = (PathBuf::from("dist"), false);
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            lexopt::Arg::Long("out") => out = parser.value()?.into(),
            lexopt::Arg::Long("check" | "short") => only_check = true,
            other => return Err(other.unexpected().into()),
        }
    }
    let program = build()?;
    let facts = check(&program)?;
    if only_check {
        println!("{PROGRAM}: {facts}");
        return Ok(());
    }
    let out = repository::root().join(&out);
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let target = out.join(PROGRAM);
    fs::copy(&program, &target).with_context(|| format!("writing {}", target.display()))?;
    println!("{}: {facts}", target.display());
    Ok(())
}

/// Builds it and returns where it is.
pub(crate) fn build() -> Result<PathBuf> {
    let (mut cargo, program) = command();
    repository::run(&mut cargo)?;
    Ok(program)
}

/// The command that builds it, and where it is afterwards. The target is named even if it is this
/// machine's own: its build then has a separate folder, and other builds stay valid.
fn command() -> (Command, PathBuf) {
    let mut cargo = repository::cargo(&["build", "--locked", "--package", PROGRAM]);
    cargo.args(["--profile", "node", "--target"]);
    let target = if has_target() {
        cargo.arg(TARGET);
        TARGET
    } else {
        println!("    {TARGET} cannot be installed; building for {FALLBACK}, static");
        cargo.arg(FALLBACK).env(STATIC.0, STATIC.1);
        FALLBACK
    };
    (cargo, repository::target().join(target).join("node").join(PROGRAM))
}

/// Whether the standard library for nodes is installed or could be fetched.
fn has_target() -> bool {
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]).current_dir(repository::root());
    repository::run(&mut rustup).is_ok()
}

/// Whether it is static, small and fast to start; the error names what it is not.
pub(crate) fn check(program: &Path) -> Result<String> {
    let bytes = fs::read(program).with_context(|| format!("reading {}", program.display()))?;
    ensure!(!has_interpreter(&bytes)?, "{} needs a dynamic linker", program.display());
    let size = bytes.len() as u64;
    ensure!(size <= LARGEST, "{} has {size} bytes, more than {LARGEST}", program.display());
    let mut best = Duration::MAX;
    for _ in 0..STARTS {
        let start = Instant::now();
        let output = Command::new(program).arg("--version").output().context("starting it")?;
        ensure!(output.status.success(), "--version ended with {}", output.status);
        best = best.min(start.elapsed());
    }
    ensure!(best <= SLOWEST, "--version takes {best:?}, more than {SLOWEST:?}");
    let megabytes = size as f64 / f64::from(1 << 20);
    Ok(format!("static, {megabytes:.1} MiB, --version in {:.1} ms", best.as_secs_f64() * 1000.0))
}

/// Whether a 64-bit ELF file of this machine's byte order has a PT_INTERP header.
fn has_interpreter(elf: &[u8]) -> Result<bool> {
    const INTERPRETER: u32 = 3;
    let word = |at: usize, length: usize| -> Result<u64> {
        let Some(bytes) = elf.get(at..at + length) else { bail!("the ELF file breaks off") };
        let mut word = [0; 8];
        word[..length].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(word))
    };
    ensure!(elf.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF file");
    let (offset, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
    for index in 0..count {
        let at = usize::try_from(offset + index * size).context("reading the ELF file")?;
        if word(at, 4)? == u64::from(INTERPRETER) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test itself is linked dynamically.
    #[test]
    fn a_dynamic_program_is_told_from_a_static_one() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(has_interpreter(&own).unwrap());
        let mut header = own[..64].to_vec();
        header[56] = 0;
        header[57] = 0;
        assert!(!has_interpreter(&header).unwrap());
        assert!(has_interpreter(b"#!/bin/sh").is_err());
    }
}
