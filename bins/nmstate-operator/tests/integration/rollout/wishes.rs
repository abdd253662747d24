//! The desired states and annotations that the cases use.

use serde_json::{Value, json};

pub(crate) const PROBES: &str = "nmstate.landfall.dev/probes";
pub(crate) const PING_TARGET: &str = "nmstate.landfall.dev/probe-ping-target";
pub(crate) const CANARY: &str = "nmstate.landfall.dev/canary";
pub(crate) const NODE_SELECTOR: &str = "nmstate.landfall.dev/node-selector";
pub(crate) const NODE_VALUES: &str = "nmstate.landfall.dev/node-values";
pub(crate) const PAUSED: &str = "nmstate.landfall.dev/paused";
pub(crate) const DRIFT: &str = "nmstate.landfall.dev/drift";
pub(crate) const REVERT_ON_DELETE: &str = "nmstate.landfall.dev/revert-on-delete";
pub(crate) const MEMORY_ONLY: &str = "nmstate.landfall.dev/memory-only";

pub(crate) const ONLY_API: [(&str, &str); 1] = [(PROBES, "api-server")];
/// There is no DNS server on the LAN unless a case starts one.
pub(crate) const WITH_DNS: [(&str, &str); 1] = [(PROBES, "api-server,dns")];

/// A change of the spare NIC that nothing depends on.
pub(crate) fn mtu(mtu: u32) -> Value {
    json!({"interfaces": [{
        "name": "nic1", "type": "ethernet", "state": "up", "mtu": mtu,
        "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
    }]})
}

/// What nmstate refuses when it compares it with a node.
pub(crate) fn impossible() -> Value {
    json!({"interfaces": [{"name": "p0", "type": "carrier-pigeon", "state": "up"}]})
}

/// A state of one node.
pub(crate) fn on(node: &str, desired: &Value) -> Value {
    json!({"desiredState": desired, "nodeSelector": {"kubernetes.io/hostname": node}})
}

/// A state of all nodes, of so many at a time.
pub(crate) fn everywhere(at_a_time: u32, desired: &Value) -> Value {
    json!({"desiredState": desired, "maxUnavailable": at_a_time})
}
