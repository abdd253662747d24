//! The audit log of a run: one JSON line per thing that happened.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use mirror_plan::Mode;
use oci::Digest;
use serde::{Deserialize, Serialize};

use crate::disk_error::{At, DiskError};
use crate::runs::{RecordedFile, RunStatus};

/// One line of the log, without its time.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "event")]
pub enum AuditEvent {
    Started {
        run: u64,
        workspace: String,
        mode: Mode,
        program: String,
        arguments: Vec<String>,
        configuration: Option<RecordedFile>,
    },
    Image(AuditedImage),
    /// A manifest or a tag was deleted from a target.
    Deleted(AuditedDeletion),
    /// A manifest or a tag could not be deleted; the response tells why.
    DeletionFailed(AuditedDeletion),
    /// Anything else worth keeping: a warning, a recovery, an archive made.
    Note {
        text: String,
    },
    Ended {
        run: u64,
        status: RunStatus,
        failed: usize,
    },
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
#[derive(Debug, Clone, Serialize)]
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
pub struct AuditLog {
    path: PathBuf,
    file: Mutex<File>,
}

#[derive(Serialize)]
struct Line<'a> {
    time: Timestamp,
    #[serde(flatten)]
    event: &'a AuditEvent,
}

impl AuditLog {
    pub(crate) fn create(path: &Path) -> Result<Self, DiskError> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).at("creating", directory)?;
        }
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let file = Mutex::new(file.at("creating", path)?);
        Ok(Self { path: path.to_owned(), file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&self, event: &AuditEvent) -> Result<(), DiskError> {
        let line = Line { time: Timestamp::now(), event };
        let mut text =
            serde_json::to_vec(&line).map_err(io::Error::other).at("writing", &self.path)?;
        text.push(b'\n');
        // A thread that panicked while writing leaves at worst a broken line.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&text).at("writing", &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_one_line_with_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/audit.jsonl");
        let log = AuditLog::create(&path).unwrap();
        let image = AuditedImage {
            source: "q.io/a:1".into(),
            destination: Some("reg/a:1".into()),
            digest: Some(Digest::of(b"x")),
            bytes: 7,
            outcome: AuditedOutcome::Failed,
            error: Some("two\nlines".into()),
        };
        log.write(&AuditEvent::Image(image)).unwrap();
        log.write(&AuditEvent::Note { text: "done".into() }).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["event"], "image");
        assert_eq!(lines[0]["outcome"], "failed");
        assert_eq!(lines[0]["bytes"], 7);
        assert_eq!(lines[1]["event"], "note");
        assert!(lines[1]["time"].as_str().unwrap().parse::<Timestamp>().is_ok());
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
