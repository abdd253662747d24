//! The coordinator's view of the cluster. Only a small part of most objects is kept: a cluster may
//! have a thousand nodes and a hundred policies.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{BoxStream, StreamExt, select_all};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client, ResourceExt};
use nmstate_api::annotations::PolicyOptions;
use nmstate_api::{
    ACCEPTED_GENERATION, ASSIGNED_POLICIES, Assignments, EnactmentConditionType, NODE_LABEL,
    NodeNetworkConfigurationEnactment as Enactment, NodeNetworkState, NodeValues, POLICY_LABEL,
    StoredPolicy, Warning, condition,
};
use node_policy::limit::MaxUnavailable;
use node_policy::policy_status::{PolicyFacts, PolicyNodes, is_of_the_previous_version};
use node_policy::revert::LeftNode;
use node_policy::rollout::NodeView;
use node_policy::selection::{self, Labels};
use node_policy::verdict::is_refusal;
use node_policy::{Phase, overlap, terms};

use super::assignments::{ValueTable, Values, table};
use crate::handler::is_ready;
use crate::watch_cache::WatchCache;
use crate::watching;

/// An event in the cluster.
pub(crate) enum News {
    Policy(Event<StoredPolicy>),
    Node(Box<Event<Node>>),
    Enactment(Box<Event<Enactment>>),
    Report(Event<PartialObjectMeta<NodeNetworkState>>),
    Values(Event<ConfigMap>),
    Lost(watcher::Error),
}

/// All events in the cluster that concern policies. Values of nodes are in ConfigMaps of
/// `namespace`.
pub(crate) fn news(client: &Client, namespace: &str) -> BoxStream<'static, News> {
    fn to_news<T>(
        make: impl Fn(T) -> News + Send + 'static,
    ) -> impl Fn(Result<T, watcher::Error>) -> News + Send + 'static {
        move |event| event.map_or_else(News::Lost, &make)
    }
    let all = Config::default;
    let policies = watcher(Api::<StoredPolicy>::all(client.clone()), all());
    let nodes = watcher(Api::<Node>::all(client.clone()), all());
    let enactments = watcher(Api::<Enactment>::all(client.clone()), all());
    let reports = watcher(Api::<PartialObjectMeta<NodeNetworkState>>::all(client.clone()), all());
    let values = watcher(Api::<ConfigMap>::namespaced(client.clone(), namespace), all());
    select_all([
        values.default_backoff().map(to_news(News::Values)).boxed(),
        policies.default_backoff().map(to_news(News::Policy)).boxed(),
        nodes.default_backoff().map(to_news(|event| News::Node(Box::new(event)))).boxed(),
        enactments.default_backoff().map(to_news(|event| News::Enactment(Box::new(event)))).boxed(),
        reports.default_backoff().map(to_news(News::Report)).boxed(),
    ])
    .boxed()
}

/// The stored part of a node.
#[derive(Debug, Clone)]
struct NodeFacts {
    labels: Labels,
    is_ready: bool,
}

/// The stored part of a node's report about a policy.
#[derive(Debug, Clone)]
pub(super) struct EnactmentFacts {
    pub(super) node: String,
    pub(super) policy: String,
    pub(super) phase: Phase,
    pub(super) generation: Option<i64>,
    pub(super) reported_at: Option<Timestamp>,
    uid: Option<String>,
    used: Option<Timestamp>,
    pub(super) features: Vec<String>,
    tried_with: Option<String>,
    refusal: Option<String>,
    warnings: Vec<Warning>,
    /// How many nodes may revert the policy at the same time; none without the state for that.
    revert_limit: Option<MaxUnavailable>,
}

impl EnactmentFacts {
    /// The phase of the node. A failure with annotations other than the current ones is ignored.
    fn phase_under(&self, options: Option<&PolicyOptions>, values: Option<NodeValues>) -> Phase {
        let is_over = matches!(self.phase, Phase::Failed | Phase::Aborted);
        let others = |options: &PolicyOptions| {
            let options = options.clone().for_node(&self.node).with_values(values);
            terms::are_others(self.tried_with.as_deref(), &options)
        };
        if is_over && options.is_some_and(others) { Phase::Unknown } else { self.phase }
    }
}

/// The observed state.
#[derive(Default)]
pub(crate) struct View {
    policies: WatchCache<PolicyFacts>,
    nodes: WatchCache<NodeFacts>,
    enactments: WatchCache<EnactmentFacts>,
    /// Nodes that have a handler, because they report their network, and their assignments.
    reporters: WatchCache<Option<Assignments>>,
    values: WatchCache<ValueTable>,
}

