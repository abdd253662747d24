//! What the stages of a run return beside their values. The report is assembled from it once, at
//! the end; no stage reads it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mirror_plan::{Destination, Exit, Origin, Plan, PlannedImage, Wanted};
use oci::ImageRef;
use workspace::FailedImage;

use crate::collect::catalogs::Needs;
use crate::context::Context;
use crate::error_chain::chain;
use crate::reason::Reason;
use crate::record::generated_files::GeneratedError;
use crate::report::{ArchiveLine, Failure, ImageLine, Outcome};

/// An image that cannot be mirrored, the name it would have had, and why.
pub(crate) type Lost = (Wanted, Destination, Reason);

/// What a stage could not do, and its notes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Issues {
    pub(crate) lost: Vec<Lost>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) notes: Vec<String>,
}

impl Issues {
    pub(crate) fn extend(&mut self, other: Self) {
        self.lost.extend(other.lost);
        self.failures.extend(other.failures);
        self.notes.extend(other.notes);
    }
}

/// Why a run ends before its last stage.
#[derive(Debug)]
pub(crate) enum Halt {
    Interrupted,
    Failed(Issues),
    /// The configuration selects no image, or every image it selects was lost.
    NothingSelected,
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        vec![failure].into()
    }
}

impl From<Vec<Failure>> for Halt {
    fn from(failures: Vec<Failure>) -> Self {
        Self::Failed(Issues { failures, ..Issues::default() })
    }
}

impl Halt {
    pub(crate) fn generic(message: impl Into<String>) -> Self {
        Failure::new(Exit::GENERIC, message).into()
    }
}

/// Content that was moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) blobs: u64,
    pub(crate) bytes: u64,
    pub(crate) mounted: u64,
}

impl std::ops::AddAssign for Moved {
    fn add_assign(&mut self, more: Self) {
        self.blobs += more.blobs;
        self.bytes += more.bytes;
        self.mounted += more.mounted;
    }
}

/// Requests that the registries of both sides were sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Requests {
    pub(crate) source: u64,
    pub(crate) destination: u64,
    pub(crate) retries: u64,
}

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// Every image of the plans, with its outcome.
    pub(crate) images: Vec<ImageLine>,
    pub(crate) issues: Issues,
    /// Which bundles need which images.
    pub(crate) needs: Needs,
    pub(crate) archive: Option<ArchiveLine>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) requests: Requests,
    pub(crate) moved: Moved,
    pub(crate) is_interrupted: bool,
    /// Shards complete what the run planned.
    pub(crate) is_handed_over: bool,
}

impl Results {
    /// Adds the end of a run that did not reach its last stage.
    pub(crate) fn halt(&mut self, halt: Halt) {
        match halt {
            Halt::Interrupted => self.is_interrupted = true,
            Halt::Failed(issues) => self.issues.extend(issues),
            // That is a mistake only where nothing else is.
            Halt::NothingSelected => {
                if self.issues.failures.is_empty() && self.issues.lost.is_empty() {
                    self.issues.failures.push(Failure::nothing_selected());
                }
            }
        }
    }

    /// Adds files that were written, or the reason why they were not.
    pub(crate) fn add_files(&mut self, files: Result<Vec<PathBuf>, GeneratedError>) {
        match files {
            Ok(files) => self.files.extend(files),
            Err(error) => {
                self.issues.failures.push(Failure::new(Exit::GENERIC, chain(&error)));
            }
        }
    }

    /// Adds the images of a plan, with the outcome of each.
    pub(crate) fn add_images(
        &mut self,
        plan: &Plan,
        outcomes: &[Outcome],
        place: impl Fn(&PlannedImage) -> String,
    ) {
        for (image, outcome) in plan.images.iter().zip(outcomes) {
            self.images.push(ImageLine::of(plan, image, place(image), outcome.clone()));
        }
    }
}

/// The images in `lost`, by their names in registries.
pub(crate) fn references(lost: &[Lost]) -> BTreeSet<ImageRef> {
    lost.iter().filter_map(|(wanted, ..)| reference(&wanted.origin)).cloned().collect()
}

/// The name of an image in a registry, where it has one.
pub(crate) fn reference(origin: &Origin) -> Option<&ImageRef> {
    match origin {
        Origin::Registry(image) => Some(image),
        Origin::Layout(_) | Origin::Made(_) => None,
    }
}

/// The images in `lost`, as archives and run records list them.
pub(crate) fn failed_images(lost: &[Lost]) -> Vec<FailedImage> {
    let failed = lost.iter().map(|(wanted, _, error)| FailedImage {
        origin: wanted.origin.clone(),
        error: error.text.clone(),
    });
    failed.collect()
}

/// Ends the run at the first stage after it was cancelled.
pub(crate) fn unless_cancelled(context: &Context) -> Result<(), Halt> {
    if context.cancel.is_cancelled() { Err(Halt::Interrupted) } else { Ok(()) }
}
