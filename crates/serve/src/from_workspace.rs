//! A workspace's images on a shelf, and the shelf kept up with the workspace.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mirror_plan::{Destination, ImageRecord, NameError, Wanted};
use oci::Digest;
use workspace::{BlobStore, DiskError, RunRecord, Workspace};

use crate::cause::with_causes;
use crate::current::CurrentShelf;
use crate::shelf::{Note, Shelf, Shelved, Store};

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
pub enum OfferError {
    #[error("there is no directory {}: name the one that was mirrored to", .0.display())]
    Missing(PathBuf),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// A workspace that is offered as a registry.
#[derive(Debug, Clone)]
pub struct Offer {
    workspace: Workspace,
}

/// The runs a workspace had seen when it was read. Another value means that
/// its images may be others now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen(Vec<RunRecord>);

/// A workspace as it was at one moment.
#[derive(Debug)]
pub struct Stocked {
    pub shelf: Shelf,
    /// What is not served, or not as expected; for the operator's eyes.
    pub notes: Vec<Note>,
    pub seen: Seen,
}

impl Offer {
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    /// Reads all records. Needs no lock: a record appears when its image is whole.
    /// One that cannot be read or named is noted and does not hide the others.
    pub fn stock(&self) -> Result<Stocked, OfferError> {
        if !self.workspace.root().is_dir() {
            return Err(OfferError::Missing(self.workspace.root().to_owned()));
        }
        // Before the records: what changes while they are read is noticed later.
        let seen = self.seen()?;
        let mut unfit = Vec::new();
        let images = self.workspace.records()?.flat_map(|record| match record {
            Ok(record) => shelved(&record, &mut unfit),
            Err(error) => {
                unfit.push(Note::Unreadable { reason: with_causes(&error) });
                Vec::new()
            }
        });
        let store = Arc::new(self.workspace.blobs().clone());
        let (shelf, mut notes) = Shelf::new(store, images);
        notes.append(&mut unfit);
        Ok(Stocked { shelf, notes, seen })
    }

    /// Exchanges `shelf` whenever a run on the workspace begins, ends or is cut
    /// off, looking `every` so often. Looking reads the short records of runs
    /// only. While a run lasts, its images wait for its end. Never returns;
    /// drop it to stop it.
    pub async fn follow(self, shelf: CurrentShelf, mut seen: Seen, every: Duration) {
        let mut complaint = None;
        loop {
            tokio::time::sleep(every).await;
            let (offer, before) = (self.clone(), seen.clone());
            let look = tokio::task::spawn_blocking(move || offer.stock_if_changed(&before));
            let said = match look.await {
                Ok(Ok(None)) => None,
                Ok(Ok(Some(stocked))) => {
                    let count = stocked.shelf.repositories().count();
                    tracing::info!("the workspace changed; serving {count} repositories now");
                    stocked.warn();
                    seen = stocked.seen;
                    shelf.replace(stocked.shelf);
                    None
                }
                Ok(Err(error)) => Some(with_causes(&error)),
                Err(failed) => Some(failed.to_string()),
            };
            // Once per reason, not once per look.
            if let Some(said) = said.as_ref().filter(|_| said != complaint) {
                tracing::warn!("serving the workspace as it was before: {said}");
            }
            complaint = said;
        }
    }

    fn stock_if_changed(&self, before: &Seen) -> Result<Option<Stocked>, OfferError> {
        if self.seen()? == *before { Ok(None) } else { self.stock().map(Some) }
    }

    fn seen(&self) -> Result<Seen, DiskError> {
        self.workspace.runs().map(Seen)
    }
}

fn shelved(record: &ImageRecord, unfit: &mut Vec<Note>) -> Vec<Shelved> {
    match names(record) {
        Ok(names) => {
            names.into_iter().map(|name| Shelved { name, record: record.clone() }).collect()
        }
        Err(error) => {
            unfit.push(Note::NoName { reason: with_causes(&error) });
            Vec::new()
        }
    }
}

impl Stocked {
    /// Logs the notes as warnings.
    pub fn warn(&self) {
        for note in &self.notes {
            tracing::warn!("{note}");
        }
    }
}
