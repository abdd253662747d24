//! B35: what captures find, and whether the resulting state satisfies the rules.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use diagnostic::Severity;
use located_yaml::{Node, Value};
use nmstate::{NetworkPolicy, NetworkState, NmstateError};
use serde_json::Value as Json;

use super::verdict;
use crate::cluster_facts::ClusterFacts;
use crate::document::Document;
use crate::finding::Findings;
use crate::rule::RuleId;

/// Without a node's state nothing can be captured, and nothing is reported.
pub(super) fn check(
    document: &Document,
    policy: &NetworkPolicy,
    around: &ClusterFacts,
    found: &mut Findings,
) {
    let Some(current) = &around.current else { return };
    let captured = match execute(document, policy, current, found) {
        Some(captured) => captured,
        None => return,
    };
    check_numbers(document, &captured, found);
    let filled = policy.desired.fill_with_captured_data(&captured);
    match filled {
        Ok(state) if !found.has_errors() => check_filled(document, &state, around, found),
        Ok(_) => {}
        Err(error) => {
            let at =
                document.state_node().map(|node| node.at).unwrap_or(document.capture_place(""));
            found.report_as(Severity::Error, RuleId::B35, at, message_of(&error));
        }
    }
}

fn execute(
    document: &Document,
    policy: &NetworkPolicy,
    current: &NetworkState,
    found: &mut Findings,
) -> Option<HashMap<String, NetworkState>> {
    match policy.capture.execute(current) {
        Ok(captured) => Some(captured),
        Err(error) => {
            // The error quotes the capture it is about.
            let quoted = |capture: &str| {
                policy.capture.cmds.iter().any(|(name, command)| {
                    let text = serde_json::to_value(command).ok();
                    name == capture
                        && text.and_then(|it| Some(it.as_str()? == error.line())) == Some(true)
                })
            };
            let named = policy.capture.cmds.iter().map(|(name, _)| name).find(|name| quoted(name));
            let at = document.capture_place(named.map_or("", String::as_str));
            found.report_as(Severity::Error, RuleId::B35, at, message_of(&error));
            None
        }
    }
}

fn message_of(error: &NmstateError) -> String {
    let message = error.msg().split_whitespace().collect::<Vec<_>>().join(" ");
    match error.line() {
        "" => message,
        line => format!("{message} (in `{line}`)"),
    }
}

/// Warns where the first of several things is taken, and fails where there is none.
fn check_numbers(
    document: &Document,
    captured: &HashMap<String, NetworkState>,
    found: &mut Findings,
) {
    let Some(state) = document.state_node() else { return };
    let captured: BTreeMap<&str, Json> = captured
        .iter()
        .filter_map(|(name, state)| Some((name.as_str(), serde_json::to_value(state).ok()?)))
        .collect();
    let of_captures = document.captures().flat_map(|entry| entry.value.text().and_then(reference));
    for (capture, path) in references(state).into_iter().chain(of_captures).collect::<BTreeSet<_>>()
    {
        let Some(all) = captured.get(capture.as_str()) else { continue };
        let list = path.iter().try_fold(all, |inner, key| inner.get(key));
        let number = list.and_then(Json::as_array).map_or(0, Vec::len);
        let what = path.join(".");
        let at = document.capture_place(&capture);
        match number {
            0 => {
                let message = format!("capture `{capture}` finds no {what} on this node");
                found.report_as(Severity::Error, RuleId::B35, at, message);
            }
            1 => {}
            _ => {
                let names = named(list);
                let message = format!(
                    "capture `{capture}` finds {number} {what} ({names}), and the first is used"
                );
                found.report(RuleId::B35, at, message);
            }
        }
    }
}

/// The items of a list, abbreviated.
fn named(list: Option<&Json>) -> String {
    let name = |item: &Json| {
        let key =
            ["name", "next-hop-interface", "destination"].iter().find_map(|key| item.get(key));
        key.and_then(Json::as_str).unwrap_or("?").to_owned()
    };
    let items = list.and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Captures of which the first item is taken, in templates and in other captures: `capture.nic.interfaces.0.name`
/// is `nic` and `[interfaces]`.
fn references(node: &Node) -> BTreeSet<(String, Vec<String>)> {
    let mut all = BTreeSet::new();
    let mut waiting = vec![node];
    while let Some(node) = waiting.pop() {
        match &node.value {
            Value::List(items) => waiting.extend(items),
            Value::Map(entries) => waiting.extend(entries.iter().map(|entry| &entry.value)),
            Value::Scalar { text, .. } => all.extend(reference(text)),
        }
    }
    all
}

fn reference(text: &str) -> Option<(String, Vec<String>)> {
    let start = text.rfind("capture.")? + "capture.".len();
    let is_end = |c: char| c.is_whitespace() || matches!(c, '}' | '=' | '|' | ':');
    let path = text[start..].split(is_end).next().unwrap_or_default();
    let mut steps = path.split('.');
    let capture = steps.next()?.to_owned();
    let steps: Vec<&str> = steps.collect();
    let first = steps.iter().position(|step| *step == "0")?;
    Some((capture, steps[..first].iter().map(ToString::to_string).collect()))
}

/// Checks what the node would apply. Its places are those of no text, so what is
/// found is reported at the start of the desired state.
fn check_filled(
    document: &Document,
    state: &NetworkState,
    around: &ClusterFacts,
    found: &mut Findings,
) {
    let Some(start) = document.state_node().map(|node| node.at) else { return };
    let Ok(text) = serde_json::to_string(state) else { return };
    let filled = Document::parse(text.as_bytes());
    let mut inner = Findings::default();
    if let Some(layout) = filled.layout() {
        super::check_layout(&layout, document.form(), around, &mut inner);
    }
    if !inner.has_errors() {
        verdict::check(&filled, state, around, &mut inner);
    }
    for finding in inner.into_sorted() {
        // Findings in the text itself were reported with their location.
        if finding.severity == Severity::Error {
            let message = format!("as filled in on this node: {}", finding.message);
            found.report_as(finding.severity, finding.rule, start, message);
        }
    }
}
