//! Moves blobs of a plan into the workspace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mirror_plan::{Action, BlobRef, Plan};
use workspace::archive::Staging;

use crate::context::Context;
use crate::error_chain::chain;
use crate::report::Outcome;
use crate::results::Moved;
use crate::select::SharedNames;
use crate::settings::Attachments;
use crate::transfer::destination_disk::{Disk, Records, missing_blobs};
use crate::transfer::execute::{Executed, Moment, execute};
use crate::transfer::schedule::{Need, Schedule};
use crate::transfer::supply::{Sources, Supplies};

/// Which images are reported to the observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announce {
    All,
    /// The others were announced before.
    Failures,
    /// The same images are announced later.
    Nothing,
}

/// The blobs that the workspace lacks, by image; `None` for images that are there. Also the
/// outcomes to begin with.
pub(crate) fn missing(context: &Context, plan: &Plan) -> (Vec<Option<Vec<BlobRef>>>, Vec<Outcome>) {
    let images = plan.images.iter().map(|image| match image.action {
        Action::Present => (None, Outcome::Present),
        Action::Copy => match missing_blobs(&context.workspace, &plan.tree(image)) {
            Ok(blobs) => (Some(blobs), Outcome::Pending),
            Err(error) => (None, Outcome::Failed { error: chain(&error).into() }),
        },
    });
    images.unzip()
}

/// The blobs that the workspace lacks of every image of a plan, at the target or not.
pub(crate) fn all_missing(
    context: &Context,
    plan: &Plan,
) -> (Vec<Option<Vec<BlobRef>>>, Vec<Outcome>) {
    let images = plan.images.iter().map(|image| {
        match missing_blobs(&context.workspace, &plan.tree(image)) {
            Ok(blobs) => (Some(blobs), Outcome::Pending),
            Err(error) => (None, Outcome::Failed { error: chain(&error).into() }),
        }
    });
    images.unzip()
}

/// Moves the blobs in `needs` into the workspace, and records each image that then is complete.
/// Large blobs are also written to their places in `staging`. Returns what was moved, too.
pub(crate) async fn fetch(
    context: &Context,
    supplies: &Supplies,
    plan: &Arc<Plan>,
    needs: Vec<Option<Vec<BlobRef>>>,
    outcomes: &mut [Outcome],
    announce: Announce,
    staging: Option<Arc<Staging>>,
) -> (Executed, Moved) {
    let records = Records {
        plan: Arc::clone(plan),
        // The namespace of a target is not part of a name.
        names: context.settings.workflow.target().is_none().then(|| SharedNames::of(plan)),
        attachments_unknown: context.settings.attachments == Attachments::Remove,
    };
    let mut sources = Sources::default();
    let mut scheduled = Vec::with_capacity(plan.images.len());
    for (image, blobs) in plan.images.iter().zip(needs) {
        let Some(blobs) = blobs else {
            scheduled.push(None);
            continue;
        };
        let source = sources.add(supplies.of(&image.origin));
        scheduled.push(Some(Need { repository: 0, source, blobs }));
    }
    let schedule = Schedule::new(scheduled, sources.hosts());
    let disk = Arc::new(Disk {
        workspace: context.workspace.clone(),
        staging,
        records: Some(records),
        sources,
        retries: context.settings.source.retry.times,
        observer: Arc::clone(&context.observer),
        blobs_moved: AtomicU64::new(0),
        bytes_moved: AtomicU64::new(0),
    });
    let tell = |index: usize, moment: Moment<'_>| {
        let outcome = match (announce, moment) {
            (Announce::Failures, Moment::Began | Moment::Finished) => None,
            (Announce::Nothing, moment) => moment.outcome(),
            (Announce::All | Announce::Failures, moment) => {
                context.tell(plan, &plan.images[index], moment)
            }
        };
        if let Some(outcome) = outcome {
            outcomes[index] = outcome;
        }
    };
    let executed =
        execute(schedule, Arc::clone(&disk), context.limits(), context.stops(), tell).await;
    let moved = Moved {
        blobs: disk.blobs_moved.load(Ordering::Relaxed),
        bytes: disk.bytes_moved.load(Ordering::Relaxed),
        mounted: 0,
    };
    (executed, moved)
}
