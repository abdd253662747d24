//! `cargo xtask fuzz`: runs the parsers of untrusted input on inputs that libFuzzer derives from the
//! committed seeds.
//!
//! cargo-fuzz builds one program per target of `crates/fuzz-targets`; they run one after the other.
//! Inputs that a run finds are stored below the build folder and used by the next one.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::progress::Ticker;
use crate::{repository, tools};

/// What the short variant runs: targets whose dependencies compile quickly. In `fuzz/Cargo.toml`
/// all others need the feature `all`.
const SHORT_TARGETS: [&str; 5] = ["image_set", "manifest", "reference", "template", "timetable"];
const SHORT_SECONDS: u64 = 5;
const DEFAULT_MINUTES: u64 = 2;

/// The sanitizer is off: our crates have no `unsafe` code, C libraries would not be instrumented,
/// and with it the compiler's unstable options would be needed. `cfg(fuzzing)` is off, too: some
/// libraries skip checks under it, and the fuzzed code must be the released code.
const BUILD: [&str; 7] =
    ["fuzz", "build", "--sanitizer", "none", "--no-cfg-fuzzing", "--codegen-units", "16"];

/// An input that takes longer than this is a finding.
const INPUT_SECONDS: u64 = 10;
const MEMORY_MIB: u64 = 2048;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    target: Option<String>,
    minutes: u64,
    short: bool,
}

