//! B4, B5, B6: one uplink, without addresses.

use diagnostic::Severity;

use super::Subject;
use crate::BRIDGE;
use crate::finding::Findings;
use crate::layout::{BridgePort, Family};
use crate::rule::RuleId;
use crate::uplink::owner;

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    let Some(bridge) = subject.layout.bridge() else { return };
    let uplink = &subject.uplink;
    let at = bridge.place("bridge");
    match (uplink.named, uplink.system.as_slice(), uplink.patches.as_slice()) {
        (Some(named), ..) => {
            let is_it = |port: &BridgePort<'_>| port.name.value == named.value;
            if !uplink.system.iter().chain(&uplink.patches).any(is_it) {
                let message = format!(
                    "`bridge-uplink` names {:?}, which is not a port of br-ex",
                    named.value
                );
                found.report(RuleId::B4, named.at, message);
            }
        }
        (None, [], []) => found.report(RuleId::B4, at, "br-ex has no uplink"),
        (None, [], [patch, ..]) => {
            let message = format!(
                "br-ex leads out through patch port `{}`, but the external id `bridge-uplink` is not set",
                patch.name.value
            );
            found.report(RuleId::B5, patch.at(), message);
        }
        (None, [_], _) => {}
        (None, [_, second, ..], _) => {
            let names: Vec<&str> = uplink.system.iter().map(|port| port.name.value).collect();
            let message = format!("br-ex has {} uplinks: {}", names.len(), names.join(", "));
            found.report(RuleId::B4, second.at(), message);
        }
    }
    for patch in &uplink.patches {
        check_patch(subject, patch, found);
    }
    check_addresses(subject, found);
}

fn check_patch(subject: &Subject<'_>, port: &BridgePort<'_>, found: &mut Findings) {
    let layout = subject.layout;
    let name = port.name.value;
    let Some(peer) = layout.kernel_interface(name).and_then(|iface| iface.patch_peer()) else {
        return;
    };
    let Some(other) = layout.kernel_interface(peer.value) else {
        let message = format!("the peer `{}` of patch port `{name}` is not described", peer.value);
        return found.report(RuleId::B5, peer.at, message);
    };
    if other.patch_peer().is_none_or(|back| back.value != name) {
        let message = format!("`{}` does not name `{name}` as its peer", peer.value);
        found.report(RuleId::B5, other.place("patch"), message);
    }
    match owner(peer.value, layout) {
        None => {
            let message = format!("no bridge has the patch port `{}`", peer.value);
            found.report(RuleId::B5, other.at(), message);
        }
        Some(bridge) if bridge.name.value == BRIDGE => {
            let message = format!("both ends of the patch `{name}` are ports of br-ex");
            found.report(RuleId::B5, port.at(), message);
        }
        Some(bridge) if subject.uplink.members.is_empty() && subject.uplink.system.is_empty() => {
            let message = format!("bridge `{}` has no NIC or bond", bridge.name.value);
            found.report(RuleId::B5, bridge.place("bridge"), message);
        }
        Some(_) => {}
    }
}

fn check_addresses(subject: &Subject<'_>, found: &mut Findings) {
    for member in &subject.uplink.members {
        let name = member.value;
        let Some(iface) = subject.layout.kernel_interface(name) else {
            let message =
                format!("the uplink `{name}` is not described, so it may keep an address");
            found.report_as(Severity::Warning, RuleId::B6, member.at, message);
            continue;
        };
        for family in Family::BOTH {
            match iface.ip(family) {
                None => {
                    let message =
                        format!("the uplink `{name}` has no `{}.enabled: false`", family.key());
                    found.report_as(Severity::Warning, RuleId::B6, iface.at(), message);
                }
                Some(ip) if ip.is_enabled() => {
                    let message = format!("{family} is enabled on the uplink `{name}`");
                    found.report(RuleId::B6, ip.place("enabled"), message);
                }
                Some(_) => {}
            }
        }
    }
}
