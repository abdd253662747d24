//! A whole run: one of three recipes, and a report in any case.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mirror_plan::Exit;
use tokio_util::sync::CancellationToken;
use workspace::JournalEvent;

use crate::context::Context;
use crate::error_chain::chain;
use crate::migrate::migrate;
use crate::modes::disk_to_mirror::disk_to_mirror;
use crate::modes::mirror_to_disk::mirror_to_disk;
use crate::modes::mirror_to_mirror::mirror_to_mirror;
use crate::progress::Observer;
use crate::report::{Ending, Failure, Report};
use crate::results::{Halt, Results};
use crate::settings::{PaceChange, Settings, Workflow};

/// Mirrors according to `settings`. Always returns a report: what went wrong is in it.
///
/// Ends soon after `cancel`; what was finished by then stays, and a later run
/// continues from there.
pub async fn run(
    settings: Settings,
    observer: Arc<dyn Observer>,
    cancel: CancellationToken,
) -> Report {
    // A thread of its own: where a run waits for a disk, the caller continues, or
    // no signal would be handled.
    let runtime = tokio::runtime::Handle::current();
    let thread = move || runtime.block_on(mirror(settings, observer, cancel));
    match tokio::task::spawn_blocking(thread).await {
        Ok(report) => report,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// Waits for a time of the clock on the wall. That clock may be set, and the machine suspended, so
/// it is read again and again.
async fn until(deadline: Option<Timestamp>) {
    const STEP: Duration = Duration::from_secs(20);
    let Some(deadline) = deadline else { return std::future::pending().await };
    loop {
        match Duration::try_from(deadline.duration_since(Timestamp::now())) {
            Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(STEP)).await,
            _ => return,
        }
    }
}

async fn mirror(
    settings: Settings,
    observer: Arc<dyn Observer>,
    cancel: CancellationToken,
) -> Report {
    let mode = settings.workflow.clone();
    let opened = Context::open(settings, observer, cancel).and_then(|(mut context, warnings)| {
        let kept = context.keep_dry_run_content();
        kept.map_err(|error| Failure::new(Exit::GENERIC, chain(&error)))?;
        Ok((context, warnings))
    });
    let (context, warnings) = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            let mut report = Report::new(mode.name());
            report.errors.push(failure);
            report.ending = Ending::Failed;
            return report;
        }
    };
    let mut results = Results::default();
    if let Err(halt) = execute_until_deadline(&context, &mode, &mut results).await {
        results.halt(halt);
    }
    context.close(results, &warnings)
}

async fn execute_until_deadline(
    context: &Context,
    mode: &Workflow,
    results: &mut Results,
) -> Result<(), Halt> {
    let mut recipe = std::pin::pin!(execute(context, mode, results));
    tokio::select! {
        ended = &mut recipe => ended,
        () = record_pace(context) => unreachable!("recording never ends"),
        () = until(context.settings.until) => {
            context.cancel.cancel();
            recipe.await
        }
    }
}

/// Writes to the journal what a timetable allows, whenever that changes. Never ends.
async fn record_pace(context: &Context) {
    if let (Some(mut pace), Some(run)) = (context.settings.pace.clone(), context.run()) {
        loop {
            let now = pace.borrow_and_update().clone();
            if let Some(PaceChange { is_paused, text }) = now {
                // For observers; the run does not depend on it.
                let _ = run.journal().append(JournalEvent::Pace { is_paused, text });
            }
            if pace.changed().await.is_err() {
                break;
            }
        }
    }
    std::future::pending::<()>().await;
}

async fn execute(context: &Context, mode: &Workflow, results: &mut Results) -> Result<(), Halt> {
    if let Some(old) = &context.settings.migrate_from {
        return Box::pin(migrate(context, old, results)).await;
    }
    match mode {
        Workflow::MirrorToDisk { .. } => Box::pin(mirror_to_disk(context, results)).await,
        Workflow::DiskToMirror { target, .. } => {
            Box::pin(disk_to_mirror(context, target, results)).await
        }
        Workflow::MirrorToMirror { target, .. } => {
            Box::pin(mirror_to_mirror(context, target, results)).await
        }
    }
}
