//! The text of a document.

use std::fmt::Write as _;

use super::{Addressing, Bond, InterfaceName, StaticAddresses, Topology, Uplink, VlanId};
use crate::layout::Family;

/// The metric that br-ex wins with.
pub(super) const METRIC: u32 = 48;
/// Ports between br-ex and the bridge that has the bond.
const PATCH_EX: &str = "patch-ex-to-phy";
const PATCH_PHY: &str = "patch-phy-to-ex";

pub(super) fn document(topology: &Topology) -> String {
    let mut text = String::from("interfaces:\n");
    let uplink = uplink(&mut text, &topology.uplink, topology.mtu);
    if let Some(other) = &topology.node_ip_interface {
        node_ip_interface(&mut text, other);
    }
    bridge(&mut text, &uplink);
    internal_port(&mut text, &uplink.mac_source, topology);
    if let Addressing::Static(addresses) = &topology.addressing {
        routes(&mut text, addresses);
    }
    text
}

/// What the bridge needs to know of its uplink, as YAML.
struct Port {
    name: String,
    mac_source: String,
    is_patch: bool,
}

fn uplink(text: &mut String, uplink: &Uplink, mtu: Option<u32>) -> Port {
    let system = |name: String, mac_source: &InterfaceName| Port {
        name,
        mac_source: mac_source.yaml(),
        is_patch: false,
    };
    match uplink {
        Uplink::Nic(nic) => {
            interface(text, &nic.yaml(), "ethernet", mtu);
            system(nic.yaml(), nic)
        }
        Uplink::Bond(bond) => {
            self::bond(text, bond, mtu);
            system(bond.name.yaml(), &bond.ports[0])
        }
        Uplink::Vlan { base, id } => {
            interface(text, &base.yaml(), "ethernet", mtu);
            system(vlan(text, base, *id, mtu), base)
        }
        Uplink::VlanOnBond { bond, id } => {
            self::bond(text, bond, mtu);
            system(vlan(text, &bond.name, *id, mtu), &bond.ports[0])
        }
        Uplink::Slb { ports } => {
            for port in ports {
                interface(text, &port.yaml(), "ethernet", mtu);
            }
            slb(text, ports);
            Port { name: PATCH_EX.to_owned(), mac_source: ports[0].yaml(), is_patch: true }
        }
    }
}

// Writing to a String cannot fail, so the results of write! are dropped.

/// An interface without addresses.
pub(super) fn interface(text: &mut String, name: &str, kind: &str, mtu: Option<u32>) {
    let _ = write!(text, "- name: {name}\n  type: {kind}\n  state: up\n");
    if let Some(mtu) = mtu {
        let _ = writeln!(text, "  mtu: {mtu}");
    }
    text.push_str("  ipv4:\n    enabled: false\n  ipv6:\n    enabled: false\n");
}

fn bond(text: &mut String, bond: &Bond, mtu: Option<u32>) {
    for port in &bond.ports {
        interface(text, &port.yaml(), "ethernet", mtu);
    }
    interface(text, &bond.name.yaml(), "bond", mtu);
    let mode = bond.mode.name();
    let _ = write!(
        text,
        "  link-aggregation:\n    mode: {mode}\n    options:\n      miimon: '100'\n    port:\n"
    );
    for port in &bond.ports {
        let _ = writeln!(text, "    - {}", port.yaml());
    }
}

/// Adds a VLAN and tells its name: that of its base with the number behind it, or, where
/// that is too long for the kernel, `vlan` with the number.
fn vlan(text: &mut String, base: &InterfaceName, id: VlanId, mtu: Option<u32>) -> String {
    let name = format!("{base}.{id}").parse::<InterfaceName>();
    let name = name.map_or_else(|_| format!("vlan{id}"), |name| name.yaml());
    interface(text, &name, "vlan", mtu);
    let _ = write!(text, "  vlan:\n    base-iface: {}\n    id: {id}\n", base.yaml());
    name
}

