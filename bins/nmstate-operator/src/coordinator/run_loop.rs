//! The coordinator at work: it sees what happens, decides about all policies, and writes what
//! differs, each policy at most once a second.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use nmstate_api::{
    ASSIGNED_POLICIES, NodeNetworkConfigurationEnactment as Enactment, NodeNetworkState,
    PolicyStatus, StoredPolicy,
};
use node_policy::pace::Pace;
use node_policy::policy_status;
use node_policy::rollout::{self, RolloutInput, Slot};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::announcement::{Announcement, announcement};
use super::assignments;
use super::features::CoordinatorMetrics;
use super::view::{View, news, node_view};
use crate::events::Events;
use crate::requests::{now, within};

/// Between two writes of the status of one policy.
const WRITE_AGAIN: SignedDuration = SignedDuration::from_secs(1);
/// Before something is tried again that the API server did not take.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// How long the first slot of a generation waits for nodes that have not compared it with their
/// network. A handler that hangs must not stop all others for good.
const CHECK: SignedDuration = SignedDuration::from_secs(30);
/// Requests at the same time.
const REQUESTS: usize = 16;

/// A coordinator, with all it knows.
pub struct Coordinator {
    api: Api<StoredPolicy>,
    client: Client,
    namespace: String,
    events: Events,
    metrics: CoordinatorMetrics,
    view: View,
    pace: Pace,
    /// Since when each policy has its present generation, as far as this coordinator knows.
    since: BTreeMap<String, (i64, Timestamp)>,
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
            client,
            metrics,
            view: View::default(),
            pace: Pace::new(WRITE_AGAIN),
            since: BTreeMap::new(),
        }
    }

    /// Works until a stop is requested.
    pub async fn run(mut self, stop: &CancellationToken) -> Result<()> {
        let mut news = news(&self.client, &self.namespace);
        loop {
            let due = match self.view.is_complete() {
                true => self.decide().await,
                false => None,
            };
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                told = news.next() => match told {
                    Some(told) => self.view.take(told),
                    None => anyhow::bail!("watching the cluster ended"),
                },
                () = sleep_until(due) => {}
            }
            // What happened at the same time is decided about at once.
            while let Some(Some(told)) = news.next().now_or_never() {
                self.view.take(told);
            }
        }
    }

    /// Writes what differs and may be written. Returns when to decide again.
    async fn decide(&mut self) -> Option<Timestamp> {
        let time = now();
        let nodes_by_policy = self.view.nodes_by_policy();
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
                wanted.push(Wanted {
                    doubtful: decided.doubtful,
                    policy: name.to_owned(),
                    announcement: announcement(before, &decided.status),
                    metadata: facts.policy.metadata.clone(),
                    status: decided.status,
                });
            }
        }
        self.since = since;
        let later = Timestamp::now().saturating_add(ASK_AGAIN).ok();
        let (now, not_yet): (Vec<Wanted>, Vec<Wanted>) =
            wanted.into_iter().partition(|wanted| self.pace.may(&wanted.policy, Timestamp::now()));
        for wanted in not_yet {
            due = [due, self.pace.next(&wanted.policy)].into_iter().flatten().min();
        }
        let written = stream::iter(&now).map(|wanted| self.write(wanted));
        let written: Vec<_> = written.buffer_unordered(REQUESTS).collect().await;
        for (wanted, written) in written {
            // A write that failed was one all the same.
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
        if !self.tell_nodes().await {
            due = [due, later].into_iter().flatten().min();
        }
        self.metrics.count(&self.view);
        due
    }

    /// Tells nodes about their policies, as these are stored. Returns whether all know.
    async fn tell_nodes(&mut self) -> bool {
        let news = assignments::news(&self.view, &self.view.nodes_by_policy());
        let api: &Api<NodeNetworkState> = &Api::all(self.client.clone());
        let told = stream::iter(&news).map(|(node, text)| async move {
            let patch = json!({"metadata": {"annotations": {ASSIGNED_POLICIES: text}}});
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
            (node, within(api.patch_metadata(node, &parameters, &patch)).await)
        });
        let told: Vec<_> = told.buffer_unordered(REQUESTS).collect().await;
        let mut are_told = true;
        for (node, told) in told {
            match told {
                Ok(Ok(report)) => self.view.has_told(report),
                // It has no handler any more, or the report is written again.
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => {}
                Ok(Err(error)) => {
                    are_told = false;
                    tracing::warn!(node, "telling a node about its policies: {error}");
                }
                Err(error) => {
                    are_told = false;
                    tracing::warn!(node, "telling a node about its policies: {error:#}");
                }
            }
        }
        are_told
    }

    /// Asks the API server whether slots have ended that the view knows no holder of: it may be
    /// older than they are.
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

/// What a write of a status found.
enum Written {
    /// The policy as it is stored now.
    Stored(Box<StoredPolicy>),
    Gone,
}

/// A status that is to be written.
struct Wanted {
    policy: String,
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
