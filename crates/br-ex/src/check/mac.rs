//! B7, B8, B9, B10: whose MAC address br-ex has.

use diagnostic::Severity;
use nmstate::InterfaceType;

use super::Subject;
use crate::finding::Findings;
use crate::layout::Interface;
use crate::rule::RuleId;
use crate::uplink::below;

pub(super) fn check(subject: &Subject<'_>, found: &mut Findings) {
    if let Some(bridge) = subject.layout.bridge() {
        for (key, severity, effect) in [
            ("mac-address", Severity::Error, "is refused"),
            ("copy-mac-from", Severity::Warning, "has no effect"),
        ] {
            if bridge.node.get(key).is_some() {
                let message = format!("`{key}` is on the ovs-bridge, where it {effect}");
                found.report_as(severity, RuleId::B7, bridge.place(key), message);
            }
        }
    }
    if let Some(port) = subject.layout.internal_port() {
        check_internal_port(subject, port, found);
    }
}

/// B9, B10: every interface, with br-ex in the document or without.
pub(super) fn check_interfaces(subject: &Subject<'_>, found: &mut Findings) {
    for iface in &subject.layout.interfaces {
        if iface.kind != InterfaceType::OvsBridge {
            check_source(subject, iface, found);
        }
        check_failover(iface, found);
    }
}

fn check_internal_port(subject: &Subject<'_>, port: &Interface<'_>, found: &mut Findings) {
    let Some(source) = port.text("copy-mac-from") else {
        if port.node.get("mac-address").is_none() {
            let message = "the ovs-interface `br-ex` has a generated MAC address";
            found.report(RuleId::B8, port.at(), message);
        }
        return;
    };
    let uplink = &subject.uplink;
    let is_uplink = uplink.members.iter().any(|member| {
        member.value == source.value
            || subject
                .layout
                .kernel_interface(member.value)
                .is_some_and(|iface| below_all(subject, iface).contains(&source.value))
    });
    if !uplink.members.is_empty() && !is_uplink {
        let message = format!("`{}` is not the uplink, nor part of it", source.value);
        found.report(RuleId::B8, source.at, message);
    }
}

/// All names below an interface; loops end at what was seen.
fn below_all<'a>(subject: &Subject<'a>, iface: &Interface<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let mut waiting = below(iface);
    while let Some(name) = waiting.pop() {
        if !names.contains(&name.value) {
            names.push(name.value);
            waiting
                .extend(subject.layout.kernel_interface(name.value).map(below).unwrap_or_default());
        }
    }
    names
}

fn check_source(subject: &Subject<'_>, iface: &Interface<'_>, found: &mut Findings) {
    let source = iface.text("copy-mac-from");
    // What is captured on the node is there.
    let Some(source) = source.filter(|source| !source.value.contains("{{")) else { return };
    if let Some(current) = &subject.around.current {
        let is_known = current
            .interfaces
            .iter()
            .any(|it| it.name() == source.value && it.base_iface().mac_address.is_some());
        if is_known {
            return;
        }
    }
    let described = subject.layout.kernel_interface(source.value);
    match described {
        Some(made) if is_made(&made.kind) && made.node.get("mac-address").is_none() => {
            let message = format!(
                "`{}` is created by this document, so it has no MAC address to copy yet",
                source.value
            );
            found.report(RuleId::B9, source.at, message);
        }
        Some(made) if made.node.get("mac-address").is_some() => {}
        _ if subject.around.current.is_some() => {
            let message = format!("the node has no `{}` to copy a MAC address from", source.value);
            found.report(RuleId::B9, source.at, message);
        }
        _ => {}
    }
}

/// Whether such an interface comes into being with the document.
fn is_made(kind: &InterfaceType) -> bool {
    !matches!(kind, InterfaceType::Ethernet | InterfaceType::InfiniBand | InterfaceType::Unknown)
}

fn check_failover(iface: &Interface<'_>, found: &mut Findings) {
    let Some(bond) = iface.node.get("link-aggregation") else { return };
    let mode = bond.get("mode").and_then(|mode| mode.text());
    let option = bond.get("options").and_then(|options| options.get("fail_over_mac"));
    let follows = option
        .and_then(|option| option.text())
        .is_some_and(|text| matches!(text, "active" | "follow" | "1" | "2"));
    let is_backup = matches!(mode, Some("active-backup" | "1"));
    let sets_mac =
        ["mac-address", "copy-mac-from"].into_iter().find(|key| iface.node.get(key).is_some());
    if let (true, true, Some(key)) = (is_backup, follows, sets_mac) {
        let message = format!("bond `{}` sets `{key}` and `fail_over_mac`", iface.name.value);
        found.report(RuleId::B10, iface.place(key), message);
    }
}
