//! A network that is played: a change takes its time and is made.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Result;
use nmstate::{NetworkState, NmstateError};
use nmstate_operator::handler::{Change, Machine};
use node_network::Recovered;
use node_network::recovery::RecoveryError;
use node_policy::Attempt;
use serde_json::Value;
use tokio::sync::Notify;

/// A node with some NICs.
const NODE: &str = "
interfaces:
- {name: nic0, type: ethernet, state: up, mtu: 1500, ipv4: {enabled: true, dhcp: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}}
- {name: nic1, type: ethernet, state: up, mtu: 1500, ipv4: {enabled: false}, ipv6: {enabled: false}}
- {name: lo, type: loopback, state: up, mtu: 65536}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: nic0, next-hop-address: 192.0.2.1, table-id: 254, metric: 100}
";

pub(crate) struct Played {
    state: RefCell<NetworkState>,
    changed: Notify,
    takes: Duration,
}

impl Played {
    pub(crate) fn new(takes: Duration) -> Result<Self> {
        let state = RefCell::new(NetworkState::new_from_yaml(NODE)?);
        Ok(Self { state, changed: Notify::new(), takes })
    }
}

impl Machine for Played {
    async fn state(&self) -> Result<NetworkState, NmstateError> {
        Ok(self.state.borrow().clone())
    }

    async fn change(&self, change: &Change<'_>) -> Attempt {
        tokio::time::sleep(self.takes).await;
        let made = with_mtu(&self.state.borrow(), change.desired);
        match made {
            Some(state) => {
                *self.state.borrow_mut() = state;
                self.changed.notify_one();
                Attempt::Applied
            }
            None => Attempt::NotBegun { why: "only the MTU of nic1 can be played".into() },
        }
    }

    async fn recover(&self) -> Result<Recovered, RecoveryError> {
        Ok(Recovered::Nothing)
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    async fn version(&self) -> Option<String> {
        Some("1.52.1".into())
    }
}

/// The state with the MTU that is wanted of nic1.
fn with_mtu(state: &NetworkState, desired: &NetworkState) -> Option<NetworkState> {
    let mtu = |state: &NetworkState| -> Option<Value> {
        let value = serde_json::to_value(state).ok()?;
        let nic = value["interfaces"].as_array()?.iter().find(|it| it["name"] == "nic1")?.clone();
        Some(nic["mtu"].clone())
    };
    let wanted = mtu(desired)?;
    let mut value = serde_json::to_value(state).ok()?;
    let interfaces = value["interfaces"].as_array_mut()?;
    interfaces.iter_mut().find(|it| it["name"] == "nic1")?["mtu"] = wanted;
    serde_json::from_value(value).ok()
}
