//! What a run did, for people, machines and the exit code.

use std::path::PathBuf;

use catalog::BundleName;
use mirror_plan::{Action, Exit, Kind, Origin, Plan, PlannedImage, Wanted};
use oci::Digest;
use serde::Serialize;
use workspace::{FailedImage, RunStatus};

use crate::reason::{Reason, Remedy};
use crate::settings::DryRun;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// Everything the configuration selects has arrived.
    Complete,
    /// Some images failed; the rest has arrived.
    Partial,
    /// Stopped by a signal; a rerun continues.
    Interrupted,
    /// Stopped at the time that was set; a rerun continues.
    Paused,
    /// Nothing was changed: the run could not start, or there was nothing to do it with.
    Failed,
    /// A dry run, or one that others execute.
    Planned,
}

impl Ending {
    /// As run records have it.
    pub(crate) fn recorded(self) -> RunStatus {
        match self {
            Self::Complete => RunStatus::Complete,
            Self::Partial => RunStatus::Partial,
            // A dry run has no record. What others execute is not complete yet.
            Self::Interrupted | Self::Planned => RunStatus::Interrupted,
            Self::Paused => RunStatus::Paused,
            Self::Failed => RunStatus::Failed,
        }
    }
}

/// What became of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub enum Outcome {
    Copied,
    /// It was there already.
    Present,
    Failed {
        #[serde(flatten)]
        error: Reason,
    },
    /// Would be copied (dry run), or was not reached (interrupted).
    Pending,
}

impl Outcome {
    /// The outcomes of a plan that is not executed.
    pub(crate) fn planned(plan: &Plan) -> Vec<Self> {
        let outcomes = plan.images.iter().map(|image| match image.action {
            Action::Copy => Self::Pending,
            Action::Present => Self::Present,
        });
        outcomes.collect()
    }
}

/// One image of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageLine {
    pub kind: Kind,
    pub origin: Origin,
    /// Where it is now: a reference at the target, or its directory in the workspace.
    pub destination: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Bytes of the whole image, shared layers included.
    pub bytes: u64,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Notes about this image (a referrer kept by digest, for example).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The bundles that cannot work without it; set for images that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needed_by: Vec<BundleName>,
}

/// A bundle of an operator that cannot work, as an image of it is missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokenBundle {
    pub catalog: String,
    #[serde(flatten)]
    pub name: BundleName,
    pub missing: Vec<String>,
    /// Whether the mirrored catalog does without it.
    pub left_out: bool,
}

/// The archive a run made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveLine {
    pub run: u64,
    /// The run this archive builds on: the other side needs that one too.
    pub base: Option<u64>,
    pub chunks: Vec<PathBuf>,
    pub bytes: u64,
}

/// Counted work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub images: usize,
    pub copied: usize,
    pub present: usize,
    pub failed: usize,
    /// Blobs moved, and their bytes.
    pub blobs: u64,
    pub bytes: u64,
    pub blobs_mounted: u64,
    pub source_requests: u64,
    pub destination_requests: u64,
    pub retries: u64,
    pub seconds: f64,
}

/// The whole story of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub version: u32,
    pub mode: &'static str,
    pub ending: Ending,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// Sorted by kind, then origin.
    pub images: Vec<ImageLine>,
    /// Bundles of operators that cannot work, in the order of catalogs and names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken_bundles: Vec<BrokenBundle>,
    pub totals: Totals,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchiveLine>,
    /// Files written for the cluster or the user: resources, pinned configurations, logs.
    pub files: Vec<PathBuf>,
    /// Notes that require no action.
    pub notes: Vec<String>,
    pub warnings: Vec<String>,
    /// What went wrong outside single images, each with the exit bit it sets.
    pub errors: Vec<Failure>,
}

