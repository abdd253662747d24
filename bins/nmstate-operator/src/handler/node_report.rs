//! The report of this node about its network. It is written only when it differs.

use anyhow::{Context as _, Result};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use nmstate_api::{
    Condition, ConditionStatus, NetworkDocument, NodeName, NodeNetworkState,
    NodeNetworkStateStatus, condition,
};
use node_policy::report::{self, Bounded};

use crate::requests::{now, within};

/// The version of the library that reads and writes networks.
pub(crate) const NMSTATE_VERSION: &str = "2.2.62";

/// A network as it is reported.
#[derive(Debug)]
pub(crate) struct Seen {
    state: NetworkDocument,
    is_compact: bool,
    /// What does not fit into one object.
    left_out: Vec<String>,
}

impl Seen {
    pub(crate) fn new(state: NetworkDocument) -> Self {
        let Bounded { document, is_compact, left_out } = report::bounded(state);
        Self { state: document, is_compact, left_out }
    }

    /// None when all of it is reported.
    fn conditions(&self) -> Vec<Condition> {
        if self.left_out.is_empty() {
            let message = "the network is too large for one object in full; interfaces are \
                reported without settings of their drivers and without what is not set";
            let compact = Condition::new("Compact", ConditionStatus::True);
            let compact = compact.reason("TooLarge").message(message);
            return Vec::from_iter(self.is_compact.then_some(compact));
        }
        let message = format!(
            "the network is too large for one object; left out: {}",
            self.left_out.join(", ")
        );
        vec![Condition::new("Failing", ConditionStatus::True).reason("TooLarge").message(message)]
    }
}

fn is_same_but_times(held: &[Condition], wanted: &[Condition]) -> bool {
    let plain = |condition: &Condition| Condition {
        last_heartbeat_time: None,
        last_transition_time: None,
        ..condition.clone()
    };
    held.iter().map(plain).eq(wanted.iter().map(plain))
}

/// What was reported last.
pub(crate) struct NodeReport {
    api: Api<NodeNetworkState>,
    node: NodeName,
    held: Option<NodeNetworkState>,
}

impl NodeReport {
    pub(crate) fn new(client: Client, node: NodeName) -> Self {
        Self { api: Api::all(client), node, held: None }
    }

    /// Another client deleted or changed it: the stored copy is out of date.
    pub(crate) fn forget(&mut self) {
        self.held = None;
    }

    /// Its metadata were changed, by the coordinator for instance. The stored copy is then written
    /// over a later version, without a conflict.
    pub(crate) fn saw(&mut self, version: Option<&str>) {
        let number = |text: &str| text.parse::<u64>().ok();
        let Some(held) = &mut self.held else { return };
        let before = held.metadata.resource_version.as_deref().and_then(number);
        if version.and_then(number) > before {
            held.metadata.resource_version = version.map(str::to_owned);
        }
    }

    /// Writes the report if it differs from the stored one. Returns whether it was written.
    pub(crate) async fn write(
        &mut self,
        seen: &Seen,
        manager: Option<String>,
        owner: &OwnerReference,
    ) -> Result<bool> {
        let current = &seen.state;
        let name = self.node.as_str();
        let doing = || format!("reporting the network of {name}");
        for _ in 0..2 {
            let held = match self.held.take() {
                Some(held) => held,
                None => self.get_or_create(owner).await.with_context(doing)?,
            };
            let is_same = held.status.as_ref().is_some_and(|status| {
                status.current_state == *current
                    && is_same_but_times(&status.conditions, &seen.conditions())
                    && (manager.is_none() || status.host_network_manager_version == manager)
            });
            if is_same {
                self.held = Some(held);
                return Ok(false);
            }
            let mut wanted = held;
            let before = wanted.status.take().unwrap_or_default();
            wanted.status = Some(NodeNetworkStateStatus {
                current_state: current.clone(),
                last_successful_update_time: Some(Time(now())),
                host_network_manager_version: manager
                    .clone()
                    .or(before.host_network_manager_version),
                handler_nmstate_version: Some(NMSTATE_VERSION.to_owned()),
                conditions: condition::stamped(seen.conditions(), &before.conditions, &Time(now())),
                ..before
            });
            let parameters = PostParams::default();
            let written = within(self.api.replace_status(name, &parameters, &wanted));
            match written.await.with_context(doing)? {
                Ok(written) => {
                    self.held = Some(written);
                    return Ok(true);
                }
                // It was deleted, or its labels were changed; read it again.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error).with_context(doing),
            }
        }
        anyhow::bail!("reporting the network of {name}: another client keeps changing the report")
    }

    async fn get_or_create(&self, owner: &OwnerReference) -> Result<NodeNetworkState> {
        let name = self.node.as_str();
        if let Some(held) = within(self.api.get_opt(name)).await?? {
            return Ok(held);
        }
        let mut report = NodeNetworkState::new(name);
        report.metadata = ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: Some(vec![owner.clone()]),
            ..ObjectMeta::default()
        };
        Ok(within(self.api.create(&PostParams::default(), &report)).await??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_too_large_is_reported_in_part_with_a_note() {
        let route = |number| serde_json::json!({"destination": format!("10.{number}.0.0/16")});
        let routes: Vec<_> = (0..50_000).map(route).collect();
        let state = serde_json::json!({"interfaces": [], "routes": {"running": routes}});
        let seen = Seen::new(serde_json::from_value(state).unwrap());
        let conditions = seen.conditions();
        let message = conditions[0].message.as_deref().unwrap();
        assert!(message.ends_with("left out: routes.running"), "{message}");
        let stamped = condition::stamped(seen.conditions(), &[], &Time(now()));
        assert!(is_same_but_times(&stamped, &conditions), "it is written once");
        assert!(!is_same_but_times(&[], &conditions));
        assert!(Seen::new(NetworkDocument::default()).conditions().is_empty());
        let features = serde_json::json!({"feature": {"x": "y".repeat(1_000)}});
        let nic = |number| serde_json::json!({"name": format!("e{number}"), "ethtool": features});
        let state = serde_json::json!({"interfaces": (0..2_000).map(nic).collect::<Vec<_>>()});
        let compact = Seen::new(serde_json::from_value(state).unwrap()).conditions();
        assert_eq!((compact.len(), compact[0].type_.as_str()), (1, "Compact"));
    }

    #[test]
    fn the_reported_version_is_the_version_used() {
        let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
        let lock = std::fs::read_to_string(lock).unwrap();
        let entry = format!("name = \"nmstate\"\nversion = \"{NMSTATE_VERSION}\"\n");
        assert!(lock.contains(&entry), "the lock file has another version of nmstate");
    }
}
