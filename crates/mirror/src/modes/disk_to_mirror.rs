//! Archives or a workspace → a registry. Talks to nothing but that registry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mirror_plan::{Destination, Exit, Mode, Target, Wanted};
use oci::Digest;
use registry::Client;
use workspace::Holdings;

use crate::collect::releases::Source;
use crate::collect::sections;
use crate::conclude::conclude;
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::carried_content;
use crate::gather::trust_check::TrustCheck;
use crate::modes::push::{Bound, Inspected, Route, bind, deliver};
use crate::plan::availability::{self, Availability};
use crate::plan::presence::Heads;
use crate::report::{Ending, Failure, ImageLine, Report};
use crate::select::select;
use crate::settings::DryRun;
use crate::transfer::supply::Supplies;

/// Pushes what the configuration selects from what was carried over.
pub(crate) async fn disk_to_mirror(context: &Context, target: &Target, report: &mut Report) {
    let client = match Client::open(context.settings.destination.clone()) {
        Ok(client) => client,
        Err(error) => return report.errors.push(Failure::new(Exit::GENERIC, chain(&error))),
    };
    context.stage("collecting");
    let mut holdings = match carried_content::open(context) {
        Ok(holdings) => holdings,
        Err(failures) => return report.errors.extend(failures),
    };
    let mut sections = sections::collect(context, Source::Held(&holdings), &client).await;
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
    let mut gathered = carried_content::find(&holdings, selected.named, &sections.made);
    // From here on only blobs are read.
    holdings.forget_images();
    let holdings = Arc::new(holdings);
    if let Some(check) = TrustCheck::of(context, &client, &holdings) {
        gathered = check.held(gathered, &target.registry).await;
    }
    gathered.leave_behind(context.settings.attachments);
    sections.leave_out(context, report, &mut gathered);
    report.add_lost(gathered.lost, place);
    let route = Route {
        place: target,
        client,
        holdings: Arc::clone(&holdings),
        supplies: Supplies::FromDisk(Arc::clone(&holdings)),
    };
    let bound =
        match bind(context, &route, Mode::DiskToMirror, gathered.found, Heads::default()).await {
            Ok(bound) => bound,
            Err(why) => return report.errors.push(Failure::new(Exit::GENERIC, why)),
        };
    for (found, error) in &bound.lost {
        let place = found.destination.at(&target.registry).to_string();
        report.images.push(ImageLine::lost(found.wanted.clone(), place, error.clone()));
    }
    context.planned(&bound.plan);
    let plan = Arc::clone(&bound.plan);
    if context.settings.dry_run != DryRun::No {
        return conclude(context, &route, &plan, None, &sections, report);
    }
    let inspected = match inspect(context, &route, &bound).await {
        Ok(inspected) => inspected,
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
    let delivered = deliver(context, &route, bound, &inspected, |_, _| {}).await;
    conclude(context, &route, &plan, Some(delivered), &sections, report);
}

/// Looks at everything that is about to be pushed. What is missing or damaged
/// stops the run before it begins; with --allow-incomplete only the images
/// that need it are given up.
async fn inspect(
    context: &Context,
    route: &Route<'_>,
    bound: &Bound,
) -> Result<Inspected, Vec<Failure>> {
    let Availability { here, there, nowhere } =
        availability::look(&route.client, &route.holdings, &bound.plan, &bound.presence)
            .await
            .map_err(|why| vec![Failure::new(Exit::GENERIC, why)])?;
    let mut given_up = BTreeMap::new();
    let mut missing: BTreeMap<String, (usize, BTreeSet<usize>)> = BTreeMap::new();
    for (digest, images) in nowhere {
        let place = whereabouts(&route.holdings, &digest);
        given_up.extend(images.iter().map(|image| (*image, format!("{digest} is {place}"))));
        let (blobs, waiting) = missing.entry(place).or_default();
        *blobs += 1;
        waiting.extend(images);
    }
    let mut failures: Vec<Failure> = missing
        .into_iter()
        .map(|(place, (blobs, images))| {
            let message = format!(
                "{blobs} blob(s) that {} image(s) need are {place}, and {} does not hold them",
                images.len(),
                route.place.registry
            );
            let hint =
                "copy what is missing here, or push what is complete with --allow-incomplete";
            Failure::new(Exit::GENERIC, message).with_hint(hint)
        })
        .collect();
    failures.extend(carried_content::check(context, &route.holdings, &here).await);
    // Damaged blobs are left to the registry to refuse, one image at a time.
    if context.settings.allow_incomplete {
        failures.drain(..).for_each(|failure| context.warn(failure.message));
    }
    if failures.is_empty() { Ok(Inspected { given_up, there }) } else { Err(failures) }
}

/// Where content that is not here should be.
fn whereabouts(holdings: &Holdings, digest: &Digest) -> String {
    match holdings.whereabouts(digest) {
        Some(place) if !place.absent.is_empty() => {
            format!("in {} of run {}, not in this directory", place.absent.join(", "), place.run)
        }
        Some(place) => format!("in an archive of run {} that is damaged", place.run),
        None => "in no archive here".to_owned(),
    }
}
