//! The end of a run that pushed: report lines and what the cluster needs.

use mirror_plan::{Action, Placed, Plan};

use crate::collect::sections::Sections;
use crate::context::Context;
use crate::modes::push::{Delivered, Route};
use crate::record::generated_files;
use crate::report::{Ending, ImageLine, Outcome, Report};
use crate::transfer::execute::Executed;

/// Writes the report of a push, and cluster resources for everything selected
/// that the target holds, whether or not this run brought it there. Without
/// `delivered` this was a dry run.
pub(crate) fn conclude(
    context: &Context,
    route: &Route<'_>,
    plan: &Plan,
    delivered: Option<Delivered>,
    sections: &Sections,
    report: &mut Report,
) {
    let at = |image: &mirror_plan::PlannedImage| image.destination.at(&route.place.registry);
    let traffic = route.client.traffic();
    report.totals.destination_requests = traffic.requests;
    report.totals.retries += traffic.retries;
    let placed = |image: &mirror_plan::PlannedImage| Placed {
        kind: image.kind,
        origin: image.origin.clone(),
        destination: at(image),
    };
    let Some(delivered) = delivered else {
        report.add_planned(plan, |image| at(image).to_string());
        let placed: Vec<Placed> = plan.images.iter().map(placed).collect();
        let made = generated_files::resources(context, &placed, sections);
        return report.add_files(
            made.and_then(|resources| {
                generated_files::write_dry_run(context, plan, Some(resources))
            }),
        );
    };
    let mut held = Vec::new();
    for (index, image) in plan.images.iter().enumerate() {
        let outcome = delivered.outcomes[index].clone();
        if image.action == Action::Present || outcome == Outcome::Copied {
            held.push(placed(image));
        }
        let mut line = ImageLine::of(plan, image, at(image).to_string(), outcome);
        line.notes = delivered.notes.get(&index).cloned().unwrap_or_default();
        report.images.push(line);
    }
    if delivered.executed == Executed::Interrupted {
        report.ending = Ending::Interrupted;
        return;
    }
    if !held.is_empty() {
        report.add_files(generated_files::write_resources(context, &held, sections));
    }
}