fn slb(text: &mut String, ports: &[InterfaceName]) {
    text.push_str(
        "- name: br-phy\n  type: ovs-bridge\n  state: up\n  bridge:\n    \
         allow-extra-patch-ports: true\n    port:\n",
    );
    let _ = write!(
        text,
        "    - name: {PATCH_PHY}\n    - name: ovs-bond\n      link-aggregation:\n        mode: \
         balance-slb\n        port:\n"
    );
    for port in ports {
        let _ = writeln!(text, "        - name: {}", port.yaml());
    }
    for (name, peer) in [(PATCH_EX, PATCH_PHY), (PATCH_PHY, PATCH_EX)] {
        let _ = write!(
            text,
            "- name: {name}\n  type: ovs-interface\n  state: up\n  patch:\n    peer: {peer}\n"
        );
    }
}

/// The interface keeps the address the node is known by, and leaves the way out to br-ex.
fn node_ip_interface(text: &mut String, name: &InterfaceName) {
    let _ = write!(
        text,
        "- name: {}\n  type: ethernet\n  state: up\n  ipv4:\n    enabled: true\n    dhcp: true\n    \
         auto-gateway: false\n    auto-dns: false\n  ipv6:\n    enabled: false\n",
        name.yaml()
    );
}

fn bridge(text: &mut String, uplink: &Port) {
    let _ = write!(
        text,
        "- name: br-ex\n  type: ovs-bridge\n  state: up\n  bridge:\n    allow-extra-patch-ports: \
         true\n    options:\n      mcast-snooping-enable: true\n    port:\n    - name: {}\n    - name: \
         br-ex\n",
        uplink.name
    );
    if uplink.is_patch {
        let _ =
            write!(text, "  ovs-db:\n    external_ids:\n      bridge-uplink: {}\n", uplink.name);
    }
}

fn internal_port(text: &mut String, mac_source: &str, topology: &Topology) {
    let _ = write!(
        text,
        "- name: br-ex\n  type: ovs-interface\n  state: up\n  copy-mac-from: {mac_source}\n"
    );
    if let Some(mtu) = topology.mtu {
        let _ = writeln!(text, "  mtu: {mtu}");
    }
    for family in Family::BOTH {
        match &topology.addressing {
            Addressing::Dhcp(families) => dhcp(text, family, families.has(family)),
            Addressing::Static(addresses) => fixed(text, family, addresses),
        }
    }
}

pub(super) fn dhcp(text: &mut String, family: Family, is_used: bool) {
    let _ = write!(text, "  {}:\n    enabled: {is_used}\n", family.key());
    if !is_used {
        return;
    }
    text.push_str("    dhcp: true\n");
    if family == Family::V6 {
        text.push_str("    autoconf: true\n");
    }
    let _ = writeln!(text, "    auto-route-metric: {METRIC}");
}

fn fixed(text: &mut String, family: Family, addresses: &StaticAddresses) {
    let mut own =
        addresses.addresses.iter().filter(|it| Family::of(it.addr()) == family).peekable();
    let _ = write!(text, "  {}:\n    enabled: {}\n", family.key(), own.peek().is_some());
    if own.peek().is_none() {
        return;
    }
    text.push_str("    dhcp: false\n");
    if family == Family::V6 {
        text.push_str("    autoconf: false\n");
    }
    text.push_str("    address:\n");
    for address in own {
        let _ = write!(
            text,
            "    - ip: '{}'\n      prefix-length: {}\n",
            address.addr(),
            address.prefix_len()
        );
    }
}

fn routes(text: &mut String, addresses: &StaticAddresses) {
    text.push_str("routes:\n  config:\n");
    for gateway in &addresses.gateways {
        let _ = write!(
            text,
            "  - destination: '{}'\n    next-hop-address: '{gateway}'\n    next-hop-interface: \
             br-ex\n    metric: {METRIC}\n",
            Family::of(*gateway).default_route()
        );
    }
    text.push_str("dns-resolver:\n  config:\n    server:\n");
    for server in &addresses.servers {
        let _ = writeln!(text, "    - '{server}'");
    }
}
