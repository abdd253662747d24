//! The coordinator at work: it sees what happens, decides about all policies, and writes what
//! differs, each policy at most once a second.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use nmstate_api::annotations::PAUSED;
use nmstate_api::{
    ASSIGNED_POLICIES, NodeNetworkConfigurationEnactment as Enactment, NodeNetworkState,
    PolicyReason, PolicyStatus, Slot as ApiSlot, StoredPolicy, condition,
};
use node_policy::Phase;
use node_policy::limit::MaxUnavailable;
use node_policy::pace::Pace;
use node_policy::rollout::{self, NodeView, RolloutInput, Slot};
use node_policy::summary::{Counts, PolicySummary, State};
use node_policy::terms::{self, terms};
use node_policy::verdict::bounded;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::announcement::{Announcement, announcement};
use super::assignments;
use super::features::CoordinatorMetrics;
use super::view::{PolicyFacts, PolicyNodes, View, has_begun, news, node_view};
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
/// Nodes that a message names.
const MOST_REFUSALS: usize = 3;

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
            let decided = decide(facts, policy_nodes, overlap, time, checked > time);
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

struct Decided {
    status: PolicyStatus,
    slots: Vec<Slot>,
    /// Slots that end only if the API server confirms it.
    doubtful: Vec<Slot>,
    /// Whether the first slot waits for reports of nodes.
    is_checking: bool,
}

/// What the status of a policy is to be.
fn decide(
    facts: &PolicyFacts,
    of: &PolicyNodes,
    overlap: Option<&str>,
    now: Timestamp,
    awaits_reports: bool,
) -> Decided {
    let generation = facts.policy.metadata.generation.unwrap_or_default();
    let held = facts.policy.status.clone().unwrap_or_default();
    let options = match &facts.options {
        Ok(options) => options.clone().with_values(Some(of.values_together())),
        Err(error) => {
            let state = State::Ignored(error.reason);
            let summary = PolicySummary::new(state, bounded(error.why.as_str()));
            return Decided {
                status: status(&held, generation, &summary, now),
                slots: Vec::new(),
                doubtful: Vec::new(),
                is_checking: false,
            };
        }
    };
    let limit = MaxUnavailable::parse(facts.policy.spec.max_unavailable.as_ref());
    let slots: Vec<Slot> = held.slots.iter().map(from_api).collect();
    let input = RolloutInput {
        generation,
        limit: limit.clone().unwrap_or_default(),
        canary: options.canary.as_ref(),
        nodes: &of.nodes,
        leaving: &of.leaving,
        held: &slots,
        was_aborted: held.aborted_generation == Some(generation)
            && !terms::are_others(held.aborted_with.as_deref(), &options),
        has_begun: has_begun(&held, generation, of),
        awaits_reports,
        is_paused: options.is_paused || of.values_problem.is_some(),
        now,
    };
    let rollout = input.decide();
    let phase = |view: &NodeView| match view.generation == Some(generation) {
        true => view.phase,
        false => Phase::Unknown,
    };
    let mut summary = Counts::of(of.nodes.values().map(|it| (it.is_ready, phase(it)))).summarize();
    if let Some(problem) = &of.values_problem {
        summary.state = State::Blocked(PolicyReason::InvalidNodeValues);
        summary.message += &format!("; no further node is changed: {problem}");
    }
    if !rollout.missing_canaries.is_empty() && summary.state == State::Progressing {
        let names = rollout.missing_canaries.join(", ");
        summary.message += &format!("; waiting for the canary {names}, which matches no node");
    }
    if !rollout.refusals.is_empty() {
        summary.message += &format!("; no node was changed: {}", refusals(&rollout.refusals));
    }
    if options.is_paused {
        summary.message += &format!("; no further node is changed while {PAUSED} is true");
    }
    if !rollout.silent.is_empty() && summary.state == State::Progressing {
        let names = rollout.silent.join(", ");
        summary.message += &format!("; {names} may be changed now and does not report");
    }
    if let Err(error) = limit {
        summary.message += &format!("; {error}");
    }
    if let Some(overlap) = overlap {
        summary.message += &format!("; {overlap}");
    }
    summary.message = bounded(summary.message);
    let mut status = status(&held, generation, &summary, now);
    status.slots = rollout.slots.iter().map(to_api).collect();
    // Also before anything has begun: a status without it was written by an earlier version.
    status.begun_generation = Some(if rollout.has_begun { generation } else { 0 });
    status.aborted_generation = rollout.is_aborted.then_some(generation);
    status.aborted_with = rollout.is_aborted.then(|| terms(&options));
    if rollout.unavailable > 0 {
        let count = i64::try_from(rollout.unavailable).unwrap_or(i64::MAX);
        status.unavailable_node_count_map.insert(generation.to_string(), count);
    }
    let doubtful = input.doubtful().into_iter().cloned().collect();
    Decided { status, slots: rollout.slots, doubtful, is_checking: rollout.is_checking }
}

