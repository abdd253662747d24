//! Registries → a registry, every blob passing once. The workspace gets
//! manifests, records and log.

use std::collections::BTreeSet;
use std::sync::Arc;

use mirror_plan::{Action, Destination, Exit, ImageRecord, Mode, Plan, Target, Wanted};
use registry::Client;
use workspace::Holdings;

use crate::collect::releases::Source;
use crate::collect::sections;
use crate::conclude::conclude;
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::gather;
use crate::modes::mirror_to_disk::digests;
use crate::modes::push::{Inspected, Route, bind, deliver};
use crate::plan::presence;
use crate::record::generated_files;
use crate::report::{Ending, Failure, ImageLine, Report};
use crate::select::select;
use crate::settings::{Attachments, DryRun};

/// Copies what the configuration selects straight to `target`.
pub(crate) async fn mirror_to_mirror(context: &Context, target: &Target, report: &mut Report) {
    let clients = Client::open(context.settings.source.clone())
        .and_then(|source| Ok((source, Client::open(context.settings.destination.clone())?)));
    let (source, destination) = match clients {
        Ok(clients) => clients,
        Err(error) => return report.errors.push(Failure::new(Exit::GENERIC, chain(&error))),
    };
    context.stage("collecting");
    let mut sections = sections::collect(context, Source::Asked(&source), &source).await;
    if context.cancel.is_cancelled() {
        report.ending = Ending::Interrupted;
        return;
    }
    sections.report(report, |_, name| name.at(&target.registry).to_string());
    let naming = context.settings.naming(target);
    let wanted = sections.take_wanted();
    let selected = match select(&context.settings.configuration.set, wanted, Some(&naming)) {
        Ok(selected) => selected,
        Err(failures) => return report.errors.extend(failures),
    };
    selected.warnings.into_iter().for_each(|warning| context.warn(warning));
    let place = |_: &Wanted, name: &Destination| name.at(&target.registry).to_string();
    report.add_lost(selected.lost, place);
    report.errors.extend(selected.failures);
    if selected.named.is_empty() {
        return report.nothing_selected();
    }
    // Both registries are asked at the same time.
    let names = selected.named.iter().map(|(_, name)| name.clone()).collect();
    let heads = presence::heads(&destination, &target.registry, names);
    let heads = context.cancel.run_until_cancelled(heads);
    let gathered = gather(context, &source, selected.named, &sections.made);
    let (mut gathered, heads) = tokio::join!(gathered, heads);
    if context.cancel.is_cancelled() {
        report.ending = Ending::Interrupted;
        return;
    }
    sections.leave_out(context, report, &mut gathered);
    report.add_lost(gathered.lost, place);
    let route = Route {
        place: target,
        client: destination,
        holdings: Arc::new(Holdings::new(Some(context.workspace.clone()), None)),
        supplies: sections.supplies(context, &source),
    };
    let bound = match bind(
        context,
        &route,
        Mode::MirrorToMirror,
        gathered.found,
        heads.unwrap_or_default(),
    )
    .await
    {
        Ok(bound) => bound,
        Err(why) => return report.errors.push(Failure::new(Exit::GENERIC, why)),
    };
    for (found, error) in &bound.lost {
        let place = found.destination.at(&target.registry).to_string();
        report.images.push(ImageLine::lost(found.wanted.clone(), place, error.clone()));
    }
    context.planned(&bound.plan);
    if context.settings.dry_run == DryRun::No {
        let digests = digests(&bound.plan, &sections);
        report.add_files(generated_files::pin(context, &digests, &sections.charts.versions));
        // What was there already is known too.
        for image in bound.plan.images.iter().filter(|image| image.action == Action::Present) {
            remember(context, &bound.plan, image);
        }
        context.stage("copying");
    }
    let plan = Arc::clone(&bound.plan);
    let delivered = match context.settings.dry_run {
        DryRun::No => {
            let landed = |index: usize, plan: &Plan| remember(context, plan, &plan.images[index]);
            Some(deliver(context, &route, bound, &Inspected::default(), landed).await)
        }
        DryRun::Plan | DryRun::PlanWithLists => None,
    };
    report.totals.source_requests = source.traffic().requests;
    report.totals.retries = source.traffic().retries;
    conclude(context, &route, &plan, delivered, &sections, report);
}

/// Records an image of which only manifests are kept.
fn remember(context: &Context, plan: &Plan, image: &mirror_plan::PlannedImage) {
    let tree = plan.tree(image);
    let blobs = tree.blobs();
    let mut blobs = blobs.iter();
    let held = |size: u64, digest| context.workspace.blobs().has(digest, Some(size));
    let blobs_held = blobs.all(|(digest, size)| held(*size, digest).unwrap_or(false));
    let (origin, kind) = (image.origin.clone(), image.kind);
    // A target's namespace is no part of the name.
    let names = BTreeSet::new();
    let attachments_unknown = context.settings.attachments == Attachments::Remove;
    let record = ImageRecord { origin, kind, tree, blobs_held, attachments_unknown, names };
    if let Err(error) = context.workspace.save_record(&record) {
        context.warn(format!("{} could not be recorded: {}", image.origin, chain(&error)));
    }
}
