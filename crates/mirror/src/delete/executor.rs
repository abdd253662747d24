//! Deletes what a list names, repository by repository.

mod reporting;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use delete_plan::{RepositoryPlan, Step, plan_repository, savings, subject_of_tag};
use mirror_plan::{Destination, Kind, TargetRecord};
use oci::{Digest, Repository, Tag};
use registry::{Client, Location};
use tokio_util::sync::CancellationToken;
use workspace::{DiskError, JournalEvent, Run, Workspace};

use super::execute::{Deletion, offered_catalogs, place, tag_of};
use super::garbage_collection::garbage_collection;
use super::observe::{Comparison, Observed, TAG_PAGES, observe};
use super::perform::{Done, Performer, StepError, TagDeletion};
use super::report::{DeleteReport, DeletedImage, DeletionOutcome};
use super::undo_file;
use crate::error_chain::chain;
use crate::record::pushed_log::Pushed;
use crate::report::Failure;

/// So many tags are compared again right before their deletion, however many requests that takes.
const FEW_TAGS: usize = 50;
/// How often a repository is read again because tags were moved while it was deleted from.
const MAX_OBSERVATIONS: usize = 5;

/// A deletion in progress.
pub(crate) struct Executor<'a> {
    deletion: &'a Deletion,
    kinds: BTreeMap<Destination, Kind>,
    client: &'a Client,
    pub(crate) pushed: Pushed,
    run: Option<&'a Run>,
    pub(crate) report: DeleteReport,
    /// What was deleted from the target.
    deleted: BTreeSet<Destination>,
    /// Tags that the registry cannot delete alone.
    undeletable: usize,
    /// The record before anything was deleted.
    before: TargetRecord,
    /// Whether the undo file is written.
    has_undo: bool,
}

/// The requested tags of one repository, with the digests that they are expected to have.
type Requested = BTreeMap<Tag, Option<Digest>>;

/// Why a deletion ends before its last repository.
enum End {
    Interrupted,
    /// Reported.
    Failed,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(
        deletion: &'a Deletion,
        client: &'a Client,
        pushed: Pushed,
        run: Option<&'a Run>,
        report: DeleteReport,
    ) -> Self {
        let kinds = deletion.list.images.iter().filter_map(|image| {
            let place = place(&image.reference.repository, &tag_of(image)?);
            Some((place, image.of_type.kind()))
        });
        let kinds = kinds.collect();
        Self {
            deletion,
            kinds,
            client,
            before: pushed.record.clone(),
            pushed,
            run,
            report,
            deleted: BTreeSet::new(),
            undeletable: 0,
            has_undo: false,
        }
    }

