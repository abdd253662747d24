//! How far a campaign is, on disk, so that it can be continued.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What a campaign has done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Progress {
    pub(crate) seed: u64,
    /// Changes, and how they ended.
    pub(crate) rounds: u64,
    pub(crate) made: u64,
    pub(crate) rolled_back: u64,
    /// Good changes that were rolled back, as they were not confirmed in time.
    pub(crate) late: u64,
    /// Kills of each kind.
    pub(crate) handler: u64,
    pub(crate) network_manager: u64,
    pub(crate) node: u64,
    /// The longest time that a node did not reach its API server.
    pub(crate) longest_outage: Duration,
    /// The longest part of such a time during which nothing was killed.
    #[serde(default)]
    pub(crate) longest_undisturbed_outage: Duration,
}

impl Progress {
    pub(crate) fn kills(&self) -> u64 {
        self.handler + self.network_manager + self.node
    }
}

/// Where progress is stored. Without a file, a campaign cannot be continued.
#[derive(Debug)]
pub(crate) struct ProgressFile(Option<PathBuf>);

impl ProgressFile {
    pub(crate) fn new(path: Option<&Path>) -> Self {
        Self(path.map(Path::to_owned))
    }

    /// What an earlier run did, if it did not finish.
    pub(crate) fn read(&self) -> Result<Option<Progress>> {
        let Some(path) = &self.0 else { return Ok(None) };
        let doing = || format!("reading {}; delete it to start again", path.display());
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).with_context(doing),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(doing),
        }
    }

    pub(crate) fn write(&self, progress: &Progress) -> Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        let doing = || format!("writing {}", path.display());
        let draft = path.with_extension("new");
        fs::write(&draft, serde_json::to_vec(progress).with_context(doing)?)
            .and_then(|()| fs::rename(&draft, path))
            .with_context(doing)
    }

    /// The campaign is finished.
    pub(crate) fn remove(&self) {
        if let Some(path) = &self.0 {
            // A file that remains is continued with nothing left to do.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_continues_where_it_was_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let file = ProgressFile::new(Some(&folder.path().join("node.json")));
        assert_eq!(file.read().unwrap(), None);
        let progress = Progress { seed: 7, rounds: 3, handler: 2, node: 1, ..Progress::default() };
        file.write(&progress).unwrap();
        assert_eq!(file.read().unwrap(), Some(progress.clone()));
        assert_eq!(progress.kills(), 3);
        file.remove();
        assert_eq!(file.read().unwrap(), None);
    }
}
