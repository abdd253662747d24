//! The text of a document.

use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{
    Addressing, Bond, InterfaceName, SecondAddresses, SecondBridge, StaticRoute, Topology, Uplink,
    VlanId,
};
use crate::layout::Family;

/// The metric that br-ex wins with.
pub(super) const METRIC: u32 = 48;
/// The second bridge, and the metric that configure-ovs gives it.
const SECOND: &str = "br-ex1";
const SECOND_METRIC: u32 = 49;
/// What configure-ovs calls the profiles of br-ex and of its uplink.
const PORT_PROFILE: &str = "ovs-if-br-ex";
const UPLINK_PROFILE: &str = "ovs-if-phys0";
/// Ports between br-ex and the bridge that has the bond.
const PATCH_EX: &str = "patch-ex-to-phy";
const PATCH_PHY: &str = "patch-phy-to-ex";

pub(super) fn document(topology: &Topology) -> String {
    let mut text = String::from("interfaces:\n");
    let uplink = uplink(&mut text, topology);
    if let Some(other) = &topology.node_ip_interface {
        node_ip_interface(&mut text, other, topology);
    }
    bridge(&mut text, crate::BRIDGE, &uplink);
    internal_port(&mut text, &uplink.mac_source, topology);
    if let Some(second) = &topology.second {
        second_bridge(&mut text, second, topology);
    }
    routes(&mut text, topology);
    resolver(&mut text, topology);
    text
}

/// What the bridge needs to know of its uplink, as YAML.
struct Port {
    name: String,
    mac_source: String,
    is_patch: bool,
}

