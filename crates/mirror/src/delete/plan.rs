//! The first phase: what would be deleted, from the record of the target and transferred content.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use delete_plan::{
    Choice, ChoiceError, ImageList, Keep, ListedImage, Narrowed, Reasons, Request, Requested,
    choose, narrowed, savings,
};
use mirror_plan::{Destination, Exit, Kind, Target, TargetRecord};
use oci::{Digest, Tag};
use tokio_util::sync::CancellationToken;
use workspace::Workspace;

use super::{selection, version_1_names};
use crate::conclude::configuration_name;
use crate::error_chain::chain;
use crate::progress::Observer;
use crate::record::pushed_log;
use crate::report::Failure;
use crate::settings::{Configuration, Settings};

/// What shall be deleted.
#[derive(Debug, Clone)]
pub enum DeleteScope {
    /// What a configuration selects.
    Selected(Box<Configuration>),
    /// All that no configuration selects any more.
    Unused,
}

/// What the first phase needs to know.
#[derive(Debug, Clone)]
pub struct DeleteRequest {
    /// How to select in the workspace; the configuration of a run is not used.
    pub settings: Settings,
    pub target: Target,
    pub what: DeleteScope,
    /// Configurations whose images stay.
    pub keep: Vec<Configuration>,
    /// Files that take the place of what is on record for them.
    pub superseded: Vec<PathBuf>,
    /// Files whose configurations on record do not count any more.
    pub ignored: Vec<PathBuf>,
    pub all: bool,
    /// Lists the tags of signatures, too, for readers that do not delete them by themselves.
    pub signatures: bool,
    /// Lists images under the names that oc-mirror v1 gave them.
    pub version_1_names: bool,
}

/// What the second phase would do.
#[derive(Debug)]
pub struct PlannedDeletion {
    pub list: ImageList,
    pub reasons: Reasons,
    pub choice: Choice,
    /// Catalogs that offer what is deleted.
    pub catalogs: Vec<Narrowed>,
    /// What could not be selected, and is therefore not deleted.
    pub failures: Vec<Failure>,
}

