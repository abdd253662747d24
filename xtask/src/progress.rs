//! Prints a line while something takes long, so that a silent step can be distinguished from a hanging one.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// At least every 30 seconds there is a line.
const INTERVAL: Duration = Duration::from_secs(25);

/// Prints until it is dropped.
pub(crate) struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// For a command that may be silent for minutes.
    pub(crate) fn of_command(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').take(3).collect();
        let status = format!("`{} …` is running", words.join(" "));
        Self::start(move || status.clone())
    }

    /// `status` returns what to print, without the time.
    pub(crate) fn start(status: impl Fn() -> String + Send + 'static) -> Self {
        let start = Instant::now();
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                println!("    … {} s: {}", start.elapsed().as_secs(), status());
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread only loses lines.
            let _ = thread.join();
        }
    }
}
