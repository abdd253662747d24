//! The handler's view of the cluster: policies that concern it, its own node, its own reports.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt, select_all};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client, Resource as _, ResourceExt};
use nmstate_api::annotations::{AnnotationError, PolicyOptions};
use nmstate_api::{
    ASSIGNED_POLICIES, Assignments, EnactmentStatus, NODE_LABEL, NodeName,
    NodeNetworkConfigurationEnactment as Enactment, NodeNetworkConfigurationPolicy as Policy,
    NodeNetworkState, POLICY_LABEL, PolicyName, REFRESH_LABEL,
};
use node_policy::policy_status::slot_from_api;
use node_policy::rollout::{self, Slot};
use node_policy::{PolicyView, revert, selection, terms};

use super::policies::{Policies, ReadResult, Reading, Source};
use crate::watch_cache::WatchCache;
use crate::watching;

/// An event in the cluster.
pub(crate) enum News {
    Node(Box<Event<Node>>),
    Enactment(Box<Event<Enactment>>),
    Report(Box<Event<PartialObjectMeta<NodeNetworkState>>>),
    /// A watch was interrupted. It resumes by itself after a while.
    Lost(watcher::Error),
}

/// All events in the cluster that concern a node: three watches of its own objects, regardless of
/// the number of nodes and policies.
pub(crate) fn news(client: &Client, node: &NodeName) -> BoxStream<'static, News> {
    let own = || Config::default().fields(&format!("metadata.name={node}"));
    let ours = Config::default().labels(&format!("{NODE_LABEL}={node}"));
    fn to_news<T>(
        make: impl Fn(T) -> News + Send + 'static,
    ) -> impl Fn(Result<T, watcher::Error>) -> News + Send + 'static {
        move |event| event.map_or_else(News::Lost, &make)
    }
    let nodes = watcher(Api::<Node>::all(client.clone()), own());
    let enactments = watcher(Api::<Enactment>::all(client.clone()), ours);
    let reports = watcher(Api::<PartialObjectMeta<NodeNetworkState>>::all(client.clone()), own());
    select_all([
        nodes.default_backoff().map(to_news(|event| News::Node(Box::new(event)))).boxed(),
        enactments.default_backoff().map(to_news(|event| News::Enactment(Box::new(event)))).boxed(),
        reports.default_backoff().map(to_news(|event| News::Report(Box::new(event)))).boxed(),
    ])
    .boxed()
}

/// The stored part of the own node.
#[derive(Debug, Clone)]
struct OwnNode {
    owner: OwnerReference,
    labels: BTreeMap<String, String>,
}

/// The observed state.
#[derive(Default)]
pub(crate) struct View {
    policies: Policies,
    node: WatchCache<Option<OwnNode>>,
    enactments: WatchCache<Enactment>,
    /// Whether the report exists, and the value that requests it to be read again.
    report: WatchCache<Option<String>>,
}

/// The effect of an event on the node's own report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refresh {
    No,
    /// It was deleted, or a user requests it.
    Now,
}

impl View {
    pub(crate) fn take(&mut self, news: News) -> Refresh {
        match news {
            News::Node(event) => self.node.take(*event, |node| {
                let owner = node.owner_ref(&())?;
                Some(OwnNode { owner, labels: node.labels().clone() })
            }),
            News::Enactment(event) => self.enactments.take(*event, |enactment| enactment),
            News::Report(event) => {
                let before = self.report.is_complete().then(|| self.requested());
                if let Some(assigned) = assignments(&event) {
                    self.policies.assign(assigned);
                }
                self.report.take(*event, |report| report.labels().get(REFRESH_LABEL).cloned());
                if before.is_some_and(|before| before != self.requested()) {
                    return Refresh::Now;
                }
            }
            News::Lost(error) => watching::lost(&error),
        }
        Refresh::No
    }

    fn requested(&self) -> Option<Option<String>> {
        self.report.iter().next().map(|(_, requested)| requested.clone())
    }

