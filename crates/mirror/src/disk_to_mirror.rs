//! Archives or a workspace → a registry. Talks to nothing but that registry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mirror_plan::{Exit, Mode, Target};
use oci::Digest;
use registry::Client;

use crate::chain::chain;
use crate::conclude::conclude;
use crate::context::Context;
use crate::push::{Bound, Route, Unavailable, bind, deliver, unavailable};
use crate::report::{Ending, Failure, ImageLine, Report};
use crate::settings::DryRun;
use crate::stock;
use crate::supply::Supplies;
use crate::wanted::select;

/// Pushes what the configuration selects from what was carried over.
pub(crate) async fn disk_to_mirror(context: &Context, target: &Target, report: &mut Report) {
    let naming = context.settings.naming(target);
    let selected = match select(&context.settings.configuration.set, Some(&naming)) {
        Ok(selected) => selected,
        Err(failures) => return report.errors.extend(failures),
    };
    selected.warnings.into_iter().for_each(|warning| context.warn(warning));
    if selected.named.is_empty() {
        return report.errors.push(Failure::nothing_selected());
    }
    let client = match Client::open(context.settings.destination.clone()) {
        Ok(client) => client,
        Err(error) => return report.errors.push(Failure::new(Exit::GENERIC, chain(&error))),
    };
    context.stage("collecting");
    let holdings = match stock::open(context) {
        Ok(holdings) => holdings,
        Err(failures) => return report.errors.extend(failures),
    };
    let gathered = stock::find(&holdings, selected.named, context.settings.attachments);
    report.images.extend(gathered.lost.into_iter().map(ImageLine::lost));
    let route = Route {
        place: target,
        client,
        holdings: Arc::clone(&holdings),
        supplies: Supplies::FromDisk(Arc::clone(&holdings)),
    };
    let bound = match bind(context, &route, Mode::DiskToMirror, gathered.found).await {
        Ok(bound) => bound,
        Err(why) => return report.errors.push(Failure::new(Exit::GENERIC, why)),
    };
    context.planned(&bound.plan);
    let plan = bound.plan.clone();
    if context.settings.dry_run != DryRun::No {
        return conclude(context, &route, &plan, None, report);
    }
    let given_up = match inspect(context, &route, &bound).await {
        Ok(given_up) => given_up,
        Err(failures) => {
            report.errors.extend(failures);
            return report
                .add_planned(&plan, |image| image.destination.at(&target.registry).to_string());
        }
    };
    if context.cancel.is_cancelled() {
        report.ending = Ending::Interrupted;
        return;
    }
    context.stage("copying");
    let delivered = deliver(context, &route, bound, &given_up, |_, _| {}).await;
    conclude(context, &route, &plan, Some(delivered), report);
}

/// Looks at everything that is about to be pushed. What is missing or damaged
/// stops the run before it begins; with --allow-incomplete only the images
/// that need it are given up, which is the map returned.
async fn inspect(
    context: &Context,
    route: &Route<'_>,
    bound: &Bound,
) -> Result<BTreeMap<usize, String>, Vec<Failure>> {
    let (here, nowhere) =
        unavailable(route, bound).await.map_err(|why| vec![Failure::new(Exit::GENERIC, why)])?;
    let mut failures = Vec::new();
    let mut given_up = BTreeMap::new();
    let mut absent_files = BTreeSet::new();
    for Unavailable { digest, images } in nowhere {
        let why = whereabouts(route, &digest);
        given_up.extend(images.into_iter().map(|image| (image, why.clone())));
        if absent_files.insert(why.clone()) {
            let hint =
                "copy that archive here too, or push what is complete with --allow-incomplete";
            failures.push(Failure::new(Exit::GENERIC, why).with_hint(hint));
        }
    }
    failures.extend(stock::check(context, &route.holdings, &here).await);
    if failures.is_empty() {
        return Ok(given_up);
    }
    // Damaged blobs are left to the registry to refuse, one image at a time.
    if context.settings.allow_incomplete {
        failures.into_iter().for_each(|failure| context.warn(failure.message));
        return Ok(given_up);
    }
    Err(failures)
}

fn whereabouts(route: &Route<'_>, digest: &Digest) -> String {
    match route.holdings.whereabouts(digest) {
        Some(place) => format!("{place}, and {} does not hold it", route.place.registry),
        None => format!("{digest} is not here, and {} does not hold it", route.place.registry),
    }
}
