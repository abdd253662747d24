//! Commands that the console started. Each is a process of its own, which continues when the
//! console ends.
//!
//! ```text
//! working-dir/console/jobs/000001/job.json    what was started, and when
//!                                 output.txt  what it printed
//!                                 running     locked for as long as the process lives, and until
//!                                             its end is written down
//!                                 exit.json   how it ended, if the console was there to see it
//! ```
//!
//! The lock belongs to the open file that the process has as its standard input. So whether a job
//! is alive does not depend on process ids, which are reused, nor on the console that started it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use jiff::Timestamp;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use workspace::atomic_file::{self, Durability};
use workspace::{DiskError, redact_arguments};

/// The end of the output that a page shows.
const SHOWN: u64 = 64 << 10;
/// Jobs that are kept; older ones are removed when another is started.
const KEPT: usize = 100;

/// The jobs of a workspace.
#[derive(Debug, Clone)]
pub(crate) struct Jobs {
    directory: PathBuf,
    program: PathBuf,
    /// How jobs of this console ended.
    exits: Arc<Mutex<BTreeMap<u64, Exit>>>,
}

/// What was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobRecord {
    pub(crate) number: u64,
    pub(crate) name: String,
    /// Of `oc-mirror`, without credentials.
    pub(crate) arguments: Vec<String>,
    pub(crate) started: Timestamp,
    pub(crate) pid: u32,
}

/// How a job is, or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobState {
    Running,
    /// With an exit code, or by a signal.
    Ended(Exit),
    /// It ended while no console was running: its output tells how.
    EndedUnseen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) record: JobRecord,
    pub(crate) state: JobState,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    #[error("{doing} {}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("reading {}", path.display())]
    Record { path: PathBuf, source: serde_json::Error },
    #[error("job {0} not found")]
    Absent(u64),
    #[error("job {0} has ended")]
    Ended(u64),
}

trait At<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, JobError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, JobError> {
        self.map_err(|source| JobError::Io { doing, path: path.to_owned(), source })
    }
}

impl Jobs {
    /// The jobs below `working_dir`, which run `program`.
    pub(crate) fn new(working_dir: &Path, program: &Path) -> Self {
        Self {
            directory: working_dir.join("console/jobs"),
            program: program.to_owned(),
            exits: Arc::default(),
        }
    }

