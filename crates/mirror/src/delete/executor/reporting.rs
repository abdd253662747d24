//! What a deletion reports: a line for each image, warnings, and the audit log.

use std::ops::ControlFlow;

use delete_plan::{RepositoryPlan, Step};
use mirror_plan::{Destination, Exit, Kind};
use oci::{Digest, Repository, Tag};
use workspace::{AuditedDeletion, JournalEvent};

use super::{End, Executor, Requested, tags_of};
use crate::delete::execute::place;
use crate::delete::perform::Done;
use crate::delete::report::{DeletedImage, DeletionOutcome};
use crate::error_chain::chain;
use crate::report::Failure;

impl Executor<'_> {
    /// Reports requested tags for which a plan has no step.
    pub(super) fn report_plan(
        &mut self,
        repository: &Repository,
        requested: &Requested,
        plan: &RepositoryPlan,
    ) {
        for changed in &plan.changed {
            let because = format!(
                "it changed since the plan was made: expected {}, found {}",
                changed.expected, changed.found
            );
            self.kept(repository, &changed.tag, Some(changed.found), because);
        }
        for tag in &plan.attached_to_kept {
            let fate =
                DeletionOutcome::Kept { because: "the image it belongs to stays".to_owned() };
            self.line(repository, tag, None, fate);
        }
        for tag in &plan.gone {
            let expected = requested.get(tag).copied().flatten();
            self.line(repository, tag, expected, DeletionOutcome::AlreadyGone);
        }
    }

    pub(super) fn would(
        &mut self,
        repository: &Repository,
        requested: &Requested,
        plan: &RepositoryPlan,
    ) {
        for step in &plan.steps {
            let (digest, fate) = match step {
                Step::Manifest { digest, .. } => {
                    self.report.manifests += 1;
                    (digest, DeletionOutcome::WouldDelete)
                }
                Step::Tag { digest, kept_by, .. } => {
                    (digest, DeletionOutcome::WouldUntag { kept_by: names(kept_by) })
                }
            };
            for tag in tags_of(step).iter().filter(|tag| requested.contains_key(*tag)) {
                self.deleted.insert(place(repository, tag));
                self.line(repository, tag, Some(*digest), fate.clone());
            }
        }
    }

    /// Reports and audits a step. Returns the images to forget when the whole repository is
    /// finished: until then, the record is what leads to their remaining manifests.
    pub(super) fn done(
        &mut self,
        repository: &Repository,
        step: &Step,
        done: &Done,
        requested: &Requested,
    ) -> Vec<Destination> {
        let (digest, fate) = match (step, done) {
            (Step::Tag { digest, .. }, Done::Absent) => (digest, DeletionOutcome::AlreadyGone),
            (Step::Tag { digest, kept_by, .. }, Done::TagStays) => {
                self.undeletable += 1;
                let because = format!(
                    "{} also {} this manifest, and the registry cannot delete a tag alone",
                    names(kept_by).join(", "),
                    if kept_by.len() == 1 { "names" } else { "name" }
                );
                (digest, DeletionOutcome::Kept { because })
            }
            (Step::Tag { digest, kept_by, .. }, _) => {
                (digest, DeletionOutcome::Untagged { kept_by: names(kept_by) })
            }
            (Step::Manifest { digest, .. }, done) => {
                self.report.manifests += usize::from(matches!(done, Done::Deleted(_)));
                (digest, DeletionOutcome::Deleted)
            }
        };
        let mut later = Vec::new();
        for tag in tags_of(step).iter().filter(|tag| requested.contains_key(*tag)) {
            let place = place(repository, tag);
            if !matches!(fate, DeletionOutcome::Kept { .. }) {
                self.deleted.insert(place.clone());
                match step {
                    Step::Tag { .. } => self.pushed.forget(&place),
                    Step::Manifest { .. } => later.push(place),
                }
            }
            self.line(repository, tag, Some(*digest), fate.clone());
        }
        let response = match done {
            Done::Deleted(response) => response.clone(),
            Done::Absent => "HTTP 404: it did not exist".to_owned(),
            Done::TagStays | Done::TagMoved => return later,
        };
        let event = self.audited(repository, step, response);
        self.audit(JournalEvent::Deleted(event));
        later
    }

    pub(super) fn audited(
        &self,
        repository: &Repository,
        step: &Step,
        response: String,
    ) -> AuditedDeletion {
        let tags = tags_of(step);
        let (Step::Tag { digest, .. } | Step::Manifest { digest, .. }) = step;
        let reason =
            tags.iter().find_map(|tag| self.deletion.reasons.get(&place(repository, tag)).cloned());
        AuditedDeletion {
            repository: format!("{}/{repository}", self.deletion.target.registry),
            digest: *digest,
            tags: names(tags.iter()),
            by_tag: matches!(step, Step::Tag { .. }),
            reason: reason.unwrap_or_else(|| "listed, or a part of what is listed".to_owned()),
            response,
        }
    }

    pub(super) fn audit(&mut self, event: JournalEvent) {
        let Some(run) = self.run else { return };
        if let Err(error) = run.journal().append(event) {
            let warning = format!("the audit log could not be written: {}", chain(&error));
            self.report.warnings.push(warning);
        }
    }

    /// Reports an image that stays, with a warning.
    pub(super) fn kept(
        &mut self,
        repository: &Repository,
        tag: &Tag,
        digest: Option<Digest>,
        because: String,
    ) {
        self.report.warnings.push(format!("{} stays: {because}", place(repository, tag)));
        self.line(repository, tag, digest, DeletionOutcome::Kept { because });
    }

    pub(super) fn line(
        &mut self,
        repository: &Repository,
        tag: &Tag,
        digest: Option<Digest>,
        fate: DeletionOutcome,
    ) {
        let place = place(repository, tag);
        let image = place.at(&self.deletion.target.registry);
        let kind = self.kinds.get(&place).copied().unwrap_or(Kind::Additional);
        self.report.images.push(DeletedImage { image, kind, digest, fate });
    }

    pub(super) fn not_reached<'t>(
        &mut self,
        repository: &Repository,
        tags: impl Iterator<Item = &'t Tag>,
    ) {
        for tag in tags {
            self.line(repository, tag, None, DeletionOutcome::NotReached);
        }
    }

    pub(super) fn exit_of(&self, repository: &Repository, requested: &Requested) -> Exit {
        let kinds = requested.keys().filter_map(|tag| self.kinds.get(&place(repository, tag)));
        kinds.copied().next().map_or(Exit::GENERIC, Kind::exit)
    }

    /// A repository that cannot be read: nothing of it, or after it, is deleted.
    pub(super) fn stop<T>(
        &mut self,
        repository: &Repository,
        requested: &Requested,
        message: &str,
    ) -> ControlFlow<End, T> {
        for tag in requested.keys() {
            let fate = DeletionOutcome::Failed { error: message.to_owned() };
            self.line(repository, tag, None, fate);
        }
        let exit = self.exit_of(repository, requested);
        self.report.errors.push(Failure::new(exit, message));
        ControlFlow::Break(End::Failed)
    }
}

fn names<'t>(tags: impl IntoIterator<Item = &'t Tag>) -> Vec<String> {
    tags.into_iter().map(ToString::to_string).collect()
}