impl View {
    pub(crate) fn take(&mut self, news: News) {
        match news {
            News::Policy(event) => self.policies.take(event, |policy| PolicyFacts::of(&policy)),
            News::Node(event) => self.nodes.take(*event, |node| NodeFacts {
                is_ready: is_ready(&node),
                labels: node.metadata.labels.unwrap_or_default(),
            }),
            News::Enactment(event) => self.enactments.take(*event, enactment_facts),
            News::Report(event) => self.reporters.take(event, |report| assignments(&report)),
            News::Values(event) => self.values.take(event, table),
            News::Lost(error) => watching::lost(&error),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.policies.is_complete()
            && self.nodes.is_complete()
            && self.enactments.is_complete()
            && self.reporters.is_complete()
            && self.values.is_complete()
    }

    pub(super) fn policies(&self) -> impl Iterator<Item = (&str, &PolicyFacts)> {
        self.policies.iter()
    }

    pub(super) fn enactments(&self) -> impl Iterator<Item = &EnactmentFacts> {
        self.enactments.iter().map(|(_, it)| it)
    }

    /// Nodes that have a handler, and their last assignments.
    pub(super) fn reporters(&self) -> impl Iterator<Item = (&str, &Option<Assignments>)> {
        self.reporters.iter()
    }

    pub(super) fn assigned(&mut self, report: PartialObjectMeta<NodeNetworkState>) {
        self.reporters.wrote(report, |report| assignments(&report));
    }

    pub(crate) fn wrote(&mut self, policy: StoredPolicy) {
        self.policies.wrote(policy, |policy| PolicyFacts::of(&policy));
    }

    pub(crate) fn deleted(&mut self, policy: &str) {
        self.policies.remove(policy);
    }

    /// Replaces the reports about a policy by those that were just read.
    pub(super) fn read_reports(&mut self, policy: &str, reports: Vec<Enactment>) {
        let read: BTreeSet<String> = reports.iter().map(ResourceExt::name_any).collect();
        let of_it = self.enactments.iter().filter(|(_, it)| it.policy == policy);
        let gone: Vec<String> = of_it
            .filter(|(name, _)| !read.contains(*name))
            .map(|(name, _)| name.to_owned())
            .collect();
        gone.iter().for_each(|name| self.enactments.remove(name));
        for report in reports {
            self.enactments.wrote(report, enactment_facts);
        }
    }

    /// Names of policies whose status was written by the previous version last.
    pub(super) fn of_the_previous_version(&self) -> Vec<String> {
        let is_it = |facts: &PolicyFacts| {
            facts.policy.status.as_ref().is_some_and(is_of_the_previous_version)
        };
        let policies = self.policies().filter(|(_, facts)| facts.options.is_ok() && is_it(facts));
        policies.map(|(name, _)| name.to_owned()).collect()
    }

    /// Whether a policy exists and is not being deleted.
    pub(super) fn has_policy(&self, name: &str) -> bool {
        let facts = self.policies.get(name);
        facts.is_some_and(|facts| facts.policy.metadata.deletion_timestamp.is_none())
    }

    /// The nodes that have reports about policies that do not exist any more, by policy.
    pub(super) fn left(&self) -> BTreeMap<String, BTreeMap<String, LeftNode>> {
        let mut left: BTreeMap<String, BTreeMap<String, LeftNode>> = BTreeMap::new();
        for facts in self.enactments().filter(|facts| !self.has_policy(&facts.policy)) {
            let nodes = left.entry(facts.policy.clone()).or_default();
            nodes.extend(self.left_node(facts).map(|node| (facts.node.clone(), node)));
        }
        left
    }

    fn left_node(&self, facts: &EnactmentFacts) -> Option<LeftNode> {
        Some(LeftNode {
            is_ready: self.nodes.get(&facts.node).is_some_and(|node| node.is_ready),
            enactment: facts.uid.clone()?,
            phase: facts.phase,
            used: facts.used,
            limit: facts.revert_limit,
        })
    }

    /// The nodes with these reports, which were just read.
    pub(super) fn left_by(&self, reports: Vec<Enactment>) -> BTreeMap<String, LeftNode> {
        let facts = reports.into_iter().map(enactment_facts);
        facts.filter_map(|facts| Some((facts.node.clone(), self.left_node(&facts)?))).collect()
    }

    /// The input of the decision about each policy: its nodes, with their reports.
    pub(super) fn nodes_by_policy(&self) -> BTreeMap<String, PolicyNodes> {
        let mut reports: BTreeMap<&str, BTreeMap<&str, &EnactmentFacts>> = BTreeMap::new();
        for facts in self.enactments() {
            reports.entry(&facts.policy).or_default().insert(&facts.node, facts);
        }
        let labelled = Labelled::new(&self.nodes);
        // Nodes that are still being changed by an earlier policy.
        let mut busy: BTreeSet<String> = BTreeSet::new();
        let mut nodes_by_policy = BTreeMap::new();
        for (name, facts) in self.policies() {
            let generation = facts.policy.metadata.generation;
            let reports = reports.remove(name).unwrap_or_default();
            let options = facts.options.as_ref().ok();
            let values = Values::new(options, |name| self.values.get(name));
            let mut policy_nodes = PolicyNodes::default();
            let selector = &facts.policy.spec.node_selector;
            let candidates: BTreeSet<&str> =
                labelled.candidates(selector).chain(reports.keys().copied()).collect();
            for node in candidates {
                let Some(about) = self.nodes.get(node) else { continue };
                let has_handler = self.reporters.get(node).is_some();
                let is_wanted = selection::matches(selector, &about.labels)
                    && options
                        .is_some_and(|it| it.select(&about.labels) && !it.is_reverted_on(node));
                let report = reports.get(node);
                let is_matching = has_handler && is_wanted;
                if !is_matching && report.is_none() {
                    continue;
                }
                let own = values.of(node);
                let view = NodeView {
                    is_ready: about.is_ready,
                    enactment: report.and_then(|it| it.uid.clone()),
                    phase: report.map_or(Phase::Unknown, |it| it.phase_under(options, own.clone())),
                    generation: report.and_then(|it| it.generation),
                    reported_at: report.and_then(|it| it.reported_at),
                    used: report.and_then(|it| it.used),
                    is_free: !busy.contains(node),
                    refusal: report.and_then(|it| it.refusal.clone()),
                    is_reverted: options.is_some_and(|it| it.is_reverted_on(node))
                        && report.is_some_and(|it| it.revert_limit.is_some()),
                };
                let nodes =
                    if is_matching { &mut policy_nodes.nodes } else { &mut policy_nodes.leaving };
                nodes.insert(node.to_owned(), view);
                if let Some(report) = report.filter(|it| is_matching && it.generation == generation)
                    && !report.warnings.is_empty()
                {
                    policy_nodes.warnings.insert(node.to_owned(), report.warnings.clone());
                }
                policy_nodes.values.extend(own.map(|own| (node.to_owned(), own)));
            }
            let matching = policy_nodes.nodes.keys().map(String::as_str);
            policy_nodes.values_problem =
                values.problem(&facts.policy.spec.desired_state, matching);
            if let Ok(options) = &facts.options {
                let may_begin = policy_nodes.may_begin(&facts.policy, options);
                let is_busy = |view: &NodeView| match may_begin {
                    true => view.generation != generation || !view.phase.is_settled(),
                    false => view.phase.is_under_way(),
                };
                let nodes = policy_nodes.nodes.iter().filter(|(_, view)| is_busy(view));
                busy.extend(nodes.map(|(node, _)| node.clone()));
            }
            nodes_by_policy.insert(name.to_owned(), policy_nodes);
        }
        nodes_by_policy
    }

    /// Sentences about policies that configure the same part of a node.
    pub(super) fn overlaps(
        &self,
        nodes_by_policy: &BTreeMap<String, PolicyNodes>,
    ) -> BTreeMap<String, String> {
        let claims: Vec<overlap::Claim<'_>> = self
            .policies()
            .filter_map(|(name, facts)| {
                let nodes = nodes_by_policy.get(name)?.nodes.keys().map(String::as_str).collect();
                Some(overlap::Claim { policy: name, subjects: facts.subjects.clone(), nodes })
            })
            .collect();
        let found = overlap::overlaps(&claims);
        found
            .iter()
            .filter_map(|(name, with)| Some((name.clone(), overlap::sentence(with)?)))
            .collect()
    }
}

/// The assignment of policies in a node's report.
fn assignments(report: &PartialObjectMeta<NodeNetworkState>) -> Option<Assignments> {
    Assignments::parse(report.annotations().get(ASSIGNED_POLICIES)?)
}

/// Nodes by their labels, so that a policy for one node costs as much as that node.
struct Labelled<'a> {
    all: Vec<&'a str>,
    by_label: BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a str>>>,
}