    /// Starts a command; the number of its job.
    pub(crate) fn start(&self, name: &str, arguments: &[String]) -> Result<u64, JobError> {
        let (number, folder) = self.create_folder()?;
        let lock_path = folder.join("running");
        let lock = OpenOptions::new().read(true).write(true).create_new(true).open(&lock_path);
        let lock = lock.at("creating", &lock_path)?;
        lock.try_lock().map_err(io::Error::from).at("locking", &lock_path)?;
        let held = lock.try_clone().at("locking", &lock_path)?;
        let output_path = folder.join("output.txt");
        let output = File::create(&output_path).at("creating", &output_path)?;
        reserve(&output);
        let errors = output.try_clone().at("creating", &output_path)?;
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .stdin(Stdio::from(lock))
            .stdout(output)
            .stderr(errors)
            // Ctrl-C in the terminal of the console is not for its jobs.
            .process_group(0);
        let mut child = command.spawn().at("starting", &self.program)?;
        let record = JobRecord {
            number,
            name: name.to_owned(),
            arguments: redact_arguments(arguments),
            started: Timestamp::now(),
            pid: child.id(),
        };
        if let Err(error) = keep(&folder, &record) {
            // What no page shows must not run.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        let exit_path = folder.join("exit.json");
        let exits = Arc::clone(&self.exits);
        thread::spawn(move || {
            if let Some(exit) = record_exit(child, &exit_path) {
                exits.lock().unwrap_or_else(PoisonError::into_inner).insert(number, exit);
            }
            // Until here the job counts as running, or a page could miss how it ended.
            drop(held);
        });
        self.remove_old();
        Ok(number)
    }

    /// All jobs, newest first. What cannot be read is left out: it is being created.
    pub(crate) fn list(&self) -> Result<Vec<Job>, JobError> {
        let mut numbers = self.numbers()?;
        numbers.reverse();
        Ok(numbers.into_iter().filter_map(|number| self.job(number).ok()).collect())
    }

    pub(crate) fn job(&self, number: u64) -> Result<Job, JobError> {
        let folder = self.folder(number);
        let path = folder.join("job.json");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(JobError::Absent(number));
            }
            text => text.at("reading", &path)?,
        };
        let record =
            serde_json::from_slice(&text).map_err(|source| JobError::Record { path, source })?;
        // The lock first: what ends in between is recorded before the lock is gone.
        let state = match is_locked(&folder.join("running"))? {
            true => JobState::Running,
            false => self.exit(number).map_or(JobState::EndedUnseen, JobState::Ended),
        };
        Ok(Job { record, state })
    }

    /// How a job ended, as far as that is known. A full disk does not take the file.
    fn exit(&self, number: u64) -> Option<Exit> {
        let text = fs::read(self.folder(number).join("exit.json")).ok();
        let written = text.and_then(|text| serde_json::from_slice(&text).ok());
        let exits = self.exits.lock().unwrap_or_else(PoisonError::into_inner);
        written.or_else(|| exits.get(&number).copied())
    }

    /// The end of what a job printed, and whether there is more before it.
    pub(crate) fn output(&self, number: u64) -> Result<(String, bool), JobError> {
        let path = self.folder(number).join("output.txt");
        let mut file = File::open(&path).at("reading", &path)?;
        let length = file.metadata().at("reading", &path)?.len();
        let start = length.saturating_sub(SHOWN);
        file.seek(SeekFrom::Start(start)).at("reading", &path)?;
        let mut bytes = Vec::new();
        file.take(SHOWN).read_to_end(&mut bytes).at("reading", &path)?;
        let text = String::from_utf8_lossy(&bytes);
        // From the start of a line.
        let text = match (start, text.split_once('\n')) {
            (1.., Some((_, rest))) => rest.to_owned(),
            _ => text.into_owned(),
        };
        Ok((text, start > 0))
    }

    /// Requests a job to end. Not with SIGINT: a console in the background of a shell script ignores it,
    /// and its jobs inherit that.
    pub(crate) fn stop(&self, number: u64) -> Result<(), JobError> {
        let job = self.job(number)?;
        let pid = i32::try_from(job.record.pid).ok().and_then(Pid::from_raw);
        match (job.state, pid) {
            (JobState::Running, Some(pid)) => kill_process(pid, Signal::TERM)
                .map_err(io::Error::from)
                .at("stopping", &self.program),
            _ => Err(JobError::Ended(number)),
        }
    }

    fn folder(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number:06}"))
    }

    fn numbers(&self) -> Result<Vec<u64>, JobError> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.at("reading", &self.directory)?,
        };
        let mut numbers: Vec<u64> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Two consoles on one workspace do not get the same number.
    fn create_folder(&self) -> Result<(u64, PathBuf), JobError> {
        fs::create_dir_all(&self.directory).at("creating", &self.directory)?;
        let mut number = self.numbers()?.last().copied().unwrap_or(0) + 1;
        loop {
            let folder = self.folder(number);
            match fs::create_dir(&folder) {
                Ok(()) => return Ok((number, folder)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error).at("creating", &folder),
            }
        }
    }

    fn remove_old(&self) {
        let numbers = self.numbers().unwrap_or_default();
        let old = numbers.len().saturating_sub(KEPT);
        for number in &numbers[..old] {
            let folder = self.folder(*number);
            if is_locked(&folder.join("running")).is_ok_and(|locked| !locked)
                && let Err(error) = fs::remove_dir_all(&folder)
            {
                tracing::warn!("removing {}: {error}", folder.display());
            }
        }
    }
}

