//! The record of a change, on disk before the change begins.
//!
//! A checkpoint of NetworkManager ends with NetworkManager and with the boot. The record does not:
//! it contains the state to return to, so that any later run can restore the previous network.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nmstate::NetworkState;
use serde::{Deserialize, Serialize};

use crate::network_manager::Checkpoint;

/// The format this version writes and reads.
const VERSION: u32 = 1;

/// An unfinished change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    version: u32,
    /// The caller's name of the change, for reports about it.
    pub label: String,
    /// The boot in which the change began. Checkpoints are valid in one boot only.
    pub boot: String,
    pub stage: Stage,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub checkpoint: Option<Checkpoint>,
    /// The instance of NetworkManager that has the checkpoint. Another instance may use the same
    /// name for another one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manager: Option<String>,
    /// Present while the previous network is restored by its state.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub restoring: Option<Restoring>,
    /// Whether the change must not survive a reboot.
    pub memory_only: bool,
    /// Whether the trial is on disk already, as NetworkManager cannot try it in memory.
    #[serde(default)]
    pub on_disk: bool,
    /// The desired state.
    pub desired: NetworkState,
    /// The state that undoes it.
    pub revert: NetworkState,
}

/// The checkpoint under which the previous network is being restored. It must not last: when it
/// expires, NetworkManager undoes what was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restoring {
    pub boot: String,
    pub manager: String,
    pub checkpoint: Checkpoint,
}

/// The stage of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The change is on trial. Interrupted, it is rolled back.
    Trial,
    /// The change is good, and its checkpoint is being removed. If interrupted, it is rolled back.
    Committing,
    /// The change was confirmed. Interrupted, it is completed.
    Confirmed,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{doing} {}", .path.display())]
    Disk { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("encoding the record of the change")]
    Encode(#[from] serde_json::Error),
    #[error("{} has version {found}, expected {VERSION}", .path.display())]
    Version { path: PathBuf, found: u32 },
}

/// Where the record of this node is. At most one change is recorded at a time.
#[derive(Debug, Clone)]
pub struct RecordFile {
    path: PathBuf,
    boot: String,
}

impl RecordFile {
    /// `path` must be on a file system that survives a reboot; its folder must exist.
    pub fn new(path: impl Into<PathBuf>, boot: impl Into<String>) -> Self {
        Self { path: path.into(), boot: boot.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identifies this boot.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// Whether the change began in this boot.
    pub fn is_of_this_boot(&self, record: &Record) -> bool {
        record.boot == self.boot
    }

    /// A record of a change that is about to begin.
    pub fn draft(
        &self,
        label: &str,
        desired: &NetworkState,
        revert: NetworkState,
        memory_only: bool,
    ) -> Record {
        Record {
            version: VERSION,
            label: label.to_owned(),
            boot: self.boot.clone(),
            stage: Stage::Trial,
            checkpoint: None,
            manager: None,
            restoring: None,
            memory_only,
            on_disk: false,
            desired: desired.clone(),
            revert,
        }
    }

    /// The unfinished change. A file that cannot be parsed was never synced completely, so the
    /// change it announces did not begin.
    pub fn read(&self) -> Result<Option<Record>, RecordError> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed("reading", source)),
        };
        #[derive(Deserialize)]
        struct Header {
            version: u32,
        }
        match serde_json::from_slice::<Header>(&bytes) {
            Ok(Header { version: VERSION }) => {}
            Ok(Header { version: found }) => {
                return Err(RecordError::Version { path: self.path.clone(), found });
            }
            Err(_) => return Ok(None),
        }
        Ok(serde_json::from_slice(&bytes).ok())
    }

    /// Returns after the record is on the disk and survives a power loss.
    pub fn write(&self, record: &Record) -> Result<(), RecordError> {
        let bytes = serde_json::to_vec(record)?;
        self.replace(&bytes).map_err(|source| self.failed("writing", source))
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        // The document may contain secrets; a temporary file is readable by its owner only.
        let mut draft = tempfile::NamedTempFile::new_in(self.folder())?;
        draft.write_all(bytes)?;
        draft.as_file().sync_all()?;
        draft.persist(&self.path)?;
        File::open(self.folder())?.sync_all()
    }

    /// The change is finished.
    pub fn clear(&self) -> Result<(), RecordError> {
        match std::fs::remove_file(&self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(self.failed("removing", source)),
        }
        let synced = File::open(self.folder()).and_then(|folder| folder.sync_all());
        synced.map_err(|source| self.failed("removing", source))
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> RecordError {
        RecordError::Disk { doing, path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(yaml: &str) -> NetworkState {
        NetworkState::new_from_yaml(yaml).unwrap()
    }

    #[test]
    fn a_record_outlives_the_boot_it_was_written_in() {
        let folder = tempfile::tempdir().unwrap();
        let file = RecordFile::new(folder.path().join("change.json"), "boot-1");
        assert_eq!(file.read().unwrap(), None);
        let desired = state("interfaces: [{name: d0, type: dummy, state: up}]");
        let revert = state("interfaces: [{name: d0, type: dummy, state: absent}]");
        let record = file.draft("a change", &desired, revert, false);
        file.write(&record).unwrap();
        let later = RecordFile::new(file.path(), "boot-2");
        let read = later.read().unwrap().unwrap();
        assert_eq!(read, record);
        assert!(file.is_of_this_boot(&read) && !later.is_of_this_boot(&read));
        later.clear().unwrap();
        later.clear().unwrap();
        assert_eq!(file.read().unwrap(), None);
    }

    #[test]
    fn an_incomplete_record_announces_nothing_and_a_newer_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = RecordFile::new(folder.path().join("change.json"), "boot-1");
        std::fs::write(file.path(), "{\"version\":1,\"lab").unwrap();
        assert_eq!(file.read().unwrap(), None);
        std::fs::write(file.path(), "{\"version\":2}").unwrap();
        assert!(matches!(file.read(), Err(RecordError::Version { found: 2, .. })));
    }
}