/// Something that went wrong outside a single image.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    pub message: String,
    #[serde(skip)]
    pub exit: Exit,
    /// What to do about it, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { message: message.into(), exit, hint: None }
    }

    /// The configuration selects nothing, or everything it selects is blocked.
    pub(crate) fn nothing_selected() -> Self {
        Self::new(Exit::GENERIC, "no images to copy").with_hint(
            "the configuration selects no image: add some to mirror, or check blockedImages",
        )
    }

    /// The same with a hint, if the user can do something that the message does not name.
    pub(crate) fn with_remedy(self, remedy: Remedy) -> Self {
        match remedy {
            Remedy::RunAgain => {
                self.with_hint("if the cause is temporary, run the same command again")
            }
            Remedy::CheckConnection => self.with_hint(
                "check the name of the registry, the proxy (HTTPS_PROXY, NO_PROXY) and the network",
            ),
            Remedy::CheckName | Remedy::CheckAccess | Remedy::Unknown => self,
        }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl ImageLine {
    /// An image whose manifests could not be read.
    pub(crate) fn lost(wanted: Wanted, destination: String, error: Reason) -> Self {
        Self {
            kind: wanted.kind,
            origin: wanted.origin,
            destination,
            digest: None,
            bytes: 0,
            outcome: Outcome::Failed { error },
            notes: Vec::new(),
            needed_by: Vec::new(),
        }
    }

    /// An image of a plan, and what became of it.
    pub(crate) fn of(
        plan: &Plan,
        image: &PlannedImage,
        destination: String,
        outcome: Outcome,
    ) -> Self {
        Self {
            kind: image.kind,
            origin: image.origin.clone(),
            destination,
            digest: Some(image.tree.manifests[0].digest),
            bytes: plan.size(image),
            outcome,
            notes: Vec::new(),
            needed_by: Vec::new(),
        }
    }
}

impl Report {
    pub fn new(mode: &'static str) -> Self {
        Self {
            version: 1,
            mode,
            ending: Ending::Complete,
            run: None,
            images: Vec::new(),
            broken_bundles: Vec::new(),
            totals: Totals::default(),
            archive: None,
            files: Vec::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// The images that failed.
    pub(crate) fn failed_images(&self) -> Vec<FailedImage> {
        let failed = self.images.iter().filter_map(|line| match &line.outcome {
            Outcome::Failed { error } => {
                Some(FailedImage { origin: line.origin.clone(), error: error.text.clone() })
            }
            _ => None,
        });
        failed.collect()
    }

    /// Counts the images by outcome.
    pub(crate) fn count_images(&mut self) {
        let count = |is: fn(&Outcome) -> bool| {
            self.images.iter().filter(|image| is(&image.outcome)).count()
        };
        let copied = count(|outcome| *outcome == Outcome::Copied);
        let present = count(|outcome| *outcome == Outcome::Present);
        let failed = count(|outcome| matches!(outcome, Outcome::Failed { .. }));
        self.totals = Totals { images: self.images.len(), copied, present, failed, ..self.totals };
    }

    /// Decides how the run ended, from what happened to its images.
    pub(crate) fn settle(&mut self, dry_run: DryRun) {
        self.ending = match self.ending {
            ending @ (Ending::Interrupted | Ending::Paused) => ending,
            _ if dry_run != DryRun::No && self.errors.is_empty() => Ending::Planned,
            _ if !self.errors.is_empty() && self.totals.copied + self.totals.present == 0 => {
                Ending::Failed
            }
            _ if self.totals.failed > 0 || !self.errors.is_empty() => Ending::Partial,
            _ => Ending::Complete,
        };
    }

    /// The bits of all failed kinds together; 32 when paused, 130 when interrupted.
    pub fn exit_code(&self) -> u8 {
        match self.ending {
            Ending::Paused => return 32,
            Ending::Interrupted => return 130,
            _ => {}
        }
        let images = self.images.iter().filter_map(|image| match image.outcome {
            Outcome::Failed { .. } => Some(image.kind.exit().0),
            _ => None,
        });
        images.chain(self.errors.iter().map(|error| error.exit.0)).fold(0, |all, bit| all | bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: Kind) -> ImageLine {
        ImageLine {
            kind,
            origin: Origin::Registry("quay.io/a/b:1".parse().unwrap()),
            destination: String::new(),
            digest: None,
            bytes: 0,
            outcome: Outcome::Failed { error: "no".into() },
            notes: Vec::new(),
            needed_by: Vec::new(),
        }
    }

    #[test]
    fn the_exit_code_is_the_bits_of_all_failed_kinds() {
        let mut report = Report::new("mirrorToDisk");
        assert_eq!(report.exit_code(), 0);
        report.images = vec![failed(Kind::Bundle), failed(Kind::Helm), failed(Kind::Catalog)];
        assert_eq!(report.exit_code(), 20);
        report.errors.push(Failure::new(Exit::GENERIC, "x"));
        assert_eq!(report.exit_code(), 21);
        report.ending = Ending::Interrupted;
        assert_eq!(report.exit_code(), 130);
        report.ending = Ending::Paused;
        assert_eq!(report.exit_code(), 32);
    }
}
