//! Pushes found images to a target registry: the common part of disk to mirror and mirror to
//! mirror.
//!
//! Images go first. Catalogs follow once it is known which images have arrived, so that no catalog
//! offers a bundle that cannot be pulled.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use mirror_plan::{
    Action, BlobRef, Direction, Exit, Found, ImageEntry, Kind, Mode, Names, Plan,
    Target as PlanTarget, plan,
};
use oci::{Digest, ImageRef, Repository};
use registry::Client;
use workspace::Holdings;

use crate::collect::catalogs::Incomplete;
use crate::collect::releases::Source;
use crate::collect::sections::Sections;
use crate::conclude::PushedTo;
use crate::context::Context;
use crate::error_chain::chain;
use crate::fault::EngineError;
use crate::plan::presence::{self, Presence, TargetDigests};
use crate::reason::Reason;
use crate::record::pushed_log::Pushed;
use crate::report::{Failure, Outcome};
use crate::results::{Halt, Issues, Lost, Moved, reference};
use crate::settings::BrokenBundles;
use crate::transfer::blob_target::{BlobTarget, Tally, TargetRepository};
use crate::transfer::destination_registry::{Outgoing, Target};
use crate::transfer::execute::{Executed, Limits, Moment, Stops, execute};
use crate::transfer::schedule::{Need, Parallel, Schedule};
use crate::transfer::spool::Spool;
use crate::transfer::supply::{Sources, Supplies};

/// A plan for a target, and what it was made from.
pub(crate) struct Bound {
    pub(crate) plan: Arc<Plan>,
    pub(crate) presence: Presence,
    pushed: Pushed,
    /// Images for which the request to the target failed.
    pub(crate) lost: Vec<Lost>,
}

/// Where a push goes and what it takes from.
pub(crate) struct Route<'a> {
    pub(crate) place: &'a PlanTarget,
    pub(crate) client: Client,
    /// Manifests are read from here; blobs too, on the disconnected side.
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) supplies: Supplies,
}

impl Route<'_> {
    /// What remains of it when the run ends.
    pub(crate) fn pushed_to(&self) -> PushedTo<'_> {
        PushedTo { registry: &self.place.registry, traffic: self.client.traffic() }
    }
}

/// Requests what the target holds, as far as it is not in `heads`, and plans the rest.
pub(crate) async fn bind(
    context: &Context,
    route: &Route<'_>,
    mode: Mode,
    found: Vec<Found>,
    heads: TargetDigests,
) -> Result<Bound, Halt> {
    let run = context.run().map_or(0, workspace::Run::number);
    let mut pushed = Pushed::open(&context.workspace, &route.place.registry);
    let checked = presence::check_target(
        &route.client,
        &route.place.registry,
        found,
        heads,
        &mut pushed,
        run,
    )
    .await
    .map_err(|e| {
        let registry = &route.place.registry;
        let message = format!("checking what {registry} holds: {}", chain(&e));
        Halt::from(Failure::new(Exit::GENERIC, message).with_remedy(e.remedy()))
    })?;
    let lost = checked.lost.into_iter();
    let lost = lost.map(|(found, e)| (found.wanted, found.destination, e.reason())).collect();
    let direction = Direction { mode, target: Some(route.place.clone()) };
    let plan = Arc::new(plan(direction, checked.found, &checked.presence));
    Ok(Bound { plan, presence: checked.presence, pushed, lost })
}

/// What a push left behind.
pub(crate) struct Delivered {
    pub(crate) executed: Executed,
    /// The plan, and one for catalogs that were built again.
    pub(crate) parts: Vec<Part>,
    pub(crate) moved: Moved,
    pub(crate) issues: Issues,
}

/// A plan that was executed.
pub(crate) struct Part {
    pub(crate) plan: Arc<Plan>,
    /// Outcome of each image, by its place in the plan.
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) notes: BTreeMap<usize, Vec<String>>,
    /// Catalogs that another plan has in their place.
    pub(crate) replaced: BTreeSet<usize>,
    /// Catalogs that stay at the target as they are.
    pub(crate) unchanged: BTreeSet<usize>,
}

