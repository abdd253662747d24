//! Converts a workspace and a cache of oc-mirror v2: content, records, documents and history.
//!
//! Mirror to disk whose source is what oc-mirror v2 left. The old workspace and the cache are only
//! read; content is cloned or linked, so that it takes next to no space. What cannot be converted is
//! listed, and requires nothing but a download in the next run.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mirror_plan::{Direction, Exit, ImageRecord, Mode, Plan, PlannedImage, plan};
use oci::Digest;
use workspace::archive::{ArchivePlan, ArchiveRequest, ArchiveStatus, Base};
use workspace::distribution::{Distribution, V2WorkingDir};
use workspace::{Adopted, Holdings};

use crate::collect::releases::Source;
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::{OnDisk, carried_content};
use crate::pipeline::{self, Selection, select_images};
use crate::progress::Event;
use crate::record::archive::arrived;
use crate::report::{Failure, Outcome};
use crate::results::{Halt, Results, unless_cancelled};
use crate::transfer::fetch::{self, Announce};
use crate::transfer::supply::Supplies;

/// Names of files and folders that version 1 of oc-mirror leaves.
const VERSION_1: [&str; 4] = [
    "oc-mirror-workspace",
    "publish/.metadata.json",
    "src/publish/.metadata.json",
    ".oc-mirror.log",
];
/// How many names a list of what was not converted has.
const LISTED: usize = 20;

/// Converts what oc-mirror v2 left in `old` and in the cache of this run.
pub(crate) async fn migrate(
    context: &Context,
    old: &Path,
    results: &mut Results,
) -> Result<(), Halt> {
    let Some(working_dir) = V2WorkingDir::find(old) else {
        return Err(not_a_workspace(old).into());
    };
    let notes = &mut results.issues.notes;
    if let Some(name) = VERSION_1.iter().find(|name| old.join(name).exists()) {
        notes.push(format!(
            "not converted: {} belongs to version 1 of oc-mirror; docs/migrating-from-v1.md describes what to do",
            old.join(name).display()
        ));
    }
    let mut distribution = Distribution::default();
    let mut names = BTreeSet::new();
    match &context.cache {
        Some(cache) => {
            let adopted = adopt_all(context).await?;
            notes.push(converted_blobs(&adopted));
            let damaged = adopted.damaged.iter();
            notes.extend(damaged.map(|digest| {
                let path = cache.blob_path(digest);
                format!("not converted: {} is damaged", path.display())
            }));
            names.extend(cache.names().map_err(|e| Halt::generic(chain(&e)))?);
            distribution.add_cache(cache.clone());
        }
        None => notes.push(
            "not converted: the content of images, as no cache of oc-mirror v2 was found; name it with --cache-dir".to_owned(),
        ),
    }
    unless_cancelled(context)?;
    distribution.add_working_dir(working_dir.clone());
    let holdings = Holdings::new(Some(context.workspace.clone()), None);
    let holdings = Arc::new(holdings.with_distribution(distribution));
    let (plan, outcomes) = record_images(context, &holdings, results).await?;
    for image in &plan.images {
        names.remove(&image.destination);
    }
    if !names.is_empty() {
        let mut text: Vec<String> = names.iter().take(LISTED).map(ToString::to_string).collect();
        if names.len() > LISTED {
            text.push("…".to_owned());
        }
        results.issues.notes.push(format!(
            "not converted: the names of {} in the cache that the configuration does not select (their content is kept): {}",
            count(names.len(), "image"),
            text.join(", ")
        ));
    }
    record_history(context, &working_dir, &plan, &outcomes, results)
}

fn not_a_workspace(old: &Path) -> Failure {
    if VERSION_1.iter().any(|name| old.join(name).exists()) {
        let message = format!(
            "{} is a workspace of oc-mirror version 1, which cannot be converted",
            old.display()
        );
        return Failure::new(Exit::GENERIC, message)
            .with_hint("docs/migrating-from-v1.md describes how to convert a version 1 setup");
    }
    let message = format!("{} has no working-dir of oc-mirror v2", old.display());
    Failure::new(Exit::GENERIC, message).with_hint(
        "name the directory that was given to oc-mirror v2 as file://DIR or with --workspace",
    )
}

