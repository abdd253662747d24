//! B12, B13, B14, B15, B20: routes and name servers.

use std::net::IpAddr;

use diagnostic::Severity;

use super::Subject;
use super::values::server_address;
use crate::BRIDGE;
use crate::finding::Findings;
use crate::layout::{Family, Interface, Ip, Route};
use crate::rule::RuleId;

/// The metrics of br-ex and of the second bridge in configure-ovs.
pub(super) const METRICS: [(&str, i128); 2] = [(BRIDGE, 48), ("br-ex1", 49)];

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    let Some(port) = subject.layout.internal_port() else { return };
    check_default(subject, port, found);
    check_metrics(subject, found);
    check_names(subject, port, found);
    check_others(subject, port, found);
}

fn statics<'s, 'a>(
    subject: &'s Subject<'a>,
    family: Family,
) -> impl Iterator<Item = &'s Route<'a>> {
    subject.layout.routes.iter().filter(move |route| route.is_default(family))
}

/// B12: every family that is in use has a default route through br-ex.
fn check_default(subject: &Subject<'_>, port: &Interface<'_>, found: &mut Findings) {
    if subject.layout.has_captured_routes {
        return;
    }
    let mut severity = Severity::Error;
    for ip in port.ips().filter(|ip| ip.is_enabled()) {
        let is_there = ip.is_captured
            || ip.has_automatic_gateway()
            || statics(subject, ip.family).any(|route| route.is_via(BRIDGE) || route.is_captured);
        let has_address = ip.is_automatic() || !ip.addresses.is_empty();
        if !is_there && has_address {
            let message = format!("{} on br-ex has no default route", ip.family);
            found.report_as(severity, RuleId::B12, ip.at, message);
        }
        severity = Severity::Warning;
    }
}

/// B13: br-ex's default route wins.
fn check_metrics(subject: &Subject<'_>, found: &mut Findings) {
    let layout = subject.layout;
    for (name, expected) in METRICS {
        let Some(port) = layout.find(name, &nmstate::InterfaceType::OvsInterface) else { continue };
        for ip in port.ips().filter(|ip| ip.has_automatic_gateway() && !ip.has_captured_metric()) {
            if ip.metric() != Some(expected) {
                let message =
                    format!("{} of {name} has no `auto-route-metric: {expected}`", ip.family);
                found.report(RuleId::B13, ip.place("auto-route-metric"), message);
            }
        }
        for route in layout.routes.iter().filter(|route| route.is_via(name) && !route.is_captured) {
            let is_default = Family::BOTH.iter().any(|family| route.is_default(*family));
            if is_default && route.metric != Some(expected) {
                let message =
                    format!("the default route through {name} has no `metric: {expected}`");
                found.report(RuleId::B13, route.at, message);
            }
        }
    }
    let expected = METRICS[0].1;
    for route in layout.routes.iter().filter(|route| !route.is_via(BRIDGE)) {
        let is_default = Family::BOTH.iter().any(|family| route.is_default(*family));
        if let (true, Some(metric)) =
            (is_default, route.metric.filter(|metric| *metric <= expected))
        {
            let message =
                format!("another default route has metric {metric}, and br-ex {expected}");
            found.report(RuleId::B13, route.at, message);
        }
    }
    for (iface, ip) in others(subject) {
        if let Some(metric) = ip.metric().filter(|metric| *metric <= expected) {
            let name = iface.name.value;
            let message =
                format!("the default route of `{name}` has metric {metric}, and br-ex {expected}");
            found.report(RuleId::B13, ip.place("auto-route-metric"), message);
        }
    }
}

/// B14: gateways are in a subnet of their interface, where all subnets are known. Beside an address
/// without a subnet (/32, /128) NetworkManager adds a route to the gateway by itself.
pub(super) fn check_gateways(subject: &Subject<'_>, found: &mut Findings) {
    for route in subject.layout.routes.iter().filter(|route| !route.is_absent) {
        let (Some(via), Some(gateway)) = (route.interface, route.gateway) else { continue };
        let Some(iface) = subject.layout.kernel_interface(via.value) else { continue };
        let family = Family::of(gateway.value);
        let Some(ip) = iface.ip(family) else { continue };
        if ip.is_captured || ip.is_automatic() || !ip.is_enabled() || ip.addresses.is_empty() {
            continue;
        }
        if ip.addresses.iter().any(|it| it.net.prefix_len() == it.net.max_prefix_len()) {
            continue;
        }
        if !is_reachable(subject, iface, gateway.value) {
            let subnets: Vec<String> = iface.subnets().map(|net| net.to_string()).collect();
            let message = format!(
                "gateway {} is in no subnet of `{}` ({})",
                gateway.value,
                via.value,
                subnets.join(", ")
            );
            found.report(RuleId::B14, gateway.at, message);
        }
    }
}

