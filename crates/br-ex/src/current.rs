//! A simulated node to check a document on: every NIC in it, with a MAC address.

use std::collections::BTreeMap;

use nmstate::{InterfaceType, NetworkState, NmstateError};
use serde_json::json;

use crate::layout::{Interface, Layout};

/// No NIC supports more.
const MAX_MTU: u32 = 65_535;

/// The state of a node that has all NICs a document refers to and nothing else.
pub(crate) fn made_up(layout: &Layout<'_>) -> Result<NetworkState, NmstateError> {
    let interfaces: Vec<_> = nics(layout)
        .into_iter()
        .enumerate()
        .map(|(number, (name, mac))| {
            // Locally administered, so that no NIC has it.
            let mac = mac.unwrap_or_else(|| {
                format!("02:00:5E:00:{:02X}:{:02X}", number / 256 % 256, number % 256)
            });
            json!({
                "name": name,
                "type": "ethernet",
                "state": "up",
                "mac-address": mac,
                "permanent-mac-address": mac,
                "mtu": 1500,
                "min-mtu": 68,
                "max-mtu": MAX_MTU,
                "ipv4": {"enabled": false},
                "ipv6": {"enabled": false},
            })
        })
        .collect();
    NetworkState::new_from_json(&json!({"interfaces": interfaces}).to_string())
}

/// The NICs by name, with the MAC address where the document identifies them by it.
fn nics(layout: &Layout<'_>) -> BTreeMap<String, Option<String>> {
    let mut nics = BTreeMap::new();
    for iface in &layout.interfaces {
        if is_hardware(&iface.kind) && !iface.is_absent() {
            nics.insert(iface.name.value.to_owned(), identifying_mac(iface));
        }
    }
    let made_here = |name: &str| {
        layout.interfaces.iter().any(|it| it.name.value == name && !is_hardware(&it.kind))
    };
    for name in references(layout) {
        if !made_here(name) {
            nics.entry(name.to_owned()).or_default();
        }
    }
    nics
}

/// Whether such an interface cannot be created: it exists or not.
fn is_hardware(kind: &InterfaceType) -> bool {
    matches!(kind, InterfaceType::Ethernet | InterfaceType::InfiniBand | InterfaceType::Unknown)
}

fn identifying_mac(iface: &Interface<'_>) -> Option<String> {
    let by_mac = iface.text("identifier")?.value == "mac-address";
    by_mac.then(|| iface.text("mac-address").map(|mac| mac.value.to_ascii_uppercase()))?
}

/// Every name of an interface.
fn references<'a>(layout: &Layout<'a>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for iface in &layout.interfaces {
        names.extend(iface.bond_ports().iter().map(|port| port.value));
        names.extend(iface.vlan_base().map(|base| base.value));
        names.extend(iface.text("copy-mac-from").map(|source| source.value));
        if matches!(iface.kind, InterfaceType::OvsBridge | InterfaceType::LinuxBridge) {
            let ports = iface.bridge_ports();
            names.extend(ports.iter().flat_map(|port| port.members()).map(|port| port.value));
        }
    }
    names
}
