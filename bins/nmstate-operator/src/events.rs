//! Events on policies: what an administrator reads with `oc describe`. Their reasons are fixed.
//! There is no event per attempt, and none per successful node: a policy of a thousand nodes would
//! flood the cluster.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use nmstate_api::{NodeName, NodeNetworkConfigurationPolicy as Policy};
use node_policy::verdict::bounded;

use crate::requests::within;

/// The maximum number of bytes that the API accepts as the name of the reporting instance.
const INSTANCE: usize = 128;

/// The reason of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// All nodes have a generation of the policy. Published by the coordinator.
    Applied,
    /// No further node is changed. Published by the coordinator.
    Aborted,
    /// A change was rolled back; once per generation and node.
    RolledBack,
    /// It is not retried on this node. The reason is the one that kubernetes-nmstate uses.
    ReconcileFailed,
    /// The network of a node no longer matches the policy.
    Drift,
    /// It matches again.
    DriftCorrected,
    /// The policy cannot be reverted when it is deleted, although revert-on-delete is set.
    NoWayBack,
    /// The policy was deleted and could not be reverted.
    RevertFailed,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::Applied => "Applied",
            Self::Aborted => "Aborted",
            Self::RolledBack => "RolledBack",
            Self::ReconcileFailed => "ReconcileFailed",
            Self::Drift => "Drift",
            Self::DriftCorrected => "DriftCorrected",
            Self::NoWayBack => "NoWayBack",
            Self::RevertFailed => "RevertFailed",
        }
    }

    fn type_(self) -> EventType {
        match self {
            Self::Applied | Self::DriftCorrected => EventType::Normal,
            Self::Aborted
            | Self::RolledBack
            | Self::ReconcileFailed
            | Self::Drift
            | Self::NoWayBack
            | Self::RevertFailed => EventType::Warning,
        }
    }
}

/// The publisher of events.
pub(crate) struct Events {
    recorder: Recorder,
    node: Option<String>,
}

impl Events {
    pub(crate) fn of_handler(client: Client, node: &NodeName) -> Self {
        // Names of nodes are plain ASCII.
        let mut instance = format!("{node}.nmstate-handler");
        instance.truncate(INSTANCE);
        let reporter = Reporter { controller: "nmstate-handler".into(), instance: Some(instance) };
        Self { recorder: Recorder::new(client, reporter), node: Some(node.to_string()) }
    }

    pub(crate) fn of_coordinator(client: Client) -> Self {
        let reporter = Reporter { controller: "nmstate-coordinator".into(), instance: None };
        Self { recorder: Recorder::new(client, reporter), node: None }
    }

    /// Publishes an event on a policy; `oc describe` finds it by `uid`. Events are best effort: the
    /// wait for each is short, and a failure does not fail the operation.
    pub(crate) async fn publish(
        &self,
        policy: &str,
        uid: Option<&str>,
        reason: Reason,
        message: &str,
    ) {
        let note = match &self.node {
            Some(node) => format!("{node}: {message}"),
            None => message.to_owned(),
        };
        let event = Event {
            type_: reason.type_(),
            reason: reason.name().into(),
            note: Some(bounded(note)),
            action: "Configure".into(),
            secondary: None,
        };
        let policy = ObjectReference {
            api_version: Some(<Policy as k8s_openapi::Resource>::API_VERSION.into()),
            kind: Some(<Policy as k8s_openapi::Resource>::KIND.into()),
            name: Some(policy.to_owned()),
            uid: uid.map(str::to_owned),
            ..ObjectReference::default()
        };
        match within(self.recorder.publish(&event, &policy)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("publishing an event: {error}"),
            Err(error) => tracing::debug!("publishing an event: {error:#}"),
        }
    }
}