/// Room for what a job prints when it fills the disk. Not every filesystem can reserve any.
fn reserve(output: &File) {
    let _ = fallocate(output, FallocateFlags::KEEP_SIZE, 0, SHOWN);
}

fn keep(folder: &Path, record: &JobRecord) -> Result<(), JobError> {
    let path = folder.join("job.json");
    let text = serde_json::to_vec_pretty(record).map_err(io::Error::other);
    Ok(atomic_file::write(&path, &text.at("writing", &path)?, Durability::Whole)?)
}

/// Waits for the end, so that no zombie is left, and writes it down.
fn record_exit(mut child: Child, path: &Path) -> Option<Exit> {
    let status = child.wait().ok()?;
    let exit = match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    };
    let written = serde_json::to_vec(&exit).map_err(|error| error.to_string()).and_then(|text| {
        atomic_file::write(path, &text, Durability::Later).map_err(|error| error.to_string())
    });
    if let Err(error) = written {
        tracing::warn!("writing {}: {error}", path.display());
    }
    Some(exit)
}

fn is_locked(path: &Path) -> Result<bool, JobError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file.at("reading", path)?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error).at("locking", path),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn until_ended(jobs: &Jobs, number: u64) -> Job {
        loop {
            let job = jobs.job(number).unwrap();
            if let JobState::Ended(_) = job.state {
                return job;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_job_leaves_its_output_and_its_exit_code() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = Jobs::new(dir.path(), Path::new("/bin/sh"));
        let number = jobs.start("Test", &words(&["-c", "echo one; echo two >&2; exit 3"])).unwrap();
        let job = until_ended(&jobs, number);
        assert_eq!((number, job.state), (1, JobState::Ended(Exit::Code(3))));
        assert_eq!(jobs.output(1).unwrap(), ("one\ntwo\n".to_owned(), false));
        assert_eq!(jobs.start("Test", &words(&["-c", "true"])).unwrap(), 2);
        let listed: Vec<u64> = jobs.list().unwrap().iter().map(|job| job.record.number).collect();
        assert_eq!(listed, [2, 1]);
        assert!(matches!(jobs.job(3), Err(JobError::Absent(3))));
        until_ended(&jobs, 2);
    }

    #[test]
    fn a_running_job_is_detected_without_the_console_that_started_it() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = Jobs::new(dir.path(), Path::new("/bin/sh"));
        let number = jobs.start("Test", &words(&["-c", "exec sleep 1000"])).unwrap();
        // Another console has only the directory.
        let other = Jobs::new(dir.path(), Path::new("/bin/false"));
        assert_eq!(other.job(number).unwrap().state, JobState::Running);
        other.stop(number).unwrap();
        let job = until_ended(&jobs, number);
        assert_eq!(job.state, JobState::Ended(Exit::Signal(Signal::TERM.as_raw())));
        assert!(matches!(other.stop(number), Err(JobError::Ended(_))));
        fs::remove_file(jobs.folder(number).join("exit.json")).unwrap();
        let ended = JobState::Ended(Exit::Signal(Signal::TERM.as_raw()));
        assert_eq!(jobs.job(number).unwrap().state, ended, "a full disk does not take the file");
        assert_eq!(other.job(number).unwrap().state, JobState::EndedUnseen);
    }

    #[test]
    fn only_the_end_of_a_long_output_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = Jobs::new(dir.path(), Path::new("/bin/sh"));
        let number = jobs.start("Test", &words(&["-c", "seq 1 50000"])).unwrap();
        until_ended(&jobs, number);
        let (text, is_cut) = jobs.output(number).unwrap();
        assert!(is_cut && text.len() as u64 <= SHOWN && text.ends_with("\n50000\n"));
        assert!(text.lines().all(|line| line.len() == 5), "whole lines only");
    }
}