    /// Whether the view is complete enough to act.
    pub(crate) fn is_complete(&self) -> bool {
        self.enactments.is_complete()
            && self.policies.are_complete(self.reported_policies())
            && self.node.is_complete()
            && self.owner().is_some()
    }

    /// Starts to read the next policy that has changed, after a while.
    pub(super) fn next_read(&self, source: &Source, after: Duration) -> Option<Reading> {
        let is_known = self.enactments.is_complete();
        let next = || self.policies.next(self.reported_policies(), source, after);
        is_known.then(next).flatten()
    }

    /// Reads a policy again, whether it has changed or not.
    pub(super) fn read_again(&self, policy: &str, source: &Source) -> Reading {
        self.policies.again(policy, source)
    }

    /// Stores a policy that was read. Returns whether it succeeded.
    pub(crate) fn take_read(&mut self, result: ReadResult) -> bool {
        self.policies.take(result)
    }

    /// Removes policies that do not concern this node any more.
    pub(crate) fn forget_policies(&mut self) {
        let reported = self.enactments.iter().filter_map(|(_, it)| policy_label(it));
        self.policies.forget(reported);
    }

    fn reported_policies(&self) -> impl Iterator<Item = &str> {
        self.enactments.iter().filter_map(|(_, it)| policy_label(it))
    }

    /// The node as the owner of our objects.
    pub(crate) fn owner(&self) -> Option<&OwnerReference> {
        self.own_node().map(|node| &node.owner)
    }

    fn own_node(&self) -> Option<&OwnNode> {
        self.node.iter().find_map(|(_, node)| node.as_ref())
    }