    /// Whether it was interrupted.
    pub(crate) async fn run(&mut self, workspace: &Workspace, cancel: &CancellationToken) -> bool {
        let repositories = self.requested();
        self.warn_of_catalogs();
        let registry = self.deletion.target.registry.clone();
        let mut performer =
            Performer { client: self.client, registry: &registry, tags: TagDeletion::Untested };
        let mut end: Option<End> = None;
        for (repository, requested) in repositories {
            if end.is_none() && cancel.is_cancelled() {
                end = Some(End::Interrupted);
            }
            if end.is_some() {
                self.not_reached(&repository, requested.keys());
                continue;
            }
            let deleted =
                self.delete_from(&mut performer, workspace, &repository, requested, cancel).await;
            end = deleted.break_value();
        }
        if !self.deletion.dry_run
            && let Err(error) = self.pushed.save()
        {
            self.report.fail(format!("recording what was deleted: {}", chain(&error)));
        }
        self.warn_of_tags_that_stay();
        self.report.repositories = savings(&self.before, &self.deleted);
        let is_changed = |line: &DeletedImage| {
            matches!(line.fate, DeletionOutcome::Deleted | DeletionOutcome::Untagged { .. })
        };
        if self.report.manifests > 0 || self.report.images.iter().any(is_changed) {
            match self.client.product(&registry).await {
                Ok(product) => self.report.garbage_collection = Some(garbage_collection(product)),
                Err(error) => {
                    let why = chain(&error);
                    self.report
                        .warnings
                        .push(format!("determining the product behind {registry}: {why}"));
                }
            }
        }
        matches!(end, Some(End::Interrupted))
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
            self.kept(&repository, &tag, None, because);
        }
        repositories
    }

    /// Writes the configuration that mirrors everything back, before the first deletion.
    fn write_undo(&mut self, workspace: &Workspace) -> bool {
        let Some(run) = self.run.filter(|_| !self.has_undo) else { return true };
        let written = undo_file::write(workspace, run.number(), self.deletion, &self.before);
        match written {
            Ok(None) => {
                self.has_undo = true;
                if self.before.images.is_empty() {
                    let registry = &self.deletion.target.registry;
                    self.report.warnings.push(format!(
                        "no undo file was written: this workspace has no record of what was mirrored to {registry}"
                    ));
                }
                true
            }
            Ok(Some(undo)) => {
                self.has_undo = true;
                self.report.files.push(undo.path);
                for place in undo.lost {
                    self.report.warnings.push(format!(
                        "the undo file cannot mirror {place} again: mirror with its configuration again"
                    ));
                }
                true
            }
            Err(error) => {
                let why = chain(&error);
                self.report.fail(format!("nothing is deleted without an undo file: {why}"));
                false
            }
        }
    }

    fn warn_of_catalogs(&mut self) {
        let is_replaced = self.deletion.update_catalogs.is_some();
        for catalog in offered_catalogs(self.deletion, &self.pushed.record) {
            let names: Vec<&str> = catalog.bundles.iter().map(|of| of.bundle.as_str()).collect();
            let (place, names) = (&catalog.place, names.join(", "));
            self.report.warnings.push(match is_replaced {
                // Only in a dry run: otherwise it was replaced before.
                true => format!("the catalog {place} would be replaced first by one without {names}"),
                false => format!(
                    "the catalog {place} offers {names}: mirror with a narrower configuration, or use --update-catalogs"
                ),
            });
        }
    }

    /// One warning for all: releases share most of their components.
    fn warn_of_tags_that_stay(&mut self) {
        let tags = match self.undeletable {
            0 => return,
            1 => "1 tag stays".to_owned(),
            count => format!("{count} tags stay"),
        };
        self.report.warnings.push(format!(
            "{tags}, because others use the same manifests and this registry cannot delete a tag alone; the report names the users"
        ));
    }

    /// Deletes the requested tags of a repository.
    async fn delete_from(
        &mut self,
        performer: &mut Performer<'_>,
        workspace: &Workspace,
        repository: &Repository,
        mut requested: Requested,
        cancel: &CancellationToken,
    ) -> ControlFlow<End> {
        let unfinished = self.pushed.record.unfinished.get(repository).cloned().unwrap_or_default();
        let mut comparison = match self.deletion.dry_run {
            true => Comparison::Now,
            false => Comparison::BeforeDeletion,
        };
        for _ in 0..MAX_OBSERVATIONS {
            let registry = performer.registry;
            let record = &self.pushed.record;
            let observed =
                observe(self.client, registry, repository, &requested, record, comparison);
            let observed = match cancel.run_until_cancelled(observed).await {
                Some(Ok(observed)) => observed,
                Some(Err(error)) => {
                    let message =
                        format!("reading what {registry}/{repository} holds: {}", chain(&error));
                    return self.stop(repository, &requested, &message);
                }
                None => {
                    self.not_reached(repository, requested.keys());
                    return ControlFlow::Break(End::Interrupted);
                }
            };
            let plan = plan_repository(&observed.state, &requested, &unfinished);
            if self.deletion.dry_run {
                self.report_plan(repository, &requested, &plan);
                self.would(repository, &requested, &plan);
                return ControlFlow::Continue(());
            }
            if !plan.steps.is_empty() && !self.write_undo(workspace) {
                self.not_reached(repository, requested.keys());
                return ControlFlow::Break(End::Failed);
            }
            let steps = Steps { repository, plan: &plan, observed: &observed };
            if self.perform(performer, &steps, &mut requested, cancel).await? {
                return ControlFlow::Continue(());
            }
            // A tag was moved: what it names now must be known before anything else is deleted.
            comparison = Comparison::Now;
        }
        let message = format!("tags of {}/{repository} keep changing", performer.registry);
        self.stop(repository, &requested, &message)
    }

    /// Performs the steps of a plan; `requested` keeps those that are still to do. False if a tag
    /// was moved meanwhile.
    async fn perform(
        &mut self,
        performer: &mut Performer<'_>,
        steps: &Steps<'_>,
        requested: &mut Requested,
        cancel: &CancellationToken,
    ) -> ControlFlow<End, bool> {
        let Steps { repository, plan, observed } = *steps;
        let mut finished: Vec<Destination> = Vec::new();
        let all = requested.clone();
        let is_compared_again = steps.leave_room_for_comparisons();
        for (number, step) in plan.steps.iter().enumerate() {
            if cancel.is_cancelled() {
                self.report_plan(repository, requested, plan);
                self.not_reached(repository, self.still_open(plan, requested).iter());
                return ControlFlow::Break(End::Interrupted);
            }
            let is_first_manifest = matches!(step, Step::Manifest { .. })
                && !plan.steps[..number].iter().any(|s| matches!(s, Step::Manifest { .. }));
            if is_first_manifest && let Err(error) = self.note_unfinished(repository, plan, &all) {
                let why = chain(&error);
                let message = format!("nothing of {repository} is deleted without a record: {why}");
                return self.stop(repository, requested, &message);
            }
            let tags = tags_of(step);
            let compared: Vec<&Tag> = match step {
                Step::Tag { tag, .. } => {
                    all.get(tag).copied().flatten().map(|_| tag).into_iter().collect()
                }
                Step::Manifest { .. } => {
                    let is_assumed = |tag: &&Tag| observed.assumed.contains(*tag);
                    tags.iter().filter(|tag| is_compared_again || is_assumed(tag)).collect()
                }
            };
            match performer.perform(repository, step, &compared).await {
                Ok(Done::TagMoved) => return ControlFlow::Continue(false),
                Ok(done) => {
                    finished.extend(self.done(repository, step, &done, &all));
                    requested.retain(|tag, _| !tags.contains(tag));
                }
                Err(error) => {
                    self.report_plan(repository, requested, plan);
                    return self.failed(repository, plan, step, error, requested);
                }
            }
        }
        self.report_plan(repository, requested, plan);
        if let Err(error) = self.report_moved_tags(performer, repository, &finished).await {
            let at = format!("{}/{repository}", performer.registry);
            let why = chain(&error);
            let warning = format!("the tags of {at} were not listed after the deletion: {why}");
            self.report.warnings.push(warning);
        }
        finished.extend(plan.gone.iter().map(|tag| place(repository, tag)));
        for place in finished {
            self.pushed.forget(&place);
            self.deleted.insert(place);
        }
        self.pushed.finish(repository);
        ControlFlow::Continue(true)
    }

    /// Finds tags that were moved to another manifest between the comparison and the deletion of
    /// the former manifest. Such a tag keeps its new manifest; the report must not list it as
    /// deleted.
    async fn report_moved_tags(
        &mut self,
        performer: &Performer<'_>,
        repository: &Repository,
        finished: &[Destination],
    ) -> Result<(), registry::Error> {
        if finished.is_empty() {
            return Ok(());
        }
        let (registry, at) = (performer.registry.clone(), repository.clone());
        let location = Location { registry, repository: at };
        let listed = self.client.tags(&location, TAG_PAGES).await?;
        let listed: BTreeSet<Tag> = listed.tags.into_iter().collect();
        for place in finished.iter().filter(|place| listed.contains(&place.tag)) {
            // Some registries list tags without a manifest.
            let image = place.at(performer.registry);
            let found = self.client.head(&image).await?;
            let Some(found) = found else { continue };
            let because =
                format!("it was moved to {} while its former manifest was deleted", found.digest);
            self.report.warnings.push(format!("{place} stays: {because}"));
            let line = self.report.images.iter_mut().find(|line| line.image == image);
            if let Some(line) = line {
                line.fate = DeletionOutcome::Kept { because };
            }
        }
        Ok(())
    }

    /// Records which manifests of images that are not on record are about to be deleted: when
    /// their index or subject is deleted, nothing leads to them any more.
    fn note_unfinished(
        &mut self,
        repository: &Repository,
        plan: &RepositoryPlan,
        requested: &Requested,
    ) -> Result<(), DiskError> {
        let record = &self.pushed.record;
        let trees = requested.keys().filter_map(|tag| record.tree(&place(repository, tag)));
        let recorded: BTreeSet<Digest> =
            trees.flat_map(|tree| tree.all_manifests().map(|node| node.digest)).collect();
        let mut unfinished = BTreeSet::new();
        for step in &plan.steps {
            match step {
                Step::Manifest { digest, tags } if tags.is_empty() => {
                    unfinished.insert(*digest);
                }
                // The tag of a signature leads to it as long as its subject is known.
                Step::Manifest { digest, tags } => {
                    unfinished.extend(tags.iter().filter_map(|tag| subject_of_tag(tag, digest)));
                }
                Step::Tag { .. } => {}
            }
        }
        unfinished.retain(|digest| !recorded.contains(digest));
        if unfinished.is_empty() {
            return Ok(());
        }
        self.pushed.begin(repository, unfinished);
        self.pushed.save()
    }

    /// Reports a step that failed, and what was not reached because of it.
    fn failed<T>(
        &mut self,
        repository: &Repository,
        plan: &RepositoryPlan,
        step: &Step,
        error: StepError,
        requested: &Requested,
    ) -> ControlFlow<End, T> {
        let tags = tags_of(step);
        let (Step::Tag { digest, .. } | Step::Manifest { digest, .. }) = step;
        for tag in tags.iter().filter(|tag| requested.contains_key(*tag)) {
            let fate = DeletionOutcome::Failed { error: error.message.clone() };
            self.line(repository, tag, Some(*digest), fate);
        }
        let event = self.audited(repository, step, error.message.clone());
        self.audit(JournalEvent::DeletionFailed(event));
        let exit = self.exit_of(repository, requested);
        self.report.errors.push(Failure::new(exit, error.message).with_hint(error.hint));
        let mut open = self.still_open(plan, requested);
        open.retain(|tag| !tags.contains(tag));
        self.not_reached(repository, open.iter());
        ControlFlow::Break(End::Failed)
    }

    /// The requested tags that a plan deletes.
    fn still_open(&self, plan: &RepositoryPlan, requested: &Requested) -> BTreeSet<Tag> {
        let stays = |tag: &Tag| {
            plan.gone.contains(tag)
                || plan.attached_to_kept.contains(tag)
                || plan.changed.iter().any(|changed| changed.tag == *tag)
        };
        requested.keys().filter(|tag| !stays(tag)).cloned().collect()
    }
}

