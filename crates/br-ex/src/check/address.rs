//! B36, B37, B38: the address of br-ex.

use std::net::IpAddr;

use diagnostic::Severity;
use ipnet::IpNet;

use super::Subject;
use super::route::METRICS;
use crate::document::Form;
use crate::finding::Findings;
use crate::layout::{Address, Family, Interface, Ip};
use crate::rule::RuleId;
use crate::{BRIDGE, current_address};

/// Networks that ovnkube uses between its own parts.
const OVN_NETWORKS: [(&str, &str); 4] = [
    ("100.64.0.0/16", "the join network"),
    ("100.88.0.0/16", "the transit network"),
    ("fd98::/64", "the join network"),
    ("fd97::/64", "the transit network"),
];

/// The node's end of ovnkube's masquerade network, in older and newer releases.
const MASQUERADE: [&str; 3] = ["169.254.0.2", "169.254.169.2", "fd69::2"];

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    let Some(port) = subject.layout.internal_port() else { return };
    for ip in port.ips().filter(|ip| ip.is_enabled()) {
        for address in node_addresses(ip) {
            check_network(subject, address, found);
        }
        check_masquerade(subject, ip, found);
    }
    check_node_address(subject, port, found);
}

fn is_masquerade(address: &Address) -> bool {
    MASQUERADE.iter().any(|known| known.parse() == Ok(address.net.addr()))
}

/// The static addresses that are the node's own.
pub(super) fn node_addresses<'i>(ip: &'i Ip<'_>) -> Vec<&'i Address> {
    ip.addresses.iter().filter(|address| !is_masquerade(address)).collect()
}

fn check_network(subject: &Subject<'_>, address: &Address, found: &mut Findings) {
    let around = subject.around;
    let ip = address.net.addr();
    let of_ovn = OVN_NETWORKS.iter().filter_map(|(net, name)| Some((net.parse().ok()?, *name)));
    let of_cluster = around.cluster_networks.iter().map(|net| (*net, "the cluster network"));
    let of_services = around.service_networks.iter().map(|net| (*net, "the service network"));
    let mut taken = of_cluster.chain(of_services).chain(of_ovn);
    if let Some((net, name)) = taken.find(|(net, _): &(IpNet, _)| net.contains(&ip)) {
        let message = format!("{ip} is in {name} {net}");
        return found.report_as(Severity::Error, RuleId::B37, address.at, message);
    }
    let family = Family::of(ip);
    let mut same_family =
        around.machine_networks.iter().filter(|net| Family::of(net.addr()) == family).peekable();
    if same_family.peek().is_some() && !same_family.any(|net| net.contains(&ip)) {
        let nets: Vec<String> = around.machine_networks.iter().map(ToString::to_string).collect();
        let message = format!("{ip} is outside of the machine network {}", nets.join(", "));
        found.report(RuleId::B37, address.at, message);
    }
}

fn check_masquerade(subject: &Subject<'_>, ip: &Ip<'_>, found: &mut Findings) {
    let present = ip.addresses.iter().find(|address| is_masquerade(address));
    match (subject.form, present) {
        (Form::NodePolicy, None) if !ip.is_captured && !ip.has_unread_address => {
            let message = format!("the {} masquerade address is not listed", ip.family);
            found.report(RuleId::B38, ip.at, message);
        }
        (Form::State | Form::Policy | Form::Installation, Some(address)) => {
            let message = format!("the masquerade address {} is listed", address.net);
            found.report(RuleId::B38, address.at, message);
        }
        _ => {}
    }
}

/// Whether br-ex will have the address by which the node is known.
fn check_node_address(subject: &Subject<'_>, port: &Interface<'_>, found: &mut Findings) {
    match &subject.around.current {
        Some(current) => {
            for family in Family::BOTH {
                let Some(before) = current_address::of_default_route(current, family) else {
                    continue;
                };
                if before.interface != BRIDGE {
                    compare_with_node(subject, port, family, &before, found);
                }
            }
        }
        None => check_other_gateway(subject, port, found),
    }
}

fn compare_with_node(
    subject: &Subject<'_>,
    port: &Interface<'_>,
    family: Family,
    before: &current_address::NodeAddress,
    found: &mut Findings,
) {
    let Some(ip) = port.ip(family).filter(|ip| ip.is_enabled() && !ip.is_captured) else { return };
    let fixed = node_addresses(ip);
    if !ip.is_automatic() {
        if !fixed.is_empty() && !fixed.iter().any(|address| address.net.addr() == before.address) {
            let message = format!(
                "the node has {} on `{}` before, and br-ex gets {}",
                before.address,
                before.interface,
                listed(&fixed)
            );
            found.report(RuleId::B36, fixed[0].at, message);
        }
        return;
    }
    let is_same_nic = subject.uplink.is_member(&before.interface)
        || subject.uplink.members.iter().any(|member| member.value.contains("{{"));
    if !subject.uplink.members.is_empty() && !is_same_nic {
        let message = format!(
            "the node has {} on `{}` before, which is not the uplink of br-ex",
            before.address, before.interface
        );
        found.report(RuleId::B36, port.at(), message);
    }
}

fn listed(addresses: &[&Address]) -> String {
    let texts: Vec<String> = addresses.iter().map(|it| it.net.addr().to_string()).collect();
    texts.join(", ")
}

/// Without the node's state: another interface with the default route, or the one
/// with an address of the machine network, is where the node's address is chosen.
fn check_other_gateway(subject: &Subject<'_>, port: &Interface<'_>, found: &mut Findings) {
    let layout = subject.layout;
    // That of br-ex1 has a metric of its own, which another rule checks.
    let default = layout.routes.iter().find(|route| {
        Family::BOTH.iter().any(|family| route.is_default(*family))
            && METRICS.iter().all(|(bridge, _)| !route.is_via(bridge))
    });
    if let Some((route, via)) = default.and_then(|route| Some((route, route.interface?))) {
        let message = format!(
            "the default route goes through `{}`, so the address of the node is there, not on \
             br-ex",
            via.value
        );
        return found.report(RuleId::B36, route.at, message);
    }
    let in_machine_network =
        |address: IpAddr| subject.around.machine_networks.iter().any(|net| net.contains(&address));
    let holds = |iface: &&Interface<'_>| {
        let mut addresses = iface.ips().filter(|ip| ip.is_enabled()).flat_map(|ip| &ip.addresses);
        addresses.any(|address| in_machine_network(address.net.addr()))
    };
    let others = || layout.interfaces.iter().filter(|iface| iface.name.value != BRIDGE);
    if let (false, Some(other)) = (holds(&port), others().find(holds)) {
        let message = format!(
            "`{}` has an address of the machine network and br-ex is given none",
            other.name.value
        );
        if !port.ips().any(Ip::is_automatic) {
            found.report(RuleId::B36, other.at(), message);
        }
    }
}
