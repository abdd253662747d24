//! Registries → workspace → archive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mirror_plan::{Direction, Exit, Mode, Origin, Plan, PlannedImage, plan};
use oci::{Digest, ImageRef};
use registry::Client;
use workspace::Holdings;

use crate::collect::releases::Source;
use crate::collect::sections::Sections;
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::{Gathered, OnDisk};
use crate::pipeline::{self, gather_images, select_images};
use crate::preflight;
use crate::record::archive::{self, Content};
use crate::record::generated_files;
use crate::report::{Failure, Outcome};
use crate::results::{
    Halt, Issues, Requests, Results, failed_images, references, unless_cancelled,
};
use crate::settings::{ArchiveFormat, BrokenBundles, DryRun};
use crate::shards::{Delegation, Segments, delegate, write_in_shards};
use crate::transfer::execute::Executed;
use crate::transfer::fetch::{self, Announce};
use crate::transfer::repair::Repair;

/// Fetches what the configuration selects, then writes the archive of it.
pub(crate) async fn mirror_to_disk(context: &Context, results: &mut Results) -> Result<(), Halt> {
    let client = pipeline::client(&context.settings.source)?;
    archive::check_removal(context)?;
    let mut selection = select_images(context, Source::Remote(&client), &client, None).await?;
    results.issues = std::mem::take(&mut selection.issues);
    if selection.named.is_empty() {
        return Err(Halt::NothingSelected);
    }
    let mut gathered = gather_images(context, &client, &mut selection).await;
    let mut sections = selection.sections;
    unless_cancelled(context)?;
    results.issues.lost.append(&mut gathered.lost);
    // A stored plan has the catalogs without those bundles.
    if context.settings.broken_bundles == BrokenBundles::LeaveOut && context.settings.plan.is_none()
    {
        let missing = references(&results.issues.lost);
        let issues = leave_out(context, &client, &mut sections, &missing, &mut gathered).await;
        results.issues.extend(issues);
    }
    gathered.found.append(&mut sections.catalogs.stored);
    let held = OnDisk::new(context, &gathered.found);
    let direction = Direction { mode: Mode::MirrorToDisk, target: None };
    let plan = Arc::new(plan(direction, gathered.found, &held));
    drop(held);
    let stored = context.planned(&plan, &sections, &results.issues);
    let place =
        |image: &PlannedImage| context.workspace.layout_of(&image.origin).display().to_string();
    results.needs = std::mem::take(&mut sections.catalogs.needs);
    if context.settings.dry_run != DryRun::No {
        results.add_images(&plan, &Outcome::planned(&plan), place);
        let lost = &results.issues.lost;
        results.add_files(generated_files::write_dry_run(
            context,
            (&plan, stored.as_ref()),
            lost,
            None,
        ));
        return Ok(());
    }
    archive::remove_abandoned(context);
    let has_space = preflight::check_space(context, &plan);
    let archiving = &context.settings.archiving;
    let mut documents = sections.documents();
    if archiving.write {
        let signatures = gathered.documents.save(context);
        documents.extend(signatures.map_err(|e| Halt::generic(chain(&e)))?);
    }
    let mut content = Content {
        for_v2: None,
        plan: &plan,
        documents: documents.clone(),
        lost: failed_images(&results.issues.lost),
        is_incomplete: !results.issues.failures.is_empty(),
        is_paused: false,
    };
    context.stage("copying");
    let supplies = sections.supplies(context, &client);
    if let Some(runner) = &context.settings.segments {
        let segments = write_in_shards(context, &**runner, &supplies, &content).await?;
        let Segments { outcomes, archived, moved, requests, is_handed_over } = segments;
        results.moved = moved;
        results.is_handed_over = is_handed_over;
        let digests = digests(&plan, &sections);
        results.add_files(generated_files::pin(context, &digests, &sections.charts.versions));
        results.archive = archived.line;
        results.issues.notes.extend(archived.notes);
        results.issues.failures.extend(archived.failures);
        results.requests.source = client.traffic().requests + requests.source;
        results.requests.retries = client.traffic().retries + requests.retries;
        results.add_images(&plan, &outcomes, place);
        results.is_interrupted = context.cancel.is_cancelled();
        return Ok(());
    }
    let mut by_shards = Requests::default();
    if let Some(runner) = &context.settings.shards {
        let delegation = Delegation {
            plan: &plan,
            supplies: &supplies,
            given_up: &BTreeMap::new(),
            new_repositories: BTreeSet::new(),
        };
        let shards = delegate(context, &**runner, &delegation).await?;
        results.moved = shards.moved;
        by_shards = shards.requests;
        context.stage("copying");
    }
    let (needs, mut outcomes) = fetch::missing(context, &plan);
    // What shards fetched is copied into the archive afterwards.
    let is_staged = has_space
        && archiving.write
        && archiving.format == ArchiveFormat::Own
        && context.settings.shards.is_none();
    let staging = if is_staged { archive::stage(context, &content) } else { None };
    let staging = staging.map(Arc::new);
    let (executed, moved) = fetch::fetch(
        context,
        &supplies,
        &plan,
        needs,
        &mut outcomes,
        Announce::All,
        staging.clone(),
    )
    .await;
    results.moved += moved;
    if executed == Executed::Entirely {
        let digests = digests(&plan, &sections);
        results.add_files(generated_files::pin(context, &digests, &sections.charts.versions));
        sections.lay_out(context, &plan, &outcomes);
    }
    // A transfer that was interrupted may still be writing.
    let staging = staging.filter(|_| executed == Executed::Entirely);
    let is_paused = executed == Executed::Interrupted && context.settings.is_past_deadline();
    if archiving.write && (executed == Executed::Entirely || (is_paused && archiving.partial)) {
        content.for_v2 = match archiving.format {
            ArchiveFormat::Own => None,
            ArchiveFormat::OcMirrorV2 => {
                let holdings = Holdings::new(Some(context.workspace.clone()), None);
                let operators = &context.settings.configuration.set.mirror.operators;
                let catalogs = sections.catalogs.for_v2(operators, &holdings, &sections.made);
                let catalogs = catalogs.await;
                Some(catalogs.map_err(|error| {
                    let why = chain(&error);
                    Halt::generic(format!("writing an archive for oc-mirror v2: {why}"))
                })?)
            }
        };
        content.is_paused = is_paused;
        content.is_incomplete = !results.issues.failures.is_empty();
        let repair = Repair { client: &client, supplies: &supplies, documents: &documents };
        let staging = staging.as_deref();
        let archived = archive::archive(context, &content, &repair, staging, &mut outcomes).await;
        results.archive = archived.line;
        results.moved += archived.moved;
        results.issues.notes.extend(archived.notes);
        results.issues.failures.extend(archived.failures);
    }
    results.requests.source = client.traffic().requests + by_shards.source;
    results.requests.retries = client.traffic().retries + by_shards.retries;
    results.add_images(&plan, &outcomes, place);
    results.is_interrupted = executed == Executed::Interrupted || context.cancel.is_cancelled();
    Ok(())
}

