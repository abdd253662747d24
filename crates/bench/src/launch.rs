//! Runs a command and reports what it used: time, processor time, memory.
//!
//! The kernel keeps the largest memory over all children of a process, and counts a child as
//! large as its parent until it has started its program. So a separate small process runs each
//! command: this program with the subcommand `launch`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// How many lines of a failed command's output are part of the error.
const LINES_OF_FAILURE: usize = 12;

/// A command to run.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: BTreeMap<String, PathBuf>,
}

/// What a command and all its children used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) wall: Duration,
    /// How long it took afterwards until all written data was on the disk, where that was measured.
    pub(crate) sync: Duration,
    /// User and system time together.
    pub(crate) cpu: Duration,
    /// The largest memory of any one process, in bytes.
    pub(crate) peak: u64,
}

#[derive(Serialize, Deserialize)]
struct LaunchResult {
    usage: Usage,
    success: bool,
}

impl Invocation {
    pub(crate) fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self { program: program.into(), arguments, environment: BTreeMap::new() }
    }

    /// This program with these arguments.
    pub(crate) fn of_this_program(arguments: &[&str]) -> Result<Self> {
        let program = std::env::current_exe().context("finding the file of this program")?;
        Ok(Self::new(program, arguments))
    }
}

/// Runs it to its end. Its output is written to `log`, whose last lines are part of the error if it
/// fails.
pub(crate) fn measure(invocation: &Invocation, log: &Path) -> Result<Usage> {
    let launcher = Invocation::of_this_program(&["launch"])?;
    let output = Command::new(&launcher.program)
        .args(&launcher.arguments)
        .arg(log)
        .arg(&invocation.program)
        .args(&invocation.arguments)
        .envs(&invocation.environment)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting the launcher")?;
    let line = || format!("{} {}", invocation.program.display(), invocation.arguments.join(" "));
    ensure!(output.status.success(), "launching `{}` failed", line());
    let result: LaunchResult =
        serde_json::from_slice(&output.stdout).context("reading the launcher's report")?;
    let last_lines = || {
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES_OF_FAILURE)..].join("\n")
    };
    ensure!(result.success, "`{}` failed:\n{}", line(), last_lines());
    Ok(result.usage)
}

/// The launcher: runs the command and prints what it used.
pub(crate) fn launch(log: &Path, command: &[OsString]) -> Result<()> {
    let (program, arguments) = command.split_first().context("expected a command to launch")?;
    let output = File::create(log).with_context(|| format!("creating {}", log.display()))?;
    let errors = output.try_clone().context("sharing the log")?;
    let start = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    let wall = start.elapsed();
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).context("reading the resource usage")?;
    let micros = |time: nix::sys::time::TimeVal| {
        let whole = time.tv_sec() * 1_000_000 + time.tv_usec();
        Duration::from_micros(u64::try_from(whole).unwrap_or_default())
    };
    let usage = Usage {
        wall,
        sync: Duration::ZERO,
        cpu: micros(used.user_time()) + micros(used.system_time()),
        peak: u64::try_from(used.max_rss()).unwrap_or_default() * 1024,
    };
    let result = LaunchResult { usage, success: status.success() };
    println!("{}", serde_json::to_string(&result).context("writing the report")?);
    Ok(())
}
