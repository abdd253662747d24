//! The main loop of the coordinator: it observes the cluster, decides about all policies, and
//! writes what differs, each policy at most once a second.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use nmstate_api::{
    ASSIGNED_POLICIES, NodeNetworkConfigurationEnactment as Enactment, NodeNetworkState,
    PolicyStatus, RevertSlots, StoredPolicy,
};
use node_policy::pace::Pace;
use node_policy::policy_status::{self, PolicyNodes};
use node_policy::rollout::{self, RolloutInput, Slot};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::announcement::{Announcement, announcement};
use super::assignments;
use super::features::CoordinatorMetrics;
use super::reverts::{self, Reverts};
use super::view::{View, news, node_view};
use crate::events::Events;
use crate::requests::{now, within};

/// The shortest interval between two writes of the status of one policy.
const WRITE_AGAIN: SignedDuration = SignedDuration::from_secs(1);
/// The delay before a request that the API server rejected is retried.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// How long the first slot of a generation waits for nodes that have not compared it with their
/// network. A handler that hangs must not block all others permanently.
const CHECK: SignedDuration = SignedDuration::from_secs(30);
/// The maximum number of concurrent requests.
const REQUESTS: usize = 16;
/// The shortest and the longest pause between an event and the decision about it.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A coordinator with its state.
pub struct Coordinator {
    api: Api<StoredPolicy>,
    client: Client,
    namespace: String,
    events: Events,
    metrics: CoordinatorMetrics,
    view: View,
    reverts: Reverts,
    pace: Pace,
    /// Since when each policy has its current generation, as far as this coordinator has observed.
    since: BTreeMap<String, (i64, Timestamp)>,
    /// How long the computation of the last decision took.
    computed: Duration,
}

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coordinator").finish_non_exhaustive()
    }
}

impl Coordinator {
    /// A coordinator that finds values of nodes in ConfigMaps of `namespace`.
    pub fn new(client: Client, namespace: &str, metrics: CoordinatorMetrics) -> Self {
        Self {
            namespace: namespace.to_owned(),
            api: Api::all(client.clone()),
            events: Events::of_coordinator(client.clone()),
            reverts: Reverts::new(client.clone(), namespace),
            client,
            metrics,
            view: View::default(),
            pace: Pace::new(WRITE_AGAIN),
            since: BTreeMap::new(),
            computed: Duration::ZERO,
        }
    }

    /// Runs until a stop is requested.
    pub async fn run(mut self, stop: &CancellationToken) -> Result<()> {
        let mut news = news(&self.client, &self.namespace);
        loop {
            let due = match self.view.is_complete() {
                true => self.decide().await,
                false => None,
            };
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                event = news.next() => match event {
                    Some(event) => self.view.take(event),
                    None => anyhow::bail!("watching the cluster ended"),
                },
                () = sleep_until(due) => {}
            }
            // The duration of a decision grows with the number of policies, nodes and reports. With
            // thousands of them, events would arrive faster than they are processed: the pause
            // limits the processor time to one half, and allows the lease to be renewed.
            tokio::time::sleep(self.computed.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
            // Simultaneous events are processed by one decision.
            while let Some(Some(event)) = news.next().now_or_never() {
                self.view.take(event);
            }
        }
    }

