//! A server program that never outlives the process which started it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

use lab::bound_command;

/// Lines of a log that an error contains.
const TAIL: usize = 15;

/// A running server. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `program`; what it prints goes to the file `log`.
    pub(super) fn start(program: &Path, arguments: &[String], log: &Path) -> io::Result<Self> {
        let output = File::create(log)?;
        let child = bound_command(program)
            .args(arguments)
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// How it ended, if it did.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// The last lines it printed.
    pub(super) fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}

impl Daemon {
    /// Ends it, and waits for its exit.
    pub(super) fn kill(&mut self) {
        // Nothing can be done about a failure here, and the pipe's end kills it as well.
        let _ = self.child.kill();
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(300);

    fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + DEADLINE;
        while !holds() {
            assert!(Instant::now() < end, "{what}: not within {DEADLINE:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn sleeper(log: &Path) -> Daemon {
        let script = ["-c", "echo up; exec sleep 600"].map(str::to_owned);
        let daemon = Daemon::start(Path::new("/bin/sh"), &script, log).unwrap();
        eventually("the program starts", || daemon.log_tail() == "up");
        daemon
    }

    #[test]
    fn a_dropped_daemon_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = sleeper(&dir.path().join("log"));
        let process = PathBuf::from(format!("/proc/{}", daemon.child.id()));
        assert!(process.exists());
        drop(daemon);
        assert!(!process.exists());
    }

    #[test]
    fn a_daemon_ends_when_the_pipe_to_its_owner_breaks() {
        let dir = tempfile::tempdir().unwrap();
        let mut daemon = sleeper(&dir.path().join("log"));
        assert_eq!(daemon.ended().unwrap(), None);
        drop(daemon.child.stdin.take());
        eventually("the program dies", || daemon.ended().unwrap().is_some());
    }

    #[test]
    fn only_the_last_lines_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let script = ["-c", "seq 100"].map(str::to_owned);
        let mut daemon =
            Daemon::start(Path::new("/bin/sh"), &script, &dir.path().join("log")).unwrap();
        eventually("the program ends", || daemon.ended().unwrap().is_some());
        assert_eq!(daemon.log_tail().lines().collect::<Vec<_>>().len(), TAIL);
        assert!(daemon.log_tail().ends_with("99\n100"));
    }
}