fn is_reachable(subject: &Subject<'_>, iface: &Interface<'_>, gateway: IpAddr) -> bool {
    let is_link_local = matches!(gateway, IpAddr::V6(address) if address.is_unicast_link_local());
    // The destination of a route without a gateway is on the link.
    let is_on_link = |route: &Route<'_>| {
        route.gateway.is_none()
            && route.is_via(iface.name.value)
            && route.destination.is_some_and(|net| net.contains(&gateway))
    };
    is_link_local
        || iface.subnets().any(|net| net.contains(&gateway))
        || subject.layout.routes.iter().any(is_on_link)
}

/// B15: a static node has name servers, and can reach them.
fn check_names(subject: &Subject<'_>, port: &Interface<'_>, found: &mut Findings) {
    let layout = subject.layout;
    let captured = |ip: &Ip<'_>| ip.is_captured;
    if layout.has_captured_servers || layout.has_captured_routes || port.ips().any(captured) {
        return;
    }
    let automatic = |ip: &Ip<'_>| ip.is_automatic() && ip.switch("auto-dns") != Some(false);
    let is_any_automatic = layout.interfaces.iter().flat_map(Interface::ips).any(automatic);
    let has_static = port.ips().any(|ip| ip.is_enabled() && !ip.addresses.is_empty());
    if layout.servers.is_empty() && has_static && !is_any_automatic {
        let message = "br-ex has static addresses: expected `dns-resolver`, found none";
        found.report(RuleId::B15, port.at(), message);
    }
    for server in &layout.servers {
        let Some(address) = server_address(server) else { continue };
        if !has_way_to(subject, address) {
            let message = format!("no route leads to the name server {address}");
            found.report_as(Severity::Info, RuleId::B15, server.at, message);
        }
    }
}

fn has_way_to(subject: &Subject<'_>, address: IpAddr) -> bool {
    let family = Family::of(address);
    let layout = subject.layout;
    let interfaces = || layout.interfaces.iter().filter(|iface| iface.is_up());
    let is_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let automatic = interfaces().filter_map(|iface| iface.ip(family)).any(Ip::is_automatic);
    let on_link = interfaces().flat_map(Interface::subnets).any(|net| net.contains(&address));
    let routed = layout.routes.iter().any(|route| {
        !route.is_absent && route.destination.is_some_and(|net| net.contains(&address))
    });
    is_local || address.is_loopback() || automatic || on_link || routed
}

/// Interfaces beside br-ex and its uplink that get a default route from the network.
fn others<'s, 'a>(
    subject: &'s Subject<'a>,
) -> impl Iterator<Item = (&'s Interface<'a>, &'s Ip<'a>)> {
    subject
        .layout
        .interfaces
        .iter()
        .filter(|iface| iface.is_up() && !is_part_of_br_ex(subject, iface))
        .flat_map(|iface| iface.ips().map(move |ip| (iface, ip)))
        .filter(|(_, ip)| ip.has_automatic_gateway())
}

fn is_part_of_br_ex(subject: &Subject<'_>, iface: &Interface<'_>) -> bool {
    let is_second = iface.name.value == METRICS[1].0;
    iface.name.value == BRIDGE || is_second || subject.uplink.is_member(iface.name.value)
}

/// B20: no other interface has a default route, or br-ex's subnet.
fn check_others(subject: &Subject<'_>, port: &Interface<'_>, found: &mut Findings) {
    for (iface, ip) in others(subject) {
        let message =
            format!("`{}` takes a default route from the network, as br-ex does", iface.name.value);
        found.report(RuleId::B20, ip.at, message);
    }
    for route in &subject.layout.routes {
        let is_default = Family::BOTH.iter().any(|family| route.is_default(*family));
        let Some(via) = route.interface.filter(|_| is_default && !route.is_captured) else {
            continue;
        };
        if METRICS.iter().all(|(name, _)| *name != via.value) {
            let message = format!("a default route goes through `{}`", via.value);
            found.report(RuleId::B20, route.at, message);
        }
    }
    let of_br_ex: Vec<_> = port.subnets().collect();
    for iface in &subject.layout.interfaces {
        let is_other = iface.is_up() && !is_part_of_br_ex(subject, iface);
        for address in iface.ips().flat_map(|ip| &ip.addresses).filter(|_| is_other) {
            if of_br_ex.iter().any(|net| net.contains(&address.net.addr())) {
                let message = format!("`{}` has an address in a subnet of br-ex", iface.name.value);
                found.report(RuleId::B20, address.at, message);
            }
        }
    }
}