    /// Writes what differs and may be written. Returns when to decide again.
    async fn decide(&mut self) -> Option<Timestamp> {
        let time = now();
        let later = time.saturating_add(ASK_AGAIN).ok();
        if let Err(error) = self.catch_up().await {
            tracing::warn!("{error:#}");
            return later;
        }
        let begun_at = Instant::now();
        let nodes_by_policy = self.nodes_by_policy();
        let overlaps = self.view.overlaps(&nodes_by_policy);
        let mut due: Option<Timestamp> = None;
        let mut wanted: Vec<Wanted> = Vec::new();
        let mut since = BTreeMap::new();
        for (name, facts) in self.view.policies() {
            let Some(policy_nodes) = nodes_by_policy.get(name) else { continue };
            let generation = facts.policy.metadata.generation.unwrap_or_default();
            let known = self.since.get(name).filter(|(held, _)| *held == generation);
            let begun = known.map_or(time, |(_, begun)| *begun);
            since.insert(name.to_owned(), (generation, begun));
            let checked = begun.saturating_add(CHECK).unwrap_or(Timestamp::MAX);
            let overlap = overlaps.get(name).map(String::as_str);
            let decided = policy_status::decide(facts, policy_nodes, overlap, time, checked > time);
            let later = rollout::next_expiry(&decided.slots, time);
            let checked = decided.is_checking.then_some(checked);
            due = [due, later, checked].into_iter().flatten().min();
            let before = facts.policy.status.as_ref();
            if before != Some(&decided.status) {
                let begun = before.and_then(|it| it.begun_generation).unwrap_or_default();
                wanted.push(Wanted {
                    is_first: begun == 0 && !decided.slots.is_empty(),
                    doubtful: decided.doubtful,
                    policy: name.to_owned(),
                    announcement: announcement(before, &decided.status),
                    metadata: facts.policy.metadata.clone(),
                    status: decided.status,
                });
            }
        }
        self.since = since;
        self.computed = begun_at.elapsed();
        let later = Timestamp::now().saturating_add(ASK_AGAIN).ok();
        let (now, not_yet): (Vec<Wanted>, Vec<Wanted>) =
            wanted.into_iter().partition(|wanted| self.pace.may(&wanted.policy, Timestamp::now()));
        for wanted in not_yet {
            due = [due, self.pace.next(&wanted.policy)].into_iter().flatten().min();
        }
        let written = stream::iter(&now).map(|wanted| self.write(wanted));
        let written: Vec<_> = written.buffer_unordered(REQUESTS).collect().await;
        for (wanted, written) in written {
            // A failed write counts for the limit, too.
            self.pace.wrote(&wanted.policy, Timestamp::now());
            match written {
                Ok(Written::Stored(policy)) => self.view.wrote(*policy),
                Ok(Written::Gone) => {
                    self.view.deleted(&wanted.policy);
                    self.pace.forget(&wanted.policy);
                }
                Err(error) => {
                    tracing::warn!(policy = wanted.policy, "{error:#}");
                    due = [due, later].into_iter().flatten().min();
                }
            }
        }
        let known = match self.reverts.decide(&self.view, time).await {
            Ok(reverts::Decision::UpToDate) => now.is_empty().then_some(nodes_by_policy),
            Ok(reverts::Decision::Continue) => {
                due = [due, later].into_iter().flatten().min();
                None
            }
            Err(error) => {
                tracing::warn!("{error:#}");
                due = [due, later].into_iter().flatten().min();
                now.is_empty().then_some(nodes_by_policy)
            }
        };
        if !self.assign_policies(known).await {
            due = [due, later].into_iter().flatten().min();
        }
        self.metrics.count(&self.view);
        due
    }

    /// Reads what watches do not deliver, or not in time.
    async fn catch_up(&mut self) -> Result<()> {
        self.reverts.load().await?;
        // A coordinator of the previous version may have ended the slot of a node that is being
        // changed, so the reports must be newer than what it wrote.
        for policy in self.view.of_the_previous_version() {
            let read = reverts::reports(&self.client, &policy).await?;
            self.view.read_reports(&policy, read);
        }
        Ok(())
    }

    /// The nodes of each policy.
    fn nodes_by_policy(&self) -> BTreeMap<String, PolicyNodes> {
        let mut nodes_by_policy = self.view.nodes_by_policy();
        for (policy, _) in self.reverts.slots().into_iter().flat_map(|slots| slots.iter()) {
            if let Some(nodes) = nodes_by_policy.get_mut(policy) {
                nodes.is_reverting = self.view.has_policy(policy);
            }
        }
        nodes_by_policy
    }

