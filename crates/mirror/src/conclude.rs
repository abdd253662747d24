//! The end of a run that pushed: lines for the report and what the cluster needs.

use std::collections::BTreeMap;

use mirror_plan::{ConfigurationRun, MirroredImage, Plan, PlannedImage};
use oci::RegistryHost;
use registry::Traffic;
use workspace::redact_urls;

use crate::collect::sections::Sections;
use crate::context::Context;
use crate::error_chain::chain;
use crate::modes::push::{Delivered, Part};
use crate::plan::stored_plan::StoredText;
use crate::record::generated_files;
use crate::record::pushed_log::Pushed;
use crate::report::{ImageLine, Outcome};
use crate::results::{Results, reference};
use crate::transfer::execute::Executed;

/// The target of a run that ends. It does not hold the content of the run, which may be large.
pub(crate) struct PushedTo<'a> {
    pub(crate) registry: &'a RegistryHost,
    pub(crate) traffic: Traffic,
}

/// Adds what a dry run would do, and writes its files.
pub(crate) fn conclude_dry_run(
    context: &Context,
    pushed_to: &PushedTo<'_>,
    (plan, stored): (&Plan, Option<&StoredText>),
    sections: &Sections,
    results: &mut Results,
) {
    results.add_images(plan, &Outcome::planned(plan), |image| at(pushed_to, image).to_string());
    let mirrored: Vec<MirroredImage> =
        plan.images.iter().map(|image| mirrored(pushed_to, image)).collect();
    let resources = generated_files::resources(context, &mirrored, sections);
    let lost = &results.issues.lost;
    let files = resources.and_then(|resources| {
        generated_files::write_dry_run(context, (plan, stored), lost, Some(resources))
    });
    results.add_files(files);
    results.requests.retries = pushed_to.traffic.retries;
}

/// Adds what was pushed, and writes cluster resources for everything selected that the target
/// holds, whether or not this run copied it.
pub(crate) fn conclude(
    context: &Context,
    pushed_to: &PushedTo<'_>,
    delivered: Delivered,
    sections: &mut Sections,
    results: &mut Results,
) {
    results.requests.destination = pushed_to.traffic.requests;
    results.requests.retries += pushed_to.traffic.retries;
    results.moved += delivered.moved;
    results.issues.extend(delivered.issues);
    let parts = delivered.parts;
    // Before the lines of the report are made: the record of a target may be large.
    record_selection(context, pushed_to, &parts, sections, results, delivered.executed);
    results.needs = std::mem::take(&mut sections.catalogs.needs);
    if delivered.executed == Executed::Interrupted {
        results.is_interrupted = true;
    } else {
        let held: Vec<MirroredImage> =
            parts.iter().flat_map(|part| held_images(pushed_to, part)).collect();
        if !held.is_empty() {
            results.add_files(generated_files::write_resources(context, &held, sections));
        }
    }
    // Part by part: lines and plans together are twice as much.
    for part in parts {
        for (index, image) in part.plan.images.iter().enumerate() {
            if part.replaced.contains(&index) {
                continue;
            }
            let outcome = part.outcomes[index].clone();
            let mut line =
                ImageLine::of(&part.plan, image, at(pushed_to, image).to_string(), outcome);
            line.notes = part.notes.get(&index).cloned().unwrap_or_default();
            results.images.push(line);
        }
    }
}

/// The images of a part that the target holds.
fn held_images(pushed_to: &PushedTo<'_>, part: &Part) -> impl Iterator<Item = MirroredImage> {
    let images = part.plan.images.iter().zip(&part.outcomes).enumerate();
    let is_held = |index: &usize, outcome: &Outcome| {
        let is_there = matches!(outcome, Outcome::Present | Outcome::Copied);
        !part.replaced.contains(index) && (is_there || part.unchanged.contains(index))
    };
    images
        .filter(move |(index, (_, outcome))| is_held(index, outcome))
        .map(|(_, (image, _))| mirrored(pushed_to, image))
}

fn at(pushed_to: &PushedTo<'_>, image: &PlannedImage) -> oci::ImageRef {
    image.destination.at(pushed_to.registry)
}

fn mirrored(pushed_to: &PushedTo<'_>, image: &PlannedImage) -> MirroredImage {
    MirroredImage {
        kind: image.kind,
        origin: image.origin.clone(),
        destination: at(pushed_to, image),
    }
}

/// Records which images the configuration of this run uses, and what catalogs offer: a deletion
/// keeps what is in use.
fn record_selection(
    context: &Context,
    pushed_to: &PushedTo<'_>,
    parts: &[Part],
    sections: &Sections,
    results: &Results,
    executed: Executed,
) {
    let Some(run) = context.run() else { return };
    let mut pushed = Pushed::open(&context.workspace, pushed_to.registry);
    let mut selected = BTreeMap::new();
    let mut offered = BTreeMap::new();
    for part in parts {
        for (index, image) in part.plan.images.iter().enumerate() {
            let uses = reference(&image.origin).map(|image| sections.catalogs.needs.uses(image));
            selected.insert(image.destination.clone(), uses.unwrap_or_default());
            let is_there = matches!(part.outcomes[index], Outcome::Present | Outcome::Copied);
            if let Some(content) = sections.catalogs.offered.get(&image.origin)
                && is_there
                && !part.replaced.contains(&index)
            {
                offered.insert(image.destination.clone(), content.clone());
            }
        }
    }
    pushed.offer(offered);
    let issues = &results.issues;
    pushed.select(&ConfigurationRun {
        name: &configuration_name(&context.settings.configuration.path),
        text: &redact_urls(&context.settings.configuration.text),
        number: run.number(),
        selected: &selected,
        complete: executed == Executed::Entirely
            && issues.lost.is_empty()
            && issues.failures.is_empty(),
    });
    if let Err(error) = pushed.save() {
        context.warn(format!("what was pushed could not be recorded: {}", chain(&error)));
    }
}

/// What a configuration is known by in the record of a target: the same file in another directory
/// is another configuration.
pub(crate) fn configuration_name(path: &std::path::Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}
