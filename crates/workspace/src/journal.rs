//! The journal of a run: events in the order in which they happen, one JSON line each.
//!
//! Progress displays, `status` and the console read it, while the run lasts and afterwards. The
//! audit log is derived from it (`audit`), event by event, so the log of a killed run shows what was
//! done.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use mirror_plan::Mode;
use oci::Digest;
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::audit::{AuditLog, AuditedDeletion, AuditedImage};
use crate::disk_error::{At, DiskError};
use crate::runs::{RecordedFile, RunStatus};

/// A line that is longer than this was not written by this program.
const MAX_LINE: u64 = 1 << 20;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "event")]
pub enum JournalEvent {
    Started {
        run: u64,
        mode: Mode,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        pid: u32,
        /// Journals of earlier versions do not have it.
        #[serde(default)]
        origin: RunOrigin,
    },
    /// A stage of the run began.
    Stage {
        name: String,
    },
    /// How much there is to do.
    Planned {
        images: usize,
        present: usize,
        blobs: u64,
        bytes: u64,
    },
    /// Bytes that were moved since the run began.
    Progress {
        bytes: u64,
    },
    /// A blob is being moved, for the first time or again.
    Attempt {
        digest: Digest,
        size: u64,
    },
    /// A blob was moved.
    Blob {
        digest: Digest,
    },
    /// An attempt to move a blob failed; another may follow.
    BlobFailed {
        digest: Digest,
        error: String,
    },
    Image(AuditedImage),
    /// A manifest or a tag was deleted from a target.
    Deleted(AuditedDeletion),
    /// A manifest or a tag could not be deleted; the response has the reason.
    DeletionFailed(AuditedDeletion),
    /// What was decided: about a policy, a signature, a base image.
    Note {
        text: String,
    },
    Warning {
        message: String,
    },
    Paused,
    Resumed,
    /// What a timetable allows from now on.
    Pace {
        is_paused: bool,
        text: String,
    },
    Ended {
        run: u64,
        status: RunStatus,
        failed: usize,
    },
    /// Written by a newer version.
    #[serde(other)]
    Unknown,
}

/// What a run was started by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunOrigin {
    /// The id of the workspace.
    pub workspace: String,
    pub program: String,
    /// Without credentials.
    pub arguments: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<RecordedFile>,
}

/// An event and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalLine {
    pub time: Timestamp,
    #[serde(flatten)]
    pub event: JournalEvent,
}

/// A journal that is being written, and the audit log that is derived from it.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    files: Mutex<(File, AuditLog)>,
}

impl Journal {
    pub(crate) fn create(path: &Path, audit: AuditLog) -> Result<Self, DiskError> {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let files = Mutex::new((file.at("creating", path)?, audit));
        Ok(Self { path: path.to_owned(), files })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an event. It is with the system when this returns, so a journal ends with a whole
    /// line however the run ended.
    pub fn append(&self, event: JournalEvent) -> Result<(), DiskError> {
        let line = JournalLine { time: Timestamp::now(), event };
        let mut text =
            serde_json::to_vec(&line).map_err(io::Error::other).at("writing", &self.path)?;
        text.push(b'\n');
        // A thread that panicked while writing leaves at worst a broken line.
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, audit) = &mut *files;
        // Evidence is written even if the journal cannot be.
        let written = file.write_all(&text).at("writing", &self.path);
        audit.append(&line)?;
        written
    }
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("{}:{line}: expected a JSON object with an event", path.display())]
    Line { path: PathBuf, line: usize, source: serde_json::Error },
}

/// Reads a journal, and what is appended to it later.
#[derive(Debug)]
pub struct JournalReader {
    path: PathBuf,
    offset: u64,
    lines: usize,
}

impl JournalReader {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), offset: 0, lines: 0 }
    }

    /// The events since the last call. A last line without its end is left for the next call: it
    /// is being written, or the machine stopped while it was.
    pub fn read(&mut self) -> Result<Vec<JournalLine>, JournalError> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).at("reading", &self.path)?,
        };
        file.seek(SeekFrom::Start(self.offset)).at("reading", &self.path)?;
        let mut reader = BufReader::new(file);
        let mut events = Vec::new();
        let mut text = Vec::new();
        loop {
            text.clear();
            let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut text);
            let read = read.at("reading", &self.path)?;
            if !text.ends_with(b"\n") && (read as u64) < MAX_LINE {
                return Ok(events);
            }
            self.lines += 1;
            self.offset += read as u64;
            let event = serde_json::from_slice(&text).map_err(|source| JournalError::Line {
                path: self.path.clone(),
                line: self.lines,
                source,
            })?;
            events.push(event);
        }
    }
}

impl Workspace {
    /// Where the journal of a run is.
    pub fn journal_path(&self, run: u64) -> PathBuf {
        self.runs_dir().join(format!("{run:06}.journal.jsonl"))
    }

    /// Removes the journals of all but the newest runs: they are for watching, the audit log is
    /// the evidence.
    pub(crate) fn remove_old_journals(&self, newest: u64) -> Result<(), DiskError> {
        const KEPT: u64 = 20;
        let Some(old) = newest.checked_sub(KEPT) else { return Ok(()) };
        let path = self.journal_path(old);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).at("removing", &path)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_each_event_once_and_waits_for_the_end_of_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut reader = JournalReader::new(&path);
        assert_eq!(reader.read().unwrap(), []);
        let audit = AuditLog::create(&dir.path().join("audit.jsonl")).unwrap();
        let journal = Journal::create(&path, audit).unwrap();
        journal.append(JournalEvent::Stage { name: "copying".into() }).unwrap();
        journal.append(JournalEvent::Progress { bytes: 7 }).unwrap();
        let events: Vec<JournalEvent> =
            reader.read().unwrap().into_iter().map(|line| line.event).collect();
        let stage = JournalEvent::Stage { name: "copying".into() };
        assert_eq!(events, [stage, JournalEvent::Progress { bytes: 7 }]);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(br#"{"time":"2026-01-02T03:04:05Z","event":"pau"#).unwrap();
        assert_eq!(reader.read().unwrap(), []);
        file.write_all(b"sed\"}\n{\"time\":\"2026-01-02T03:04:05Z\",\"event\":\"later\"}\n")
            .unwrap();
        let events: Vec<JournalEvent> =
            reader.read().unwrap().into_iter().map(|line| line.event).collect();
        assert_eq!(events, [JournalEvent::Paused, JournalEvent::Unknown]);
    }

    #[test]
    fn a_line_that_is_not_an_event_is_an_error_with_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        fs::write(&path, "{\"time\":\"2026-01-02T03:04:05Z\",\"event\":\"paused\"}\n\n").unwrap();
        let error = JournalReader::new(&path).read().unwrap_err().to_string();
        assert!(error.contains("journal.jsonl:2: expected a JSON object"), "{error}");
    }
}
