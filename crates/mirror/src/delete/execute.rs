//! The second phase: compares the list with the target, and deletes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use delete_plan::{
    Deleted, ImageList, ListedImage, Narrowed, RepositoryPlan, Step, narrowed, plan_repository,
    savings, subject_of_tag, undo,
};
use jiff::Timestamp;
use mirror_plan::{Destination, Exit, ImageTree, Kind, Mode, Origin, Target, TargetRecord};
use oci::{Digest, Platform, Repository, Tag};
use registry::Client;
use tokio_util::sync::CancellationToken;
use workspace::atomic_file::{self, Durability};
use workspace::{AuditEvent, AuditedDeletion, Lock, Run, RunStart, RunStatus, Workspace};

use super::garbage_collection::garbage_collection;
use super::observe::observe;
use super::perform::{Done, Performer, TagDeletion};
use super::report::{DeleteReport, DeletedImage, Fate};
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
    let kinds = deletion.list.images.iter().filter_map(|image| {
        let place = place(&image.reference.repository, &tag_of(image)?);
        Some((place, image.of_type.kind()))
    });
    let kinds = kinds.collect();
    let mut executor =
        Executor { deletion: &deletion, kinds, client: &client, pushed, run, report };
    let before = executor.pushed.record.clone();
    let interrupted = executor.run(&workspace, &cancel).await;
    let Executor { mut report, pushed, .. } = executor;
    if deletion.forget_content
        && let Some((_, lock)) = &writing
    {
        forget(&workspace, lock, &before, &pushed.record, &mut report);
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
fn offered_catalogs(deletion: &Deletion, record: &TargetRecord) -> Vec<Narrowed> {
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

struct Executor<'a> {
    deletion: &'a Deletion,
    kinds: BTreeMap<Destination, Kind>,
    client: &'a Client,
    pushed: Pushed,
    run: Option<&'a Run>,
    report: DeleteReport,
}

/// The requested tags of one repository.
type Requested = BTreeMap<Tag, Option<Digest>>;

impl Executor<'_> {
    /// Whether it was interrupted.
    async fn run(&mut self, workspace: &Workspace, cancel: &CancellationToken) -> bool {
        let repositories = self.requested();
        if self.run.is_some() && !self.write_undo(workspace) {
            return false;
        }
        let registry = self.deletion.target.registry.clone();
        let client = self.client;
        let mut performer = Performer { client, registry: &registry, tags: TagDeletion::Untested };
        let mut is_interrupted = false;
        let mut is_stopped = false;
        let mut deleted = BTreeSet::new();
        let before = self.pushed.record.clone();
        for catalog in offered_catalogs(self.deletion, &before) {
            let names: Vec<&str> = catalog.bundles.iter().map(|of| of.bundle.as_str()).collect();
            self.report.warnings.push(format!(
                "the catalog {} offers {}: mirror with a narrower configuration, or use --update-catalogs",
                catalog.place,
                names.join(", ")
            ));
        }
        for (repository, requested) in repositories {
            if is_stopped || cancel.is_cancelled() {
                is_interrupted |= !is_stopped && cancel.is_cancelled();
                self.not_reached(&repository, requested.keys());
                continue;
            }
            let record = &self.pushed.record;
            let state = observe(client, &registry, &repository, &requested, record);
            let state = match cancel.run_until_cancelled(state).await {
                Some(Ok(state)) => state,
                Some(Err(why)) => {
                    let message = format!("reading what {registry}/{repository} holds: {why}");
                    self.stop(&repository, &requested, &message);
                    is_stopped = true;
                    continue;
                }
                None => {
                    is_interrupted = true;
                    self.not_reached(&repository, requested.keys());
                    continue;
                }
            };
            let plan = plan_repository(&state, &requested);
            self.keep(&repository, &plan);
            let digests: BTreeMap<Tag, Digest> = state.tags;
            if self.deletion.dry_run {
                self.would(&repository, &requested, &plan, &mut deleted);
                continue;
            }
            let mut open: BTreeSet<Tag> = requested.keys().cloned().collect();
            for gone in &plan.gone {
                open.remove(gone);
                self.line(&repository, gone, requested[gone], Fate::AlreadyGone);
            }
            open.retain(|tag| {
                !plan.changed.iter().any(|changed| changed.tag == *tag)
                    && !plan.attached_to_kept.contains(tag)
            });
            let mut is_finished = true;
            for step in &plan.steps {
                if cancel.is_cancelled() {
                    (is_interrupted, is_finished) = (true, false);
                    break;
                }
                match performer.perform(&repository, step).await {
                    Ok(done) => {
                        self.done(&repository, step, &done, &requested, &mut deleted);
                        let done = tags_of(step);
                        open.retain(|tag| !done.contains(tag));
                    }
                    Err(error) => {
                        let names = tags_of(step);
                        let failed: Vec<&Tag> =
                            names.iter().filter(|tag| requested.contains_key(*tag)).collect();
                        for tag in &failed {
                            let fate = Fate::Failed { error: error.message.clone() };
                            self.line(&repository, tag, digests.get(*tag).copied(), fate);
                            open.remove(*tag);
                        }
                        let exit = self.exit_of(&repository, &requested);
                        let failure = Failure::new(exit, error.message).with_hint(error.hint);
                        self.report.errors.push(failure);
                        (is_stopped, is_finished) = (true, false);
                        break;
                    }
                }
            }
            self.not_reached(&repository, open.iter());
            if is_finished {
                for tag in &plan.gone {
                    let place = place(&repository, tag);
                    deleted.insert(place.clone());
                    self.pushed.forget(&place);
                }
            }
        }
        if !self.deletion.dry_run
            && let Err(error) = self.pushed.save()
        {
            self.report.fail(format!("recording what was deleted: {}", chain(&error)));
        }
        self.report.repositories = savings(&before, &deleted);
        if !deleted.is_empty() && !self.deletion.dry_run {
            match client.product(&registry).await {
                Ok(product) => self.report.garbage_collection = Some(garbage_collection(product)),
                Err(error) => {
                    let why = chain(&error);
                    self.report.warnings.push(format!("finding out what {registry} is: {why}"));
                }
            }
        }
        is_interrupted
    }

    /// The list by repositories, with the digests that are expected: by the plan, else by the record.
    fn requested(&mut self) -> BTreeMap<Repository, Requested> {
        let mut repositories: BTreeMap<Repository, Requested> = BTreeMap::new();
        let mut kept = Vec::new();
        let is_recorded = !self.pushed.record.images.is_empty();
        for image in &self.deletion.list.images {
            let repository = &image.reference.repository;
            let Some(tag) = tag_of(image) else { continue };
            let place = place(repository, &tag);
            let recorded = self.pushed.record.images.get(&place);
            let recorded = recorded.and_then(|known| Some(known.details.as_ref()?.root));
            let by_digest = image.reference.digest;
            let expected = self.deletion.expected.get(&place).copied().or(recorded).or(by_digest);
            // Where a record exists, what it does not have was pushed by others.
            if expected.is_none() && is_recorded && !is_attachment(&tag) {
                let because = "it was not mirrored there from this workspace".to_owned();
                kept.push((repository.clone(), tag, because));
                continue;
            }
            repositories.entry(repository.clone()).or_default().insert(tag, expected);
        }
        for (repository, tag, because) in kept {
            let text = format!("{} stays: {because}", place(&repository, &tag));
            self.report.warnings.push(text);
            self.line(&repository, &tag, None, Fate::Kept { because });
        }
        repositories
    }

    /// Writes the configuration that mirrors everything back, before anything is deleted.
    fn write_undo(&mut self, workspace: &Workspace) -> bool {
        let Some(run) = self.run else { return true };
        let mut deleted = Vec::new();
        for image in &self.deletion.list.images {
            let Some(tag) = tag_of(image) else { continue };
            let place = place(&image.reference.repository, &tag);
            let known = self.pushed.record.images.get(&place).and_then(|k| k.details.as_ref());
            let Some(known) = known else { continue };
            deleted.push(Deleted {
                platforms: self.pushed.record.tree(&place).map(platforms).unwrap_or_default(),
                place,
                kind: known.kind,
                origin: known.origin.clone(),
                digest: known.root,
            });
        }
        let (set, lost) = undo(&self.deletion.target, &deleted);
        for place in lost {
            self.report.warnings.push(format!(
                "the undo file cannot mirror {place} back: mirror with its configuration again"
            ));
        }
        let path = workspace.working_dir().join(format!("delete/undo-{:06}.yaml", run.number()));
        let written = set.to_yaml().map_err(|e| chain(&e)).and_then(|text| {
            let head = "# Mirrors back what this deletion removed: oc-mirror -c THIS_FILE ...\n";
            let text = format!("{head}{text}");
            atomic_file::write(&path, text.as_bytes(), Durability::Now).map_err(|e| chain(&e))
        });
        match written {
            Ok(()) => self.report.files.push(path),
            Err(why) => {
                self.report.fail(format!("nothing is deleted without an undo file: {why}"));
                return false;
            }
        }
        true
    }

    /// Reports tags that stay.
    fn keep(&mut self, repository: &Repository, plan: &RepositoryPlan) {
        for changed in &plan.changed {
            let because = format!(
                "it changed since the plan was made: expected {}, found {}",
                changed.expected, changed.found
            );
            self.report
                .warnings
                .push(format!("{} stays: {because}", place(repository, &changed.tag)));
            let fate = Fate::Kept { because };
            self.line(repository, &changed.tag, Some(changed.found), fate);
        }
        for tag in &plan.attached_to_kept {
            let fate = Fate::Kept { because: "the image it belongs to stays".to_owned() };
            self.line(repository, tag, None, fate);
        }
    }

    fn would(
        &mut self,
        repository: &Repository,
        requested: &Requested,
        plan: &RepositoryPlan,
        deleted: &mut BTreeSet<Destination>,
    ) {
        for tag in &plan.gone {
            self.line(repository, tag, requested[tag], Fate::AlreadyGone);
        }
        for step in &plan.steps {
            let (digest, fate) = match step {
                Step::Manifest { digest, .. } => {
                    self.report.manifests += 1;
                    (digest, Fate::WouldDelete)
                }
                Step::Tag { digest, kept_by, .. } => {
                    (digest, Fate::WouldUntag { kept_by: names(kept_by) })
                }
            };
            for tag in tags_of(step).iter().filter(|tag| requested.contains_key(*tag)) {
                deleted.insert(place(repository, tag));
                self.line(repository, tag, Some(*digest), fate.clone());
            }
        }
    }

    /// Reports, records and audits a step.
    fn done(
        &mut self,
        repository: &Repository,
        step: &Step,
        done: &Done,
        requested: &Requested,
        deleted: &mut BTreeSet<Destination>,
    ) {
        let tags = tags_of(step);
        let (digest, fate) = match (step, done) {
            (Step::Tag { digest, kept_by, .. }, Done::TagStays) => {
                let because = format!(
                    "{} also {} this manifest, and the registry cannot delete a tag alone",
                    names(kept_by).join(", "),
                    if kept_by.len() == 1 { "names" } else { "name" }
                );
                (digest, Fate::Kept { because })
            }
            (Step::Tag { digest, kept_by, .. }, _) => {
                (digest, Fate::Untagged { kept_by: names(kept_by) })
            }
            (Step::Manifest { digest, .. }, done) => {
                self.report.manifests += usize::from(matches!(done, Done::Deleted(_)));
                (digest, Fate::Deleted)
            }
        };
        for tag in tags.iter().filter(|tag| requested.contains_key(*tag)) {
            let place = place(repository, tag);
            if !matches!(fate, Fate::Kept { .. }) {
                self.pushed.forget(&place);
                deleted.insert(place);
            }
            self.line(repository, tag, Some(*digest), fate.clone());
        }
        let response = match done {
            Done::Deleted(response) => response.clone(),
            Done::Absent => "HTTP 404: it did not exist".to_owned(),
            Done::TagStays => return,
        };
        let reason =
            tags.iter().find_map(|tag| self.deletion.reasons.get(&place(repository, tag)).cloned());
        self.audit(AuditedDeletion {
            repository: format!("{}/{repository}", self.deletion.target.registry),
            digest: *digest,
            tags: tags.iter().map(ToString::to_string).collect(),
            by_tag: matches!(step, Step::Tag { .. }),
            reason: reason.unwrap_or_else(|| "listed, or a part of what is listed".to_owned()),
            response,
        });
    }

    fn audit(&mut self, deleted: AuditedDeletion) {
        let Some(run) = self.run else { return };
        if let Err(error) = run.audit().write(&AuditEvent::Deleted(deleted)) {
            let warning = format!("the audit log could not be written: {}", chain(&error));
            self.report.warnings.push(warning);
        }
    }

    fn line(&mut self, repository: &Repository, tag: &Tag, digest: Option<Digest>, fate: Fate) {
        let place = place(repository, tag);
        let image = place.at(&self.deletion.target.registry);
        let kind = self.kinds.get(&place).copied().unwrap_or(Kind::Additional);
        self.report.images.push(DeletedImage { image, kind, digest, fate });
    }

    fn not_reached<'t>(&mut self, repository: &Repository, tags: impl Iterator<Item = &'t Tag>) {
        for tag in tags {
            self.line(repository, tag, None, Fate::NotReached);
        }
    }

    fn exit_of(&self, repository: &Repository, requested: &Requested) -> Exit {
        let kinds = requested.keys().filter_map(|tag| self.kinds.get(&place(repository, tag)));
        kinds.copied().next().map_or(Exit::GENERIC, Kind::exit)
    }

    /// A repository that cannot be read: nothing of it, or after it, is deleted.
    fn stop(&mut self, repository: &Repository, requested: &Requested, message: &str) {
        for tag in requested.keys() {
            let fate = Fate::Failed { error: message.to_owned() };
            self.line(repository, tag, None, fate);
        }
        let exit = self.exit_of(repository, requested);
        self.report.errors.push(Failure::new(exit, message));
    }
}

