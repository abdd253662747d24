//! Replaces catalogs at the target by ones without the bundles that are about to be deleted, so that
//! no cluster is offered a bundle that is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use delete_plan::Narrowed;
use image_set::ImageSetConfiguration;
use mirror_plan::{Action, Exit, Kind, Mode, Target, TargetRecord};
use oci::ImageRef;
use tokio_util::sync::CancellationToken;

use super::{selection, undo_file};
use crate::collect::releases::Source;
use crate::context::Context;
use crate::gather::carried_content;
use crate::modes::push::{Inspected, Publishing, Route, bind, deliver};
use crate::pipeline::{self, Selection, select_images};
use crate::progress::Unobserved;
use crate::record::pushed_log::Pushed;
use crate::report::{Failure, Outcome};
use crate::results::{Halt, Results, reference};
use crate::settings::{BrokenBundles, Configuration, DryRun, Settings};
use crate::transfer::supply::Supplies;

/// Replaces `catalogs`. Nothing is deleted unless all of them are replaced.
pub(crate) async fn update(
    settings: &Settings,
    target: &Target,
    record: &TargetRecord,
    catalogs: &[Narrowed],
    cancel: &CancellationToken,
) -> Result<Vec<String>, Vec<Failure>> {
    let mut replaced = Vec::new();
    for catalog in catalogs {
        let configuration = configuration_of(record, catalog).map_err(|error| {
            let message = format!("replacing the catalog {}: {error}", catalog.place);
            vec![Failure::new(Exit::OPERATOR, message).with_hint(
                "nothing was deleted; mirror with a narrower configuration first, or delete without --update-catalogs",
            )]
        })?;
        let settings = Settings {
            configuration,
            dry_run: DryRun::No,
            broken_bundles: BrokenBundles::LeaveOut,
            allow_incomplete: true,
            ..settings.clone()
        };
        let (context, warnings) = Context::open(settings, Arc::new(Unobserved), cancel.clone())
            .map_err(|failure| vec![failure])?;
        let mut results = Results::default();
        let missing = images_of(record, catalog);
        let done = Box::pin(replace(&context, target, missing, &mut results)).await;
        if let Err(halt) = done {
            results.halt(halt);
        }
        let report = context.close(results, &warnings);
        let failed = report.images.iter().filter_map(|line| match &line.outcome {
            Outcome::Failed { error } => {
                let message = format!("replacing the catalog {}: {error}", line.destination);
                Some(Failure::new(Exit::OPERATOR, message))
            }
            _ => None,
        });
        let failures: Vec<Failure> = failed.chain(report.errors.iter().cloned()).collect();
        if !failures.is_empty() || report.exit_code() != 0 {
            return Err(failures);
        }
        replaced.push(catalog.place.to_string());
    }
    Ok(replaced)
}

/// Why a catalog cannot be built again.
#[derive(Debug, thiserror::Error)]
enum ConfigurationError {
    #[error("the configuration that published it is not on record")]
    NotOnRecord,
    #[error("{name} does not have the catalog {catalog}")]
    NoCatalog { name: String, catalog: String },
}

/// The part of a configuration on record that published a catalog: the last run decides what it
/// offers.
fn configuration_of(
    record: &TargetRecord,
    catalog: &Narrowed,
) -> Result<Configuration, ConfigurationError> {
    let details = record.images.get(&catalog.place).and_then(|image| image.details.as_ref());
    let (name, text, mut set) = details
        .and_then(|known| undo_file::configurations(record, known).next())
        .ok_or(ConfigurationError::NotOnRecord)?;
    set.mirror.operators.retain(|operator| operator.catalog.to_string() == catalog.source);
    let mut only = ImageSetConfiguration::default();
    only.mirror.operators = set.mirror.operators;
    if only.mirror.operators.is_empty() {
        let (name, catalog) = (name.to_owned(), catalog.source.clone());
        return Err(ConfigurationError::NoCatalog { name, catalog });
    }
    // Not the name of the file: this run selects only a part of it.
    let path = PathBuf::from(format!("catalogs of {name}"));
    Ok(Configuration { path, text: text.to_owned(), set: only })
}

/// The images of the bundles that the catalog must not offer any more.
fn images_of(record: &TargetRecord, catalog: &Narrowed) -> BTreeSet<ImageRef> {
    let details = record.images.values().filter_map(|image| image.details.as_ref());
    let bundles = details.filter(|known| {
        known.kind == Kind::Bundle
            && known.users.values().flatten().any(|of| catalog.bundles.contains(of))
    });
    bundles.filter_map(|known| reference(&known.origin).cloned()).collect()
}

async fn replace(
    context: &Context,
    target: &Target,
    missing: BTreeSet<ImageRef>,
    results: &mut Results,
) -> Result<(), Halt> {
    let client = pipeline::client(&context.settings.destination)?;
    let holdings = selection::holdings(context)?;
    let naming = context.settings.naming(target);
    let Selection { mut sections, mut named, issues, .. } =
        select_images(context, Source::Held(&holdings), &client, Some(&naming)).await?;
    results.issues = issues;
    named.retain(|(wanted, _)| wanted.kind == Kind::Catalog);
    let gathered = carried_content::find(&holdings, named, &sections.made);
    let holdings = Arc::new(holdings);
    let route = Route {
        place: target,
        client: client.clone(),
        holdings: Arc::clone(&holdings),
        supplies: Supplies::FromDisk(Arc::clone(&holdings)),
    };
    let found = gathered.found;
    let bound = bind(
        context,
        &route,
        Mode::DiskToMirror,
        found,
        crate::plan::presence::TargetDigests::default(),
    )
    .await?;
    // The new catalog is based on the layers of the old one, which the target has.
    let mut inspected = Inspected::default();
    for image in bound.plan.images.iter().filter(|image| image.action == Action::Present) {
        let blobs = bound.plan.tree(image).blobs().into_keys();
        let repository = &image.destination.repository;
        inspected.there.extend(blobs.map(|digest| (repository.clone(), digest)));
    }
    let publishing = Publishing {
        sections: &mut sections,
        source: Source::Held(&holdings),
        client: &client,
        lost: missing,
    };
    let delivered =
        Box::pin(deliver(context, &route, bound, &inspected, publishing, |_, _| {})).await;
    results.issues.extend(delivered.issues);
    let mut offered = BTreeMap::new();
    for part in &delivered.parts {
        for (index, image) in part.plan.images.iter().enumerate() {
            if part.replaced.contains(&index) {
                continue;
            }
            let outcome = &part.outcomes[index];
            let is_there = matches!(outcome, Outcome::Present | Outcome::Copied);
            if let Some(content) = sections.catalogs.offered.get(&image.origin)
                && is_there
            {
                offered.insert(image.destination.clone(), content.clone());
            }
            let place = image.destination.at(&target.registry).to_string();
            let line = crate::report::ImageLine::of(&part.plan, image, place, outcome.clone());
            results.images.push(line);
        }
    }
    let mut pushed = Pushed::open(&context.workspace, &target.registry);
    pushed.offer(offered);
    pushed.save().map_err(|error| Halt::generic(crate::error_chain::chain(&error)))
}