impl Options {
    fn read(arguments: Vec<OsString>) -> Result<Self> {
        let mut options = Self { target: None, minutes: DEFAULT_MINUTES, short: false };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next()? {
            match argument {
                lexopt::Arg::Long("target") => {
                    options.target = Some(parser.value()?.to_string_lossy().into_owned());
                }
                lexopt::Arg::Long("minutes") => {
                    let value = parser.value()?.to_string_lossy().into_owned();
                    let minutes = value.parse().ok().filter(|minutes| *minutes > 0);
                    options.minutes = minutes.with_context(|| {
                        format!(
                            "invalid value for --minutes: expected a number >= 1, found `{value}`"
                        )
                    })?;
                }
                lexopt::Arg::Long("short") => options.short = true,
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }

    /// How long each target runs.
    fn seconds(&self) -> u64 {
        if self.short { SHORT_SECONDS } else { self.minutes * 60 }
    }

    /// The targets to run, out of all targets.
    fn select(&self, all: &[String]) -> Result<Vec<String>> {
        let known = |name: &str| all.iter().any(|target| target == name);
        if let Some(target) = &self.target {
            ensure!(known(target), "unknown target `{target}`; the targets are {}", all.join(", "));
            return Ok(vec![target.clone()]);
        }
        Ok(all
            .iter()
            .filter(|target| !self.short || SHORT_TARGETS.contains(&target.as_str()))
            .cloned()
            .collect())
    }
}

/// `cargo xtask fuzz`.
pub(crate) fn fuzz(arguments: Vec<OsString>) -> Result<()> {
    let options = Options::read(arguments)?;
    tools::run(&["build", "fuzz"])?;
    run(&options)
}

/// The variant that CI runs.
pub(crate) fn short() -> Result<()> {
    run(&Options { target: None, minutes: DEFAULT_MINUTES, short: true })
}

fn run(options: &Options) -> Result<()> {
    let targets = options.select(&all_targets()?)?;
    build(&targets)?;
    let mut crashed = Vec::new();
    println!("{:16} {:>12} {:>8} {:>8}", "target", "executions", "inputs", "new");
    for target in &targets {
        let outcome = run_target(target, options.seconds())?;
        println!("{target:16} {outcome}");
        crashed.extend(outcome.crash.map(|input| (target, input)));
    }
    for (target, input) in &crashed {
        println!("\n{}", advice(target, input)?);
    }
    let names: Vec<&str> = crashed.iter().map(|(target, _)| target.as_str()).collect();
    ensure!(crashed.is_empty(), "targets failed: {}", names.join(", "));
    Ok(())
}

/// The names of all targets, sorted: each has a file.
fn all_targets() -> Result<Vec<String>> {
    let folder = fuzz_folder().join("fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("reading {}", folder.display()))?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

fn fuzz_folder() -> PathBuf {
    repository::root().join("fuzz")
}

/// The build folder for fuzzing. It is separate, because other compiler flags would invalidate the
/// results of other builds.
fn target_folder() -> PathBuf {
    repository::target().join("fuzz")
}

/// Checks that the lock file of the fuzzing workspace fits its manifests. cargo-fuzz cannot pass
/// `--locked`.
///
/// # Errors
///
/// If it does not, with the command that updates it.
pub(crate) fn check_lock_file() -> Result<()> {
    let manifest = fuzz_folder().join("Cargo.toml");
    let mut metadata = repository::cargo(&["metadata", "--locked", "--format-version", "1"]);
    let checked = metadata.arg("--manifest-path").arg(&manifest).stdout(Stdio::null()).status();
    ensure!(
        checked.context("starting cargo")?.success(),
        "fuzz/Cargo.lock is out of date; `cargo update --workspace --manifest-path fuzz/Cargo.toml` updates it"
    );
    Ok(())
}

/// Builds the programs. Slow dependencies are compiled only if a target needs them.
fn build(targets: &[String]) -> Result<()> {
    check_lock_file()?;
    let is_light = |target: &String| SHORT_TARGETS.contains(&target.as_str());
    let program = tools::path("cargo-fuzz")?;
    let cargo_fuzz = |target: Option<&str>| {
        let mut command = Command::new(&program);
        command
            .args(BUILD)
            .arg("--fuzz-dir")
            .arg(fuzz_folder())
            .arg("--target-dir")
            .arg(target_folder());
        if targets.iter().all(is_light) {
            command.arg("--no-default-features");
        }
        command.args(target).current_dir(repository::root());
        repository::run(&mut command)
    };
    match targets {
        [one] => cargo_fuzz(Some(one)),
        _ => cargo_fuzz(None),
    }
}

/// How the run of one target ended.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    executions: u64,
    /// Inputs with which the next run starts.
    inputs: usize,
    /// How many of them this run found.
    new: usize,
    /// The input that made the target fail.
    crash: Option<PathBuf>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executions, inputs, new, crash } = self;
        write!(f, "{executions:>12} {inputs:>8} {new:>8}")?;
        if crash.is_some() { f.write_str("  failed") } else { Ok(()) }
    }
}

fn run_target(target: &str, seconds: u64) -> Result<Outcome> {
    let corpus = created(target_folder().join("corpus").join(target))?;
    let artifacts = repository::scratch(&format!("fuzz/{target}"))?;
    let log = artifacts.with_extension("log");
    let before = count(&corpus)?;
    let name = target.to_owned();
    let ticker = Ticker::start(move || format!("fuzzing {name}"));
    let mut command = Command::new(program(target)?);
    // New inputs are written to the first folder.
    command.arg(&corpus).arg(fuzz_folder().join("corpus").join(target));
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-timeout={INPUT_SECONDS}"));
    command.arg(format!("-rss_limit_mb={MEMORY_MIB}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.arg("-print_final_stats=1").current_dir(repository::root());
    let output = fs::File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).status();
    drop(ticker);
    let status = status.with_context(|| format!("starting the program of {target}"))?;
    let bytes = fs::read(&log).with_context(|| format!("reading {}", log.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let crash = first_file(&artifacts)?;
    if !status.success() {
        print!("{}", end_of(&text));
        ensure!(crash.is_some(), "the program of {target} ended with {status} without an input");
    }
    let after = count(&corpus)?;
    let executions = executions(&text).unwrap_or_default();
    ensure!(executions > 0 || crash.is_some(), "{target} was not run; see {}", log.display());
    Ok(Outcome { executions, inputs: after, new: after.saturating_sub(before), crash })
}

/// Where cargo-fuzz puts the program of a target: it always names the platform.
fn program(target: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(target_folder()).context("reading the build folder")?;
    let candidates = entries.flatten().map(|entry| entry.path().join("release").join(target));
    let mut found: Vec<PathBuf> = candidates.filter(|path| path.is_file()).collect();
    match (found.pop(), found.is_empty()) {
        (Some(program), true) => Ok(program),
        (None, _) => bail!("cargo-fuzz did not build `{target}`"),
        _ => bail!("found programs for several platforms in {}", target_folder().display()),
    }
}

/// What to do with an input that makes a target fail.
fn advice(target: &str, input: &Path) -> Result<String> {
    let program = program(target)?;
    Ok(format!(
        "{target} failed. To repeat it:\n  {} {}\nTo keep it as a test:\n  \
         mkdir -p fuzz/regressions/{target} && cp {} fuzz/regressions/{target}/\n  \
         cargo test -p fuzz-targets",
        program.display(),
        input.display(),
        input.display(),
    ))
}

/// The last lines of the output, which have the panic and the stack.
fn end_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.len().saturating_sub(60);
    lines[start..].iter().map(|line| format!("    {line}\n")).collect()
}

/// How many inputs a target was called with, by libFuzzer's statistics.
fn executions(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    line?.trim().parse().ok()
}

fn created(folder: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

fn count(folder: &Path) -> Result<usize> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    Ok(entries.count())
}

fn first_file(folder: &Path) -> Result<Option<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).min())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Options> {
        Options::read(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn a_target_runs_for_two_minutes_by_default() {
        assert_eq!(read(&[]).unwrap().seconds(), 120);
        assert_eq!(read(&["--minutes", "1"]).unwrap().seconds(), 60);
        assert!(read(&["--short"]).unwrap().seconds() < 60);
        for wrong in ["0", "-1", "x"] {
            let error = read(&["--minutes", wrong]).unwrap_err().to_string();
            assert!(error.contains(&format!("found `{wrong}`")), "{error}");
        }
    }

    #[test]
    fn an_unknown_target_is_rejected_with_the_known_ones() {
        let all = ["graph".to_owned(), "reference".to_owned()];
        let select = |words: &[&str]| read(words).unwrap().select(&all);
        assert_eq!(select(&[]).unwrap(), all);
        assert_eq!(select(&["--short"]).unwrap(), ["reference"]);
        assert_eq!(select(&["--target", "graph"]).unwrap(), ["graph"]);
        let error = select(&["--target", "grap"]).unwrap_err().to_string();
        assert_eq!(error, "unknown target `grap`; the targets are graph, reference");
    }

    #[test]
    fn the_short_targets_exist_and_need_no_feature() {
        let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).unwrap();
        for target in all_targets().unwrap() {
            let is_target = |section: &&str| section.contains(&format!("name = \"{target}\"\n"));
            let section = manifest.split("[[bin]]").skip(1).find(is_target).unwrap();
            let is_short = SHORT_TARGETS.contains(&target.as_str());
            assert_eq!(section.contains("required-features"), !is_short, "{target}");
        }
        let all = all_targets().unwrap();
        assert!(SHORT_TARGETS.iter().all(|target| all.iter().any(|name| name == target)));
    }

    #[test]
    fn executions_are_read_from_the_final_statistics() {
        let text = "Done 7 runs\nstat::number_of_executed_units: 1234\nstat::new_units_added: 5\n";
        assert_eq!(executions(text), Some(1234));
        assert_eq!(executions("nothing"), None);
    }
}
