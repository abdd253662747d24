//! Shows a run while it runs: bars on a terminal, plain lines elsewhere, and
//! the same events in the log.

mod bars;
mod tally;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mirror::{Event, ImageDone, Observer, Outcome};

use crate::console::Console;
use crate::log::IMAGES;
use crate::quantity;
use bars::Bars;
use tally::Tally;

/// How often a run without bars reports its progress.
pub(crate) const PLAIN_INTERVAL: Duration = Duration::from_secs(30);

/// How progress is displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
    /// Bars, for a person at a terminal.
    Bars,
    /// A line now and then, for a log.
    Lines,
    /// Not at all.
    Nothing,
}

impl Display {
    pub(crate) fn choose(quiet: bool, terminal: bool) -> Self {
        match (quiet, terminal) {
            (true, _) => Self::Nothing,
            (false, true) => Self::Bars,
            (false, false) => Self::Lines,
        }
    }
}

/// Watches a run and shows it.
#[derive(Debug)]
pub(crate) struct Progress {
    tally: Mutex<Tally>,
    bars: Option<Bars>,
    display: Display,
}

impl Progress {
    pub(crate) fn new(display: Display, console: Console) -> Self {
        let bars = (display == Display::Bars).then(|| Bars::new(console));
        Self { tally: Mutex::default(), bars, display }
    }

    /// Prints the progress of the run, without bars. Call it every [`PLAIN_INTERVAL`].
    pub(crate) fn tick(&self) {
        if self.display != Display::Lines {
            return;
        }
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = tally.line(PLAIN_INTERVAL) {
            tracing::info!("{line}");
        }
    }

    /// Takes the bars off the screen.
    pub(crate) fn finish(&self) {
        if let Some(bars) = &self.bars {
            bars.finish();
        }
    }
}

impl Observer for Progress {
    fn notice(&self, event: Event) {
        speak(&event);
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.apply(&event);
        if let Some(bars) = &self.bars {
            bars.show_bytes(&tally);
            if !matches!(
                event,
                Event::Moved { .. } | Event::Archived { .. } | Event::Verified { .. }
            ) {
                bars.show_images(&tally);
            }
        }
    }
}

/// The text of an event, for console and log.
fn speak(event: &Event) {
    match event {
        Event::Stage { name } => tracing::info!("{name}"),
        Event::Planned { images, present, blobs, bytes } => tracing::info!(
            "images to copy {images} ({present} already there, {} in {blobs} blobs to move)",
            quantity::bytes(*bytes)
        ),
        Event::Collected { origin } => tracing::debug!("collected {origin}"),
        Event::BlobStarted { digest, size } => tracing::trace!("moving blob {digest} ({size} B)"),
        Event::BlobDone { digest } => tracing::trace!("moved blob {digest}"),
        Event::BlobFailed { digest, error } => tracing::debug!("moving blob {digest}: {error}"),
        Event::ImageStarted { origin, .. } => tracing::debug!("copying {origin}"),
        Event::ImageDone(ImageDone { origin, destination, outcome, .. }) => match outcome {
            // Scripts count these lines by their first words, as oc-mirror v2 writes them.
            Outcome::Copied => {
                tracing::info!(target: IMAGES, "Success copying {origin} -> {destination}");
            }
            Outcome::Failed { error } => {
                tracing::error!(target: IMAGES, "failed to copy {origin}: {error}");
            }
            Outcome::Present => tracing::debug!("already there {origin} -> {destination}"),
            Outcome::Pending => tracing::debug!("not copied {origin}"),
        },
        Event::Warning { message } => tracing::warn!("{message}"),
        Event::Moved { .. }
        | Event::Archived { .. }
        | Event::Verified { .. }
        | Event::Shard { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_drawn_only_on_terminals_and_if_enabled() {
        assert_eq!(Display::choose(false, true), Display::Bars);
        assert_eq!(Display::choose(false, false), Display::Lines);
        assert_eq!(Display::choose(true, true), Display::Nothing);
    }
}
