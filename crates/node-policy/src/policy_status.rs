//! The status of a policy: what results from its nodes, and what makes it unusable.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nmstate_api::annotations::{Canary, PAUSED, PolicyOptions};
use nmstate_api::{
    Condition, ConditionStatus, NodeNetworkConfigurationPolicy as Policy, NodeValues,
    PolicyConditionType, PolicyName, PolicyReason, PolicyStatus, Slot as ApiSlot, StoredPolicy,
    Warning, condition,
};

use crate::limit::MaxUnavailable;
use crate::overlap;
use crate::phase::Phase;
use crate::rollout::{NodeView, RolloutInput, Slot};
use crate::summary::{Counts, PolicySummary, State};
use crate::terms::{self, terms};
use crate::verdict::bounded;
use crate::warnings;

/// Nodes that a message names.
const MOST_REFUSALS: usize = 3;

/// A policy and the options in its annotations.
#[derive(Debug, Clone)]
pub struct PolicyFacts {
    pub policy: Policy,
    pub options: Result<PolicyOptions, Unusable>,
    pub subjects: BTreeSet<String>,
}

/// The nodes of a policy.
#[derive(Debug, Clone, Default)]
pub struct PolicyNodes {
    pub nodes: BTreeMap<String, NodeView>,
    /// Nodes that do not match any more and still have a report about it.
    pub leaving: BTreeMap<String, NodeView>,
    /// The values of the policy on each node.
    pub values: BTreeMap<String, NodeValues>,
    /// Why these values do not allow any change.
    pub values_problem: Option<String>,
    /// Warnings of nodes about this generation.
    pub warnings: BTreeMap<String, Vec<Warning>>,
    /// Whether a deleted policy of the same name is still being reverted.
    pub is_reverting: bool,
}

impl PolicyNodes {
    /// Values that differ when those of a node do.
    fn values_together(&self) -> NodeValues {
        NodeValues::together(self.values.iter().map(|(node, values)| (node.as_str(), values)))
    }

    /// Whether a policy that has not started may start. It is unknown when an absent canary joins,
    /// a pause ends, or a policy that a node refuses is corrected, so it blocks no later policy
    /// until then.
    pub fn may_begin(&self, policy: &Policy, options: &PolicyOptions) -> bool {
        !has_absent_canary(options, &self.nodes)
            && !options.is_paused
            && self.values_problem.is_none()
            && !is_refused(policy, self)
    }
}

/// Why no handler acts on a policy.
#[derive(Debug, Clone)]
pub struct Unusable {
    pub reason: PolicyReason,
    pub why: String,
}

impl PolicyFacts {
    /// The stored part of a policy.
    pub fn of(stored: &StoredPolicy) -> Self {
        let unusable = |reason: PolicyReason, error: &dyn std::error::Error| Unusable {
            reason,
            why: error.to_string(),
        };
        let name: Result<PolicyName, _> =
            stored.metadata.name.as_deref().unwrap_or_default().parse();
        let (mut policy, mut options) = match stored.read() {
            Ok(policy) => {
                let options = PolicyOptions::parse(policy.metadata.annotations.as_ref());
                let reason = PolicyReason::InvalidAnnotation;
                (policy, options.map_err(|error| unusable(reason, &error)))
            }
            Err(error) => {
                let unreadable = unusable(PolicyReason::UnreadableSpec, &error);
                (stored.without_spec(), Err(unreadable))
            }
        };
        if let Err(error) = name {
            options = Err(unusable(PolicyReason::InvalidName, &error));
        }
        policy.metadata.managed_fields = None;
        let subjects = overlap::subjects(&policy.spec.desired_state);
        Self { options, subjects, policy }
    }
}

/// The decision about a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    pub status: PolicyStatus,
    pub slots: Vec<Slot>,
    /// Slots that end only if the API server confirms it.
    pub doubtful: Vec<Slot>,
    /// Whether the first slot waits for reports of nodes.
    pub is_checking: bool,
}