impl<'a> Labelled<'a> {
    fn new(nodes: &'a WatchCache<NodeFacts>) -> Self {
        let mut by_label: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
        for (node, facts) in nodes.iter() {
            for (key, value) in &facts.labels {
                let by_value = by_label.entry(key).or_default();
                by_value.entry(value).or_default().push(node);
            }
        }
        Self { all: nodes.iter().map(|(node, _)| node).collect(), by_label }
    }

    /// All nodes that a selector may match: those with the rarest of its labels.
    fn candidates<'b>(&'b self, selector: &Labels) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        let mut rarest: &'b [&'a str] = &self.all;
        for (key, value) in selector {
            let nodes =
                self.by_label.get(key.as_str()).and_then(|by_value| by_value.get(value.as_str()));
            let nodes = nodes.map(Vec::as_slice).unwrap_or_default();
            if nodes.len() < rarest.len() {
                rarest = nodes;
            }
        }
        rarest.iter().copied()
    }
}

/// A node by its report alone.
pub(super) fn node_view(enactment: Option<Enactment>) -> NodeView {
    let facts = enactment.map(enactment_facts);
    NodeView {
        is_ready: true,
        enactment: facts.as_ref().and_then(|it| it.uid.clone()),
        phase: facts.as_ref().map_or(Phase::Unknown, |it| it.phase),
        generation: facts.as_ref().and_then(|it| it.generation),
        reported_at: facts.as_ref().and_then(|it| it.reported_at),
        used: facts.as_ref().and_then(|it| it.used),
        is_free: true,
        refusal: None,
        is_reverted: false,
    }
}

