//! What a deletion did, for users, programs and the exit code.

use std::collections::BTreeMap;
use std::path::PathBuf;

use delete_plan::RepositoryBytes;
use mirror_plan::{Exit, Kind, Target};
use oci::{Digest, ImageRef, Repository};
use serde::Serialize;

use super::garbage_collection::GarbageCollection;
use crate::report::{Ending, Failure};

/// What became of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub enum DeletionOutcome {
    /// Its manifest is deleted, with all its tags.
    Deleted,
    /// Its tag is deleted; others still name the manifest.
    Untagged {
        kept_by: Vec<String>,
    },
    AlreadyGone,
    Kept {
        because: String,
    },
    Failed {
        error: String,
    },
    NotReached,
    /// A dry run would delete it.
    WouldDelete,
    WouldUntag {
        kept_by: Vec<String>,
    },
}

/// One image of a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletedImage {
    pub image: ImageRef,
    pub kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    #[serde(flatten)]
    pub fate: DeletionOutcome,
}

/// The report of a deletion.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteReport {
    pub version: u32,
    pub mode: &'static str,
    pub target: Target,
    pub ending: Ending,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// In the order of their names.
    pub images: Vec<DeletedImage>,
    /// Manifests that were deleted, those below indexes and attachments included.
    pub manifests: usize,
    pub repositories: BTreeMap<Repository, RepositoryBytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub garbage_collection: Option<GarbageCollection>,
    /// Catalogs that were replaced before anything was deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced_catalogs: Vec<String>,
    /// Bytes that the workspace lost, where that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freed: Option<u64>,
    pub files: Vec<PathBuf>,
    pub warnings: Vec<String>,
    pub errors: Vec<Failure>,
    /// Requests that the target was sent.
    pub requests: u64,
}

impl DeleteReport {
    pub(crate) fn new(target: &Target) -> Self {
        Self {
            version: 1,
            mode: "delete",
            target: target.clone(),
            ending: Ending::Complete,
            run: None,
            images: Vec::new(),
            manifests: 0,
            repositories: BTreeMap::new(),
            garbage_collection: None,
            replaced_catalogs: Vec::new(),
            freed: None,
            files: Vec::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
            requests: 0,
        }
    }

    /// A deletion that did not start.
    pub(crate) fn refused(target: &Target, failure: Failure) -> Self {
        Self { ending: Ending::Failed, errors: vec![failure], ..Self::new(target) }
    }

    /// Decides how the deletion ended.
    pub(crate) fn settle(&mut self, dry_run: bool, interrupted: bool) {
        let failed =
            self.images.iter().any(|image| matches!(image.fate, DeletionOutcome::Failed { .. }));
        let changed = self.images.iter().any(|image| {
            matches!(
                image.fate,
                DeletionOutcome::Deleted
                    | DeletionOutcome::Untagged { .. }
                    | DeletionOutcome::AlreadyGone
            )
        });
        self.ending = match () {
            () if interrupted => Ending::Interrupted,
            () if (failed || !self.errors.is_empty()) && changed => Ending::Partial,
            () if failed || !self.errors.is_empty() => Ending::Failed,
            () if dry_run => Ending::Planned,
            () => Ending::Complete,
        };
    }

    /// The bits of all kinds that failed; 130 when interrupted.
    pub fn exit_code(&self) -> u8 {
        if self.ending == Ending::Interrupted {
            return 130;
        }
        let failed = self.images.iter().filter_map(|image| match image.fate {
            DeletionOutcome::Failed { .. } => Some(image.kind.exit().0),
            _ => None,
        });
        failed.chain(self.errors.iter().map(|error| error.exit.0)).fold(0, |all, bit| all | bit)
    }

    pub(crate) fn fail(&mut self, message: impl Into<String>) {
        self.errors.push(Failure::new(Exit::GENERIC, message));
    }
}