/// Replaces catalogs by ones without the bundles that lack one of the `missing` images.
async fn leave_out(
    context: &Context,
    client: &Client,
    sections: &mut Sections,
    missing: &std::collections::BTreeSet<ImageRef>,
    gathered: &mut Gathered,
) -> Issues {
    let mut failures = Vec::new();
    for incomplete in sections.catalogs.incomplete(missing) {
        let before = &incomplete.published;
        let at = gathered.found.iter().position(|found| found.wanted == *before);
        let reader = (Source::Remote(client), client);
        match sections.catalogs.without(context, reader, &incomplete, None).await {
            Ok(found) => {
                at.map(|at| gathered.found.remove(at));
                gathered.found.extend(found);
            }
            Err(error) => {
                let message =
                    format!("building the catalog {} again: {}", before.origin, chain(&error));
                failures.push(Failure::new(Exit::OPERATOR, message));
            }
        }
    }
    sections.made.extend(std::mem::take(&mut sections.catalogs.made));
    let mut issues = sections.take_issues();
    issues.failures.extend(failures);
    issues
}

/// The digest each reference had.
pub(crate) fn digests(plan: &Plan, sections: &Sections) -> BTreeMap<ImageRef, Digest> {
    let registry = plan.images.iter().filter_map(|image| match &image.origin {
        Origin::Registry(name) => Some((name.clone(), image.tree.manifests[0].digest)),
        Origin::Layout(_) | Origin::Made(_) => None,
    });
    registry.chain(sections.catalogs.digests.clone()).collect()
}