/// Nodes to which a policy cannot be applied, with the reasons.
fn refusals(all: &[(String, String)]) -> String {
    let short = |why: &str| why.strip_prefix("nothing was changed: ").unwrap_or(why).to_owned();
    let first = all.iter().take(MOST_REFUSALS);
    let told: Vec<String> = first.map(|(node, why)| format!("{node}: {}", short(why))).collect();
    match all.len().saturating_sub(MOST_REFUSALS) {
        0 => told.join("; "),
        more => format!("{}; and {more} more nodes", told.join("; ")),
    }
}

fn status(
    held: &PolicyStatus,
    generation: i64,
    summary: &PolicySummary,
    now: Timestamp,
) -> PolicyStatus {
    PolicyStatus {
        conditions: condition::stamped(summary.conditions(), &held.conditions, &Time(now)),
        observed_generation: Some(generation),
        ..PolicyStatus::default()
    }
}

fn from_api(slot: &ApiSlot) -> Slot {
    Slot {
        node: slot.node.clone(),
        generation: slot.generation,
        expires: slot.expires.0,
        enactment: slot.enactment.clone(),
    }
}

fn to_api(slot: &Slot) -> ApiSlot {
    let expires = Time(slot.expires);
    ApiSlot {
        node: slot.node.clone(),
        generation: slot.generation,
        expires,
        enactment: slot.enactment.clone(),
    }
}

#[cfg(test)]
mod tests {
    use nmstate_api::NodeNetworkConfigurationPolicy as Policy;

    use super::super::view::policy_facts;
    use super::*;

    fn policy_nodes<const N: usize>(nodes: [(&str, NodeView); N]) -> PolicyNodes {
        let nodes: BTreeMap<_, _> =
            nodes.into_iter().map(|(name, view)| (name.to_owned(), view)).collect();
        PolicyNodes { nodes, ..PolicyNodes::default() }
    }

    fn stored(policy: &Policy) -> StoredPolicy {
        serde_json::from_value(serde_json::to_value(policy).unwrap()).unwrap()
    }

    fn facts(annotation: Option<(&str, &str)>) -> PolicyFacts {
        let mut policy = Policy::new("p");
        policy.metadata.generation = Some(3);
        policy.metadata.annotations =
            annotation.map(|(name, value)| [(name.to_owned(), value.to_owned())].into());
        policy_facts(&stored(&policy))
    }

    fn node(phase: Phase) -> NodeView {
        NodeView {
            is_ready: true,
            enactment: Some("uid".into()),
            phase,
            generation: Some(3),
            said: None,
            used: None,
            is_free: true,
            refusal: None,
        }
    }

    fn message(status: &PolicyStatus) -> (&str, &str) {
        let holds = status.conditions.iter().find(|it| it.message.is_some()).unwrap();
        (holds.reason.as_deref().unwrap(), holds.message.as_deref().unwrap())
    }

    #[test]
    fn an_annotation_that_cannot_be_honoured_stops_the_policy_and_is_explained() {
        let facts = facts(Some(("nmstate.landfall.dev/canari", "1")));
        let nodes = policy_nodes([("a", node(Phase::Unknown))]);
        let decided = decide(&facts, &nodes, None, now(), false);
        let (reason, text) = message(&decided.status);
        assert_eq!(reason, "InvalidAnnotation");
        assert!(text.contains("did you mean canary?"), "{text}");
        assert!(decided.status.slots.is_empty());
    }