/// The result of checking the content before it is pushed.
#[derive(Debug, Default)]
pub(crate) struct Inspected {
    /// Images that cannot be copied, by place in the plan, and why.
    pub(crate) given_up: BTreeMap<usize, Reason>,
    /// Blobs the target has where they are needed.
    pub(crate) there: HashSet<(Repository, Digest)>,
}

/// What is needed to decide on catalogs once all other images are pushed.
pub(crate) struct Publishing<'a> {
    pub(crate) sections: &'a mut Sections,
    pub(crate) source: Source<'a>,
    /// For content of the source.
    pub(crate) client: &'a Client,
    /// Images that were lost before there was a plan.
    pub(crate) lost: BTreeSet<ImageRef>,
}

/// Executes the plan. `landed` is called for each image that arrived.
pub(crate) async fn deliver(
    context: &Context,
    route: &Route<'_>,
    bound: Bound,
    inspected: &Inspected,
    publishing: Publishing<'_>,
    mut landed: impl FnMut(usize, &Plan),
) -> Delivered {
    let mode = bound.plan.mode;
    let mut push = Push::new(context, route, &route.supplies, bound, inspected);
    let mut executed = push.transfer(|kind| kind != Kind::Catalog, &mut landed).await;
    let mut delivered = Delivered {
        executed,
        parts: Vec::new(),
        moved: Moved::default(),
        issues: Issues::default(),
    };
    if executed == Executed::Entirely {
        let rebuilt = push.decide(publishing, &mut delivered.issues).await;
        executed = push.transfer(|kind| kind == Kind::Catalog, &mut landed).await;
        if let Some((found, supplies)) = rebuilt
            && executed == Executed::Entirely
        {
            match bind(context, route, mode, found, TargetDigests::default()).await {
                Ok(mut bound) => {
                    context.record_lost(&bound.lost);
                    delivered.issues.lost.append(&mut bound.lost);
                    let mut again = Push::new(context, route, &supplies, bound, inspected);
                    executed = again.transfer(|_| true, &mut landed).await;
                    delivered.moved += again.moved;
                    delivered.parts.push(again.part);
                }
                Err(Halt::Failed(issues)) => delivered.issues.extend(issues),
                Err(Halt::Interrupted | Halt::NothingSelected) => {
                    executed = Executed::Interrupted;
                }
            }
        }
    }
    delivered.executed = executed;
    delivered.moved += push.moved;
    delivered.parts.push(push.part);
    delivered
}

/// A plan that is being pushed to the target.
struct Push<'a> {
    context: &'a Context,
    route: &'a Route<'a>,
    supplies: &'a Supplies,
    inspected: &'a Inspected,
    presence: Presence,
    pushed: Pushed,
    part: Part,
    moved: Moved,
}

impl<'a> Push<'a> {
    fn new(
        context: &'a Context,
        route: &'a Route<'a>,
        supplies: &'a Supplies,
        bound: Bound,
        inspected: &'a Inspected,
    ) -> Self {
        let Bound { plan, presence, pushed, .. } = bound;
        let mut outcomes = Outcome::planned(&plan);
        for (index, why) in &inspected.given_up {
            if let Some(outcome @ Outcome::Pending) = outcomes.get_mut(*index) {
                *outcome = Outcome::Failed { error: why.clone() };
                context.done(&plan, &plan.images[*index], outcome.clone());
            }
        }
        let part = Part {
            plan,
            outcomes,
            notes: BTreeMap::new(),
            replaced: BTreeSet::new(),
            unchanged: BTreeSet::new(),
        };
        let moved = Moved::default();
        Self { context, route, supplies, inspected, presence, pushed, part, moved }
    }

