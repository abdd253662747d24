//! What is below br-ex: the interfaces that outgoing traffic passes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::state::{State, members, text};

/// Names of the ports of an ovs-bridge, members of its bonds instead of the bonds.
fn bridge_ports(bridge: &Map<String, Value>) -> Vec<String> {
    let mut names = Vec::new();
    for port in items(bridge, "bridge") {
        let members = port.get("link-aggregation").map(members).unwrap_or_default();
        match members.is_empty() {
            true => names.push(text(port, "name").to_owned()),
            false => names.extend(members),
        }
    }
    names
}

fn items<'a>(
    interface: &'a Map<String, Value>,
    section: &str,
) -> impl Iterator<Item = &'a Map<String, Value>> {
    let list =
        interface.get(section).and_then(|section| section.get("port").or(section.get("ports")));
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// The interfaces directly below one.
fn lower(interface: &Map<String, Value>) -> Vec<String> {
    let mut names = Vec::new();
    if let Some(bond) = interface.get("link-aggregation") {
        names.extend(members(bond));
    }
    if let Some(base) = interface.get("vlan").and_then(|vlan| vlan.get("base-iface")?.as_str()) {
        names.push(base.to_owned());
    }
    if text(interface, "type") == "linux-bridge" {
        names.extend(items(interface, "bridge").map(|port| text(port, "name").to_owned()));
    }
    names
}

/// Names of all interfaces below br-ex, and of other bridges on the way. br-ex itself is not
/// among them.
pub(super) fn below_br_ex(state: &State) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let bridge = state.interface(br_ex::BRIDGE, "ovs-bridge");
    let mut waiting: Vec<String> = bridge.map(bridge_ports).unwrap_or_default();
    while let Some(name) = waiting.pop() {
        if name == br_ex::BRIDGE || !found.insert(name.clone()) {
            continue;
        }
        let Some(interface) = state.kernel_interface(&name) else { continue };
        waiting.extend(lower(interface));
        // Through a patch port to the bridge on its other side.
        let peer = interface.get("patch").and_then(|patch| patch.get("peer")?.as_str());
        let Some(peer) = peer else { continue };
        for ((bridge, kind), interface) in &state.interfaces {
            if kind == "ovs-bridge" && bridge_ports(interface).iter().any(|port| port == peer) {
                found.insert(bridge.clone());
                waiting.extend(bridge_ports(interface));
            }
        }
    }
    found
}

/// The ports of br-ex that connect out of Open vSwitch or to another bridge.
pub(super) fn uplinks(state: &State) -> BTreeSet<String> {
    let bridge = state.interface(br_ex::BRIDGE, "ovs-bridge");
    let ports = bridge.into_iter().flat_map(|bridge| items(bridge, "bridge"));
    let names = ports.map(|port| text(port, "name").to_owned());
    names
        .filter(|name| {
            let kind = state.kernel_interface(name).map(|it| text(it, "type")).unwrap_or_default();
            let is_patch = state.kernel_interface(name).is_some_and(|it| it.contains_key("patch"));
            name != br_ex::BRIDGE && (kind != "ovs-interface" || is_patch)
        })
        .collect()
}
