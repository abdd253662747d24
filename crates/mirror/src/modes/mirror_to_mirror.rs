//! Registries → a registry, every blob passing once. The workspace gets
//! manifests, records and log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mirror_plan::{Action, ImageRecord, Mode, Plan, Target};
use workspace::Holdings;

use crate::collect::releases::Source;
use crate::conclude::{conclude, conclude_dry_run};
use crate::context::Context;
use crate::error_chain::chain;
use crate::modes::mirror_to_disk::digests;
use crate::modes::push::{Inspected, Publishing, Route, bind, deliver};
use crate::pipeline::{self, gather_images, select_images};
use crate::plan::presence;
use crate::preflight;
use crate::reason::Reason;
use crate::record::generated_files;
use crate::report::Outcome;
use crate::results::{Halt, Moved, Requests, Results, references, unless_cancelled};
use crate::settings::{Attachments, DryRun};
use crate::shards::delegate_push;
use crate::transfer::fetch::{self, Announce};
use crate::transfer::supply::Supplies;

/// Copies what the configuration selects straight to `target`.
pub(crate) async fn mirror_to_mirror(
    context: &Context,
    target: &Target,
    results: &mut Results,
) -> Result<(), Halt> {
    let source = pipeline::client(&context.settings.source)?;
    let destination = pipeline::destination(context)?;
    let naming = context.settings.naming(target);
    let mut selection =
        select_images(context, Source::Remote(&source), &source, Some(&naming)).await?;
    results.issues = std::mem::take(&mut selection.issues);
    if selection.named.is_empty() {
        return Err(Halt::NothingSelected);
    }
    // Requests to both registries are sent at the same time.
    let names = selection.named.iter().map(|(_, name)| name.clone()).collect();
    let heads = presence::heads(&destination, &target.registry, names);
    let heads = context.cancel.run_until_cancelled(heads);
    let gathered = gather_images(context, &source, &mut selection);
    let (mut gathered, heads) = tokio::join!(gathered, heads);
    let mut sections = selection.sections;
    unless_cancelled(context)?;
    results.issues.lost.append(&mut gathered.lost);
    let mut route = Route {
        place: target,
        client: destination,
        holdings: Arc::new(Holdings::new(Some(context.workspace.clone()), None)),
        supplies: sections.supplies(context, &source),
    };
    let heads = heads.unwrap_or_default();
    let mut bound = bind(context, &route, Mode::MirrorToMirror, gathered.found, heads).await?;
    results.issues.lost.append(&mut bound.lost);
    let mut by_shards = Requests::default();
    let stored = context.planned(&bound.plan, &sections, &results.issues);
    if context.settings.dry_run != DryRun::No {
        results.needs = std::mem::take(&mut sections.catalogs.needs);
        conclude_dry_run(
            context,
            &route.pushed_to(),
            (&bound.plan, stored.as_ref()),
            &sections,
            results,
        );
    } else {
        let digests = digests(&bound.plan, &sections);
        results.add_files(generated_files::pin(context, &digests, &sections.charts.versions));
        // What was there already is known too.
        for image in bound.plan.images.iter().filter(|image| image.action == Action::Present) {
            remember(context, &bound.plan, image);
        }
        context.stage("copying");
        let publishing = Publishing {
            sections: &mut sections,
            source: Source::Remote(&source),
            client: &source,
            lost: references(&results.issues.lost),
        };
        let landed = |index: usize, plan: &Plan| remember(context, plan, &plan.images[index]);
        let mut inspected = Inspected {
            given_up: preflight::refused_images(context, &route, &bound.plan).await,
            ..Inspected::default()
        };
        unless_cancelled(context)?;
        if context.settings.through_workspace {
            let (kept, moved) = keep_content(context, &route, &bound.plan).await;
            results.moved = moved;
            unless_cancelled(context)?;
            inspected.given_up.extend(kept);
            route.supplies = Supplies::FromDisk(Arc::clone(&route.holdings));
        }
        let moved = &mut results.moved;
        by_shards = delegate_push(context, &route, &mut bound, &mut inspected, moved).await?;
        if context.settings.shards.is_some() {
            context.stage("copying");
        }
        let delivered = deliver(context, &route, bound, &inspected, publishing, landed).await;
        conclude(context, &route.pushed_to(), delivered, &mut sections, results);
    }
    results.requests.source = source.traffic().requests + by_shards.source;
    results.requests.destination += by_shards.destination;
    results.requests.retries += by_shards.retries;
    results.requests.retries += source.traffic().retries;
    Ok(())
}

/// Fetches the content of all images into the workspace. Returns the images for which that is not
/// possible, by place in the plan, and why; and what was moved.
async fn keep_content(
    context: &Context,
    route: &Route<'_>,
    plan: &Arc<Plan>,
) -> (BTreeMap<usize, Reason>, Moved) {
    let (needs, mut outcomes) = fetch::all_missing(context, plan);
    preflight::check_space_for(context, &needs);
    let supplies = &route.supplies;
    let (_, moved) =
        fetch::fetch(context, supplies, plan, needs, &mut outcomes, Announce::Nothing, None).await;
    let failed = outcomes.into_iter().enumerate().filter_map(|(index, outcome)| match outcome {
        Outcome::Failed { error } => Some((index, error)),
        Outcome::Copied | Outcome::Present | Outcome::Pending => None,
    });
    (failed.collect(), moved)
}

/// Records an image of which only manifests are kept.
fn remember(context: &Context, plan: &Plan, image: &mirror_plan::PlannedImage) {
    let tree = plan.tree(image);
    let blobs = tree.blobs();
    let mut blobs = blobs.iter();
    let held = |size: u64, digest| context.workspace.blobs().has(digest, Some(size));
    let blobs_held = blobs.all(|(digest, size)| held(*size, digest).unwrap_or(false));
    let (origin, kind) = (image.origin.clone(), image.kind);
    // A target's namespace is not part of the name.
    let names = BTreeSet::new();
    let attachments_unknown = context.settings.attachments == Attachments::Remove;
    let record = ImageRecord { origin, kind, tree, blobs_held, attachments_unknown, names };
    if let Err(error) = context.workspace.save_record(&record) {
        context.warn(format!("{} could not be recorded: {}", image.origin, chain(&error)));
    }
}
