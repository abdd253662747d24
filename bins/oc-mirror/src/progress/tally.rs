//! How far a run is, counted from its events.

use std::time::Duration;

use mirror::{Event, ImageDone};
use mirror_plan::Origin;

use crate::quantity;

/// What a run is at. All but collecting is measured in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Work {
    /// Reading manifests: how many there are is not known yet.
    #[default]
    Collecting,
    Copying,
    Archiving,
    Checking,
}

impl Work {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Collecting => "collecting",
            Self::Copying => "copying",
            Self::Archiving => "writing the archive",
            Self::Checking => "checking the archives",
        }
    }
}

/// How far a run is.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Images whose manifests were read.
    collected: usize,
    pub(super) images: usize,
    pub(super) images_done: usize,
    /// Images being copied, oldest first.
    pub(super) in_flight: Vec<Origin>,
    pub(super) work: Work,
    pub(super) bytes: u64,
    pub(super) of: u64,
    /// Bytes to move as planned: archives are checked between plan and copy.
    to_move: u64,
    /// `bytes` when the last line was made.
    bytes_told: u64,
}

impl Tally {
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Planned { images, bytes, .. } => {
                self.images = *images;
                self.to_move = *bytes;
                self.turn_to(Work::Copying);
            }
            Event::Moved { bytes } => {
                self.turn_to(Work::Copying);
                self.bytes += bytes;
            }
            Event::Archived { bytes, of } => {
                self.turn_to(Work::Archiving);
                (self.bytes, self.of) = (*bytes, *of);
            }
            Event::Verified { bytes, of } => {
                self.turn_to(Work::Checking);
                (self.bytes, self.of) = (*bytes, *of);
            }
            Event::ImageStarted { origin, .. } => self.in_flight.push(origin.clone()),
            Event::ImageDone(ImageDone { origin, .. }) => {
                self.images_done += 1;
                if let Some(index) = self.in_flight.iter().position(|one| one == origin) {
                    self.in_flight.remove(index);
                }
            }
            Event::Collected { .. } => self.collected += 1,
            Event::Stage { .. }
            | Event::BlobStarted { .. }
            | Event::BlobDone { .. }
            | Event::BlobFailed { .. }
            | Event::Shard { .. }
            | Event::Warning { .. } => {}
        }
    }

    fn turn_to(&mut self, work: Work) {
        if self.work != work {
            self.work = work;
            self.of = if work == Work::Copying { self.to_move } else { 0 };
            (self.bytes, self.bytes_told) = (0, 0);
        }
    }

    /// `copying 3 / 12 images`, or just the work, where images do not count.
    pub(super) fn headline(&self) -> String {
        match self.work {
            Work::Collecting => {
                let images = quantity::count(self.collected, "image");
                format!("{}: {images} read", self.work.label())
            }
            Work::Copying => {
                format!("{} {} / {} images", self.work.label(), self.images_done, self.images)
            }
            Work::Archiving | Work::Checking => self.work.label().to_owned(),
        }
    }

    /// One line about the time since the last one; none before there is work.
    pub(super) fn line(&mut self, since_last: Duration) -> Option<String> {
        if self.work == Work::Collecting {
            return (self.collected > 0).then(|| self.headline());
        }
        let fresh = self.bytes.saturating_sub(self.bytes_told);
        self.bytes_told = self.bytes;
        Some(format!(
            "{}: {} / {}, {}",
            self.headline(),
            quantity::bytes(self.bytes),
            quantity::bytes(self.of),
            quantity::rate(fresh, since_last.as_secs_f64()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use mirror::Outcome;
    use mirror_plan::Kind;

    use super::*;

    fn origin(name: &str) -> Origin {
        Origin::Registry(format!("quay.io/a/{name}:1").parse().unwrap())
    }

    fn started(name: &str) -> Event {
        Event::ImageStarted { kind: Kind::Additional, origin: origin(name) }
    }

    fn done(name: &str) -> Event {
        Event::ImageDone(ImageDone {
            kind: Kind::Additional,
            origin: origin(name),
            destination: String::new(),
            digest: None,
            bytes: 0,
            outcome: Outcome::Copied,
        })
    }

    fn tally(events: &[Event]) -> Tally {
        let mut tally = Tally::default();
        events.iter().for_each(|event| tally.apply(event));
        tally
    }

    #[test]
    fn images_in_flight_are_those_started_and_not_done() {
        let planned = Event::Planned { images: 3, present: 0, blobs: 9, bytes: 100 };
        let tally = tally(&[planned, started("x"), started("y"), started("z"), done("y")]);
        assert_eq!(tally.in_flight, [origin("x"), origin("z")]);
        assert_eq!(tally.headline(), "copying 1 / 3 images");
    }

    #[test]
    fn the_rate_is_that_of_the_time_since_the_last_line() {
        let mut tally = tally(&[
            Event::Planned { images: 2, present: 0, blobs: 2, bytes: 4096 },
            Event::Moved { bytes: 1024 },
        ]);
        let second = Duration::from_secs(1);
        assert_eq!(
            tally.line(second).unwrap(),
            "copying 0 / 2 images: 1.0 KiB / 4.0 KiB, 1.0 KiB/s"
        );
        tally.apply(&Event::Moved { bytes: 2048 });
        assert_eq!(
            tally.line(second).unwrap(),
            "copying 0 / 2 images: 3.0 KiB / 4.0 KiB, 2.0 KiB/s"
        );
    }

    #[test]
    fn each_kind_of_work_counts_its_own_bytes() {
        let mut tally = tally(&[
            Event::Planned { images: 1, present: 0, blobs: 1, bytes: 4096 },
            Event::Moved { bytes: 4096 },
            Event::Archived { bytes: 512, of: 1024 },
        ]);
        let line = tally.line(Duration::from_secs(1)).unwrap();
        assert_eq!(line, "writing the archive: 512 B / 1.0 KiB, 512 B/s");
    }

    #[test]
    fn checking_archives_between_plan_and_copy_keeps_all_sizes() {
        let mut tally = tally(&[
            Event::Planned { images: 1, present: 0, blobs: 1, bytes: 4096 },
            Event::Verified { bytes: 512, of: 512 },
            Event::Moved { bytes: 1024 },
        ]);
        let line = tally.line(Duration::from_secs(1)).unwrap();
        assert_eq!(line, "copying 0 / 1 images: 1.0 KiB / 4.0 KiB, 1.0 KiB/s");
    }

    #[test]
    fn before_there_is_a_plan_the_images_read_are_counted() {
        assert_eq!(Tally::default().line(Duration::from_secs(1)), None);
        let mut tally = tally(&[Event::Collected { origin: origin("x") }]);
        assert_eq!(tally.line(Duration::from_secs(1)).unwrap(), "collecting: 1 image read");
    }
}
