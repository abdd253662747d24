//! The end of a run that pushed: lines for the report and what the cluster needs.

use mirror_plan::{Placed, Plan, PlannedImage};

use crate::collect::sections::Sections;
use crate::context::Context;
use crate::modes::push::{Delivered, Route};
use crate::record::generated_files;
use crate::report::{ImageLine, Outcome};
use crate::results::Results;
use crate::transfer::execute::Executed;

/// Adds what a dry run would do, and writes its files.
pub(crate) fn conclude_dry_run(
    context: &Context,
    route: &Route<'_>,
    plan: &Plan,
    sections: &Sections,
    results: &mut Results,
) {
    results.add_images(plan, &Outcome::planned(plan), |image| at(route, image).to_string());
    let placed: Vec<Placed> = plan.images.iter().map(|image| placed(route, image)).collect();
    let resources = generated_files::resources(context, &placed, sections);
    results.add_files(
        resources
            .and_then(|resources| generated_files::write_dry_run(context, plan, Some(resources))),
    );
    results.requests.retries = route.client.traffic().retries;
}

/// Adds what was pushed, and writes cluster resources for everything selected that the target
/// holds, whether or not this run brought it there.
pub(crate) fn conclude(
    context: &Context,
    route: &Route<'_>,
    delivered: Delivered,
    sections: &mut Sections,
    results: &mut Results,
) {
    let traffic = route.client.traffic();
    results.requests.destination = traffic.requests;
    results.requests.retries += traffic.retries;
    results.issues.extend(delivered.issues);
    let mut held = Vec::new();
    for part in delivered.parts {
        for (index, image) in part.plan.images.iter().enumerate() {
            if part.replaced.contains(&index) {
                continue;
            }
            let outcome = part.outcomes[index].clone();
            let is_there = matches!(outcome, Outcome::Present | Outcome::Copied);
            if is_there || part.unchanged.contains(&index) {
                held.push(placed(route, image));
            }
            let mut line = ImageLine::of(&part.plan, image, at(route, image).to_string(), outcome);
            line.notes = part.notes.get(&index).cloned().unwrap_or_default();
            results.images.push(line);
        }
    }
    results.needs = std::mem::take(&mut sections.catalogs.needs);
    if delivered.executed == Executed::Interrupted {
        results.is_interrupted = true;
        return;
    }
    if !held.is_empty() {
        results.add_files(generated_files::write_resources(context, &held, sections));
    }
}

fn at(route: &Route<'_>, image: &PlannedImage) -> oci::ImageRef {
    image.destination.at(&route.place.registry)
}

fn placed(route: &Route<'_>, image: &PlannedImage) -> Placed {
    Placed { kind: image.kind, origin: image.origin.clone(), destination: at(route, image) }
}
