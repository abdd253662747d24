//! Lines of the log on the screen, beside progress bars. A closed pipe is not an error.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::MultiProgress;

/// The screen. Copies share it: bars are hidden while a line is printed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Console {
    /// Whether lines go to standard output, where scripts for oc-mirror v2 read them.
    uses_output: Arc<AtomicBool>,
    bars: Arc<Mutex<Option<MultiProgress>>>,
}

impl Console {
    /// From now on lines go to standard output. Before a run starts, what is wrong with it goes to
    /// standard error.
    pub(crate) fn use_standard_output(&self) {
        self.uses_output.store(true, Ordering::Relaxed);
    }

    /// From now on lines are printed above these bars.
    pub(crate) fn attach(&self, bars: MultiProgress) {
        *self.bars.lock().unwrap_or_else(PoisonError::into_inner) = Some(bars);
    }

    /// The bars were removed.
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
        let print = || match self.uses_output.load(Ordering::Relaxed) {
            true => drop(writeln!(io::stdout().lock(), "{text}")),
            false => drop(writeln!(io::stderr().lock(), "{text}")),
        };
        match bars {
            Some(bars) => bars.suspend(print),
            None => print(),
        }
    }
}
