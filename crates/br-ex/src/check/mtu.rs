//! B16, B17: sizes of packets.

use diagnostic::Severity;
use located_yaml::Located;
use nmstate::InterfaceType;

use super::Subject;
use crate::finding::Findings;
use crate::layout::{Family, Interface};
use crate::rule::RuleId;
use crate::uplink::below;

/// The default MTU of links.
const USUAL: u32 = 1500;
/// The least that IPv6 works with.
const LEAST_FOR_IPV6: u32 = 1280;
/// What the overlay adds to each packet: at least, with IPv6, and as the cluster reckons.
const HEADER_IPV4: u32 = 58;
const HEADER_IPV6: u32 = 78;
const HEADER_RECKONED: u32 = 100;

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    if let Some(port) = subject.layout.internal_port() {
        for member in &subject.uplink.members {
            check_pair(subject, port, member, found);
        }
        check_cluster(subject, port, found);
    }
}

/// Every interface and what is below it, with br-ex in the document or without.
pub(super) fn check_links(subject: &Subject<'_>, found: &mut Findings) {
    for iface in subject.layout.interfaces.iter().filter(|it| it.kind != InterfaceType::OvsBridge) {
        for lower in below(iface) {
            check_pair(subject, iface, &lower, found);
        }
        let small = iface.mtu().filter(|mtu| mtu.value < LEAST_FOR_IPV6);
        if let (Some(mtu), Some(_)) = (small, iface.ipv6.as_ref().filter(|ip| ip.is_enabled())) {
            let message = format!("`{}` has IPv6 and an MTU of {}", iface.name.value, mtu.value);
            found.report(RuleId::B17, mtu.at, message);
        }
    }
}

/// The MTU of an interface must not exceed that of the interface below it.
fn check_pair(
    subject: &Subject<'_>,
    upper: &Interface<'_>,
    lower_name: &Located<&str>,
    found: &mut Findings,
) {
    let Some(above) = upper.mtu() else { return };
    let lower = subject.layout.kernel_interface(lower_name.value);
    let (upper_name, name) = (upper.name.value, lower_name.value);
    match lower.map(Interface::mtu) {
        Some(Some(mtu)) if mtu.value < above.value => {
            let message = format!(
                "`{name}` has an MTU of {} and carries `{upper_name}`, which has {}",
                mtu.value, above.value
            );
            found.report(RuleId::B16, mtu.at, message);
        }
        Some(Some(_)) => {}
        // A bond hands its MTU down to its ports.
        _ if upper.kind == InterfaceType::Bond || above.value <= USUAL => {}
        Some(None) | None => {
            let is_captured = lower.is_some_and(|iface| iface.node.get("mtu").is_some());
            if !is_captured {
                let message = format!(
                    "`{upper_name}` has an MTU of {}, and that of `{name}` below is not set",
                    above.value
                );
                found.report_as(Severity::Warning, RuleId::B16, lower_name.at, message);
            }
        }
    }
}

/// The MTU of br-ex must include the packets of the cluster and the header of the overlay.
fn check_cluster(subject: &Subject<'_>, port: &Interface<'_>, found: &mut Findings) {
    let Some(cluster) = subject.around.cluster_mtu else { return };
    if port.mtu().is_none() && port.node.get("mtu").is_some() {
        return;
    }
    let (mtu, at, whence) = match port.mtu() {
        Some(mtu) => (mtu.value, mtu.at, ""),
        None => (uplink_mtu(subject), port.at(), ", that of its uplink"),
    };
    let has_ipv6 = port.ip(Family::V6).is_some_and(|ip| ip.is_enabled());
    let header = if has_ipv6 { HEADER_IPV6 } else { HEADER_IPV4 };
    if mtu < cluster.saturating_add(header) {
        let message = format!(
            "br-ex has an MTU of {mtu}{whence}; the cluster's {cluster} and {header} for the \
             overlay need {}",
            cluster.saturating_add(header)
        );
        found.report(RuleId::B16, at, message);
    } else if mtu < cluster.saturating_add(HEADER_RECKONED) {
        let message = format!(
            "br-ex has an MTU of {mtu}{whence}; {} is usual with a cluster MTU of {cluster}",
            cluster.saturating_add(HEADER_RECKONED)
        );
        found.report_as(Severity::Warning, RuleId::B16, at, message);
    }
}

/// The MTU of br-ex if the document does not set one.
fn uplink_mtu(subject: &Subject<'_>) -> u32 {
    let written = |name: &str| Some(subject.layout.kernel_interface(name)?.mtu()?.value);
    let running = |name: &str| {
        let current = subject.around.current.as_ref()?;
        let iface = current.interfaces.iter().find(|iface| iface.name() == name)?;
        iface.base_iface().mtu?.try_into().ok()
    };
    let of = |name: &str| written(name).or_else(|| running(name)).unwrap_or(USUAL);
    subject.uplink.members.iter().map(|member| of(member.value)).min().unwrap_or(USUAL)
}
