//! A whole run: one of three recipes, and a report in any case.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::modes::disk_to_mirror::disk_to_mirror;
use crate::modes::mirror_to_disk::mirror_to_disk;
use crate::modes::mirror_to_mirror::mirror_to_mirror;
use crate::progress::Observer;
use crate::report::{Ending, Report};
use crate::results::Results;
use crate::settings::{Mode, Settings};

/// Mirrors as `settings` say. Always returns a report: what went wrong is in it.
///
/// Ends soon after `cancel`; what was finished by then stays, and a later run
/// goes on from there.
pub async fn run(
    settings: Settings,
    observer: Arc<dyn Observer>,
    cancel: CancellationToken,
) -> Report {
    // A thread of its own: where a run waits for a disk, the caller goes on, or
    // no signal would be heard.
    let runtime = tokio::runtime::Handle::current();
    let thread = move || runtime.block_on(mirror(settings, observer, cancel));
    match tokio::task::spawn_blocking(thread).await {
        Ok(report) => report,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

async fn mirror(
    settings: Settings,
    observer: Arc<dyn Observer>,
    cancel: CancellationToken,
) -> Report {
    let mode = settings.mode.clone();
    let context = match Context::open(settings, observer, cancel) {
        Ok(context) => context,
        Err(failure) => {
            let mut report = Report::new(mode.name());
            report.errors.push(failure);
            report.ending = Ending::Failed;
            return report;
        }
    };
    let mut results = Results::default();
    let ended = match &mode {
        Mode::MirrorToDisk { .. } => mirror_to_disk(&context, &mut results).await,
        Mode::DiskToMirror { target, .. } => disk_to_mirror(&context, target, &mut results).await,
        Mode::MirrorToMirror { target, .. } => {
            mirror_to_mirror(&context, target, &mut results).await
        }
    };
    if let Err(halt) = ended {
        results.halt(halt);
    }
    context.close(results)
}
