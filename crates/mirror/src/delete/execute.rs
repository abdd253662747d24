//! The second phase: compares the list with the target, and deletes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use delete_plan::{ImageList, ListedImage, Narrowed, narrowed};
use jiff::Timestamp;
use mirror_plan::{Destination, Exit, Kind, Mode, Target, TargetRecord};
use oci::{Digest, Repository, Tag};
use registry::Client;
use tokio_util::sync::CancellationToken;
use workspace::{Lock, Run, RunStart, RunStatus, Workspace};

use super::executor::Executor;
use super::forget_content::forget_content;
use super::report::DeleteReport;
use super::update_catalogs;
use crate::error_chain::chain;
use crate::record::pushed_log::{self, Pushed};
use crate::report::{Ending, Failure};
use crate::settings::Settings;

/// What the second phase needs to know. The list was checked against the target.
#[derive(Debug)]
pub struct Deletion {
    pub workspace: PathBuf,
    pub target: Target,
    /// How the target is contacted.
    pub registry: registry::Settings,
    pub list: ImageList,
    /// The digests that tags are expected to have, by the plan.
    pub expected: BTreeMap<Destination, Digest>,
    /// Why images are deleted, by the plan.
    pub reasons: BTreeMap<Destination, String>,
    /// Only reports what would be done, after a comparison with the target.
    pub dry_run: bool,
    /// Also removes deleted images from the workspace.
    pub forget_content: bool,
    /// Replaces catalogs first by ones without the deleted bundles, selected with these settings.
    pub update_catalogs: Option<Settings>,
    /// The command line, for the audit log.
    pub arguments: Vec<String>,
    /// Version of the program.
    pub version: String,
    /// File name and text of what was requested, for the audit log.
    pub request: (String, String),
}

/// Deletes what the list names. Always returns a report.
///
/// # Guarantees
/// A tag that does not name the expected manifest stays, and so does a manifest that anything else
/// in its repository leads to. After an interruption, or a failure, the same call finishes.
pub async fn execute(deletion: Deletion, cancel: CancellationToken) -> DeleteReport {
    let runtime = tokio::runtime::Handle::current();
    let thread = move || runtime.block_on(execute_here(deletion, cancel));
    match tokio::task::spawn_blocking(thread).await {
        Ok(report) => report,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

async fn execute_here(deletion: Deletion, cancel: CancellationToken) -> DeleteReport {
    let target = deletion.target.clone();
    let workspace = Workspace::open(&deletion.workspace);
    let fail = |message: String| Failure::new(Exit::GENERIC, message);
    let client = match Client::open(deletion.registry.clone()) {
        Ok(client) => client,
        Err(error) => return DeleteReport::refused(&target, fail(chain(&error))),
    };
    let replaced = match update(&deletion, &workspace, &cancel).await {
        Ok(replaced) => replaced,
        Err(failures) => {
            let report = DeleteReport::new(&target);
            return DeleteReport { ending: Ending::Failed, errors: failures, ..report };
        }
    };
    let writing = match deletion.dry_run {
        true => None,
        false => match begin(&workspace, &deletion) {
            Ok(writing) => Some(writing),
            Err(failure) => return DeleteReport::refused(&target, failure),
        },
    };
    // A record that cannot be read protects nothing, so nothing is deleted without it.
    let pushed = match pushed_log::read(&workspace, &target.registry) {
        Ok(_) => Pushed::open(&workspace, &target.registry),
        Err(error) => {
            if let Some((run, _)) = writing {
                let _ = run.end(RunStatus::Failed, Vec::new());
            }
            return DeleteReport::refused(&target, fail(chain(&error)));
        }
    };
    let mut report = DeleteReport::new(&target);
    report.replaced_catalogs = replaced;
    report.run = writing.as_ref().map(|(run, _)| run.number());
    let run = writing.as_ref().map(|(run, _)| run);
    let before = pushed.record.clone();
    let mut executor = Executor::new(&deletion, &client, pushed, run, report);
    let interrupted = executor.run(&workspace, &cancel).await;
    let Executor { mut report, pushed, .. } = executor;
    if deletion.forget_content
        && let Some((_, lock)) = &writing
    {
        forget_content(&workspace, lock, &before, &pushed.record, &mut report);
    }
    report.images.sort_by_key(|line| line.image.to_string());
    report.settle(deletion.dry_run, interrupted);
    report.requests = client.traffic().requests;
    if let Some((run, _lock)) = writing
        && let Err(error) = run.end(report.ending.recorded(), Vec::new())
    {
        report.fail(chain(&error));
    }
    report
}

/// Replaces catalogs that offer what is deleted, where that is requested.
async fn update(
    deletion: &Deletion,
    workspace: &Workspace,
    cancel: &CancellationToken,
) -> Result<Vec<String>, Vec<Failure>> {
    let Some(settings) = deletion.update_catalogs.as_ref().filter(|_| !deletion.dry_run) else {
        return Ok(Vec::new());
    };
    let target = &deletion.target;
    let record = pushed_log::read(workspace, &target.registry)
        .map_err(|error| vec![Failure::new(Exit::GENERIC, chain(&error))])?
        .unwrap_or_default();
    let catalogs = offered_catalogs(deletion, &record);
    update_catalogs::update(settings, target, &record, &catalogs, cancel).await
}

/// The catalogs at the target that offer bundles of the list.
pub(crate) fn offered_catalogs(deletion: &Deletion, record: &TargetRecord) -> Vec<Narrowed> {
    let places = deletion.list.images.iter();
    let places =
        places.filter_map(|image| Some(place(&image.reference.repository, &tag_of(image)?)));
    let going: BTreeSet<Destination> = places.collect();
    let details = going.iter().filter_map(|place| record.images.get(place)?.details.as_ref());
    let bundles = details.filter(|known| known.kind == Kind::Bundle);
    let bundles = bundles.flat_map(|known| known.users.values().flatten().cloned()).collect();
    narrowed(record, &deletion.target, &bundles, &going)
}

/// Takes the lock of the workspace and a run number.
fn begin(workspace: &Workspace, deletion: &Deletion) -> Result<(Run, Lock), Failure> {
    let fail =
        |error: &(dyn std::error::Error + 'static)| Failure::new(Exit::GENERIC, chain(error));
    let lock = workspace.lock(&deletion.arguments).map_err(|e| fail(&e))?;
    let (name, text) = &deletion.request;
    let start = RunStart {
        mode: Mode::Delete,
        started: Timestamp::now(),
        program: &format!("oc-mirror {}", deletion.version),
        arguments: &deletion.arguments,
        configuration: Some((name, text)),
        target: Some(&deletion.target.to_string()),
    };
    let run = workspace.begin_run(&lock, &start).map_err(|e| fail(&e))?;
    Ok((run, lock))
}

pub(crate) fn place(repository: &Repository, tag: &Tag) -> Destination {
    Destination { repository: repository.clone(), tag: tag.clone() }
}

/// The tag of an item. One by digest alone is stored under the tag `sha256-<hex>`.
pub(crate) fn tag_of(image: &ListedImage) -> Option<Tag> {
    let by_digest = || image.reference.digest.as_ref().map(Tag::of_digest);
    image.reference.tag.clone().or_else(by_digest)
}
