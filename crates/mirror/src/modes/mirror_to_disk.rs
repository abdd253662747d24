//! Registries → workspace → archive.

use std::collections::BTreeMap;

use mirror_plan::{Destination, Exit, Journey, Mode, Origin, Plan, Wanted, plan};
use oci::{Digest, ImageRef};
use registry::Client;

use crate::collect::releases::Source;
use crate::collect::sections::{self, Sections};
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::{OnDisk, gather};
use crate::record::archive::{self, Archived, Content};
use crate::record::generated_files;
use crate::report::{Ending, Failure, ImageLine, Report};
use crate::select::select;
use crate::settings::DryRun;
use crate::transfer::execute::Executed;
use crate::transfer::fetch::{self, Announce};
use crate::transfer::repair::Repair;

/// Fetches what the configuration selects, then writes the archive of it.
pub(crate) async fn mirror_to_disk(context: &Context, report: &mut Report) {
    let client = match Client::open(context.settings.source.clone()) {
        Ok(client) => client,
        Err(error) => return report.errors.push(Failure::new(Exit::GENERIC, chain(&error))),
    };
    if let Err(failure) = archive::check_removal(context) {
        return report.errors.push(failure);
    }
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
        return report.add_files(generated_files::write_dry_run(context, &plan, None));
    }
    context.stage("copying");
    let supplies = sections.supplies(context, &client);
    let (needs, mut outcomes) = fetch::missing(context, &plan);
    let executed =
        fetch::fetch(context, &supplies, &plan, needs, &mut outcomes, Announce::All).await;
    let mut archived = Archived::default();
    let mut files = Vec::new();
    if executed == Executed::Entirely {
        let digests = digests(&plan, &sections);
        files.push(generated_files::pin(context, &digests, &sections.charts.versions));
        sections.lay_out(context, &plan, &outcomes);
        if context.settings.archiving.write {
            let documents = sections.documents();
            let content = Content {
                plan: &plan,
                documents: documents.clone(),
                lost: report.failed_images(),
                is_incomplete: !report.errors.is_empty(),
            };
            let repair = Repair { client: &client, supplies: &supplies, documents: &documents };
            archived = archive::archive(context, &content, &repair, &mut outcomes).await;
        }
    }
    report.totals.source_requests = client.traffic().requests;
    report.totals.retries = client.traffic().retries;
    for (image, outcome) in plan.images.iter().zip(&outcomes) {
        let place = context.workspace.layout_of(&image.origin).display().to_string();
        report.images.push(ImageLine::of(&plan, image, place, outcome.clone()));
    }
    if executed == Executed::Interrupted || context.cancel.is_cancelled() {
        report.ending = Ending::Interrupted;
    }
    files.into_iter().for_each(|files| report.add_files(files));
    report.archive = archived.line;
    report.notes.extend(archived.notes);
    report.errors.extend(archived.failures);
}

/// The digest each reference had.
pub(crate) fn digests(plan: &Plan, sections: &Sections) -> BTreeMap<ImageRef, Digest> {
    let registry = plan.images.iter().filter_map(|image| match &image.origin {
        Origin::Registry(name) => Some((name.clone(), image.tree.manifests[0].digest)),
        Origin::Layout(_) | Origin::Made(_) => None,
    });
    registry.chain(sections.catalogs.digests.clone()).collect()
}
