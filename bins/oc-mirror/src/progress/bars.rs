//! Bars on a terminal: one for all bytes, and a line for each of the oldest
//! images in flight.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::tally::{Tally, Work};
use crate::console::Console;

/// Lines of images in flight; more would push everything else off the screen.
const MAX_LINES: usize = 6;
const FRAMES_PER_SECOND: u8 = 5;

/// While it is not known how much there is.
const COUNTING: &str = "{msg}";
const OVERALL: &str = "{msg} [{bar:20}] {binary_bytes} / {binary_total_bytes} \
                       {binary_bytes_per_sec} ETA {eta}";

#[derive(Debug)]
pub(super) struct Bars {
    console: Console,
    screen: MultiProgress,
    overall: ProgressBar,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    bars: Vec<ProgressBar>,
    work: Option<Work>,
}

impl Bars {
    pub(super) fn new(console: Console) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(FRAMES_PER_SECOND);
        let screen = MultiProgress::with_draw_target(target);
        let overall = screen.add(ProgressBar::new(0).with_style(style(COUNTING)));
        // Rate and ETA change although nothing happens: that is what a stall looks like.
        overall.enable_steady_tick(Duration::from_millis(500));
        console.attach(screen.clone());
        Self { console, screen, overall, lines: Mutex::default() }
    }

    /// Shows how many bytes there are. Cheap: it is called for every
    /// chunk of content that is transferred.
    pub(super) fn show_bytes(&self, tally: &Tally) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.work != Some(tally.work) {
            lines.work = Some(tally.work);
            let template = match tally.work {
                Work::Collecting => COUNTING,
                Work::Copying | Work::Archiving | Work::Checking => OVERALL,
            };
            self.overall.set_style(style(template));
            self.overall.reset();
            self.overall.set_message(tally.headline());
        }
        self.overall.set_length(tally.of);
        self.overall.set_position(tally.bytes);
    }

    /// Shows which images are in flight, and how many are done.
    pub(super) fn show_images(&self, tally: &Tally) {
        self.overall.set_message(tally.headline());
        let texts = in_flight(tally);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        while lines.bars.len() > texts.len() {
            if let Some(bar) = lines.bars.pop() {
                bar.finish_and_clear();
                self.screen.remove(&bar);
            }
        }
        while lines.bars.len() < texts.len() {
            let bar = ProgressBar::new_spinner().with_style(style("  {wide_msg}"));
            lines.bars.push(self.screen.add(bar));
        }
        for (bar, text) in lines.bars.iter().zip(texts) {
            if bar.message() != text {
                bar.set_message(text);
            }
        }
    }

    pub(super) fn finish(&self) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.bars.iter().for_each(ProgressBar::finish_and_clear);
        self.overall.finish_and_clear();
        self.console.detach();
    }
}

/// The lines below the overall bar.
fn in_flight(tally: &Tally) -> Vec<String> {
    let shown = tally.in_flight.iter().take(MAX_LINES).map(ToString::to_string);
    let more = tally.in_flight.len().saturating_sub(MAX_LINES);
    let rest = (more > 0).then(|| format!("and {more} more"));
    shown.chain(rest).collect()
}

fn style(template: &str) -> ProgressStyle {
    // The templates above are valid (a test parses them); a bar must not end a run.
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use mirror_plan::Origin;

    use super::*;

    #[test]
    fn the_templates_are_understood() {
        for template in [COUNTING, OVERALL] {
            ProgressStyle::with_template(template).unwrap();
        }
    }

    #[test]
    fn the_number_of_lines_is_bounded() {
        let mut tally = Tally::default();
        for number in 0..20 {
            let image = format!("quay.io/a/b:{number}").parse().unwrap();
            tally.in_flight.push(Origin::Registry(image));
        }
        let lines = in_flight(&tally);
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines[0], "quay.io/a/b:0");
        assert_eq!(lines[MAX_LINES], "and 14 more");
    }
}