/// Plans a deletion. Changes nothing, and contacts no registry.
pub async fn plan(
    request: DeleteRequest,
    observer: Arc<dyn Observer>,
    cancel: CancellationToken,
) -> Result<PlannedDeletion, Vec<Failure>> {
    // As a run does: disks are waited for on a thread of its own.
    let runtime = tokio::runtime::Handle::current();
    let thread = move || runtime.block_on(plan_here(request, observer, cancel));
    match tokio::task::spawn_blocking(thread).await {
        Ok(planned) => planned,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

async fn plan_here(
    request: DeleteRequest,
    observer: Arc<dyn Observer>,
    cancel: CancellationToken,
) -> Result<PlannedDeletion, Vec<Failure>> {
    let DeleteRequest { settings, target, what, keep, superseded, all, .. } = &request;
    let workspace = Workspace::open(settings.workflow.directory());
    let record = pushed_log::read(&workspace, &target.registry)
        .map_err(|error| vec![Failure::new(Exit::GENERIC, chain(&error))])?
        .unwrap_or_default();
    check_ignored(&record, &request.ignored)?;
    let mut kept = Vec::new();
    for configuration in keep {
        let name = configuration.path.display().to_string();
        let selected =
            Box::pin(selection::select(settings, target, configuration, &observer, &cancel))
                .await?;
        // Whatever could not be selected may be in use.
        if !selected.failures.is_empty() {
            let context = |mut failure: Failure| {
                failure.message = format!("selecting what {name} keeps: {}", failure.message);
                failure.with_hint("nothing is deleted unless everything that stays is known")
            };
            return Err(selected.failures.into_iter().map(context).collect());
        }
        kept.push(Keep { name, images: selected.images.into_keys().collect() });
    }
    let mut failures = Vec::new();
    let (mut images, channels) = match what {
        DeleteScope::Unused => (unused(&record, target), None),
        DeleteScope::Selected(configuration) => {
            let selected =
                Box::pin(selection::select(settings, target, configuration, &observer, &cancel))
                    .await?;
            failures = selected.failures;
            let reason = format!("selected by {}", configuration.path.display());
            let images = selected.images.into_iter();
            // Catalogs are shared: they are replaced, not deleted.
            let images = images.filter(|(_, (wanted, _))| wanted.kind != Kind::Catalog);
            let requested = |(place, (wanted, digest)): (Destination, (_, Option<Digest>))| {
                let mirror_plan::Wanted { kind, origin, .. } = wanted;
                let (origin, reason) = (Some(origin), reason.clone());
                (place, Requested { kind, origin, digest, reason })
            };
            (images.map(requested).collect(), Some(selected.catalogs))
        }
    };
    // With a record, what is not on it was not pushed from here. Without one, as after an import,
    // an image that has the digest of the transferred one counts as pushed from here.
    if !record.images.is_empty() {
        for (place, image) in &mut images {
            if !record.images.contains_key(place) {
                image.digest = None;
            }
        }
    }
    if request.version_1_names {
        version_1_names::add(&mut images);
    }
    let chosen = choose(
        &record,
        Request {
            target,
            images,
            channels,
            keep: kept,
            superseded: superseded
                .iter()
                .chain(&request.ignored)
                .map(|path| configuration_name(path))
                .collect(),
            all: *all,
        },
    );
    let choice = match chosen {
        Ok(choice) => choice,
        Err(error) => {
            failures.push(refused(&error, record.images.is_empty()));
            return Err(failures);
        }
    };
    let going: BTreeSet<Destination> = choice.items.iter().map(|item| item.place.clone()).collect();
    let catalogs = narrowed(&record, target, &choice.bundles, &going);
    let bytes = |place: &Destination| {
        record.tree(place).map_or(0, |tree| {
            let manifests: u64 = tree.all_manifests().map(|node| node.size).sum();
            manifests + tree.blobs().values().sum::<u64>()
        })
    };
    let reasons = Reasons::new(target, &choice, bytes, savings(&record, &going));
    let mut list = ImageList::default();
    for item in &choice.items {
        let listed = ListedImage::new(&item.place, target, item.origin.as_ref(), item.kind);
        if request.signatures {
            list.images.extend(signatures(&record, &item.place, &listed));
        }
        list.images.push(listed);
    }
    list.images.sort();
    list.images.dedup();
    Ok(PlannedDeletion { list, reasons, choice, catalogs, failures })
}

/// A mistyped name must not appear to be ignored.
fn check_ignored(record: &TargetRecord, ignored: &[PathBuf]) -> Result<(), Vec<Failure>> {
    let is_unknown =
        |path: &&PathBuf| !record.configurations.contains_key(&configuration_name(path));
    let unknown = ignored.iter().filter(is_unknown).map(|path| {
        let known: Vec<&str> = record.configurations.keys().map(String::as_str).collect();
        let message = format!(
            "invalid value for --ignore-configuration: {} is not on record for this target",
            path.display()
        );
        let hint = match known.is_empty() {
            true => "no configuration is on record".to_owned(),
            false => format!("on record are: {}", known.join(", ")),
        };
        Failure::new(Exit::GENERIC, message).with_hint(hint)
    });
    let unknown: Vec<Failure> = unknown.collect();
    if unknown.is_empty() { Ok(()) } else { Err(unknown) }
}

/// Everything on record below the target; what is in use is kept later.
fn unused(record: &TargetRecord, target: &Target) -> BTreeMap<Destination, Requested> {
    let below = |place: &Destination| match &target.namespace {
        None => true,
        Some(namespace) => {
            let rest = place.repository.as_str().strip_prefix(namespace.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        }
    };
    let images = record.images.iter().filter(|(place, _)| below(place));
    let requested = images.filter_map(|(place, image)| {
        // What version 1 recorded has no users on record, so it may be in use.
        let known = image.details.as_ref()?;
        let reason = "no configuration selects it".to_owned();
        let (kind, origin) = (known.kind, Some(known.origin.clone()));
        Some((place.clone(), Requested { kind, origin, digest: Some(known.root), reason }))
    });
    requested.collect()
}

/// The signature tags of an image, for each of its manifests.
fn signatures(record: &TargetRecord, place: &Destination, image: &ListedImage) -> Vec<ListedImage> {
    let Some(tree) = record.tree(place) else { return Vec::new() };
    let tags: BTreeSet<&Tag> =
        tree.attachments.iter().filter_map(|attachment| attachment.tag.as_ref()).collect();
    let listed = tags.into_iter().map(|tag| {
        let mut signature = image.clone();
        signature.reference.tag = Some(tag.clone());
        signature
    });
    listed.collect()
}

fn refused(error: &ChoiceError, nothing_on_record: bool) -> Failure {
    let failure = Failure::new(Exit::GENERIC, error.to_string());
    match error {
        ChoiceError::Empty { .. } if nothing_on_record => failure.with_hint(
            "this workspace has no record of the target: give the one that was mirrored from with --workspace",
        ),
        ChoiceError::Empty { .. } => failure.with_hint(
            "compare the configuration with the one that was mirrored: a DeleteImageSetConfiguration selects in the same way",
        ),
        ChoiceError::Everything { .. } => {
            failure.with_hint("give --all to delete everything that was mirrored")
        }
    }
}
