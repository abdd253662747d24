//! Builds and checks release artefacts. `cargo xtask dist` runs it.

mod again;
mod architecture;
mod check;
mod checksums;
mod command;
mod compile;
mod contents;
mod elf;
mod entries;
mod image;
mod job;
mod krew;
mod licenses;
mod must_gather;
mod packages;
mod prerequisites;
mod programs;
mod release;
mod sbom;
mod toolchain;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use architecture::Architecture;
use job::{Artefacts, DebugPrograms, Job};
use packages::Effort;
use programs::Program;

const HELP: &str = "\
Builds everything that a site downloads: archives, packages, images, manifests and checksums.

Usage: cargo xtask dist [OPTIONS]

Options:
  --out DIR          Folder to write to [default: dist]
  --arch ARCH        Build for x86_64 or aarch64; can be repeated [default: both]
  --program NAME     Build only this program; can be repeated [default: all]
  --url URL          Where the archives will be downloaded from, for the manifests of plugins
  --key FILE         Sign the checksums with this private key of cosign; COSIGN_PASSWORD unlocks it
  --check            Check the artefacts: run, install, upgrade, remove, unpack; needs root
  --only-images      Write only the container images
  --quick            Compile without optimization and compress less: for a trial, not for a release
  --reproducible     Build again from a clone in another folder, and compare
  --reproduce NAME   The same, but only this program and those that are compiled together with it;
                     can be repeated
  --short            Package and check debug programs for this machine only; about two minutes";

/// A placeholder of RFC 6761: releases name their own address.
const URL: &str = "https://landfall.invalid/releases";

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    job: Job,
    check: bool,
    /// Whether the commit is built again, and which programs of it; none means all.
    again: Option<Vec<Program>>,
}

fn run(arguments: Vec<OsString>) -> Result<()> {
    let Some(options) = parse(arguments)? else {
        println!("{HELP}");
        return Ok(());
    };
    let Options { job, check, again } = options;
    prerequisites::ensure_present(&job, check)?;
    if again.is_some() {
        again::ensure_clean(&release::Release::read(&job.root)?)?;
    }
    let artefacts = job.run()?;
    report(&artefacts)?;
    if check {
        check::check(&job, &artefacts)?;
    }
    // Last, since it takes as long as everything before.
    match again {
        Some(programs) => again::check(&job, &artefacts, &programs),
        None => Ok(()),
    }
}

fn parse(arguments: Vec<OsString>) -> Result<Option<Options>> {
    let root = root();
    let (mut out, mut url, mut key) = (PathBuf::from("dist"), URL.to_owned(), None);
    let (mut architectures, mut selected) = (Vec::new(), Vec::new());
    let (mut check, mut only_images, mut again) = (false, false, None);
    let (mut effort, mut debug_programs, mut node) = (Effort::Release, None, None);
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            lexopt::Arg::Long("out") => out = parser.value()?.into(),
            lexopt::Arg::Long("arch") => {
                let text = parser.value()?.to_string_lossy().into_owned();
                architectures.push(Architecture::parse(&text)?);
            }
            lexopt::Arg::Long("program") => {
                selected.push(programs::find("--program", &parser.value()?.to_string_lossy())?);
            }
            lexopt::Arg::Long("url") => url = parser.value()?.to_string_lossy().into_owned(),
            lexopt::Arg::Long("key") => key = Some(PathBuf::from(parser.value()?)),
            lexopt::Arg::Long("check") => check = true,
            lexopt::Arg::Long("reproducible") => {
                again.get_or_insert_with(Vec::new);
            }
            lexopt::Arg::Long("reproduce") => {
                let program = programs::find("--reproduce", &parser.value()?.to_string_lossy())?;
                again.get_or_insert_with(Vec::new).push(program);
            }
            lexopt::Arg::Long("only-images") => only_images = true,
            lexopt::Arg::Long("quick") => effort = Effort::Check,
            // xtask replaces `--short` by the folder of the programs that it built.
            lexopt::Arg::Long("debug-programs") => {
                debug_programs = Some(PathBuf::from(parser.value()?));
            }
            lexopt::Arg::Long("node-program") => node = Some(PathBuf::from(parser.value()?)),
            lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    if debug_programs.is_some() {
        ensure!(
            architectures.is_empty(),
            "`--arch` cannot be used with `--short`, which builds for this machine"
        );
        ensure!(
            again.is_none(),
            "`--reproducible` cannot be used with `--short`, which does not compile"
        );
        let native = Architecture::ALL.into_iter().find(|one| one.is_native());
        architectures = vec![native.context("programs are not released for this machine")?];
        effort = Effort::Check;
    }
    if architectures.is_empty() {
        architectures = Architecture::ALL.to_vec();
    }
    architectures.sort();
    architectures.dedup();
    let programs = programs::PROGRAMS.into_iter();
    let programs: Vec<Program> =
        programs.filter(|one| selected.is_empty() || selected.contains(one)).collect();
    if let Some(other) = again.iter().flatten().find(|one| !programs.contains(one)) {
        bail!("--reproduce names {0}, but --program does not: add `--program {0}`", other.name);
    }
    if let Some(key) = &key {
        ensure!(key.is_file(), "invalid value for --key: there is no {}", key.display());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |folder| root.join(folder));
    let out = std::path::absolute(out).context("reading --out")?;
    let debug_programs = debug_programs.map(|folder| DebugPrograms { folder, node });
    ensure!(
        !(check && only_images),
        "`--check` cannot be used with `--only-images`: it needs all artefacts"
    );
    let job = Job {
        root,
        target,
        out,
        architectures,
        programs,
        effort,
        debug_programs,
        only_images,
        url,
        key,
    };
    Ok(Some(Options { job, check, again }))
}

/// The top folder of the checkout.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_owned()
}

fn report(artefacts: &Artefacts) -> Result<()> {
    for name in artefacts.sums.keys() {
        let path = artefacts.folder.join(name);
        let size = path.metadata().with_context(|| format!("reading {}", path.display()))?.len();
        println!("{:>9} KiB  {name}", size.div_ceil(1024));
    }
    println!("{}: {}", artefacts.folder.display(), artefacts.release.version_text());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        parse(words).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn wrong_options_are_rejected_with_what_is_expected() {
        assert!(error("--arch ppc64le").contains("expected x86_64 or aarch64"));
        assert!(error("--program oc-miror").contains("expected one of oc-mirror, oc-brex"));
        assert!(
            error("--key /nonexistent/cosign.key").contains("there is no /nonexistent/cosign.key")
        );
        assert!(
            error("--debug-programs x --arch aarch64")
                .contains("`--arch` cannot be used with `--short`")
        );
    }

    #[test]
    fn a_program_that_is_built_again_has_to_be_built() {
        assert!(error("--reproduce oc-miror").starts_with("invalid value for --reproduce"));
        assert_eq!(
            error("--program enhance --reproduce brex-report"),
            "--reproduce names brex-report, but --program does not: add `--program brex-report`"
        );
        let line = ["--reproduce", "brex-report"].map(OsString::from).to_vec();
        let again = parse(line).unwrap().unwrap().again.unwrap();
        assert_eq!(again, [programs::find("--program", "brex-report").unwrap()]);
        assert!(parse(vec!["--reproducible".into()]).unwrap().unwrap().again.unwrap().is_empty());
    }

    #[test]
    fn everything_is_built_by_default() {
        let options = parse(Vec::new()).unwrap().unwrap();
        assert_eq!(options.job.architectures, Architecture::ALL);
        assert_eq!(options.job.programs, programs::PROGRAMS);
    }
}