    /// Names of all policies that need processing, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.policies.names().map(str::to_owned).collect();
        names.extend(self.enactments.iter().filter_map(|(_, it)| policy_of(it)));
        names.sort();
        names.dedup();
        names
    }

    /// The policy, if it exists and can be parsed.
    pub(crate) fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.get(name)?.as_ref().ok()
    }

    /// Whether its spec cannot be parsed, or its name is not valid for a report. The
    /// coordinator reports it.
    pub(crate) fn is_unusable(&self, name: &str) -> bool {
        let is_named = name.parse::<PolicyName>().is_ok();
        self.policies.get(name).is_some_and(|it| it.is_err() || !is_named)
    }

    /// Whether it is deleted. It may still exist, while finalizers of others run.
    pub(crate) fn is_deleted(&self, name: &str) -> bool {
        match self.policies.get(name) {
            None => self.policies.is_absent(name),
            Some(Ok(policy)) => policy.metadata.deletion_timestamp.is_some(),
            Some(Err(_)) => false,
        }
    }

    /// Whether it is reverted on this node: it was deleted, or its annotations request that.
    pub(crate) fn is_reverted(&self, name: &str) -> bool {
        self.is_deleted(name) || self.is_reverted_here(name)
    }

    /// Whether its annotations request to revert it on this node, and it still exists.
    pub(crate) fn is_reverted_here(&self, name: &str) -> bool {
        let options = self.options(name).and_then(Result::ok).unwrap_or_default();
        self.own_node().is_some_and(|node| options.is_reverted_on(&node.owner.name))
    }

    /// The options in the current annotations of a policy.
    pub(crate) fn options(&self, name: &str) -> Option<Result<PolicyOptions, AnnotationError>> {
        let options = PolicyOptions::parse(self.policy(name)?.metadata.annotations.as_ref());
        let node = self.own_node()?.owner.name.as_str();
        let values = self.policies.values(name).cloned();
        Some(options.map(|options| options.for_node(node).with_values(values)))
    }

    pub(crate) fn enactment(&self, policy: &str) -> Option<&Enactment> {
        let is_of = |it: &&Enactment| policy_of(it).as_deref() == Some(policy);
        self.enactments.iter().map(|(_, it)| it).find(is_of)
    }

    pub(crate) fn enactments(&self) -> impl Iterator<Item = &Enactment> {
        self.enactments.iter().map(|(_, it)| it)
    }

    pub(crate) fn wrote(&mut self, enactment: Enactment) {
        self.enactments.wrote(enactment, |it| it);
    }

    pub(crate) fn deleted(&mut self, enactment: &str) {
        self.enactments.remove(enactment);
    }

    /// A policy as far as it concerns this node.
    pub(crate) fn policy_view(&self, name: &str) -> Option<PolicyView> {
        let policy = self.policy(name)?;
        let options = self.options(name)?.unwrap_or_default();
        let node = self.own_node()?;
        let generation = policy.metadata.generation.unwrap_or_default();
        let status = policy.status.as_ref();
        Some(PolicyView {
            generation,
            is_for_us: policy.metadata.deletion_timestamp.is_none()
                && selection::matches(&policy.spec.node_selector, &node.labels)
                && options.select(&node.labels)
                && !options.is_reverted_on(&node.owner.name),
            has_slot: self.slot(name).is_some(),
            is_aborted: status.is_some_and(|it| {
                // The terms of an abort contain the values of all nodes; this one has its own only.
                it.aborted_generation == Some(generation)
                    && (options.node_values.is_some()
                        || !terms::are_others(it.aborted_with.as_deref(), &options))
            }),
        })
    }

    /// The slot for the current generation of a policy that was not used yet.
    pub(crate) fn slot(&self, name: &str) -> Option<Time> {
        let policy = self.policy(name)?;
        let generation = policy.metadata.generation.unwrap_or_default();
        let slots: Vec<Slot> = policy.status.as_ref()?.slots.iter().map(slot_from_api).collect();
        let enactment = self.enactment(name)?;
        let used = enactment.status.as_ref().and_then(|it| it.used_slot.as_ref());
        let node = self.own_node()?.owner.name.as_str();
        let uid = enactment.metadata.uid.as_deref()?;
        rollout::own_slot(&slots, node, generation, uid, used.map(|it| it.0))
            .map(|slot| Time(slot.expires))
    }

    /// The slot by which this node may revert a policy: in the status of a policy that exists, else
    /// among those of deleted policies.
    pub(crate) fn revert_slot(&self, name: &str) -> Option<Time> {
        let slots = match self.is_deleted(name) {
            true => self.policies.reverts(name),
            false => &self.policy(name)?.status.as_ref()?.slots,
        };
        self.own_revert_slot(name, slots)
    }

    /// A slot to revert a deleted policy although there is another policy of that name now. It is not
    /// used any more.
    pub(crate) fn stale_revert_slot(&self, name: &str) -> Option<Time> {
        let slots = self.policies.reverts(name);
        (!self.is_deleted(name)).then(|| self.own_revert_slot(name, slots)).flatten()
    }

    fn own_revert_slot(&self, name: &str, slots: &[nmstate_api::Slot]) -> Option<Time> {
        let slots: Vec<Slot> = slots.iter().map(slot_from_api).collect();
        let enactment = self.enactment(name)?;
        let used = enactment.status.as_ref().and_then(|it| it.used_slot.as_ref());
        let node = self.own_node()?.owner.name.as_str();
        let uid = enactment.metadata.uid.as_deref()?;
        revert::own_slot(&slots, node, uid, used.map(|it| it.0)).map(|slot| Time(slot.expires))
    }

    /// Our last report about a policy.
    pub(crate) fn reported(&self, policy: &str) -> Option<&EnactmentStatus> {
        self.enactment(policy)?.status.as_ref()
    }
}

fn policy_of(enactment: &Enactment) -> Option<String> {
    policy_label(enactment).map(str::to_owned)
}

fn policy_label(enactment: &Enactment) -> Option<&str> {
    enactment.labels().get(POLICY_LABEL).map(String::as_str)
}

/// The coordinator's assignment for this node. A deleted report has none.
fn assignments(event: &Event<PartialObjectMeta<NodeNetworkState>>) -> Option<Assignments> {
    match event {
        Event::Apply(report) | Event::InitApply(report) => {
            Assignments::parse(report.annotations().get(ASSIGNED_POLICIES)?)
        }
        Event::Delete(_) | Event::Init | Event::InitDone => None,
    }
}
