//! The audit log of a run: one JSON line for each event of its journal that is evidence.
//!
//! It is derived from the journal. A run appends to both; the log of a run that was killed between
//! the two is completed from the journal by the next run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mirror_plan::Mode;
use oci::Digest;
use serde::{Deserialize, Serialize};

use crate::atomic_file::{self, Durability};
use crate::disk_error::{At, DiskError};
use crate::journal::{JournalEvent, JournalLine, JournalReader, RunOrigin};
use crate::runs::{RecordedFile, RunStatus};

/// One line of the log, without its time.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "event")]
enum AuditEvent<'a> {
    Started {
        run: u64,
        workspace: &'a str,
        mode: Mode,
        program: &'a str,
        arguments: &'a [String],
        configuration: Option<&'a RecordedFile>,
    },
    Image(&'a AuditedImage),
    /// A manifest or a tag was deleted from a target.
    Deleted(&'a AuditedDeletion),
    /// A manifest or a tag could not be deleted; the response has the reason.
    DeletionFailed(&'a AuditedDeletion),
    /// What was decided: about a policy, a signature, a base image.
    Note {
        text: &'a str,
    },
    Ended {
        run: u64,
        status: RunStatus,
        failed: usize,
    },
}

impl<'a> AuditEvent<'a> {
    /// What the log has of an event of the journal.
    fn of(event: &'a JournalEvent) -> Option<Self> {
        Some(match event {
            JournalEvent::Started { run, mode, origin, .. } => {
                let RunOrigin { workspace, program, arguments, configuration } = origin;
                let configuration = configuration.as_ref();
                Self::Started {
                    run: *run,
                    workspace,
                    mode: *mode,
                    program,
                    arguments,
                    configuration,
                }
            }
            JournalEvent::Image(image) => Self::Image(image),
            JournalEvent::Deleted(deletion) => Self::Deleted(deletion),
            JournalEvent::DeletionFailed(deletion) => Self::DeletionFailed(deletion),
            JournalEvent::Note { text } => Self::Note { text },
            &JournalEvent::Ended { run, status, failed } => Self::Ended { run, status, failed },
            JournalEvent::Stage { .. }
            | JournalEvent::Planned { .. }
            | JournalEvent::Progress { .. }
            | JournalEvent::Attempt { .. }
            | JournalEvent::Blob { .. }
            | JournalEvent::BlobFailed { .. }
            | JournalEvent::Warning { .. }
            | JournalEvent::Paused
            | JournalEvent::Resumed
            | JournalEvent::Pace { .. }
            | JournalEvent::Unknown => return None,
        })
    }
}

/// What became of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditedImage {
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    pub bytes: u64,
    pub outcome: AuditedOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A deletion at a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditedDeletion {
    pub repository: String,
    pub digest: Digest,
    /// The tags that were deleted with the manifest, or the one that was deleted alone.
    pub tags: Vec<String>,
    pub by_tag: bool,
    pub reason: String,
    /// What the registry responded.
    pub response: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AuditedOutcome {
    Copied,
    /// It was there already.
    Present,
    /// The configuration blocks it.
    Blocked,
    Failed,
    /// The run ended before its turn.
    NotReached,
}

/// An open audit log. Every line is handed to the system before the call
/// returns, so that a killed run's log ends with a whole line.
#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    file: File,
}

#[derive(Serialize)]
struct Line<'a> {
    time: Timestamp,
    #[serde(flatten)]
    event: AuditEvent<'a>,
}

/// The line of the log for a line of the journal, with its end; none if the log does not have it.
fn line(journaled: &JournalLine) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let Some(event) = AuditEvent::of(&journaled.event) else { return Ok(None) };
    let mut text = serde_json::to_vec(&Line { time: journaled.time, event })?;
    text.push(b'\n');
    Ok(Some(text))
}

/// Adds to the log at `path` what the journal has and it has not: its run was killed, or the disk was
/// full. A log that has as much as the journal is not changed; neither is one whose journal is
/// damaged.
pub(crate) fn complete(path: &Path, journal: &Path) -> Result<(), DiskError> {
    let Ok(events) = JournalReader::new(journal).read() else { return Ok(()) };
    let lines: Result<Vec<_>, _> =
        events.iter().filter_map(|event| line(event).transpose()).collect();
    let derived = lines.map_err(io::Error::other).at("writing", path)?.concat();
    let known = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.at("reading", path)?,
    };
    match derived.len() > known.len() && derived.starts_with(&known) {
        true => atomic_file::write(path, &derived, Durability::Later),
        false => Ok(()),
    }
}

impl AuditLog {
    pub(crate) fn create(path: &Path) -> Result<Self, DiskError> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).at("creating", directory)?;
        }
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        Ok(Self { path: path.to_owned(), file: file.at("creating", path)? })
    }

    /// Appends what the log has of a line of the journal.
    pub(crate) fn append(&mut self, journaled: &JournalLine) -> Result<(), DiskError> {
        let text = line(journaled).map_err(io::Error::other).at("writing", &self.path)?;
        let Some(text) = text else { return Ok(()) };
        self.file.write_all(&text).at("writing", &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64, event: JournalEvent) -> JournalLine {
        JournalLine { time: Timestamp::from_second(second).unwrap(), event }
    }

    #[test]
    fn every_event_is_one_line_with_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/audit.jsonl");
        let mut log = AuditLog::create(&path).unwrap();
        let image = AuditedImage {
            source: "q.io/a:1".into(),
            destination: Some("reg/a:1".into()),
            digest: Some(Digest::of(b"x")),
            bytes: 7,
            outcome: AuditedOutcome::Failed,
            error: Some("two\nlines".into()),
        };
        log.append(&at(1, JournalEvent::Image(image))).unwrap();
        log.append(&at(2, JournalEvent::Stage { name: "copying".into() })).unwrap();
        log.append(&at(3, JournalEvent::Note { text: "done".into() })).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["event"], "image");
        assert_eq!(lines[0]["outcome"], "failed");
        assert_eq!(lines[0]["bytes"], 7);
        assert_eq!(lines[1]["event"], "note");
        assert_eq!(lines[1]["time"], "1970-01-01T00:00:03Z");
    }

    #[test]
    fn a_log_is_completed_from_the_journal_and_never_shortened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, journal) = (dir.path().join("audit.jsonl"), dir.path().join("journal.jsonl"));
        let mut log = AuditLog::create(&path).unwrap();
        let notes = ["one", "two"].map(|text| JournalEvent::Note { text: text.into() });
        let lines = [at(1, notes[0].clone()), at(2, JournalEvent::Paused), at(3, notes[1].clone())];
        let text = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n");
        fs::write(&journal, text.collect::<String>()).unwrap();
        log.append(&lines[0]).unwrap();
        complete(&path, &journal).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        let expected = [
            r#"{"time":"1970-01-01T00:00:01Z","event":"note","text":"one"}"#,
            r#"{"time":"1970-01-01T00:00:03Z","event":"note","text":"two"}"#,
        ];
        assert_eq!(whole.lines().collect::<Vec<_>>(), expected);
        // A journal that lost its end, or is damaged, takes nothing from the log.
        for left in ["", "damaged\n"] {
            fs::write(&journal, left).unwrap();
            complete(&path, &journal).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        }
    }

    #[test]
    fn an_existing_log_is_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        fs::write(&path, b"evidence").unwrap();
        assert!(AuditLog::create(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"evidence");
    }
}
