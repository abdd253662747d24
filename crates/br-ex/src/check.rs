//! Checks a document against all rules.

mod address;
mod bond;
mod bridge;
mod cluster_facts;
mod mac;
mod method;
mod mtu;
mod names;
mod policy;
mod route;
mod secrets;
mod uplink;
mod values;
mod verdict;

use crate::cluster_facts::ClusterFacts;
use crate::document::{Content, Document, Form};
use crate::finding::{Finding, Findings};
use crate::layout::Layout;
use crate::uplink::UplinkPorts;

/// What the rules check.
struct Subject<'a> {
    form: Form,
    layout: &'a Layout<'a>,
    uplink: UplinkPorts<'a>,
    around: &'a ClusterFacts,
}

/// Rules on what a document describes, whatever it is for.
const GENERAL: [fn(&Subject<'_>, &mut Findings); 10] = [
    values::check,
    names::check,
    bond::check,
    secrets::check,
    cluster_facts::check_version,
    bridge::check_database,
    mac::check_interfaces,
    mtu::check_links,
    route::check_gateways,
    method::check_autoconf,
];

/// Rules on br-ex itself.
const BR_EX: [fn(&Subject<'_>, &mut Findings); 8] = [
    bridge::check,
    uplink::check,
    mac::check,
    method::check,
    address::check,
    route::check,
    mtu::check,
    cluster_facts::check_platform,
];

/// Everything wrong with a document, in the order of its text.
pub fn check(document: &Document, around: &ClusterFacts) -> Vec<Finding> {
    let mut found = Findings::default();
    for finding in document.findings() {
        found.report_as(finding.severity, finding.rule, finding.at, finding.message.clone());
    }
    // What nmstate cannot read and has no interfaces is something else altogether.
    let is_document = |layout: &Layout<'_>| {
        document.content().is_some() || layout.node.entry("interfaces").is_some()
    };
    if let Some(layout) = document.layout().filter(is_document) {
        check_layout(&layout, document.form(), around, &mut found);
    }
    match document.content() {
        Some(Content::State(state)) if !found.has_errors() => {
            verdict::check(document, state, around, &mut found);
        }
        Some(Content::Policy(policy)) => policy::check(document, policy, around, &mut found),
        Some(Content::State(_)) | None => {}
    }
    found.into_sorted()
}

fn check_layout(layout: &Layout<'_>, form: Form, around: &ClusterFacts, found: &mut Findings) {
    let uplink = layout.bridge().map(|bridge| UplinkPorts::of(bridge, layout)).unwrap_or_default();
    let subject = Subject { form, layout, uplink, around };
    for check in GENERAL {
        check(&subject, found);
    }
    if !form.may_lack_br_ex() || layout.mentions_br_ex() {
        for check in BR_EX {
            check(&subject, found);
        }
    }
}
