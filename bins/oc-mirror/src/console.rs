//! Lines of the log, and results on standard output. A closed pipe ends neither in a panic nor in
//! a failure.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::MultiProgress;

/// Where lines of the log go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Where scripts for oc-mirror v2 read them.
    StandardOutput,
    /// Where they cannot mix with a result that is read by a program.
    #[default]
    StandardError,
}

/// The screen. Copies share it: bars make way for lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Console {
    lines: Lines,
    bars: Arc<Mutex<Option<MultiProgress>>>,
}

impl Console {
    pub(crate) fn new(lines: Lines) -> Self {
        Self { lines, bars: Arc::default() }
    }

    /// From now on lines are printed above these bars.
    pub(crate) fn attach(&self, bars: MultiProgress) {
        *self.bars.lock().unwrap_or_else(PoisonError::into_inner) = Some(bars);
    }

    /// The bars are gone.
    pub(crate) fn detach(&self) {
        *self.bars.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether bars are on the screen.
    pub(crate) fn has_bars(&self) -> bool {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Prints a line of the log.
    pub(crate) fn line(&self, text: &str) {
        let bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // No one reads a stream that is closed.
        let print = || match self.lines {
            Lines::StandardOutput => drop(writeln!(io::stdout().lock(), "{text}")),
            Lines::StandardError => drop(writeln!(io::stderr().lock(), "{text}")),
        };
        match bars {
            Some(bars) => bars.suspend(print),
            None => print(),
        }
    }
}

/// Writes a result to standard output. A reader who has gone away wanted no more.
pub(crate) fn write_result(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