fn uplink(text: &mut String, topology: &Topology) -> Port {
    let mtu = topology.mtu;
    let system = |name: String, mac_source: &InterfaceName| Port {
        name,
        mac_source: mac_source.yaml(),
        is_patch: false,
    };
    // The device that is the port of the bridge has the profile that scripts look for.
    let profile = topology.profile_names.then_some(UPLINK_PROFILE);
    match &topology.uplink {
        Uplink::Nic(name) => {
            nic(text, name, topology);
            profile_name(text, profile);
            system(name.yaml(), name)
        }
        Uplink::Bond(bond) => {
            self::bond(text, bond, topology, profile);
            system(bond.name.yaml(), &bond.ports[0])
        }
        Uplink::Vlan { base, id } => {
            nic(text, base, topology);
            let name = vlan(text, base, *id, mtu);
            profile_name(text, profile);
            system(name, base)
        }
        Uplink::VlanOnBond { bond, id } => {
            self::bond(text, bond, topology, None);
            let name = vlan(text, &bond.name, *id, mtu);
            profile_name(text, profile);
            system(name, &bond.ports[0])
        }
        Uplink::Slb { ports } => {
            for port in ports {
                nic(text, port, topology);
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

/// A NIC without addresses, found by its MAC address where that is given.
fn nic(text: &mut String, name: &InterfaceName, topology: &Topology) {
    interface(text, &name.yaml(), "ethernet", topology.mtu);
    identifier(text, name, topology);
}

fn identifier(text: &mut String, name: &InterfaceName, topology: &Topology) {
    if let Some(mac) = topology.macs.get(name) {
        let _ = write!(text, "  identifier: mac-address\n  mac-address: '{mac}'\n");
    }
}

fn profile_name(text: &mut String, name: Option<&str>) {
    if let Some(name) = name {
        let _ = writeln!(text, "  profile-name: {name}");
    }
}

fn bond(text: &mut String, bond: &Bond, topology: &Topology, profile: Option<&str>) {
    for port in &bond.ports {
        nic(text, port, topology);
    }
    interface(text, &bond.name.yaml(), "bond", topology.mtu);
    profile_name(text, profile);
    let mode = bond.mode.name();
    let _ = write!(text, "  link-aggregation:\n    mode: {mode}\n    options:\n");
    // Links are watched by one of the two.
    if !["miimon", "arp_interval"].iter().any(|key| bond.options.contains_key(*key)) {
        text.push_str("      miimon: '100'\n");
    }
    for (key, value) in &bond.options {
        let _ = writeln!(text, "      {key}: '{value}'");
    }
    text.push_str("    port:\n");
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

/// The interface keeps the address the node is known by, in the families of br-ex, and leaves the
/// default route to br-ex.
fn node_ip_interface(text: &mut String, name: &InterfaceName, topology: &Topology) {
    let _ = write!(text, "- name: {}\n  type: ethernet\n  state: up\n", name.yaml());
    identifier(text, name, topology);
    let used = topology.families();
    for family in Family::BOTH {
        let is_used = used.contains(&family);
        let _ = write!(text, "  {}:\n    enabled: {is_used}\n", family.key());
        if !is_used {
            continue;
        }
        text.push_str("    dhcp: true\n");
        if family == Family::V6 {
            text.push_str("    autoconf: true\n");
        }
        text.push_str("    auto-gateway: false\n    auto-dns: false\n");
    }
}

/// br-ex1 on its NIC, with the metric below that of br-ex.
fn second_bridge(text: &mut String, second: &SecondBridge, topology: &Topology) {
    nic(text, &second.nic, topology);
    let (name, mac_source) = (second.nic.yaml(), second.nic.yaml());
    bridge(text, SECOND, &Port { name, mac_source: mac_source.clone(), is_patch: false });
    let _ = write!(
        text,
        "- name: {SECOND}\n  type: ovs-interface\n  state: up\n  copy-mac-from: {mac_source}\n"
    );
    if let Some(mtu) = topology.mtu {
        let _ = writeln!(text, "  mtu: {mtu}");
    }
    for family in Family::BOTH {
        match &second.addresses {
            SecondAddresses::Dhcp(families) => {
                automatic(text, family, families.has(family), SECOND_METRIC);
            }
            SecondAddresses::Static { addresses, .. } => fixed(text, family, addresses),
        }
    }
}

fn bridge(text: &mut String, bridge: &str, uplink: &Port) {
    let _ = write!(
        text,
        "- name: {bridge}\n  type: ovs-bridge\n  state: up\n  bridge:\n    allow-extra-patch-ports: \
         true\n    options:\n      mcast-snooping-enable: true\n    port:\n    - name: {}\n    - name: \
         {bridge}\n",
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
    profile_name(text, topology.profile_names.then_some(PORT_PROFILE));
    if let Some(mtu) = topology.mtu {
        let _ = writeln!(text, "  mtu: {mtu}");
    }
    for family in Family::BOTH {
        match &topology.addressing {
            Addressing::Dhcp(families) => dhcp(text, family, families.has(family)),
            Addressing::Static(addresses) => fixed(text, family, &addresses.addresses),
        }
    }
}

pub(super) fn dhcp(text: &mut String, family: Family, is_used: bool) {
    automatic(text, family, is_used, METRIC);
}

fn automatic(text: &mut String, family: Family, is_used: bool, metric: u32) {
    let _ = write!(text, "  {}:\n    enabled: {is_used}\n", family.key());
    if !is_used {
        return;
    }
    text.push_str("    dhcp: true\n");
    if family == Family::V6 {
        text.push_str("    autoconf: true\n");
    }
    let _ = writeln!(text, "    auto-route-metric: {metric}");
}

fn fixed(text: &mut String, family: Family, addresses: &[IpNet]) {
    let mut own = addresses.iter().filter(|it| Family::of(it.addr()) == family).peekable();
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

fn routes(text: &mut String, topology: &Topology) {
    let mut lines = String::new();
    let mut default = |gateway: &IpAddr, bridge: &str, metric: u32| {
        let _ = write!(
            lines,
            "  - destination: '{}'\n    next-hop-address: '{gateway}'\n    next-hop-interface: \
             {bridge}\n    metric: {metric}\n",
            Family::of(*gateway).default_route()
        );
    };
    if let Addressing::Static(addresses) = &topology.addressing {
        addresses.gateways.iter().for_each(|gateway| default(gateway, crate::BRIDGE, METRIC));
    }
    if let Some(SecondAddresses::Static { gateways, .. }) =
        topology.second.as_ref().map(|second| &second.addresses)
    {
        gateways.iter().for_each(|gateway| default(gateway, SECOND, SECOND_METRIC));
    }
    for StaticRoute { destination, gateway } in &topology.routes {
        let _ = write!(
            lines,
            "  - destination: '{destination}'\n    next-hop-address: '{gateway}'\n    \
             next-hop-interface: br-ex\n"
        );
    }
    if !lines.is_empty() {
        let _ = write!(text, "routes:\n  config:\n{lines}");
    }
}

fn resolver(text: &mut String, topology: &Topology) {
    let servers = match &topology.addressing {
        Addressing::Static(addresses) => addresses.servers.as_slice(),
        Addressing::Dhcp(_) => &[],
    };
    if servers.is_empty() && topology.search.is_empty() {
        return;
    }
    text.push_str("dns-resolver:\n  config:\n");
    if !topology.search.is_empty() {
        text.push_str("    search:\n");
        for domain in &topology.search {
            let _ = writeln!(text, "    - '{domain}'");
        }
    }
    if !servers.is_empty() {
        text.push_str("    server:\n");
        for server in servers {
            let _ = writeln!(text, "    - '{server}'");
        }
    }
}
