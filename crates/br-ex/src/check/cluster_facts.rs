//! B40, B41: what the nodes are.

use located_yaml::{Entry, Node};

use super::Subject;
use crate::cluster_facts::NmstateVersion;
use crate::finding::Findings;
use crate::rule::RuleId;

/// The last version that does not know the fields below.
const OLDER: NmstateVersion = NmstateVersion(2, 2, 38);

/// Keys of an interface, and of a section of it, that came later.
const NEWER: [(Option<&str>, &str); 9] = [
    (None, "alt-names"),
    (None, "pci-address"),
    (None, "ip-tunnel"),
    (Some("ethernet"), "fec"),
    (Some("vlan"), "ingress-qos-map"),
    (Some("vlan"), "egress-qos-map"),
    (Some("ipv4"), "prefix-route-metric"),
    (Some("ipv6"), "prefix-route-metric"),
    (Some("ipv4"), "forwarding"),
];

pub(super) fn check_platform(subject: &Subject<'_>, found: &mut Findings) {
    let Some(platform) = subject.around.platform else { return };
    if !platform.chooses_node_address() {
        let message = format!("nodes on `{}` do not select an address", platform.name());
        found.report(RuleId::B40, subject.layout.node.at, message);
    }
}

pub(super) fn check_version(subject: &Subject<'_>, found: &mut Findings) {
    let Some(version) = subject.around.nmstate.filter(|version| *version <= OLDER) else { return };
    for iface in &subject.layout.interfaces {
        for (section, key) in NEWER {
            let place: Option<&Node> = match section {
                None => Some(iface.node),
                Some(section) => iface.node.get(section),
            };
            if let Some(Entry { at, .. }) = place.and_then(|place| place.entry(key)) {
                let NmstateVersion(major, minor, patch) = version;
                let message = format!("nmstate {major}.{minor}.{patch} does not support `{key}`");
                found.report(RuleId::B41, *at, message);
            }
        }
    }
}
