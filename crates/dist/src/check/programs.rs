//! Programs: architecture, static linking, embedded dependencies, paths, version, help.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::architecture::Architecture;
use crate::compile::Built;
use crate::contents::Contents;
use crate::elf::Elf;
use crate::job::{self, Artefacts, Job};
use crate::{command, sbom};

pub(crate) fn check(
    job: &Job,
    artefacts: &Artefacts,
    contents: &Contents,
    is_debug: bool,
) -> Result<()> {
    let Built { program, architecture, .. } = contents.built;
    let path = unpack(artefacts, contents)?;
    let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let elf = Elf::parse(&bytes).with_context(|| format!("reading {}", path.display()))?;
    ensure!(
        elf.machine == architecture.elf_machine(),
        "{} is a program for another architecture than {architecture}",
        path.display()
    );
    let mut facts = Vec::new();
    if !is_debug {
        ensure!(!elf.has_interpreter, "{} needs a dynamic linker", path.display());
        let page = architecture.largest_page();
        ensure!(
            elf.alignment >= page,
            "expected segments of {} aligned to {page} bytes, found {}",
            path.display(),
            elf.alignment
        );
        let packages = sbom::embedded(&path)?.packages.len();
        facts.push(format!(
            "static, {packages} embedded dependencies, segments aligned to {} KiB",
            elf.alignment >> 10
        ));
        for folder in [&job.root, &job.target] {
            let folder = folder.display().to_string();
            ensure!(
                !contains(&bytes, folder.as_bytes()),
                "{} contains the path {folder} of the build machine",
                path.display()
            );
        }
    }
    let run = |argument: &str| command::output(architecture.command(&path).arg(argument));
    let version = run("--version")?;
    let expected = match is_debug {
        // Test builds determine the version themselves; the program for nodes is a release build.
        true => artefacts.release.number.clone() + " (",
        false => artefacts.release.version_text(),
    };
    ensure!(
        version.starts_with(&format!("{} {expected}", program.name)),
        "expected `{} {expected}` from {} --version, found `{}`",
        program.name,
        path.display(),
        version.trim()
    );
    if architecture == Architecture::Aarch64 && !architecture.is_native() {
        // Distributions for this architecture have kernels with pages of 64 KiB. An allocator that
        // was built for smaller ones ends the program at its start.
        let mut command = architecture.command(&path);
        command::output(command.arg("--version").env("QEMU_PAGESIZE", "65536"))
            .context("running with pages of 64 KiB")?;
        facts.push("runs with pages of 64 KiB".to_owned());
    }
    // Debug programs may be built without jemalloc, as those of the demo.
    if program.name == WITH_JEMALLOC && !is_debug {
        let page = allocator_page(architecture, &path)?;
        ensure!(
            page == architecture.largest_page(),
            "expected jemalloc for pages of {} bytes in {}, found {page}",
            architecture.largest_page(),
            path.display()
        );
        facts.push(format!("jemalloc for pages of {} KiB", page >> 10));
    }
    let help = run("--help")?;
    ensure!(help.contains("Usage:"), "{} --help does not print the usage", path.display());
    facts.push(format!("{:.1} MiB", bytes.len() as f64 / f64::from(1 << 20)));
    println!("    {architecture} {}: {}", version.trim(), facts.join(", "));
    Ok(())
}

/// Unpacks the program from the tar.gz archive, as a site does. All files that the archive must
/// contain are checked.
pub(crate) fn unpack(artefacts: &Artefacts, contents: &Contents) -> Result<PathBuf> {
    let folder = job::folder_name(contents, &artefacts.release);
    let to = artefacts.work.path().join("unpacked");
    fs::create_dir_all(&to).with_context(|| format!("creating {}", to.display()))?;
    let mut tar = std::process::Command::new("tar");
    let archive = artefacts.folder.join(format!("{folder}.tar.gz"));
    command::output(tar.arg("-xzf").arg(&archive).arg("-C").arg(&to))?;
    let name = contents.built.program.name;
    let root = to.join(&folder);
    let mut expected = vec![
        "LICENSE".to_owned(),
        "THIRD-PARTY-LICENSES".to_owned(),
        format!("man/man1/{name}.1"),
        format!("completions/bash/{name}"),
        format!("completions/zsh/_{name}"),
        format!("completions/fish/{name}.fish"),
    ];
    expected.extend(contents.sbom.as_ref().map(|_| "sbom.cdx.json".to_owned()));
    expected.extend(contents.unit_names().into_iter().map(|unit| format!("systemd/{unit}")));
    for path in expected {
        let length = fs::metadata(root.join(&path)).map(|metadata| metadata.len());
        let length = length.with_context(|| format!("{} has no {path}", archive.display()))?;
        ensure!(length > 0, "{path} in {} is empty", archive.display());
    }
    Ok(root.join(name))
}

/// The program that is linked with jemalloc.
const WITH_JEMALLOC: &str = "oc-mirror";

/// The page size that jemalloc was built for, in bytes. It prints it with its statistics at exit.
fn allocator_page(architecture: Architecture, program: &Path) -> Result<u64> {
    let mut command = architecture.command(program);
    command.arg("--version").env("_RJEM_MALLOC_CONF", "stats_print:true").stdin(Stdio::null());
    let output = command.output().with_context(|| format!("starting {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    page_in_statistics(&text)
        .with_context(|| format!("{} does not print the page size of jemalloc", program.display()))
}

fn page_in_statistics(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("Page size:")?.trim().parse().ok())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    // Programs have tens of megabytes; comparing only the first byte is faster in debug builds.
    bytes.windows(part.len()).any(|window| window.first() == part.first() && window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_size_is_read_from_the_statistics_of_jemalloc() {
        // What jemalloc 5.3.1 prints.
        let text = "Arenas: 2\nQuantum size: 16\nPage size: 65536\nMaximum thread-cached size class: 262144\n";
        assert_eq!(page_in_statistics(text), Some(65_536));
        assert_eq!(page_in_statistics("oc-mirror 0.1.0\n"), None);
    }

    #[test]
    fn a_path_is_found_anywhere_in_a_program() {
        assert!(contains(b"\0\x01/build/landfall\0", b"/build/landfall"));
        assert!(!contains(b"\0\x01/landfall\0", b"/build/landfall"));
    }
}
