//! Snapshots of a workspace, replaced when a run changes the workspace.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use error_causes::with_causes;
use mirror_plan::{Destination, ImageRecord, NameError, Wanted};
use oci::Digest;
use workspace::{BlobStore, DiskError, RunRecord, Workspace};

use crate::current_snapshot::CurrentSnapshot;
use crate::snapshot::{NamedImage, Snapshot, Store, Warning};

impl Store for BlobStore {
    fn open(&self, digest: &Digest) -> io::Result<File> {
        Self::open(self, digest).map_err(io::Error::other)
    }
}

/// The names that a target without namespace has for an image: those that
/// configurations gave it, or the one its origin suggests.
fn names(record: &ImageRecord) -> Result<Vec<Destination>, NameError> {
    if !record.names.is_empty() {
        return Ok(record.names.iter().cloned().collect());
    }
    let wanted = Wanted {
        kind: record.kind,
        origin: record.origin.clone(),
        target_repository: None,
        target_tag: None,
        platforms: Vec::new(),
    };
    Destination::of(&wanted).map(|name| vec![name])
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("the directory {} does not exist; specify the directory of a mirror-to-disk run", .0.display())]
    Missing(PathBuf),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// A workspace that is served as a registry.
#[derive(Debug, Clone)]
pub struct WorkspaceSource {
    workspace: Workspace,
}

/// The runs of a workspace when it was read. If the value differs, the images may
/// have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision(Vec<RunRecord>);

/// The content of a workspace at one moment.
#[derive(Debug)]
pub struct Loaded {
    pub snapshot: Snapshot,
    /// Images that are not served, or not under their name.
    pub warnings: Vec<Warning>,
    pub revision: Revision,
}

impl WorkspaceSource {
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    /// Reads all records. Needs no lock: a record appears when its image is complete.
    /// One that cannot be read or named becomes a warning; the others are served.
    pub fn load(&self) -> Result<Loaded, LoadError> {
        if !self.workspace.root().is_dir() {
            return Err(LoadError::Missing(self.workspace.root().to_owned()));
        }
        // Before the records: a change while they are read is detected later.
        let revision = self.revision()?;
        let mut skipped = Vec::new();
        let images = self.workspace.records()?.flat_map(|record| match record {
            Ok(record) => named_images(&record, &mut skipped),
            Err(error) => {
                skipped.push(Warning::Unreadable { reason: with_causes(&error) });
                Vec::new()
            }
        });
        let store = Arc::new(self.workspace.blobs().clone());
        let (snapshot, mut warnings) = Snapshot::new(store, images);
        warnings.append(&mut skipped);
        Ok(Loaded { snapshot, warnings, revision })
    }

    /// Replaces `snapshot` whenever a run on the workspace starts, ends or is
    /// interrupted. Polls at `interval`; polling reads the short records of runs
    /// only. Images of a run in progress are served when it ends. Never returns;
    /// drop it to stop it.
    pub async fn follow(
        self,
        snapshot: CurrentSnapshot,
        mut revision: Revision,
        interval: Duration,
    ) {
        let mut last_problem = None;
        loop {
            tokio::time::sleep(interval).await;
            let (source, before) = (self.clone(), revision.clone());
            let poll = tokio::task::spawn_blocking(move || source.load_if_changed(&before));
            let problem = match poll.await {
                Ok(Ok(None)) => None,
                Ok(Ok(Some(loaded))) => {
                    let count = loaded.snapshot.repositories().count();
                    tracing::info!("the workspace changed; serving {count} repositories");
                    loaded.log_warnings();
                    revision = loaded.revision;
                    snapshot.replace(loaded.snapshot);
                    None
                }
                Ok(Err(error)) => Some(with_causes(&error)),
                Err(failed) => Some(failed.to_string()),
            };
            // Once per problem, not once per poll.
            if let Some(text) = problem.as_ref().filter(|_| problem != last_problem) {
                tracing::warn!("serving the previous content of the workspace: {text}");
            }
            last_problem = problem;
        }
    }

    fn load_if_changed(&self, before: &Revision) -> Result<Option<Loaded>, LoadError> {
        if self.revision()? == *before { Ok(None) } else { self.load().map(Some) }
    }

    fn revision(&self) -> Result<Revision, DiskError> {
        self.workspace.runs().map(Revision)
    }
}

fn named_images(record: &ImageRecord, skipped: &mut Vec<Warning>) -> Vec<NamedImage> {
    match names(record) {
        Ok(names) => {
            names.into_iter().map(|name| NamedImage { name, record: record.clone() }).collect()
        }
        Err(error) => {
            skipped.push(Warning::NoName { reason: with_causes(&error) });
            Vec::new()
        }
    }
}

impl Loaded {
    /// Logs the warnings.
    pub fn log_warnings(&self) {
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
    }
}