    #[test]
    fn a_spec_that_cannot_be_read_stops_the_policy_and_is_explained() {
        let deep = format!("{}0{}", r#"{"a":"#.repeat(1000), "}".repeat(1000));
        let text = format!(
            r#"{{"metadata":{{"name":"p","generation":3}},"spec":{{"desiredState":{deep}}}}}"#
        );
        let facts = policy_facts(&serde_json::from_str(&text).unwrap());
        let nodes = policy_nodes([("a", node(Phase::Unknown))]);
        let decided = decide(&facts, &nodes, None, now(), false);
        assert_eq!(message(&decided.status).0, "UnreadableSpec");
        assert!(decided.status.slots.is_empty());
    }

    #[test]
    fn a_stopped_generation_goes_on_when_annotations_ask_for_other_attempts() {
        let mut held = facts(None);
        let nodes = policy_nodes([("a", node(Phase::Failed)), ("b", node(Phase::Pending))]);
        let stopped = decide(&held, &nodes, None, now(), false).status;
        assert_eq!(stopped.aborted_generation, Some(3));
        held.policy.status = Some(stopped.clone());
        assert_eq!(decide(&held, &nodes, None, now(), false).status, stopped);
        let mut corrected = facts(Some(("nmstate.landfall.dev/probes", "api-server")));
        corrected.policy.status = Some(stopped);
        let again = policy_nodes([("a", node(Phase::Unknown)), ("b", node(Phase::Pending))]);
        let goes_on = decide(&corrected, &again, None, now(), false).status;
        assert_eq!((goes_on.aborted_generation, goes_on.slots.len()), (None, 1));
    }

    #[test]
    fn a_decision_about_a_settled_policy_is_the_status_it_has() {
        let mut facts = facts(None);
        let nodes = policy_nodes([("a", node(Phase::Available))]);
        let first = decide(&facts, &nodes, None, now(), false).status;
        assert_eq!(
            message(&first),
            ("SuccessfullyConfigured", "1/1 nodes successfully configured")
        );
        assert!(first.slots.is_empty() && first.unavailable_node_count_map.is_empty());
        facts.policy.status = Some(first.clone());
        let later = now().checked_add(SignedDuration::from_secs(100)).unwrap();
        assert_eq!(decide(&facts, &nodes, None, later, false).status, first);
    }

    #[test]
    fn reports_about_another_generation_say_nothing_about_this_one() {
        let facts = facts(None);
        for phase in [Phase::Available, Phase::Failed, Phase::Aborted, Phase::Pending] {
            let older = NodeView { generation: Some(2), ..node(phase) };
            let nodes = policy_nodes([("a", older), ("b", node(Phase::Available))]);
            let status = decide(&facts, &nodes, None, now(), false).status;
            let expected = ("ConfigurationProgressing", "Policy is progressing 1/2 nodes finished");
            assert_eq!(message(&status), expected, "{phase:?}");
        }
    }

    #[test]
    fn overlaps_and_limits_that_make_no_sense_are_told() {
        let mut facts = facts(None);
        facts.policy.spec.max_unavailable = Some(nmstate_api::IntOrText::Text("many".to_owned()));
        let nodes = policy_nodes([("a", node(Phase::Available))]);
        let decided = decide(&facts, &nodes, Some("shares eth1 with b"), now(), false);
        let (_, text) = message(&decided.status);
        assert!(text.contains("`many`") && text.ends_with("; shares eth1 with b"), "{text}");
    }

    #[test]
    fn nodes_that_cannot_be_changed_so_are_named_before_any_node_is_changed() {
        let refused = NodeView {
            refusal: Some("nothing was changed: the node cannot be made so: no eth9".into()),
            ..node(Phase::Failed)
        };
        let nodes = policy_nodes([("a", refused), ("b", node(Phase::Pending))]);
        let decided = decide(&facts(None), &nodes, None, now(), true);
        let (reason, text) = message(&decided.status);
        assert_eq!(reason, "FailedToConfigure");
        assert_eq!(
            text,
            "1/2 nodes failed to configure; no node was changed: a: the node cannot be made so: no eth9"
        );
        assert!(decided.status.slots.is_empty());
        assert_eq!(decided.status.aborted_generation, None);
    }

    #[test]
    fn a_roll_out_that_an_earlier_version_began_goes_on() {
        let mut facts = facts(None);
        let earlier = PolicyStatus { observed_generation: Some(3), ..PolicyStatus::default() };
        facts.policy.status = Some(earlier);
        let refused = NodeView { refusal: Some("why".into()), ..node(Phase::Failed) };
        let nodes = policy_nodes([
            ("a", refused),
            ("b", node(Phase::Available)),
            ("c", node(Phase::Pending)),
            ("d", node(Phase::Pending)),
        ]);
        let status = decide(&facts, &nodes, None, now(), true).status;
        assert_eq!((status.slots.len(), status.begun_generation), (1, Some(3)));
    }

    #[test]
    fn a_name_that_is_too_long_for_a_label_stops_the_policy_and_is_explained() {
        let mut policy = Policy::new(&"a".repeat(64));
        policy.metadata.generation = Some(3);
        let nodes = policy_nodes([("a", node(Phase::Unknown))]);
        let decided = decide(&policy_facts(&stored(&policy)), &nodes, None, now(), false);
        assert_eq!(message(&decided.status).0, "InvalidName");
        assert!(decided.status.slots.is_empty());
    }
}
