//! A note of the change that is being made, for the handler that comes after a sudden end.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use node_network::Checkpoint;
use serde::{Deserialize, Serialize};

const NAME: &str = "in-flight.json";

/// Where the note is kept: beside the node's lock, so on the node's own disk.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    path: PathBuf,
    boot: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// A checkpoint does not outlive a boot, and its name comes again.
    boot: String,
    checkpoint: Checkpoint,
}

impl InFlight {
    pub(crate) fn new(folder: &Path, boot: String) -> Self {
        Self { path: folder.join(NAME), boot }
    }

    /// The checkpoint that a handler left behind in this boot.
    pub(crate) fn read(&self) -> Result<Option<Checkpoint>> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("reading {}", self.path.display()));
            }
        };
        // Half a note was written when the power failed; the checkpoint is gone as well.
        let note: Option<Note> = serde_json::from_slice(&bytes).ok();
        Ok(note.filter(|note| note.boot == self.boot).map(|note| note.checkpoint))
    }

    /// Without the note the next handler would wait until the checkpoint expires, so a failure is
    /// said and not fatal.
    pub(crate) fn write(&self, checkpoint: &Checkpoint) {
        let note = Note { boot: self.boot.clone(), checkpoint: checkpoint.clone() };
        if let Err(error) = self.try_write(&note) {
            tracing::warn!("noting the change under way: {error:#}");
        }
    }

    fn try_write(&self, note: &Note) -> Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let writing = || format!("writing {}", self.path.display());
        let mut file = tempfile::NamedTempFile::new_in(folder).with_context(writing)?;
        file.write_all(&serde_json::to_vec(note).with_context(writing)?).with_context(writing)?;
        file.persist(&self.path).map_err(|error| error.error).with_context(writing)?;
        Ok(())
    }

    pub(crate) fn clear(&self) {
        match std::fs::remove_file(&self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!("removing {}: {error}", self.path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        serde_json::from_str(r#""/org/freedesktop/NetworkManager/Checkpoint/7""#).unwrap()
    }

    #[test]
    fn a_note_is_found_in_the_same_boot_only() {
        let folder = tempfile::tempdir().unwrap();
        let now = InFlight::new(folder.path(), "boot-1".into());
        assert_eq!(now.read().unwrap(), None);
        now.write(&checkpoint());
        assert_eq!(now.read().unwrap(), Some(checkpoint()));
        let later = InFlight::new(folder.path(), "boot-2".into());
        assert_eq!(later.read().unwrap(), None);
        now.clear();
        assert_eq!(now.read().unwrap(), None);
    }

    #[test]
    fn half_a_note_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let note = InFlight::new(folder.path(), "boot-1".into());
        std::fs::write(folder.path().join(NAME), "{\"boot\":\"bo").unwrap();
        assert_eq!(note.read().unwrap(), None);
    }
}