fn tags_of(step: &Step) -> BTreeSet<Tag> {
    match step {
        Step::Tag { tag, .. } => [tag.clone()].into(),
        Step::Manifest { tags, .. } => tags.clone(),
    }
}

fn names(tags: &[Tag]) -> Vec<String> {
    tags.iter().map(ToString::to_string).collect()
}

fn place(repository: &Repository, tag: &Tag) -> Destination {
    Destination { repository: repository.clone(), tag: tag.clone() }
}

/// The tag of an item. One by digest alone is stored under the tag `sha256-<hex>`.
fn tag_of(image: &ListedImage) -> Option<Tag> {
    let by_digest = || image.reference.digest.as_ref().map(Tag::of_digest);
    image.reference.tag.clone().or_else(by_digest)
}

/// The platforms of an image that was mirrored with some only.
fn platforms(tree: &ImageTree) -> Vec<Platform> {
    match tree.left_out.is_empty() {
        true => Vec::new(),
        false => tree.manifests.iter().filter_map(|node| node.platform.clone()).collect(),
    }
}

/// Whether a tag is one that signatures and lists of referrers have.
fn is_attachment(tag: &Tag) -> bool {
    // The digest of no manifest: any tag of the form counts.
    subject_of_tag(tag, &Digest::of(&[])).is_some()
}

