//! Brings found images to a target registry: the common part of disk to mirror
//! and mirror to mirror.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mirror_plan::{
    Action, BlobRef, Found, Journey, Kind, Mode, Names, Plan, Target as Place, plan,
};
use oci::{Digest, Repository};
use registry::Client;
use workspace::Holdings;

use crate::context::Context;
use crate::error_chain::chain;
use crate::plan::presence::{self, Heads, Presence};
use crate::record::pushed_log::Pushed;
use crate::report::Outcome;
use crate::transfer::destination_registry::{Outgoing, Tally, Target, TargetRepository};
use crate::transfer::execute::{Executed, Limits, Moment, execute};
use crate::transfer::schedule::{Need, Schedule};
use crate::transfer::supply::{Sources, Supplies};

/// A plan for a target, and what it was made from.
pub(crate) struct Bound {
    pub(crate) plan: Arc<Plan>,
    pub(crate) presence: Presence,
    pushed: Pushed,
    /// Images the target could not be asked about, and why.
    pub(crate) lost: Vec<(Found, String)>,
}

/// Where a push goes and what it takes from.
pub(crate) struct Route<'a> {
    pub(crate) place: &'a Place,
    pub(crate) client: Client,
    /// Manifests are read from here; blobs too, on the disconnected side.
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) supplies: Supplies,
}

/// Asks the target what it holds, as far as `heads` do not tell, and plans the rest.
pub(crate) async fn bind(
    context: &Context,
    route: &Route<'_>,
    mode: Mode,
    found: Vec<Found>,
    heads: Heads,
) -> Result<Bound, String> {
    let mut pushed = Pushed::open(&context.workspace, &route.place.registry);
    let asked = presence::ask(&route.client, &route.place.registry, found, heads, &mut pushed)
        .await
        .map_err(|e| format!("asking {} what it holds: {}", route.place.registry, chain(&e)))?;
    let lost = asked.lost.into_iter().map(|(found, e)| (found, chain(&e))).collect();
    let journey = Journey { mode, target: Some(route.place.clone()) };
    let plan = Arc::new(plan(journey, asked.found, &asked.presence));
    Ok(Bound { plan, presence: asked.presence, pushed, lost })
}

/// What a push left behind.
pub(crate) struct Delivered {
    pub(crate) executed: Executed,
    /// Outcome of each image, by its place in the plan.
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) notes: BTreeMap<usize, Vec<String>>,
}

/// What looking at the content before pushing it has shown.
#[derive(Debug, Default)]
pub(crate) struct Inspected {
    /// Images that cannot be copied, by place in the plan, and why.
    pub(crate) given_up: BTreeMap<usize, String>,
    /// Blobs the target has where they are needed.
    pub(crate) there: HashSet<(Repository, Digest)>,
}

/// Carries the plan out. `landed` hears of each image that arrived.
pub(crate) async fn deliver(
    context: &Context,
    route: &Route<'_>,
    bound: Bound,
    inspected: &Inspected,
    mut landed: impl FnMut(usize, &Plan),
) -> Delivered {
    let Bound { plan, presence, mut pushed, .. } = bound;
    let (repositories, repository_of) = repositories(context, &plan, &presence);
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
            there.insert((repository_of[&image.destination.repository], digest));
            held_elsewhere.entry(digest).or_insert_with(|| image.destination.repository.clone());
        }
    }
    let names = Names::new(plan.images.iter().map(|image| &image.destination));
    let mut sources = Sources::default();
    let mut needs = Vec::with_capacity(plan.images.len());
    let mut images = Vec::with_capacity(plan.images.len());
    let mut outcomes = Vec::with_capacity(plan.images.len());
    for (index, image) in plan.images.iter().enumerate() {
        let (need, outgoing, outcome) = match (image.action, inspected.given_up.get(&index)) {
            (Action::Present, _) => (None, None, Outcome::Present),
            (Action::Copy, Some(why)) => (None, None, Outcome::Failed { error: why.clone() }),
            (Action::Copy, None) => {
                let tree = plan.tree(image);
                let repository = repository_of[&image.destination.repository];
                let blobs = tree.blobs().into_iter();
                let missing = blobs.filter(|(d, _)| !there.contains(&(repository, *d)));
                let missing = missing.map(|(digest, size)| BlobRef { digest, size }).collect();
                let subjects = tree.manifests.iter().map(|node| node.digest);
                let taken = |subject: &Digest| {
                    names.fallback_tag(&image.destination.repository, subject).is_none()
                };
                let outgoing = Outgoing {
                    destination: image.destination.at(&route.place.registry),
                    fallback_taken: subjects.filter(taken).collect(),
                };
                let source = sources.add(route.supplies.of(&image.origin));
                let is_last = image.kind == Kind::Catalog;
                let need = Need { repository, source, blobs: missing, is_last };
                (Some(need), Some(outgoing), Outcome::Pending)
            }
        };
        needs.push(need);
        images.push(outgoing);
        outcomes.push(outcome);
    }
    let schedule = Schedule::new(needs, sources.hosts());
    let target = Arc::new(Target {
        client: route.client.clone(),
        registry: route.place.registry.clone(),
        repositories,
        plan: Arc::clone(&plan),
        images,
        sources,
        spool: context.workspace.blobs().root().to_owned(),
        manifests: Arc::clone(&route.holdings),
        held_elsewhere,
        source_retries: context.settings.source.retry.times,
        observer: Arc::clone(&context.observer),
        tally: Tally::default(),
        referrer_lists: tokio::sync::Mutex::new(()),
    });
    let limits = context.limits();
    let executed = {
        let tell = |index: usize, moment: Moment<'_>| {
            let image = &plan.images[index];
            let destination = image.destination.at(&route.place.registry);
            let Some(outcome) = context.tell(image, || destination.to_string(), moment) else {
                return;
            };
            if outcome == Outcome::Copied {
                pushed.insert(&destination, &plan.tree(image));
                landed(index, &plan);
            }
            outcomes[index] = outcome;
        };
        execute(schedule, Arc::clone(&target), limits, &context.cancel, tell).await
    };
    if let Err(error) = pushed.save() {
        context.warn(format!("what was pushed could not be noted: {}", chain(&error)));
    }
    context.count(
        target.tally.blobs.load(Ordering::Relaxed),
        target.tally.bytes.load(Ordering::Relaxed),
        target.tally.mounted.load(Ordering::Relaxed),
    );
    Delivered { executed, outcomes, notes: target.tally.take_notes() }
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
    pub(crate) fn limits(&self) -> Limits {
        let settings = &self.settings;
        Limits {
            slots: settings.parallel_images.get().saturating_mul(settings.parallel_layers.get()),
            transfer_timeout: settings.transfer_timeout,
        }
    }
}
