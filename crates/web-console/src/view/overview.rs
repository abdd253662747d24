//! The first page: what the directory is, what is in progress, what is missing.

use workspace::{FailedImage, RunRecord, free_space};

use super::live::{Follower, Now};
use super::workspace_directory::{WorkspaceDirectory, is_archive};
use super::{Fault, runs};

/// Runs that the first page lists.
const RUNS: usize = 5;
/// Missing images that it lists.
const MISSING: usize = 20;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Overview {
    pub(crate) now: Now,
    /// The newest ones, newest first.
    pub(crate) runs: Vec<RunRecord>,
    pub(crate) all_runs: usize,
    /// Chunks of archives in the directory.
    pub(crate) chunks: usize,
    pub(crate) resources: usize,
    /// Bytes that the filesystem has left; `None` if it could not be determined.
    pub(crate) free: Option<u64>,
    /// What the newest run could not mirror, and how many more.
    pub(crate) missing: Vec<FailedImage>,
    pub(crate) more_missing: usize,
    pub(crate) is_workspace: bool,
}

pub(crate) fn read(place: &WorkspaceDirectory) -> Result<Overview, Fault> {
    let workspace = &place.workspace;
    let now = Follower::new(workspace.clone()).read()?;
    let mut all = runs::list(workspace)?;
    let all_runs = all.len();
    let mut missing = all.first().map(|run| run.failures.clone()).unwrap_or_default();
    let more_missing = missing.len().saturating_sub(MISSING);
    missing.truncate(MISSING);
    all.truncate(RUNS);
    let entries = std::fs::read_dir(place.directory());
    let entries = entries.map_err(|error| Fault::failed("reading the directory", &error))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(Overview {
        now,
        runs: all,
        all_runs,
        chunks: names.filter(|name| is_archive(name)).count(),
        resources: super::resources::list(workspace)?.files.len(),
        free: free_space(place.directory()).ok(),
        missing,
        more_missing,
        is_workspace: workspace.exists(),
    })
}
