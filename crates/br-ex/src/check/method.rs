//! B11: the interfaces through which the node leaves get an address in every family that is enabled.
//!
//! What nmstate does with a family that is enabled, without DHCP and without an address, on an
//! interface that it creates: IPv4 becomes `disabled` in NetworkManager, and the verification of the
//! document fails because it expects IPv4 to be enabled; an empty `address` list is not verified, so
//! IPv4 stays off without an error. IPv6 becomes `link-local`, which is valid and no address for a
//! node. On an interface that exists, nmstate keeps what the node has.

use diagnostic::Severity;
use nmstate::InterfaceType;

use super::Subject;
use super::address::node_addresses;
use super::route::METRICS;
use crate::BRIDGE;
use crate::document::Form;
use crate::finding::Findings;
use crate::layout::{Family, Interface, Ip};
use crate::rule::RuleId;

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    for iface in subject.layout.interfaces.iter().filter(|iface| is_gateway(subject, iface)) {
        check_interface(subject, iface, found);
    }
}

/// Whether the node leaves through an interface: br-ex, br-ex1, or that of a static default route.
fn is_gateway(subject: &Subject<'_>, iface: &Interface<'_>) -> bool {
    let name = iface.name.value;
    let is_internal = iface.kind == InterfaceType::OvsInterface
        && METRICS.iter().any(|(bridge, _)| *bridge == name);
    let has_default_route = subject.layout.routes.iter().any(|route| {
        route.is_via(name) && Family::BOTH.iter().any(|family| route.is_default(*family))
    });
    iface.kind != InterfaceType::OvsBridge && iface.is_up() && (is_internal || has_default_route)
}

/// Whether nmstate creates an interface, so that nothing of it is inherited from the node.
fn is_created(subject: &Subject<'_>, iface: &Interface<'_>) -> bool {
    let is_found = matches!(iface.kind, InterfaceType::Ethernet | InterfaceType::Unknown);
    subject.form != Form::NodePolicy && !is_found
}

fn has_address(ip: &Ip<'_>) -> bool {
    ip.is_captured || ip.is_automatic() || ip.has_unread_address || !node_addresses(ip).is_empty()
}

fn check_interface(subject: &Subject<'_>, iface: &Interface<'_>, found: &mut Findings) {
    let name = iface.name.value;
    let is_created = is_created(subject, iface);
    let has_any = iface.ips().any(|ip| ip.is_enabled() && has_address(ip));
    let mut is_reported = false;
    for ip in iface.ips().filter(|ip| !has_address(ip) || !ip.is_enabled()) {
        let key = ip.family.key();
        if !ip.is_enabled() {
            let is_meant =
                !ip.has("enabled") && (has_address(ip) || ip.switch("dhcp") == Some(true));
            if is_meant && is_created {
                let message = format!(
                    "expected `{key}.enabled: true` for the addresses of `{name}`, found no \
                     `enabled`: {} stays disabled",
                    ip.family
                );
                found.report(RuleId::B11, ip.at, message);
                is_reported = true;
            }
            continue;
        }
        // A value that the node fills in.
        if ip.has("dhcp") && ip.switch("dhcp").is_none() {
            is_reported = true;
            continue;
        }
        let is_inherited = !is_created && !ip.has("address");
        let (severity, effect) = match (is_inherited, ip.family) {
            (true, _) => (Severity::Warning, "the node keeps what it has, which may be nothing"),
            (false, Family::V4) if !ip.has("address") => {
                (Severity::Error, "nmstate refuses the document, because IPv4 stays disabled")
            }
            (false, Family::V4) => (Severity::Warning, "IPv4 stays disabled"),
            (false, Family::V6) => (Severity::Warning, "the node gets a link-local address only"),
        };
        let is_lost = !has_any && !is_inherited && name == BRIDGE;
        let severity = if is_lost { Severity::Error } else { severity };
        let message = format!(
            "expected an address or `dhcp: true` beside `{key}.enabled: true` of `{name}`, found \
             neither: {effect}"
        );
        found.report_as(severity, RuleId::B11, ip.place("enabled"), message);
        is_reported = true;
    }
    if !has_any && !is_reported && name == BRIDGE {
        let message = format!(
            "expected `ipv4` or `ipv6` of `{name}` with `enabled: true` and an address or \
             `dhcp: true`, found both disabled"
        );
        found.report(RuleId::B11, iface.at(), message);
    }
}

/// N1: nmstate has no NetworkManager profile for autoconf without DHCP. It finds out only when it
/// writes the profile, which its validation does not do.
pub(super) fn check_autoconf(subject: &Subject<'_>, found: &mut Findings) {
    for iface in subject.layout.interfaces.iter().filter(|iface| iface.is_up()) {
        let Some(ip) = iface.ip(Family::V6).filter(|ip| ip.is_enabled()) else { continue };
        let found_here = match ip.switch("dhcp") {
            Some(false) => "`dhcp: false`",
            None if !ip.has("dhcp") && is_created(subject, iface) => "no `dhcp`",
            _ => continue,
        };
        if ip.switch("autoconf") == Some(true) {
            let message = format!(
                "expected `dhcp: true` beside `ipv6.autoconf: true` of `{}`, found {found_here}: \
                 nmstate does not support autoconf without DHCP. Set `dhcp: true`; networks without \
                 a DHCP server are accepted",
                iface.name.value
            );
            found.report(RuleId::N1, ip.place("autoconf"), message);
        }
    }
}
