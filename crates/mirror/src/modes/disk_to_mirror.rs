//! Archives or a workspace → a registry. Talks to nothing but that registry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mirror_plan::{Exit, Mode, Target};
use oci::Digest;
use registry::Client;
use workspace::Holdings;

use crate::collect::releases::Source;
use crate::collect::sections::Sections;
use crate::conclude::{PushedTo, conclude, conclude_dry_run};
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::Gathered;
use crate::gather::carried_content::{self, Extent};
use crate::gather::trust_check::TrustCheck;
use crate::modes::push::{Bound, Inspected, Publishing, Route, bind, deliver};
use crate::pipeline::{self, Selection, select_images};
use crate::plan::availability::{self, Availability};
use crate::plan::presence::TargetDigests;
use crate::preflight;
use crate::report::{Failure, Outcome};
use crate::results::{Halt, Issues, Results, references, unless_cancelled};
use crate::settings::DryRun;
use crate::shards::delegate_push;
use crate::transfer::supply::Supplies;

/// Pushes what the configuration selects from transferred content.
pub(crate) async fn disk_to_mirror(
    context: &Context,
    target: &Target,
    results: &mut Results,
) -> Result<(), Halt> {
    let client = pipeline::destination(context)?;
    // Shards need to know which file has which blob.
    let extent = match context.settings.shards {
        Some(_) => Extent::All,
        None => Extent::Newest,
    };
    let mut holdings = carried_content::open(context, extent)?;
    let (mut sections, mut gathered) = match find(context, target, &client, &holdings).await {
        Ok(found) if !(holdings.is_partial() && found.is_incomplete()) => found.take(results),
        Err(halt) if !holdings.is_partial() => return Err(halt),
        // An archive that was not opened may have what is missing.
        _ => {
            holdings = carried_content::open(context, Extent::All)?;
            find(context, target, &client, &holdings).await?.take(results)
        }
    };
    if gathered.found.is_empty() && gathered.lost.is_empty() {
        return Err(Halt::NothingSelected);
    }
    // From here on only blobs and documents are read.
    holdings.forget_images();
    let holdings = Arc::new(holdings);
    if let Some(check) = TrustCheck::of(context, &client, &holdings) {
        gathered = check.held(gathered, &target.registry).await;
    }
    gathered.remove_attachments(context.settings.attachments);
    results.issues.lost.append(&mut gathered.lost);
    let route = Route {
        place: target,
        client: client.clone(),
        holdings: Arc::clone(&holdings),
        supplies: Supplies::FromDisk(Arc::clone(&holdings)),
    };
    let mut bound =
        bind(context, &route, Mode::DiskToMirror, gathered.found, TargetDigests::default()).await?;
    results.issues.lost.append(&mut bound.lost);
    let stored = context.planned(&bound.plan, &sections, &results.issues);
    results.requests.destination = client.traffic().requests;
    if context.settings.dry_run != DryRun::No {
        results.needs = std::mem::take(&mut sections.catalogs.needs);
        conclude_dry_run(
            context,
            &route.pushed_to(),
            (&bound.plan, stored.as_ref()),
            &sections,
            results,
        );
        return Ok(());
    }
    let mut inspected = match inspect(context, &route, &bound).await {
        Ok(inspected) => inspected,
        Err(failures) => {
            results.add_images(&bound.plan, &Outcome::planned(&bound.plan), |image| {
                image.destination.at(&target.registry).to_string()
            });
            return Err(failures.into());
        }
    };
    unless_cancelled(context)?;
    let refused = preflight::refused_images(context, &route, &bound.plan).await;
    inspected.given_up.extend(refused);
    unless_cancelled(context)?;
    let by_shards =
        delegate_push(context, &route, &mut bound, &mut inspected, &mut results.moved).await?;
    unless_cancelled(context)?;
    context.stage("copying");
    let publishing = Publishing {
        sections: &mut sections,
        source: Source::Held(&holdings),
        client: &client,
        lost: references(&results.issues.lost),
    };
    let delivered = deliver(context, &route, bound, &inspected, publishing, |_, _| {}).await;
    // The list of what the archives have is not needed while records and the report are written.
    let pushed_to = PushedTo { registry: &target.registry, traffic: client.traffic() };
    drop((route, inspected, holdings));
    conclude(context, &pushed_to, delivered, &mut sections, results);
    results.requests.destination += by_shards.destination;
    results.requests.retries += by_shards.retries;
    Ok(())
}

/// What was found in transferred content.
struct FoundContent {
    sections: Sections,
    gathered: Gathered,
    issues: Issues,
}

impl FoundContent {
    fn is_incomplete(&self) -> bool {
        !(self.gathered.lost.is_empty()
            && self.issues.lost.is_empty()
            && self.issues.failures.is_empty())
    }

    fn take(self, results: &mut Results) -> (Sections, Gathered) {
        results.issues = self.issues;
        (self.sections, self.gathered)
    }
}

/// Selects images and finds them in `holdings`.
async fn find(
    context: &Context,
    target: &Target,
    client: &Client,
    holdings: &Holdings,
) -> Result<FoundContent, Halt> {
    let naming = context.settings.naming(target);
    let Selection { sections, named, known, issues } =
        select_images(context, Source::Held(holdings), client, Some(&naming)).await?;
    let gathered = match known {
        Some(known) => known,
        None => carried_content::find(holdings, named, &sections.made),
    };
    Ok(FoundContent { sections, gathered, issues })
}

/// Checks everything that is about to be pushed. What is missing or damaged
/// stops the run before it begins; with --allow-incomplete only the images
/// that need it fail.
async fn inspect(
    context: &Context,
    route: &Route<'_>,
    bound: &Bound,
) -> Result<Inspected, Vec<Failure>> {
    let Availability { here, there, nowhere } =
        availability::check(&route.client, &route.holdings, &bound.plan, &bound.presence)
            .await
            .map_err(|error| vec![Failure::new(Exit::GENERIC, chain(&error))])?;
    let mut given_up = BTreeMap::new();
    let mut missing: BTreeMap<String, (usize, BTreeSet<usize>)> = BTreeMap::new();
    for (digest, images) in nowhere {
        let place = whereabouts(&route.holdings, &digest);
        given_up.extend(images.iter().map(|image| (*image, format!("{digest} is {place}").into())));
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