fn converted_blobs(adopted: &Adopted) -> String {
    format!(
        "{} of {} from the cache are in the workspace",
        count(usize::try_from(adopted.blobs).unwrap_or(usize::MAX), "blob"),
        format_args!("{} MB", adopted.bytes / 1_000_000)
    )
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// Takes all content over, hashing it on all processors.
async fn adopt_all(context: &Context) -> Result<Adopted, Halt> {
    context.stage("copying");
    let (store, cancel) = (context.workspace.blobs().clone(), context.cancel.clone());
    let observer = Arc::clone(&context.observer);
    let done = AtomicU64::new(0);
    let adopt = move || {
        store.adopt_all(&|bytes| {
            let bytes = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            observer.notice(Event::Verified { bytes, of: bytes });
            !cancel.is_cancelled()
        })
    };
    match tokio::task::spawn_blocking(adopt).await {
        Ok(adopted) => adopted.map_err(|e| Halt::generic(chain(&e))),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// Records the images that the configuration selects, as far as they are here.
async fn record_images(
    context: &Context,
    holdings: &Arc<Holdings>,
    results: &mut Results,
) -> Result<(Arc<Plan>, Vec<Outcome>), Halt> {
    let client = pipeline::client(&context.settings.source)?;
    let Selection { mut sections, named, issues, .. } =
        select_images(context, Source::Held(holdings), &client, None).await?;
    results.issues.notes.extend(issues.notes);
    let lost = issues.lost.into_iter();
    let failures = issues.failures.into_iter().map(|failure| failure.message);
    let mut missed: Vec<String> =
        lost.map(|(wanted, _, why)| format!("{}: {why}", wanted.origin)).chain(failures).collect();
    let mut gathered = carried_content::find(holdings, named, &sections.made);
    gathered.remove_attachments(context.settings.attachments);
    missed.extend(gathered.lost.iter().map(|(wanted, _, why)| format!("{}: {why}", wanted.origin)));
    results.issues.notes.extend(missed.into_iter().map(|text| format!("not converted: {text}")));
    gathered.found.append(&mut sections.catalogs.stored);
    let held = OnDisk::new(context, &gathered.found);
    let direction = Direction { mode: Mode::MirrorToDisk, target: None };
    let plan = Arc::new(plan(direction, gathered.found, &held));
    context.planned(&plan, &sections, &results.issues);
    let (needs, mut outcomes) = fetch::missing(context, &plan);
    let supplies = Supplies::FromDisk(Arc::clone(holdings));
    let (_, moved) =
        fetch::fetch(context, &supplies, &plan, needs, &mut outcomes, Announce::All, None).await;
    results.moved += moved;
    unless_cancelled(context)?;
    sections.lay_out(context, &plan, &outcomes);
    let place =
        |image: &PlannedImage| context.workspace.layout_of(&image.origin).display().to_string();
    results.add_images(&plan, &outcomes, place);
    Ok((plan, outcomes))
}

/// Records what oc-mirror v2 archived, so that the next archive contains only what is new.
fn record_history(
    context: &Context,
    working_dir: &V2WorkingDir,
    plan: &Plan,
    outcomes: &[Outcome],
    results: &mut Results,
) -> Result<(), Halt> {
    let fail = |why: String| Halt::generic(format!("converting the history: {why}"));
    let history = working_dir.history().map_err(|e| fail(chain(&e)))?;
    let notes = &mut results.issues.notes;
    if history.digests.is_empty() {
        notes.push("there is no history: the first archive will contain everything".to_owned());
        return Ok(());
    }
    let is_delivered = |image: &ImageRecord| {
        let manifests = image.tree.all_manifests().map(|node| node.digest);
        let mut all = manifests.chain(image.tree.blobs().into_keys());
        all.all(|digest: Digest| history.digests.contains(&digest))
    };
    let images = arrived(context, plan, outcomes);
    let (delivered, rest): (Vec<ImageRecord>, Vec<ImageRecord>) =
        images.into_iter().partition(is_delivered);
    let (number, others) = (delivered.len(), rest.len());
    let Some((run, lock)) = context.writing() else { return Ok(()) };
    if number == 0 {
        notes
            .push("not converted: the history, as no converted image is complete in it".to_owned());
        return Ok(());
    }
    let planned = context.workspace.plan_archive(ArchiveRequest {
        run: run.number(),
        created: history.written,
        status: ArchiveStatus::Complete,
        failed: Vec::new(),
        images: delivered,
        files: Default::default(),
        base: Base::Newest,
        limit: u64::MAX / 2,
    });
    if let ArchivePlan::Write(planned) = planned.map_err(|e| fail(chain(&e)))? {
        context.workspace.record_delivered(lock, &planned, 0).map_err(|e| fail(chain(&e)))?;
    }
    notes.push(format!(
        "{} were in archives of oc-mirror v2 up to {}; the next archive contains only what is new{}",
        count(number, "image"),
        history.written,
        match others {
            0 => String::new(),
            _ => format!(", and {} that these archives lack", count(others, "image")),
        }
    ));
    Ok(())
}