/// Removes the images that no target has any more from the workspace, and content that nothing
/// needs.
fn forget(
    workspace: &Workspace,
    lock: &Lock,
    before: &TargetRecord,
    after: &TargetRecord,
    report: &mut DeleteReport,
) {
    let origins = |record: &TargetRecord| -> BTreeSet<Origin> {
        let details = record.images.values().filter_map(|image| image.details.as_ref());
        details.map(|known| known.origin.clone()).collect()
    };
    let mut gone = origins(before);
    let left = origins(after);
    gone.retain(|origin| !left.contains(origin));
    let registry = &report.target.registry;
    match pushed_log::of_other_targets(workspace, registry) {
        Ok(others) => gone.retain(|origin| {
            let name = origin.to_string();
            !others.iter().any(|text| text.contains(&name))
        }),
        Err(error) => return report.fail(chain(&error)),
    }
    let freed = workspace.plan_garbage_without(&gone).map_err(|error| chain(&error));
    let freed = freed.and_then(|plan| {
        workspace.free_garbage(lock, &plan).map_err(|error| chain(&error))?;
        Ok(plan.bytes())
    });
    match freed {
        Ok(bytes) => report.freed = Some(bytes),
        Err(why) => report.fail(format!("removing images from the workspace: {why}")),
    }
}
