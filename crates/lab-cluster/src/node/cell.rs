//! A cell: processes with their own root, network, host name and process numbers. Nodes and
//! LANs are cells.
//!
//! Everything in a cell ends with its process 1, and that ends with the pipe to this process. So
//! nothing is left behind, whichever way a test ends.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::{fs, io};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::disk::{Disk, Files};
use test_tools::tree::Tree;

/// Makes the root and moves into it.
const ENTER: &str = include_str!("cell.sh");
/// What programs in a cell find in their environment.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"),
    ("HOME", "/root"),
    ("LANG", "C.UTF-8"),
];
/// Lines of each log that an error contains.
const TAIL: usize = 15;

/// What a cell is made of.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) hostname: &'a str,
    pub(super) tree: &'a Tree,
    pub(super) disk: &'a Disk,
    /// A folder of the host that both sides may write to: `/host`.
    pub(super) share: &'a Path,
    /// A folder of the host for logs: `/log`.
    pub(super) log: &'a Path,
    /// Files and folders of the host, and where they are mounted, read-only.
    pub(super) binds: &'a [(PathBuf, PathBuf)],
    /// A script for process 1. It prints `ready` when it is, and runs until its standard input
    /// ends. It reads one line before it may use the network's NICs.
    pub(super) init: &'a str,
}

/// A running cell. It ends when dropped.
#[derive(Debug)]
pub(super) struct Cell {
    outer: Child,
    to_init: Option<ChildStdin>,
    from_init: BufReader<ChildStdout>,
    pid: Pid,
    log: PathBuf,
}

impl Cell {
    /// Makes the namespaces and the root. Process 1 waits for [`Self::go`].
    pub(super) fn make(plan: &Plan<'_>) -> Result<Self> {
        let binds: Vec<String> = plan
            .binds
            .iter()
            .map(|(from, to)| format!("{}\t{}", from.display(), to.display()))
            .collect();
        let errors = fs::File::create(plan.log.join("init.log")).context("creating a log")?;
        let mut outer = Command::new("nsenter")
            .arg(format!("--mount={}", plan.disk.namespace()))
            .args(["--", "unshare", "--mount", "--propagation", "private", "--net", "--uts"])
            .args(["--ipc", "--pid", "--fork", "--kill-child", "--", "bash", "-c", ENTER])
            .env_clear()
            .envs(ENVIRONMENT)
            .env("HOSTNAME_", plan.hostname)
            .env("TREE", plan.tree.root())
            .env("DISK", plan.disk.path())
            .env("SHARE", plan.share)
            .env("LOG", plan.log)
            .env("BINDS", binds.join("\n"))
            .env("INIT", plan.init)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .context("running nsenter")?;
        let (to_init, from_init) = (outer.stdin.take(), outer.stdout.take());
        let mut from_init = BufReader::new(from_init.context("no pipe from the cell")?);
        let first = line(&mut from_init);
        let pid = first.as_deref().ok().and_then(|line| line.strip_prefix("pid "));
        let Some(pid) = pid.and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw) else {
            let _ = outer.kill();
            let _ = outer.wait();
            bail!("making a cell: {}\n{}", first.unwrap_or_default(), last_words(plan.log));
        };
        Ok(Self { outer, to_init, from_init, pid, log: plan.log.to_owned() })
    }

    /// Lets process 1 continue, and waits until it is ready. Its own deadlines bound this.
    pub(super) fn go(&mut self) -> Result<()> {
        let to_init = self.to_init.as_mut().context("the cell was stopped")?;
        let sent = to_init.write_all(b"go\n");
        let response = line(&mut self.from_init).context("waiting for a cell")?;
        if response == "ready" {
            return sent.context("writing to the cell");
        }
        bail!("starting a cell: {response}\n{}", last_words(&self.log))
    }

    /// Process 1, as the host counts.
    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// A command that will run inside, with an environment like a service's. When it is killed
    /// from outside, the program inside is killed a moment later.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.pid()))
            .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", "--"])
            // `nsenter` stays outside and waits. A signal to it is meant for the program.
            .args(["setpriv", "--pdeathsig", "KILL", "--", program])
            .env_clear()
            .envs(ENVIRONMENT)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end, whichever way it ends.
    pub(super) fn run(&self, words: &[&str]) -> Result<Output> {
        let (program, arguments) = words.split_first().context("a command without words")?;
        self.command(program)
            .args(arguments)
            .output()
            .with_context(|| format!("running `{}` in a cell", words.join(" ")))
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(super) fn succeed(&self, words: &[&str]) -> Result<String> {
        let output = self.run(words)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(
            output.status.success(),
            "`{}` ended with {}: {}{}",
            words.join(" "),
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        Ok(text(&output.stdout))
    }

    /// Its files.
    pub(super) fn files(&self) -> Result<Files> {
        Files::of(self.pid())
    }

    /// Ends everything in it at once, like a power cut, and waits until all of it has ended.
    pub(super) fn kill(&mut self) {
        if !matches!(self.outer.try_wait(), Ok(None)) {
            return;
        }
        // It may end by itself just now; then there is nothing to do. `unshare` waits for process
        // 1, and that is not over before all others in the cell are.
        let _ = kill_process(self.pid, Signal::KILL);
        drop(self.to_init.take());
        let _ = self.outer.wait();
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One line without its end.
fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    from.read_line(&mut text)?;
    Ok(text.trim_end().to_owned())
}

/// The ends of all logs in a folder.
pub(super) fn last_words(folder: &Path) -> String {
    let Ok(entries) = fs::read_dir(folder) else { return String::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut words = String::new();
    for path in paths {
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL)..];
        if !tail.is_empty() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            words += &format!("--- {name}\n{}\n", tail.join("\n"));
        }
    }
    words
}
