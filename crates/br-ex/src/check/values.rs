//! B34: texts that nmstate does not check and that the node cannot use.

use std::net::IpAddr;

use ipnet::IpNet;
use located_yaml::{Located, Node};
use machine_identity::is_hardware_address;

use super::Subject;
use crate::finding::Findings;
use crate::layout::is_captured;
use crate::rule::RuleId;

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    for iface in &subject.layout.interfaces {
        expect(iface.node.get("mac-address"), "a MAC address", is_hardware_address, found);
    }
    let routes = subject.layout.node.get("routes").and_then(|routes| routes.get("config"));
    for route in routes.map(Node::items).unwrap_or_default() {
        // An absent route without a gateway means all of them.
        let is_empty = |node: &&Node| node.text() != Some("");
        let gateway = route.get("next-hop-address").filter(is_empty);
        expect(gateway, "an IP address", |text| text.parse::<IpAddr>().is_ok(), found);
        let destination = route.get("destination").filter(is_empty);
        expect(
            destination,
            "a network in CIDR notation",
            |text| text.parse::<IpNet>().is_ok(),
            found,
        );
    }
    for server in &subject.layout.servers {
        if !server.value.contains("{{") && server_address(server).is_none() {
            let message = format!("expected an IP address, found {:?}", server.value);
            found.report(RuleId::B34, server.at, message);
        }
    }
}

/// The address of a name server, without the interface behind a link-local one.
pub(super) fn server_address(server: &Located<&str>) -> Option<IpAddr> {
    server.value.split('%').next()?.parse().ok()
}

fn expect(
    node: Option<&Node>,
    expected: &str,
    is_good: impl Fn(&str) -> bool,
    found: &mut Findings,
) {
    let Some(node) = node.filter(|node| !is_captured(node)) else { return };
    if let Some(text) = node.text().filter(|text| !is_good(text)) {
        found.report(RuleId::B34, node.at, format!("expected {expected}, found {text:?}"));
    }
}
