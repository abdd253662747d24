//! How far a run is, from its journal. Pure.

use jiff::Timestamp;
use serde::Serialize;

use crate::audit::AuditedOutcome;
use crate::journal::{JournalEvent, JournalLine};
use crate::runs::RunStatus;

/// What the events of a journal amount to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunProgress {
    pub run: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Paused by a user.
    pub is_paused: bool,
    /// What a timetable allows now, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<String>,
    pub is_paused_by_timetable: bool,
    /// Images of the plan; known once there is one.
    pub images: usize,
    pub copied: usize,
    pub present: usize,
    pub failed: usize,
    pub blocked: usize,
    /// Bytes that the plan moves, and those that were moved so far.
    pub bytes_planned: u64,
    pub bytes_moved: u64,
    pub warnings: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Time and moved bytes of the first and the last progress event, for a rate.
    #[serde(skip)]
    pub first: Option<(Timestamp, u64)>,
    #[serde(skip)]
    pub last: Option<(Timestamp, u64)>,
}

impl RunProgress {
    pub fn apply(&mut self, line: &JournalLine) {
        match &line.event {
            JournalEvent::Started { run, .. } => self.run = *run,
            JournalEvent::Stage { name } => self.stage = Some(name.clone()),
            JournalEvent::Planned { images, bytes, .. } => {
                self.images = *images;
                self.bytes_planned = *bytes;
            }
            JournalEvent::Progress { bytes } => {
                self.bytes_moved = *bytes;
                self.first.get_or_insert((line.time, *bytes));
                self.last = Some((line.time, *bytes));
            }
            JournalEvent::Image(image) => match image.outcome {
                AuditedOutcome::Copied => self.copied += 1,
                AuditedOutcome::Present => self.present += 1,
                AuditedOutcome::Failed => self.failed += 1,
                AuditedOutcome::Blocked => self.blocked += 1,
                AuditedOutcome::NotReached => {}
            },
            JournalEvent::Warning { .. } => self.warnings += 1,
            JournalEvent::Paused => self.is_paused = true,
            JournalEvent::Resumed => self.is_paused = false,
            JournalEvent::Pace { is_paused, text } => {
                self.pace = Some(text.clone());
                self.is_paused_by_timetable = *is_paused;
            }
            JournalEvent::Ended { status, .. } => self.status = Some(*status),
            JournalEvent::Attempt { .. }
            | JournalEvent::Blob { .. }
            | JournalEvent::BlobFailed { .. }
            | JournalEvent::Deleted(_)
            | JournalEvent::DeletionFailed(_)
            | JournalEvent::Note { .. }
            | JournalEvent::Unknown => {}
        }
    }

    /// Bytes that are still to be moved.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_planned.saturating_sub(self.bytes_moved)
    }

    /// Bytes per second between the first and the last progress event.
    pub fn rate(&self) -> Option<u64> {
        let ((from, start), (to, end)) = (self.first?, self.last?);
        let seconds = u64::try_from(to.as_second().checked_sub(from.as_second())?).ok()?;
        end.checked_sub(start)?.checked_div(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::AuditedImage;

    fn line(second: i64, event: JournalEvent) -> JournalLine {
        JournalLine { time: Timestamp::from_second(second).unwrap(), event }
    }

    fn image(outcome: AuditedOutcome) -> JournalEvent {
        let source = "q.io/a:1".to_owned();
        let (destination, digest, error) = (None, None, None);
        JournalEvent::Image(AuditedImage { source, destination, digest, bytes: 1, outcome, error })
    }

    #[test]
    fn events_add_up_to_counts_bytes_and_a_rate() {
        let events = [
            line(0, JournalEvent::Stage { name: "copying".into() }),
            line(0, JournalEvent::Planned { images: 3, present: 1, blobs: 9, bytes: 1000 }),
            line(0, image(AuditedOutcome::Present)),
            line(1, JournalEvent::Progress { bytes: 100 }),
            line(2, image(AuditedOutcome::Copied)),
            line(3, image(AuditedOutcome::Failed)),
            line(5, JournalEvent::Progress { bytes: 500 }),
            line(6, JournalEvent::Paused),
        ];
        let mut progress = RunProgress::default();
        events.iter().for_each(|event| progress.apply(event));
        assert_eq!((progress.copied, progress.present, progress.failed), (1, 1, 1));
        assert_eq!((progress.bytes_left(), progress.rate()), (500, Some(100)));
        assert!(progress.is_paused && progress.status.is_none());
        let text = "transfers are paused by the timetable until Tue 00:00".to_owned();
        progress.apply(&line(7, JournalEvent::Pace { is_paused: true, text }));
        assert!(progress.is_paused_by_timetable && progress.pace.is_some());
        // A run that moved nothing, or all at once, has no rate.
        assert_eq!(RunProgress::default().rate(), None);
    }
}