    /// Writes the stored policies to the assignments of nodes. Returns whether all nodes are up to
    /// date. `known` are the nodes of each policy, unless the view has changed since they were
    /// determined.
    async fn assign_policies(&mut self, known: Option<BTreeMap<String, PolicyNodes>>) -> bool {
        let begun_at = Instant::now();
        let nodes_by_policy = known.unwrap_or_else(|| self.nodes_by_policy());
        let none = RevertSlots::default();
        let reverts = self.reverts.slots().unwrap_or(&none);
        let news = assignments::news(&self.view, &nodes_by_policy, reverts);
        self.computed += begun_at.elapsed();
        let api: &Api<NodeNetworkState> = &Api::all(self.client.clone());
        let written = stream::iter(&news).map(|(node, text)| async move {
            let patch = json!({"metadata": {"annotations": {ASSIGNED_POLICIES: text}}});
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
            (node, within(api.patch_metadata(node, &parameters, &patch)).await)
        });
        let written: Vec<_> = written.buffer_unordered(REQUESTS).collect().await;
        let mut is_complete = true;
        for (node, written) in written {
            match written {
                Ok(Ok(report)) => self.view.assigned(report),
                // It has no handler any more, or the report is being created again.
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => {}
                Ok(Err(error)) => {
                    is_complete = false;
                    tracing::warn!(node, "writing the assignment of policies: {error}");
                }
                Err(error) => {
                    is_complete = false;
                    tracing::warn!(node, "writing the assignment of policies: {error:#}");
                }
            }
        }
        is_complete
    }

    /// Requests from the API server whether slots have ended whose holder is not in the view, which may
    /// be older than the slots.
    async fn are_gone(&self, wanted: &Wanted) -> Result<bool> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let enactments: Api<Enactment> = Api::all(self.client.clone());
        for slot in &wanted.doubtful {
            let name = format!("{}.{}", slot.node, wanted.policy);
            let node = within(nodes.get_metadata_opt(&slot.node)).await??;
            let enactment = within(enactments.get_opt(&name)).await??;
            let view = node.map(|_| node_view(enactment));
            if !RolloutInput::is_gone(slot, view.as_ref()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn write<'a>(&self, wanted: &'a Wanted) -> (&'a Wanted, Result<Written>) {
        let written = async {
            if !self.are_gone(wanted).await? {
                anyhow::bail!("the reports of nodes are not up to date yet");
            }
            let name = wanted.policy.as_str();
            let uid = wanted.metadata.uid.as_deref();
            if wanted.is_first && self.reverts.is_reverting(name, uid).await? {
                anyhow::bail!("the deleted policy of this name is still being reverted");
            }
            let object = StoredPolicy::of_status(&wanted.metadata, &wanted.status)?;
            let parameters = PostParams::default();
            match within(self.api.replace_status(name, &parameters, &object)).await? {
                Ok(written) => {
                    if let Some(Announcement { reason, message }) = &wanted.announcement {
                        let uid = wanted.metadata.uid.as_deref();
                        self.events.publish(name, uid, *reason, message).await;
                    }
                    Ok(Written::Stored(Box::new(written)))
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    let newer = within(self.api.get_opt(name)).await??;
                    Ok(newer.map_or(Written::Gone, |newer| Written::Stored(Box::new(newer))))
                }
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Written::Gone),
                Err(error) => Err(error.into()),
            }
        };
        (wanted, written.await)
    }
}

/// The result of a write of a status.
enum Written {
    /// The policy as currently stored.
    Stored(Box<StoredPolicy>),
    Gone,
}

/// A status that is to be written.
struct Wanted {
    policy: String,
    /// Whether nodes get slots for the first time since the policy was created. There may have been
    /// another policy of this name, which is still being reverted.
    is_first: bool,
    doubtful: Vec<Slot>,
    metadata: ObjectMeta,
    status: PolicyStatus,
    announcement: Option<Announcement>,
}

async fn sleep_until(due: Option<Timestamp>) {
    match due {
        Some(due) => {
            let left = due.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
        None => std::future::pending().await,
    }
}