fn enactment_facts(enactment: Enactment) -> EnactmentFacts {
    let label = |key: &str| enactment.labels().get(key).cloned().unwrap_or_default();
    let (node, policy) = (label(NODE_LABEL), label(POLICY_LABEL));
    let uid = enactment.metadata.uid.clone();
    let accepted = enactment.annotations().get(ACCEPTED_GENERATION);
    let accepted: Option<i64> = accepted.and_then(|text| text.parse().ok());
    let status = enactment.status.unwrap_or_default();
    let refusal = status.failure.as_ref().is_some_and(|it| is_refusal(&it.kind));
    let failing = condition::find(&status.conditions, EnactmentConditionType::Failing);
    let refusal = failing.filter(|_| refusal).and_then(|it| it.message.clone());
    let limit = MaxUnavailable::parse(status.revert_max_unavailable.as_ref());
    let heartbeats = status.conditions.iter().filter_map(|it| it.last_heartbeat_time.as_ref());
    EnactmentFacts {
        node,
        policy,
        phase: Phase::of(&status.conditions),
        generation: status.policy_generation.or(accepted),
        reported_at: heartbeats.map(|time| time.0).max(),
        uid,
        used: status.used_slot.map(|time| time.0),
        features: status.features,
        tried_with: status.tried_with,
        refusal,
        warnings: status.warnings,
        revert_limit: (!status.revert_state.is_empty()).then(|| limit.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn enactment(node: &str, policy: &str, phase: Phase) -> Enactment {
        let conditions = phase.conditions("so it is");
        of(json!({
            "metadata": {
                "name": format!("{node}.{policy}"),
                "labels": {NODE_LABEL: node, POLICY_LABEL: policy},
            },
            "status": {"policyGeneration": 1, "conditions": conditions},
        }))
    }

    fn seen() -> View {
        let mut view = View::default();
        for name in ["a", "b", "c"] {
            let ready = json!([{"type": "Ready", "status": "True"}]);
            let node = of(json!({"metadata": {"name": name}, "status": {"conditions": ready}}));
            view.take(News::Node(Box::new(Event::Apply(node))));
        }
        for name in ["one", "two"] {
            let policy = of(json!({"metadata": {"name": name, "generation": 1}}));
            view.take(News::Policy(Event::Apply(policy)));
        }
        // The third one has no handler.
        for name in ["a", "b"] {
            view.take(News::Report(Event::Apply(of(json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": {"name": name},
            })))));
        }
        view
    }

    #[test]
    fn only_nodes_with_a_handler_and_reports_about_the_policy_count() {
        let mut view = seen();
        view.take(News::Enactment(Box::new(Event::Apply(enactment("a", "one", Phase::Available)))));
        view.take(News::Enactment(Box::new(Event::Apply(enactment("a", "two", Phase::Failed)))));
        let nodes_by_policy = view.nodes_by_policy();
        let one = &nodes_by_policy["one"].nodes;
        assert_eq!(one.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((one["a"].phase, one["b"].phase), (Phase::Available, Phase::Unknown));
        assert!(one["b"].enactment.is_none());
        let two = &nodes_by_policy["two"].nodes;
        assert!(two["a"].is_free && !two["b"].is_free, "one after the other");
    }

    #[test]
    fn a_policy_that_waits_for_an_absent_canary_holds_up_no_other() {
        let mut view = seen();
        let waits_for = |canary: &str| {
            let annotations = json!({"nmstate.landfall.dev/canary": canary});
            let metadata = json!({"name": "one", "generation": 1, "annotations": annotations});
            News::Policy(Event::Apply(of(json!({"metadata": metadata}))))
        };
        view.take(waits_for("z"));
        assert!(view.nodes_by_policy()["two"].nodes["a"].is_free);
        // It was started before the canary was removed.
        let begun = enactment("a", "one", Phase::Progressing);
        view.take(News::Enactment(Box::new(Event::Apply(begun))));
        assert!(!view.nodes_by_policy()["two"].nodes["a"].is_free);
        view.take(waits_for("b"));
        assert!(!view.nodes_by_policy()["two"].nodes["b"].is_free, "one after the other");
    }

    #[test]
    fn a_report_whose_status_follows_is_no_consent() {
        let mut view = seen();
        let created = |accepted: &str| -> Enactment {
            let mut created = enactment("a", "one", Phase::Unknown);
            created.status = None;
            let annotations = [(ACCEPTED_GENERATION.to_owned(), accepted.to_owned())];
            created.metadata.annotations = Some(annotations.into());
            created
        };
        view.take(News::Enactment(Box::new(Event::Apply(created("0")))));
        assert_eq!(view.nodes_by_policy()["one"].nodes["a"].generation, Some(0));
        view.take(News::Enactment(Box::new(Event::Apply(created("1")))));
        assert_eq!(view.nodes_by_policy()["one"].nodes["a"].generation, Some(1));
        let mut older = created("1");
        older.metadata.annotations = None;
        view.take(News::Enactment(Box::new(Event::Apply(older))));
        assert_eq!(view.nodes_by_policy()["one"].nodes["a"].generation, None, "an older handler's");
    }

    #[test]
    fn a_policy_that_a_node_refuses_or_that_is_paused_holds_up_no_other() {
        let mut view = seen();
        assert!(!view.nodes_by_policy()["two"].nodes["b"].is_free, "one after the other");
        let mut refused = enactment("a", "one", Phase::Failed);
        let failure = nmstate_api::Failure { kind: "Invalid".into(), ..Default::default() };
        refused.status.as_mut().unwrap().failure = Some(failure);
        view.take(News::Enactment(Box::new(Event::Apply(refused))));
        assert!(view.nodes_by_policy()["two"].nodes["b"].is_free);
        let mut view = seen();
        let annotations = json!({"nmstate.landfall.dev/paused": "true"});
        let metadata = json!({"name": "one", "generation": 1, "annotations": annotations});
        view.take(News::Policy(Event::Apply(of(json!({"metadata": metadata})))));
        assert!(view.nodes_by_policy()["two"].nodes["b"].is_free);
    }

    #[test]
    fn a_failure_counts_while_the_annotations_are_the_same() {
        let mut view = seen();
        let mut failed = enactment("a", "one", Phase::Failed);
        let usual = terms::terms(&PolicyOptions::default());
        failed.status.as_mut().unwrap().tried_with = Some(usual);
        view.take(News::Enactment(Box::new(Event::Apply(failed))));
        assert_eq!(view.nodes_by_policy()["one"].nodes["a"].phase, Phase::Failed);
        let annotations = json!({"nmstate.landfall.dev/probes": "api-server"});
        let metadata = json!({"name": "one", "generation": 1, "annotations": annotations});
        view.take(News::Policy(Event::Apply(of(json!({"metadata": metadata})))));
        assert_eq!(view.nodes_by_policy()["one"].nodes["a"].phase, Phase::Unknown);
    }
}
