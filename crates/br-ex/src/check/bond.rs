//! B39: bonds that are none.

use std::collections::BTreeSet;

use located_yaml::{Located, Node, Position};
use nmstate::InterfaceType;

use super::Subject;
use crate::finding::Findings;
use crate::layout::is_captured;
use crate::rule::RuleId;

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    for iface in subject.layout.interfaces.iter().filter(|iface| !iface.is_absent()) {
        let name = iface.name.value;
        if let Some(bond) = iface.node.get("link-aggregation").filter(|it| !is_captured(it)) {
            check_ports(name, iface.at(), &iface.bond_ports(), found);
            check_mode(name, bond, found);
        }
        if iface.kind == InterfaceType::OvsBridge {
            for port in iface.bridge_ports() {
                if let Some(members) = &port.bond {
                    check_ports(port.name.value, port.at(), members, found);
                }
            }
        }
    }
}

fn check_ports(name: &str, at: Position, ports: &[Located<&str>], found: &mut Findings) {
    if let [port] = ports {
        let message = format!("bond `{name}` has one port, `{}`", port.value);
        found.report(RuleId::B39, at, message);
    }
    let mut seen = BTreeSet::new();
    for port in ports {
        if !seen.insert(port.value) {
            let message = format!("bond `{name}` lists `{}` twice", port.value);
            found.report(RuleId::B39, port.at, message);
        }
    }
}

fn check_mode(name: &str, bond: &Node, found: &mut Findings) {
    let Some(mode) = bond.get("mode") else { return };
    let has_option = |key: &str| bond.get("options").is_some_and(|it| it.get(key).is_some());
    match mode.text() {
        Some("802.3ad" | "4") if !has_option("miimon") => {
            let message = format!("bond `{name}` is 802.3ad without `miimon`");
            found.report(RuleId::B39, mode.at, message);
        }
        Some("balance-slb") => {
            let message = format!("bond `{name}` is a Linux bond, which has no mode balance-slb");
            found.report(RuleId::B39, mode.at, message);
        }
        _ => {}
    }
}
