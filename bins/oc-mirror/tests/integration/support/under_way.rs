//! A run that is stopped before it ends.

use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Ran, Site};

/// Far more than anything here takes; what takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(300);

/// A run in progress. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    child: Option<Child>,
}

impl UnderWay {
    /// Starts a mirror run with a JSON report.
    pub(crate) fn start(site: &Site, line: &str) -> Self {
        Self::start_command(site, &format!("--output=json {line}"))
    }

    /// Starts the program with exactly these arguments.
    pub(crate) fn start_command(site: &Site, line: &str) -> Self {
        let mut command = site.command(line);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child: Some(child) }
    }

    /// A run that was started already.
    pub(crate) fn of(child: Child) -> Self {
        Self { child: Some(child) }
    }

    /// Waits until something has happened that is waited for.
    pub(crate) fn until(&mut self, what: &str, mut happened: impl FnMut() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !happened() {
            let child = self.child.as_mut().unwrap();
            if child.try_wait().unwrap().is_some() {
                panic!("it ended before {what}: {:?}", self.end());
            }
            assert!(Instant::now() < deadline, "{what} did not happen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    /// Kills it as a power cut would, without a chance to tidy up.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.end();
    }

    /// Waits for the end. A run that hangs is killed and fails the test.
    pub(crate) fn end(&mut self) -> Ran {
        let child = self.child.take().unwrap();
        let pid = Pid::from_child(&child);
        let (send, ended) = mpsc::channel();
        thread::spawn(move || send.send(child.wait_with_output()));
        let Ok(output) = ended.recv_timeout(DEADLINE) else {
            kill_process(pid, Signal::KILL).unwrap();
            panic!("the run did not end: {:?}", ended.recv());
        };
        Ran::of(output.unwrap())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
