//! Events on policies: what an administrator reads with `oc describe`.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use nmstate_api::{NodeName, NodeNetworkConfigurationPolicy as Policy};

use crate::requests::within;

/// Notes are limited by the API.
const NOTE: usize = 1000;

pub(crate) struct Events {
    recorder: Recorder,
    node: String,
}

impl Events {
    pub(crate) fn new(client: Client, node: &NodeName) -> Self {
        let reporter = Reporter {
            controller: "nmstate-handler".into(),
            instance: Some(format!("{node}.nmstate-handler")),
        };
        Self { recorder: Recorder::new(client, reporter), node: node.to_string() }
    }

    /// Something about a policy went wrong on this node. Events are a help; none is waited for
    /// for long, and a failure is not one of the work.
    pub(crate) async fn failed(&self, policy: &str, reason: &str, message: &str) {
        let mut note = format!("{}: {message}", self.node);
        while note.len() > NOTE {
            note.pop();
        }
        let event = Event {
            type_: EventType::Warning,
            reason: reason.into(),
            note: Some(note),
            action: "Configure".into(),
            secondary: None,
        };
        let policy = ObjectReference {
            api_version: Some(<Policy as k8s_openapi::Resource>::API_VERSION.into()),
            kind: Some(<Policy as k8s_openapi::Resource>::KIND.into()),
            name: Some(policy.to_owned()),
            ..ObjectReference::default()
        };
        match within(self.recorder.publish(&event, &policy)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("publishing an event: {error}"),
            Err(error) => tracing::debug!("publishing an event: {error:#}"),
        }
    }
}
