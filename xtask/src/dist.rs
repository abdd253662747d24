//! `cargo xtask dist`: runs the program `dist`, which builds release artefacts, and checks that the
//! program for nodes is static, small and fast to start.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::build::{self, Build, Profile, Target};
use crate::repository;

const DIST: Target<'_> = Target::Program { package: "dist", name: "dist" };
const PROGRAMS: [&str; 6] =
    ["oc-mirror", "oc-brex", "brex-firstboot", "brex-report", "nmstate-operator", "enhance"];

const PROGRAM: &str = "brex-firstboot";
/// The program is static: it needs no library of the node.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// The same with glibc's static library, where the standard library for musl is not available.
const FALLBACK: &str = "x86_64-unknown-linux-gnu";
const STATIC: (&str, &str) =
    ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static");
const LARGEST: u64 = 12 << 20;
/// The best of several starts must be within this.
const SLOWEST: Duration = Duration::from_millis(10);
const STARTS: usize = 20;

/// `cargo xtask dist`. The program `dist` builds and checks the artefacts.
pub(crate) fn dist(mut arguments: Vec<OsString>) -> Result<()> {
    let is = |name: &'static str| move |argument: &OsString| argument == name;
    if arguments.iter().any(is("--short")) {
        arguments.retain(|argument| argument != "--short" && argument != "--check");
        let node = checked_node_program()?;
        let mut targets = vec![DIST];
        targets.extend(PROGRAMS.map(|name| Target::Program { package: name, name }));
        let programs = build::targets(&targets, Profile::Development)?;
        let (dist, oc_mirror) = (&programs[0], &programs[1]);
        let mut command = short_command(dist, oc_mirror, &node)?;
        return repository::run_interactive(command.args(arguments));
    }
    let programs = build::targets(&[DIST], Profile::Development)?;
    let mut command = Command::new(programs.first().context("dist was not built")?);
    repository::run_interactive(command.args(&arguments))?;
    if arguments.iter().any(is("--check")) && builds_node_program(&arguments) {
        let program = repository::target().join(TARGET).join("node").join(PROGRAM);
        println!("    {PROGRAM}: {}", check(&program)?);
    }
    Ok(())
}

/// Whether a run with these arguments compiles the program for nodes as it is released, for x86_64.
fn builds_node_program(arguments: &[OsString]) -> bool {
    let words: Vec<Cow<'_, str>> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let allows = |option: &str, expected: &[&str]| {
        let after = words.windows(2).filter(|pair| pair[0] == option).map(|pair| &*pair[1]);
        let joined = words.iter().filter_map(|word| word.strip_prefix(option)?.strip_prefix('='));
        let values: Vec<&str> = after.chain(joined).collect();
        values.is_empty() || values.iter().any(|value| expected.contains(value))
    };
    allows("--program", &[PROGRAM])
        && allows("--arch", &["x86_64", "amd64"])
        && !words.iter().any(|word| word == "--quick")
}

/// The variant that CI runs: the program for nodes is built and checked, and the debug programs of
/// the test build go through packaging, installation and images.
pub(crate) fn short(build: &Build) -> Result<()> {
    let node = checked_node_program()?;
    let (dist, oc_mirror) = (build.program("dist")?, build.program("oc-mirror")?);
    repository::run(&mut short_command(dist, oc_mirror, &node)?)
}

/// The program for nodes, built as it is released.
fn checked_node_program() -> Result<PathBuf> {
    let program = build()?;
    println!("    {PROGRAM}: {}", check(&program)?);
    Ok(program)
}

/// Packages and checks debug programs: those beside `oc_mirror`.
fn short_command(dist: &Path, oc_mirror: &Path, node: &Path) -> Result<Command> {
    let folder = oc_mirror.parent().context("oc-mirror is not in a folder")?;
    let mut command = Command::new(dist);
    command.arg("--check").arg("--debug-programs").arg(folder).arg("--node-program").arg(node);
    command.arg("--out").arg(repository::scratch("dist")?);
    Ok(command)
}

/// The image of oc-mirror as an archive, with a debug program in it.
pub(crate) fn debug_image(dist: &Path, oc_mirror: &Path) -> Result<PathBuf> {
    let folder = oc_mirror.parent().context("oc-mirror is not in a folder")?;
    let out = repository::scratch("image")?;
    let mut command = Command::new(dist);
    command.args(["--only-images", "--program", "oc-mirror", "--debug-programs"]).arg(folder);
    repository::run(command.arg("--out").arg(&out))?;
    let listing = || format!("listing {}", out.display());
    for entry in fs::read_dir(&out).with_context(listing)? {
        let path = entry.with_context(listing)?.path();
        if path.extension().is_some_and(|extension| extension == "tar") {
            return Ok(path);
        }
    }
    bail!("dist wrote no image into {}", out.display())
}

/// Builds the program for nodes and returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    let (mut cargo, program) = command();
    repository::run(&mut cargo)?;
    Ok(program)
}

/// The command that builds it, and its path. `--target` is passed even for the host: the build then
/// has a separate folder, and other builds stay valid.
fn command() -> (Command, PathBuf) {
    let mut cargo = repository::cargo(&["build", "--locked", "--package", PROGRAM]);
    cargo.args(["--profile", "node", "--target"]);
    let target = if has_target() {
        cargo.arg(TARGET);
        TARGET
    } else {
        // For this check only: artefacts are never built for another target than the requested one.
        println!("    {TARGET} cannot be installed; checking a static build for {FALLBACK}");
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

/// Checks that a program is static, small and fast to start. Returns the measured values.
pub(crate) fn check(program: &Path) -> Result<String> {
    let bytes = fs::read(program).with_context(|| format!("reading {}", program.display()))?;
    ensure!(!has_interpreter(&bytes)?, "{} needs a dynamic linker", program.display());
    let size = bytes.len() as u64;
    ensure!(size <= LARGEST, "{} has {size} bytes, more than {LARGEST}", program.display());
    let mut best = Duration::MAX;
    for _ in 0..STARTS {
        let start = Instant::now();
        let output =
            Command::new(program).arg("--version").output().context("starting the program")?;
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
        let Some(bytes) = elf.get(at..at + length) else { bail!("the ELF file is truncated") };
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

    #[test]
    fn the_program_for_nodes_is_checked_only_if_it_was_built() {
        let builds = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            builds_node_program(&words)
        };
        for line in ["--check", "--program brex-firstboot", "--arch=aarch64 --arch x86_64"] {
            assert!(builds(line), "{line}");
        }
        for line in ["--program enhance", "--program=enhance", "--arch aarch64", "--quick"] {
            assert!(!builds(line), "{line}");
        }
    }

    /// This test itself is linked dynamically.
    #[test]
    fn dynamic_and_static_programs_are_distinguished() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(has_interpreter(&own).unwrap());
        let mut header = own[..64].to_vec();
        header[56] = 0;
        header[57] = 0;
        assert!(!has_interpreter(&header).unwrap());
        assert!(has_interpreter(b"#!/bin/sh").is_err());
    }
}
