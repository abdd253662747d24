//! Registries → workspace → archive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mirror_plan::{
    Action, Destination, Exit, ImageRecord, Journey, Mode, Origin, Plan, Wanted, plan,
};
use oci::{Digest, ImageRef};
use registry::Client;

use crate::archiving;
use crate::chain::chain;
use crate::context::Context;
use crate::destination_disk::{Disk, missing_blobs};
use crate::execute::{Executed, Moment, execute};
use crate::gather::{OnDisk, gather};
use crate::paperwork;
use crate::releases::Source;
use crate::report::{Ending, Failure, ImageLine, Outcome, Report};
use crate::schedule::{Need, Schedule};
use crate::sections::{self, Sections};
use crate::settings::{Attachments, DryRun};
use crate::supply::{Sources, Supplies};
use crate::wanted::{names_by_origin, select};

/// Fetches what the configuration selects, then writes the archive of it.
pub(crate) async fn mirror_to_disk(context: &Context, report: &mut Report) {
    let client = match Client::open(context.settings.source.clone()) {
        Ok(client) => client,
        Err(error) => return report.errors.push(Failure::new(Exit::GENERIC, chain(&error))),
    };
    context.stage("collecting");
    let mut sections = sections::collect(context, Source::Asked(&client), &client).await;
    if context.cancel.is_cancelled() {
        report.ending = Ending::Interrupted;
        return;
    }
    sections.report(report, |wanted, _| {
        context.workspace.layout_of(&wanted.origin).display().to_string()
    });
    let wanted = sections.take_wanted();
    let selected = match select(&context.settings.configuration.set, wanted, None) {
        Ok(selected) => selected,
        Err(failures) => return report.errors.extend(failures),
    };
    selected.warnings.into_iter().for_each(|warning| context.warn(warning));
    let place = |wanted: &Wanted, _: &Destination| {
        context.workspace.layout_of(&wanted.origin).display().to_string()
    };
    report.add_lost(selected.lost, place);
    report.errors.extend(selected.failures);
    if selected.named.is_empty() {
        return report.nothing_selected();
    }
    let mut gathered = gather(context, &client, selected.named, &sections.made).await;
    if context.cancel.is_cancelled() {
        report.ending = Ending::Interrupted;
        return;
    }
    sections.leave_out(context, report, &mut gathered);
    gathered.found.append(&mut sections.catalogs.stored);
    report.add_lost(gathered.lost, place);
    let held = OnDisk::new(context, &gathered.found);
    let journey = Journey { mode: Mode::MirrorToDisk, target: None };
    let plan = plan(journey, gathered.found, &held);
    context.planned(&plan);
    if context.settings.dry_run != DryRun::No {
        report.add_planned(&plan, |image| {
            context.workspace.layout_of(&image.origin).display().to_string()
        });
        return report.add_files(paperwork::write_dry_run(context, &plan, None));
    }
    context.stage("copying");
    let supplies = sections.supplies(context, &client);
    let outcomes = fetch(context, supplies, &plan, report).await;
    report.totals.source_requests = client.traffic().requests;
    report.totals.retries = client.traffic().retries;
    for (image, outcome) in plan.images.iter().zip(&outcomes) {
        let place = context.workspace.layout_of(&image.origin).display().to_string();
        report.images.push(ImageLine::of(&plan, image, place, outcome.clone()));
    }
    if report.ending == Ending::Interrupted {
        return;
    }
    report.add_files(paperwork::pin(context, &digests(&plan, &sections)));
    sections.lay_out(context, &plan, &outcomes);
    if context.settings.archiving.write {
        archiving::archive(context, &plan, &outcomes, &sections.documents(), report);
    }
}

/// Moves the blobs of the plan into the workspace.
async fn fetch(
    context: &Context,
    supplies: Supplies,
    plan: &Plan,
    report: &mut Report,
) -> Vec<Outcome> {
    let names = names_by_origin(plan);
    let mut sources = Sources::default();
    let mut needs = Vec::with_capacity(plan.images.len());
    let mut images = Vec::with_capacity(plan.images.len());
    let mut outcomes = Vec::with_capacity(plan.images.len());
    for image in &plan.images {
        if image.action == Action::Present {
            needs.push(None);
            images.push(None);
            outcomes.push(Outcome::Present);
            continue;
        }
        let (origin, kind) = (image.origin.clone(), image.kind);
        let names = names.get(&image.origin).cloned().unwrap_or_default();
        let tree = plan.tree(image);
        let record = ImageRecord {
            origin,
            kind,
            tree,
            blobs_held: true,
            attachments_unknown: context.settings.attachments == Attachments::Remove,
            names,
        };
        match missing_blobs(&context.workspace, &record) {
            Ok(blobs) => {
                let source = sources.add(supplies.of(&image.origin));
                needs.push(Some(Need { repository: 0, source, blobs, is_last: false }));
                outcomes.push(Outcome::Pending);
            }
            Err(error) => {
                needs.push(None);
                outcomes.push(Outcome::Failed { error: chain(&error) });
            }
        }
        images.push(Some(record));
    }
    let schedule = Schedule::new(needs, sources.hosts());
    let disk = Arc::new(Disk {
        workspace: context.workspace.clone(),
        images,
        sources,
        retries: context.settings.source.retry.times,
        observer: Arc::clone(&context.observer),
        blobs_moved: AtomicU64::new(0),
        bytes_moved: AtomicU64::new(0),
    });
    let tell = |index: usize, moment: Moment<'_>| {
        let image = &plan.images[index];
        if let Some(outcome) = context.tell(
            image,
            || context.workspace.layout_of(&image.origin).display().to_string(),
            moment,
        ) {
            outcomes[index] = outcome;
        }
    };
    let executed =
        execute(schedule, Arc::clone(&disk), context.limits(), &context.cancel, tell).await;
    if executed == Executed::Interrupted {
        report.ending = Ending::Interrupted;
    }
    let (blobs, bytes) = (&disk.blobs_moved, &disk.bytes_moved);
    context.count(blobs.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed), 0);
    outcomes
}

/// The digest each reference had.
pub(crate) fn digests(plan: &Plan, sections: &Sections) -> BTreeMap<ImageRef, Digest> {
    let registry = plan.images.iter().filter_map(|image| match &image.origin {
        Origin::Registry(name) => Some((name.clone(), image.tree.manifests[0].digest)),
        Origin::Layout(_) | Origin::Made(_) => None,
    });
    registry.chain(sections.catalogs.digests.clone()).collect()
}