/// What is done in one repository.
struct Steps<'a> {
    repository: &'a Repository,
    plan: &'a RepositoryPlan,
    observed: &'a Observed,
}

impl Steps<'_> {
    /// Whether every tag is compared again right before its manifest is deleted. Where many
    /// tags are deleted, that may take no more than two requests per tag of the repository; if it
    /// would, most of the repository is deleted, and the comparison of all tags before the first
    /// deletion has to suffice. In both cases a tag that is moved in between keeps its new
    /// manifest, because manifests are deleted by digest.
    fn leave_room_for_comparisons(&self) -> bool {
        let deleted = self.plan.steps.iter().map(|step| match step {
            Step::Manifest { tags, .. } => tags.len(),
            Step::Tag { .. } => 1,
        });
        let deleted: usize = deleted.sum();
        deleted <= FEW_TAGS || 2 * deleted <= self.observed.state.tags.len()
    }
}

fn tags_of(step: &Step) -> BTreeSet<Tag> {
    match step {
        Step::Tag { tag, .. } => [tag.clone()].into(),
        Step::Manifest { tags, .. } => tags.clone(),
    }
}

/// Whether a tag is one that signatures and lists of referrers have.
fn is_attachment(tag: &Tag) -> bool {
    // The digest of no manifest: any tag of the form counts.
    subject_of_tag(tag, &Digest::of(&[])).is_some()
}
