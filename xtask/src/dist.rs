//! `cargo xtask dist`: the program for nodes, static, stripped, small and quick to start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::repository;
use crate::steps::Outcome;

const PROGRAM: &str = "brex-firstboot";
/// Nothing of the node's system is needed to run it.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// The same by glibc's static library, where the other target cannot be had.
const FALLBACK: &str = "x86_64-unknown-linux-gnu";
const STATIC: (&str, &str) =
    ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static");
const LARGEST: u64 = 12 << 20;
/// The best of several starts must be within this.
const SLOWEST: Duration = Duration::from_millis(10);
const STARTS: usize = 20;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder to write to; deploy/Containerfile looks in dist
    #[arg(long, value_name = "DIR", default_value = "dist")]
    out: PathBuf,
}

/// `cargo xtask dist`.
pub(crate) fn dist(arguments: &Arguments) -> Result<()> {
    let built = build()?;
    let facts = check(&built)?;
    let out = repository::root().join(&arguments.out);
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let target = out.join(PROGRAM);
    fs::copy(&built, &target).with_context(|| format!("writing {}", target.display()))?;
    println!("{}: {facts}", target.display());
    Ok(())
}

/// The step of `cargo xtask test`.
pub(crate) fn check_step() -> Result<Outcome> {
    println!("    {}", check(&build()?)?);
    Ok(Outcome::Done)
}

/// Builds it. The target is named even when it is this machine's own: what is built for it then has
/// a folder of its own, and nothing else is built anew.
fn build() -> Result<PathBuf> {
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
    repository::run(&mut cargo)?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| repository::root().join("target"));
    Ok(folder.join(target).join("node").join(PROGRAM))
}

/// Whether the standard library for nodes is there, or could be fetched.
fn has_target() -> bool {
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]).current_dir(repository::root());
    repository::run(&mut rustup).is_ok()
}

/// Static, small and quick, or an error that says which it is not.
fn check(program: &Path) -> Result<String> {
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