    /// Decides what becomes of catalogs with bundles that lack an image: one that exists at the
    /// target is not changed, a new one is built without those bundles. Returns the catalogs that
    /// were built, with their content.
    async fn decide(
        &mut self,
        publishing: Publishing<'_>,
        issues: &mut Issues,
    ) -> Option<(Vec<Found>, Supplies)> {
        let Publishing { sections, source, client, lost: mut missing } = publishing;
        let outcomes = self.part.plan.images.iter().zip(&self.part.outcomes);
        let failed = outcomes.filter(|(_, outcome)| matches!(outcome, Outcome::Failed { .. }));
        missing.extend(failed.filter_map(|(image, _)| reference(&image.origin)).cloned());
        let naming = self.context.settings.naming(self.route.place);
        let mut rebuilt = Vec::new();
        for incomplete in sections.catalogs.incomplete(&missing) {
            let Some(index) = self.keeps(&incomplete) else { continue };
            let reader = (source, client);
            let built =
                sections.catalogs.without(self.context, reader, &incomplete, Some(&naming)).await;
            match built {
                Ok(Some(found)) => {
                    self.part.replaced.insert(index);
                    rebuilt.push(found);
                }
                Ok(None) => self.fail(index, "no bundle of it has all its images".into()),
                Err(error) => {
                    let reason = error.reason();
                    let text = format!("building it again: {}", reason.text);
                    self.fail(index, Reason::new(text, reason.remedy));
                }
            }
        }
        issues.extend(sections.take_issues());
        if rebuilt.is_empty() {
            return None;
        }
        sections.made.extend(std::mem::take(&mut sections.catalogs.made));
        let supplies = match self.supplies {
            Supplies::FromDisk(holdings) => Supplies::FromDisk(Arc::clone(holdings)),
            Supplies::FromOrigins { client, .. } => sections.supplies(self.context, client),
        };
        Some((rebuilt, supplies))
    }

    /// The place of an incomplete catalog in the plan, if it is to be built without the bundles;
    /// none if the one at the target is not changed.
    fn keeps(&mut self, incomplete: &Incomplete) -> Option<usize> {
        let is_it = |image: &mirror_plan::PlannedImage| {
            image.kind == Kind::Catalog && image.origin == incomplete.published.origin
        };
        let index = self.part.plan.images.iter().position(is_it)?;
        if self.context.settings.broken_bundles == BrokenBundles::LeaveOut {
            return Some(index);
        }
        if self.part.outcomes[index] != Outcome::Pending {
            return None;
        }
        if !self.presence.has_name(&self.part.plan.images[index].destination) {
            return Some(index);
        }
        let names: Vec<&str> = incomplete.bundles.iter().map(|name| &*name.bundle).collect();
        self.fail(
            index,
            format!(
                "not published: images of {} are missing, and the catalog at the target is not changed; use --skip-broken-bundles to publish it without these bundles",
                names.join(", ")
            )
            .into(),
        );
        self.part.unchanged.insert(index);
        None
    }

    fn fail(&mut self, index: usize, error: Reason) {
        let outcome = Outcome::Failed { error };
        self.context.done(&self.part.plan, &self.part.plan.images[index], outcome.clone());
        self.part.outcomes[index] = outcome;
    }

