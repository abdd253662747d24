//! The run in progress, read step by step while it writes its journal.

use std::collections::{BTreeMap, VecDeque};

use oci::Digest;
use workspace::{
    AuditedOutcome, Holder, JournalEvent, JournalLine, JournalReader, RunProgress, RunRecord,
    RunStatus, Workspace,
};

use super::{Fault, runs};

/// Errors that are shown; older ones are in the journal.
const MAX_ERRORS: usize = 10;
/// Blobs in progress that are shown.
pub(crate) const MAX_BLOBS: usize = 8;

/// What a workspace is doing now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Now {
    /// The process that uses the workspace.
    pub(crate) holder: Option<Holder>,
    /// The newest run.
    pub(crate) run: Option<RunNow>,
}

/// The newest run and its progress.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunNow {
    pub(crate) record: RunRecord,
    pub(crate) progress: RunProgress,
    /// Blobs in progress and their sizes, largest first.
    pub(crate) blobs: Vec<(Digest, u64)>,
    /// What failed last, newest first.
    pub(crate) errors: Vec<String>,
}

impl Now {
    pub(crate) fn is_running(&self) -> bool {
        self.run.as_ref().is_some_and(RunNow::is_running)
    }
}

impl RunNow {
    pub(crate) fn is_running(&self) -> bool {
        self.record.status == RunStatus::Running
    }
}

/// Follows the newest run. Each read continues where the last one ended.
#[derive(Debug)]
pub(crate) struct Follower {
    workspace: Workspace,
    followed: Option<Followed>,
}

#[derive(Debug)]
struct Followed {
    journal: JournalReader,
    summary: Summary,
}

impl Follower {
    pub(crate) fn new(workspace: Workspace) -> Self {
        Self { workspace, followed: None }
    }

    pub(crate) fn read(&mut self) -> Result<Now, Fault> {
        let workspace = &self.workspace;
        // The lock first: a run that ends in between is then shown as running for one read
        // longer, and never as interrupted.
        let holder =
            workspace.holder().map_err(|error| Fault::failed("reading the lock", &error))?;
        let Some(record) = runs::list(workspace)?.into_iter().next() else {
            return Ok(Now { holder, run: None });
        };
        let number = record.number;
        let followed = match self.followed.take() {
            Some(followed) if followed.summary.progress.run == number => followed,
            _ => Followed {
                journal: JournalReader::new(&workspace.journal_path(number)),
                summary: Summary::new(number),
            },
        };
        let followed = self.followed.insert(followed);
        let lines = followed.journal.read();
        let lines = lines.map_err(|error| Fault::failed("reading the journal", &error))?;
        lines.iter().for_each(|line| followed.summary.apply(line));
        Ok(Now { holder, run: Some(followed.summary.progress_of(record)) })
    }
}

/// What the events so far amount to. Pure.
#[derive(Debug)]
struct Summary {
    progress: RunProgress,
    blobs: BTreeMap<Digest, u64>,
    errors: VecDeque<String>,
}

impl Summary {
    fn new(run: u64) -> Self {
        let progress = RunProgress { run, ..RunProgress::default() };
        Self { progress, blobs: BTreeMap::new(), errors: VecDeque::new() }
    }

    fn apply(&mut self, line: &JournalLine) {
        self.progress.apply(line);
        match &line.event {
            JournalEvent::Attempt { digest, size } => {
                self.blobs.insert(*digest, *size);
            }
            JournalEvent::Blob { digest } => {
                self.blobs.remove(digest);
            }
            JournalEvent::BlobFailed { digest, error } => {
                self.blobs.remove(digest);
                self.fail(error.clone());
            }
            JournalEvent::Image(image) if image.outcome == AuditedOutcome::Failed => {
                let error = image.error.as_deref().unwrap_or("failed");
                self.fail(format!("{}: {error}", image.source));
            }
            JournalEvent::DeletionFailed(deletion) => {
                let what =
                    deletion.tags.first().cloned().unwrap_or_else(|| deletion.digest.to_string());
                self.fail(format!("{}:{what}: {}", deletion.repository, deletion.response));
            }
            JournalEvent::Ended { .. } => self.blobs.clear(),
            _ => {}
        }
    }

    fn fail(&mut self, error: String) {
        if self.errors.front() == Some(&error) {
            return;
        }
        self.errors.push_front(error);
        self.errors.truncate(MAX_ERRORS);
    }

    fn progress_of(&self, record: RunRecord) -> RunNow {
        let mut blobs: Vec<(Digest, u64)> = match record.status {
            RunStatus::Running => {
                self.blobs.iter().map(|(digest, size)| (*digest, *size)).collect()
            }
            _ => Vec::new(),
        };
        blobs.sort_by_key(|(digest, size)| (std::cmp::Reverse(*size), *digest));
        let errors = self.errors.iter().cloned().collect();
        RunNow { record, progress: self.progress.clone(), blobs, errors }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use mirror_plan::Mode;
    use workspace::RunStart;

    use super::*;

    #[test]
    fn a_follower_sees_each_event_once_and_moves_on_to_the_next_run() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let mut follower = Follower::new(workspace.clone());
        assert_eq!(follower.read().unwrap(), Now { holder: None, run: None });
        let lock = workspace.lock(&[]).unwrap();
        let start = RunStart {
            mode: Mode::MirrorToDisk,
            started: Timestamp::now(),
            program: "oc-mirror",
            arguments: &[],
            configuration: None,
            target: None,
        };
        let run = workspace.begin_run(&lock, &start).unwrap();
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        for event in [
            JournalEvent::Planned { images: 2, present: 0, blobs: 2, bytes: 300 },
            JournalEvent::Attempt { digest: one, size: 100 },
            JournalEvent::Attempt { digest: two, size: 200 },
        ] {
            run.journal().append(event).unwrap();
        }
        let now = follower.read().unwrap();
        assert!(now.is_running() && now.holder.is_some());
        assert_eq!(now.run.unwrap().blobs, [(two, 200), (one, 100)]);
        for event in [
            JournalEvent::Blob { digest: two },
            JournalEvent::BlobFailed { digest: one, error: "reset".into() },
        ] {
            run.journal().append(event).unwrap();
        }
        let now = follower.read().unwrap().run.unwrap();
        assert!(now.blobs.is_empty());
        assert_eq!((now.errors, now.progress.images), (vec!["reset".to_owned()], 2));
        run.end(RunStatus::Partial, Vec::new()).unwrap();
        assert!(!follower.read().unwrap().is_running());
        let _next = workspace.begin_run(&lock, &start).unwrap();
        let now = follower.read().unwrap().run.unwrap();
        assert_eq!((now.record.number, now.errors.len(), now.progress.images), (2, 0, 0));
    }
}
