//! B1, B2, B3, B18, B23, B24, B25, B26, B27, B42: the bridge and its internal port.

use diagnostic::Severity;
use located_yaml::{Node, Position};
use nmstate::InterfaceType;

use super::Subject;
use crate::BRIDGE;
use crate::document::Form;
use crate::finding::Findings;
use crate::layout::Interface;
use crate::rule::RuleId;

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    let layout = subject.layout;
    let start = layout.node.entry("interfaces").map_or(layout.node.at, |entry| entry.at);
    match layout.bridge() {
        None => found.report(RuleId::B1, start, missing(subject, "ovs-bridge")),
        Some(bridge) => {
            if !bridge.is_up() {
                let message = "the ovs-bridge `br-ex` is not up";
                found.report(RuleId::B1, bridge.place("state"), message);
            }
            check_bridge(subject, bridge, found);
        }
    }
    match layout.internal_port() {
        None => found.report(RuleId::B2, start, missing(subject, "ovs-interface")),
        Some(port) if !port.is_up() => {
            let message = "the ovs-interface `br-ex` is not up";
            found.report(RuleId::B2, port.place("state"), message);
        }
        Some(_) => {}
    }
}

/// There is nothing of this type; perhaps there is something of another one.
fn missing(subject: &Subject<'_>, kind: &str) -> String {
    let is_other = |iface: &&Interface<'_>| {
        iface.name.value == BRIDGE
            && !matches!(iface.kind, InterfaceType::OvsBridge | InterfaceType::OvsInterface)
    };
    match subject.layout.interfaces.iter().find(is_other) {
        Some(other) => format!(
            "expected an {kind} `br-ex`, found the interface of that name on line {} with type `{}`",
            other.at().line,
            other.kind
        ),
        None => format!("expected an {kind} `br-ex`, found none"),
    }
}

fn check_bridge(subject: &Subject<'_>, bridge: &Interface<'_>, found: &mut Findings) {
    let ports = bridge.bridge_ports();
    if !ports.iter().any(|port| port.name.value == BRIDGE) {
        let message = "`br-ex` is not among the ports of the bridge";
        found.report(RuleId::B3, bridge.place("bridge"), message);
    }
    if let Some(ip) = bridge.ips().find(|ip| ip.is_enabled()) {
        let message = format!("{} is enabled on the ovs-bridge, which drops it", ip.family);
        found.report_as(Severity::Warning, RuleId::B2, ip.at, message);
    }
    if bridge.node.get("mtu").is_some() {
        let message = "the ovs-bridge `br-ex` has an mtu, which has no effect";
        found.report(RuleId::B18, bridge.place("mtu"), message);
    }
    let expected = ["br-ex", "br-ex-br"];
    if let Some(name) = bridge.text("profile-name").filter(|it| !expected.contains(&it.value)) {
        let message = format!("the profile of the bridge is called {:?}", name.value);
        found.report(RuleId::B42, name.at, message);
    }
    check_options(subject, bridge, found);
    for port in ports.iter().filter(|port| port.node.get("vlan").is_some()) {
        let message = format!("port `{}` of br-ex has a `vlan`", port.name.value);
        found.report(RuleId::B25, port.at(), message);
    }
}

fn check_options(subject: &Subject<'_>, bridge: &Interface<'_>, found: &mut Findings) {
    let section = bridge.node.get("bridge");
    let extra = section.and_then(|it| it.get("allow-extra-patch-ports")).and_then(Node::boolean);
    if extra != Some(true) {
        // At first boot there are no patch ports of ovnkube yet.
        let severity = match subject.form {
            Form::NodePolicy => Severity::Warning,
            Form::State | Form::Policy | Form::Installation => Severity::Info,
        };
        let message = "the bridge has no `allow-extra-patch-ports: true`";
        found.report_as(severity, RuleId::B23, bridge.place("bridge"), message);
    }
    let options = section.and_then(|section| section.get("options"));
    let option = |key: &str| options.and_then(|options| options.get(key));
    if option("mcast-snooping-enable").and_then(Node::boolean) != Some(true) {
        let message = "the bridge has no `mcast-snooping-enable: true`";
        found.report(RuleId::B24, bridge.place("bridge"), message);
    }
    let is_on = |value: &Node| {
        value.boolean().or_else(|| value.get("enabled")?.boolean()).unwrap_or_default()
    };
    for key in ["stp", "rstp"] {
        if let Some(value) = option(key).filter(|value| is_on(value)) {
            found.report(RuleId::B25, value.at, format!("`{key}` is on"));
        }
    }
    for (key, bad) in [("fail-mode", "secure"), ("datapath", "netdev")] {
        if let Some(value) = option(key).filter(|value| value.text() == Some(bad)) {
            found.report(RuleId::B25, value.at, format!("`{key}` is `{bad}`"));
        }
    }
}

/// B26, B27: the settings of Open vSwitch as a whole, with br-ex in the document or without.
pub(super) fn check_database(subject: &Subject<'_>, found: &mut Findings) {
    let Some(entry) = subject.layout.node.entry("ovs-db") else { return };
    found.report(RuleId::B27, entry.at, "the document changes the global `ovs-db` section");
    let mappings = entry.value.get("external_ids").and_then(|ids| ids.entry("ovn-bridge-mappings"));
    if let Some(Position { line, column }) = mappings.map(|mappings| mappings.at) {
        let message = "`ovn-bridge-mappings` is set as an external id";
        found.report(RuleId::B26, Position { line, column }, message);
    }
}