    /// Copies the images of these kinds that are not at the target.
    async fn transfer(
        &mut self,
        kinds: impl Fn(Kind) -> bool,
        landed: &mut impl FnMut(usize, &Plan),
    ) -> Executed {
        let (context, route, inspected) = (self.context, self.route, self.inspected);
        let plan = Arc::clone(&self.part.plan);
        let is_due = |index: usize| {
            kinds(plan.images[index].kind)
                && self.part.outcomes[index] == Outcome::Pending
                && !self.part.replaced.contains(&index)
        };
        if !(0..plan.images.len()).any(is_due) {
            return self.save(Executed::Entirely);
        }
        let (repositories, repository_of) = repositories(context, &plan, &self.presence);
        let known = inspected
            .there
            .iter()
            .filter_map(|(repository, digest)| Some((*repository_of.get(repository)?, *digest)));
        let mut there: HashSet<(usize, Digest)> = known.collect();
        let mut held_elsewhere: HashMap<Digest, Repository> = HashMap::new();
        for (repository, digest) in &inspected.there {
            held_elsewhere.entry(*digest).or_insert_with(|| repository.clone());
        }
        for image in plan.images.iter().filter(|image| image.action == Action::Present) {
            for digest in plan.tree(image).blobs().into_keys() {
                let repository = &image.destination.repository;
                there.insert((repository_of[repository], digest));
                held_elsewhere.entry(digest).or_insert_with(|| repository.clone());
            }
        }
        let names = Names::new(plan.images.iter().map(|image| &image.destination));
        let mut sources = Sources::default();
        let mut needs = Vec::with_capacity(plan.images.len());
        let mut images = Vec::with_capacity(plan.images.len());
        for (index, image) in plan.images.iter().enumerate() {
            if !is_due(index) {
                needs.push(None);
                images.push(None);
                continue;
            }
            let tree = plan.tree(image);
            let repository = repository_of[&image.destination.repository];
            let blobs = tree.blobs().into_iter();
            let missing = blobs.filter(|(d, _)| !there.contains(&(repository, *d)));
            let missing = missing.map(|(digest, size)| BlobRef { digest, size }).collect();
            let subjects = tree.manifests.iter().map(|node| node.digest);
            let taken = |subject: &Digest| {
                names.fallback_tag(&image.destination.repository, subject).is_none()
            };
            images.push(Some(Outgoing { fallback_taken: subjects.filter(taken).collect() }));
            let source = sources.add(self.supplies.of(&image.origin));
            needs.push(Some(Need { repository, source, blobs: missing }));
        }
        // The transfer may take hours, and needs none of these.
        drop((names, there, repository_of));
        let schedule = Schedule::new(needs, sources.hosts());
        let target = Arc::new(Target {
            blobs: BlobTarget {
                client: route.client.clone(),
                registry: route.place.registry.clone(),
                repositories,
                sources,
                read_back_in: context.workspace.blobs().root().to_owned(),
                spool: Spool::new(context.workspace.blobs().clone()),
                held_elsewhere,
                source_retries: context.settings.source.retry.times,
                observer: Arc::clone(&context.observer),
                counts_present: false,
                tally: Tally::default(),
            },
            plan: Arc::clone(&plan),
            images,
            manifests: Arc::clone(&route.holdings),
            referrer_lists: tokio::sync::Mutex::new(()),
        });
        let run = context.run().map_or(0, workspace::Run::number);
        let outcomes = &mut self.part.outcomes;
        let tell = |index: usize, moment: Moment<'_>| {
            let image = &plan.images[index];
            let Some(outcome) = context.tell(&plan, image, moment) else { return };
            if outcome == Outcome::Copied {
                landed(index, &plan);
            }
            outcomes[index] = outcome;
        };
        let executed =
            execute(schedule, Arc::clone(&target), context.limits(), context.stops(), tell).await;
        self.moved += target.blobs.tally.moved();
        self.part.notes.extend(target.blobs.tally.take_notes());
        drop(target);
        // Only now: the record is as large as the plan, and so was the schedule.
        for (image, outcome) in plan.images.iter().zip(&self.part.outcomes) {
            if kinds(image.kind) && *outcome == Outcome::Copied {
                let (origin, kind, tree) = (&image.origin, image.kind, &plan.tree(image));
                self.pushed.insert(&image.destination, ImageEntry { origin, kind, tree, run });
            }
        }
        self.save(executed)
    }

    fn save(&self, executed: Executed) -> Executed {
        if let Err(error) = self.pushed.save() {
            self.context.warn(format!("what was pushed could not be recorded: {}", chain(&error)));
        }
        executed
    }
}

/// The repositories of a plan, and the place of each in the list.
fn repositories(
    context: &Context,
    plan: &Plan,
    presence: &Presence,
) -> (Vec<TargetRepository>, BTreeMap<Repository, usize>) {
    let names: BTreeSet<&Repository> =
        plan.images.iter().map(|image| &image.destination.repository).collect();
    let list = names.iter().map(|repository| TargetRepository {
        repository: (*repository).clone(),
        // A run that did not finish may have left blobs where no tag is yet.
        is_new: presence.new_repositories.contains(*repository) && !context.after_unfinished_push,
    });
    let places = names.iter().enumerate().map(|(at, name)| ((*name).clone(), at)).collect();
    (list.collect(), places)
}

impl Context {
    /// What ends transfers, or holds them.
    pub(crate) fn stops(&self) -> Stops {
        Stops { cancel: self.cancel.clone(), hold: self.control.hold() }
    }

    pub(crate) fn limits(&self) -> Limits {
        let settings = &self.settings;
        Limits {
            parallel: Parallel {
                images: settings.parallel_images.get(),
                layers: settings.parallel_layers.get(),
            },
            transfer_timeout: settings.transfer_timeout,
        }
    }
}
