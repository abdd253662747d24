//! B19, B21, B22, B29: names, types and duplicates.

use std::collections::BTreeMap;

use located_yaml::{Located, Position};
use machine_identity::is_hardware_address;
use nmstate::InterfaceType;

use super::Subject;
use crate::finding::Findings;
use crate::layout::Interface;
use crate::rule::RuleId;
use crate::uplink::stacks;

/// The longest name that the kernel accepts.
const MAX_LENGTH: usize = 15;

/// Names that NetworkManager is configured not to manage; `*` matches any suffix.
const RESERVED: [&str; 14] = [
    "br-int",
    "br-local",
    "br-nexthop",
    "ovn-k8s-*",
    "k8s-*",
    "tun0",
    "br0",
    "patch-br-*",
    "br-ext",
    "ext-vxlan",
    "ext",
    "int",
    "vxlan_sys_*",
    "genev_sys_*",
];

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    let mut interfaces: BTreeMap<(&str, String), Position> = BTreeMap::new();
    let mut addresses: BTreeMap<String, Position> = BTreeMap::new();
    let twice = |seen: Option<Position>, what: String, at, found: &mut Findings| {
        if let Some(first) = seen {
            let message = format!("{what} is given twice, first on line {}", first.line);
            found.report(RuleId::B22, at, message);
        }
    };
    for iface in &subject.layout.interfaces {
        let (name, at) = (iface.name.value, iface.at());
        let key = (name, iface.kind.to_string());
        let what = format!("{} `{name}`", iface.kind);
        twice(interfaces.insert(key, at), what, at, found);
        let is_up = !iface.is_absent() && iface.kind != InterfaceType::OvsBridge;
        for address in iface.ips().flat_map(|ip| &ip.addresses).filter(|_| is_up) {
            let ip = address.net.addr().to_string();
            let what = format!("address {ip}");
            twice(addresses.insert(ip, address.at), what, address.at, found);
        }
        check_name(iface, found);
        check_type(iface, found);
    }
    check_macs(subject, found);
}

/// A MAC address belongs to one stack: a bond has that of its ports, VLANs that of their base, and
/// br-ex that of its uplink. Two NICs that are found by one address are one NIC.
fn check_macs(subject: &Subject<'_>, found: &mut Findings) {
    let stacks = stacks(subject.layout);
    let mut seen: BTreeMap<String, Vec<(&Interface<'_>, Position)>> = BTreeMap::new();
    for iface in subject.layout.interfaces.iter().filter(|iface| !iface.is_absent()) {
        let Some(mac) = mac_address(iface) else { continue };
        let others = seen.entry(mac.value.to_ascii_lowercase()).or_default();
        let conflicts = |other: &Interface<'_>| {
            let stack = |name: &str| stacks.get(name);
            stack(other.name.value) != stack(iface.name.value)
                || (is_found_by_mac(other) && is_found_by_mac(iface))
        };
        if let Some((_, first)) = others.iter().find(|(other, _)| conflicts(other)) {
            let message =
                format!("MAC address {} is given twice, first on line {}", mac.value, first.line);
            found.report(RuleId::B22, mac.at, message);
        }
        others.push((iface, mac.at));
    }
}

fn is_found_by_mac(iface: &Interface<'_>) -> bool {
    iface.text("identifier").is_some_and(|identifier| identifier.value == "mac-address")
}

/// The MAC address that is set, if it is one.
fn mac_address<'a>(iface: &Interface<'a>) -> Option<Located<&'a str>> {
    iface.text("mac-address").filter(|mac| is_hardware_address(mac.value))
}

fn check_name(iface: &Interface<'_>, found: &mut Findings) {
    let Located { at, value: name } = iface.name;
    if name.contains("{{") {
        return;
    }
    let is_good = (1..=MAX_LENGTH).contains(&name.len())
        && !name.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
        && !matches!(name, "." | "..");
    if !is_good && is_link(iface) {
        let message = match name.len() {
            length if length > MAX_LENGTH => format!("`{name}` has {length} characters"),
            _ => format!("{name:?} is not the name of an interface"),
        };
        found.report(RuleId::B21, at, message);
    }
    let is_reserved = RESERVED.iter().any(|reserved| match reserved.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *reserved,
    });
    if is_reserved && !iface.is_absent() {
        let message = format!("`{name}` belongs to the cluster network");
        found.report(RuleId::B19, at, message);
    }
}

/// Whether the kernel knows it by this name. Bridges and patch ports are known to Open
/// vSwitch alone, an IPsec connection to its daemon.
fn is_link(iface: &Interface<'_>) -> bool {
    !matches!(iface.kind, InterfaceType::OvsBridge | InterfaceType::Ipsec)
        && iface.patch_peer().is_none()
}

fn check_type(iface: &Interface<'_>, found: &mut Findings) {
    let name = iface.name.value;
    match &iface.kind {
        _ if iface.is_absent() => {}
        InterfaceType::Unknown => {
            found.report(RuleId::B29, iface.at(), format!("`{name}` has no type"));
        }
        InterfaceType::Other(kind) if !kind.contains("{{") => {
            let message = format!("nmstate does not support the type `{kind}`");
            found.report(RuleId::B29, iface.place("type"), message);
        }
        InterfaceType::Tun => {
            let message = "nmstate reports interfaces of type `tun`, but does not create them";
            found.report(RuleId::B29, iface.place("type"), message);
        }
        _ => {}
    }
}