/// Decides about a policy: its status, and which nodes may change. `awaits_reports` tells whether the
/// first slot may still wait for nodes that have not compared the policy with their network.
pub fn decide(
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
                status: status(&held, generation, &summary, None, now),
                slots: Vec::new(),
                doubtful: Vec::new(),
                is_checking: false,
            };
        }
    };
    let limit = MaxUnavailable::parse(facts.policy.spec.max_unavailable.as_ref());
    let slots: Vec<Slot> = held.slots.iter().map(slot_from_api).collect();
    let input = RolloutInput {
        generation,
        limit: limit.clone().unwrap_or_default(),
        canary: options.canary.as_ref(),
        nodes: &of.nodes,
        leaving: &of.leaving,
        held: &slots,
        was_aborted: held.aborted_generation == Some(generation)
            && !terms::are_others(held.aborted_with.as_deref(), &options),
        is_taken_over: is_of_the_previous_version(&held),
        has_begun: has_begun(&held, generation, of),
        awaits_reports,
        is_paused: options.is_paused || of.values_problem.is_some() || of.is_reverting,
        are_reverts_paused: options.is_paused || of.is_reverting,
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
    if of.is_reverting {
        summary.message +=
            "; no node is changed before the deleted policy of the same name is reverted";
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
    let warnings = warnings::sentence(&of.warnings, of.nodes.len());
    let mut status = status(&held, generation, &summary, warnings, now);
    status.slots = rollout.slots.iter().map(slot_to_api).collect();
    // Also before anything has started: a status without it was written by an earlier version.
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
    let reasons: Vec<String> = first.map(|(node, why)| format!("{node}: {}", short(why))).collect();
    match all.len().saturating_sub(MOST_REFUSALS) {
        0 => reasons.join("; "),
        more => format!("{}; and {more} more nodes", reasons.join("; ")),
    }
}

fn status(
    held: &PolicyStatus,
    generation: i64,
    summary: &PolicySummary,
    warnings: Option<String>,
    now: Timestamp,
) -> PolicyStatus {
    let mut conditions = summary.conditions();
    // The last one: clients that print the first condition that is true print the same as before.
    conditions.extend(warnings.map(|warnings| {
        Condition::new(PolicyConditionType::Warning, ConditionStatus::True)
            .reason(PolicyReason::PartsWithoutEffect)
            .message(bounded(warnings))
    }));
    PolicyStatus {
        conditions: condition::stamped(conditions, &held.conditions, &Time(now)),
        observed_generation: Some(generation),
        ..PolicyStatus::default()
    }
}

/// A slot as it is stored.
pub fn slot_from_api(slot: &ApiSlot) -> Slot {
    Slot {
        node: slot.node.clone(),
        generation: slot.generation,
        expires: slot.expires.0,
        enactment: slot.enactment.clone(),
    }
}

/// A slot as it will be stored.
pub fn slot_to_api(slot: &Slot) -> ApiSlot {
    let expires = Time(slot.expires);
    ApiSlot {
        node: slot.node.clone(),
        generation: slot.generation,
        expires,
        enactment: slot.enactment.clone(),
    }
}

/// Whether a policy waits because it cannot be applied to one of its nodes.
fn is_refused(policy: &Policy, policy_nodes: &PolicyNodes) -> bool {
    let generation = policy.metadata.generation.unwrap_or_default();
    let held = policy.status.clone().unwrap_or_default();
    let refuses = |view: &NodeView| {
        let is_failed = view.generation == Some(generation) && view.phase == Phase::Failed;
        is_failed && view.refusal.is_some()
    };
    policy_nodes.nodes.values().any(refuses) && !has_begun(&held, generation, policy_nodes)
}

/// Whether a status was written by a coordinator of the previous version. Reports about the policy have
/// to be read again then, before slots are decided: that version ends slots that may still be used.
pub fn is_of_the_previous_version(status: &PolicyStatus) -> bool {
    status.observed_generation.is_some() && status.begun_generation.is_none()
}

/// Whether a node was given a slot for this generation. Earlier versions did not record that.
fn has_begun(held: &PolicyStatus, generation: i64, of: &PolicyNodes) -> bool {
    let is_available =
        |view: &NodeView| view.generation == Some(generation) && view.phase == Phase::Available;
    match held.begun_generation {
        Some(begun) => begun == generation,
        None => {
            held.slots.iter().any(|slot| slot.generation == generation)
                || (held.observed_generation == Some(generation)
                    && of.nodes.values().any(is_available))
        }
    }
}

/// Whether a policy waits for a canary that is not among its nodes.
fn has_absent_canary(options: &PolicyOptions, nodes: &BTreeMap<String, NodeView>) -> bool {
    match &options.canary {
        Some(Canary::Nodes(names)) => names.iter().any(|name| !nodes.contains_key(name.as_str())),
        Some(Canary::Count(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

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
        PolicyFacts::of(&stored(&policy))
    }

    fn node(phase: Phase) -> NodeView {
        NodeView {
            is_ready: true,
            enactment: Some("uid".into()),
            phase,
            generation: Some(3),
            reported_at: None,
            used: None,
            is_free: true,
            refusal: None,
            is_reverted: false,
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
        let facts = PolicyFacts::of(&serde_json::from_str(&text).unwrap());
        let nodes = policy_nodes([("a", node(Phase::Unknown))]);
        let decided = decide(&facts, &nodes, None, now(), false);
        assert_eq!(message(&decided.status).0, "UnreadableSpec");
        assert!(decided.status.slots.is_empty());
    }

    #[test]
    fn a_stopped_generation_continues_when_annotations_change() {
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
    fn reports_about_another_generation_do_not_count_for_this_one() {
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
    fn overlaps_and_invalid_limits_are_reported() {
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
    fn warnings_are_separate_from_errors_before_any_node_is_changed() {
        let refused = NodeView { refusal: Some("no eth9".into()), ..node(Phase::Failed) };
        let mut nodes = policy_nodes([("a", refused), ("b", node(Phase::Pending))]);
        let path = "interfaces[0].ipv4.dhcp".to_owned();
        let warning = Warning { path, reason: "it has no effect on eth1".into() };
        nodes.warnings.insert("b".to_owned(), vec![warning]);
        let decided = decide(&facts(None), &nodes, None, now(), true);
        assert_eq!(
            message(&decided.status),
            ("FailedToConfigure", "1/2 nodes failed to configure; no node was changed: a: no eth9")
        );
        let last = decided.status.conditions.last().unwrap();
        assert_eq!((last.type_.as_str(), last.status), ("Warning", ConditionStatus::True));
        assert_eq!(last.reason.as_deref(), Some("PartsWithoutEffect"));
        let text = last.message.as_deref().unwrap();
        assert_eq!(text, "b: interfaces[0].ipv4.dhcp: it has no effect on eth1");
        nodes.warnings.clear();
        let without = decide(&facts(None), &nodes, None, now(), true);
        assert_eq!(without.status.conditions.len(), 4, "the condition is absent without warnings");
    }

    #[test]
    fn a_rollout_of_an_earlier_version_continues() {
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
        let decided = decide(&PolicyFacts::of(&stored(&policy)), &nodes, None, now(), false);
        assert_eq!(message(&decided.status).0, "InvalidName");
        assert!(decided.status.slots.is_empty());
    }
}
