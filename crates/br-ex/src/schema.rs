//! Reading a document as nmstate does, and finding the place of what it refuses.
//!
//! nmstate says what it does not like, seldom where. The place is found by leaving
//! out one part after the other: the part without which the rest is accepted
//! is the culprit.

use std::collections::BTreeMap;

use located_yaml::{Entry, Located, Meaning, Node, Position, Value};
use nmstate::{Interface, NetworkPolicy, NetworkState};
use serde_json::{Value as Json, json};

use crate::document::Content;
use crate::finding::Findings;
use crate::layout::is_captured;
use crate::rule::RuleId;

/// The largest part that is searched for a culprit. Larger ones are reported as a whole.
const MAX_SEARCHED: usize = 2_000;

/// Reads a state: from the text as a node would, or from the tree when it is part
/// of another document.
pub(crate) fn read_state(
    node: &Node,
    text: Option<&str>,
    found: &mut Findings,
) -> Option<NetworkState> {
    // Nodes turn non-breaking spaces into spaces before they read.
    let read = match text {
        Some(text) => NetworkState::new_from_yaml(&text.replace('\u{a0}', " ")),
        None => NetworkState::new_from_json(&node.to_json().to_string()),
    };
    match read {
        Ok(state) => Some(state),
        Err(error) => {
            report(node, error.msg(), found);
            None
        }
    }
}

/// Reads a policy. What is captured gets a stand-in, so that the rest of the state
/// is read as strictly as in a document without captures.
pub(crate) fn read_policy(
    state: &Node,
    capture: Option<&Node>,
    found: &mut Findings,
) -> Option<Content> {
    let mut stand_ins = StandIns::default();
    let stood_in = stand_ins.node(state);
    let mut is_good = true;
    if let Err(error) = serde_json::from_value::<NetworkState>(stood_in.to_json()) {
        report(&stood_in, &error.to_string(), found);
        is_good = false;
    }
    for entry in capture.map(Node::entries).unwrap_or_default() {
        let one = json!({"capture": {entry.key.as_str(): entry.value.to_json()}});
        if let Err(error) = serde_json::from_value::<NetworkPolicy>(one) {
            let message = format!("capture `{}`: {error}", entry.key);
            found.report(RuleId::B34, entry.value.at, one_line(&message));
            is_good = false;
        }
    }
    if !is_good {
        return None;
    }
    let capture = capture.map_or_else(|| json!({}), Node::to_json);
    let policy = json!({"capture": capture, "desiredState": state.to_json()});
    match serde_json::from_value(policy) {
        Ok(policy) => Some(Content::Policy(Box::new(policy))),
        Err(error) => {
            found.report(RuleId::B34, state.at, one_line(&error.to_string()));
            None
        }
    }
}

/// Reports what nmstate refuses: each interface by itself, then the rest.
fn report(state: &Node, whole: &str, found: &mut Findings) {
    let mut parts = Vec::new();
    for iface in state.get("interfaces").map(Node::items).unwrap_or_default() {
        parts.extend(culprit(iface, |json| serde_json::from_value::<Interface>(json).err()));
    }
    let is_rest = |entry: &&Entry| entry.key != "interfaces" || entry.value.items().is_empty();
    let rest = state.entries().iter().filter(is_rest).cloned().collect();
    let rest = Node { at: state.at, value: Value::Map(rest) };
    parts.extend(culprit(&rest, |json| serde_json::from_value::<NetworkState>(json).err()));
    if parts.is_empty() {
        // Read piece by piece it is fine; only the text as a whole is not.
        parts.push(Located { at: state.at, value: whole.to_owned() });
    }
    for Located { at, value } in parts {
        found.report(RuleId::B34, at, said(&value));
    }
}

/// The innermost part without which `read` accepts `node`, and what it says with it.
fn culprit<E: ToString>(node: &Node, read: impl Fn(Json) -> Option<E>) -> Option<Located<String>> {
    let error = read(node.to_json())?.to_string();
    let mut at = node.at;
    if node.size() <= MAX_SEARCHED {
        let (mut part, mut path) = (node.clone(), Vec::new());
        while let Some((step, place, inner)) = guilty_child(node, &part, &path, &read) {
            at = place;
            path.push(step);
            part = inner;
        }
    }
    Some(Located { at, value: error })
}

/// The way into a part: the number of an entry or item.
type Step = usize;

fn guilty_child<E>(
    whole: &Node,
    part: &Node,
    path: &[Step],
    read: &impl Fn(Json) -> Option<E>,
) -> Option<(Step, Position, Node)> {
    let mut children: Vec<(Step, Position, &Node)> = match &part.value {
        Value::Map(entries) => {
            entries.iter().enumerate().map(|(step, e)| (step, e.at, &e.value)).collect()
        }
        Value::List(items) => {
            items.iter().enumerate().map(|(step, item)| (step, item.at, item)).collect()
        }
        Value::Scalar { .. } => Vec::new(),
    };
    // Without a type everything is accepted, so it is suspected last.
    let says_type = |step: Step| {
        part.entries().get(step).is_some_and(|entry| matches!(entry.key.as_str(), "type" | "name"))
    };
    children.sort_by_key(|(step, ..)| says_type(*step));
    let guilty = children.into_iter().find(|(step, ..)| {
        let mut without = whole.clone();
        remove(&mut without, path, *step);
        read(without.to_json()).is_none()
    });
    guilty.map(|(step, at, node)| (step, at, node.clone()))
}

fn remove(node: &mut Node, path: &[Step], last: Step) {
    match (&mut node.value, path) {
        (Value::Map(entries), []) => drop(entries.remove(last)),
        (Value::List(items), []) => drop(items.remove(last)),
        (Value::Map(entries), [step, path @ ..]) => remove(&mut entries[*step].value, path, last),
        (Value::List(items), [step, path @ ..]) => remove(&mut items[*step], path, last),
        (Value::Scalar { .. }, _) => {}
    }
}

/// Texts for what is captured: the same for the same capture.
#[derive(Default)]
struct StandIns(BTreeMap<String, String>);

impl StandIns {
    fn node(&mut self, node: &Node) -> Node {
        let value = match &node.value {
            Value::List(items) => Value::List(items.iter().map(|item| self.node(item)).collect()),
            Value::Map(entries) => {
                let kept = entries.iter().filter(|entry| !is_left_out(entry));
                let entry =
                    |entry: &Entry| Entry { value: self.node(&entry.value), ..entry.clone() };
                Value::Map(kept.map(entry).collect())
            }
            Value::Scalar { text, .. } if is_captured(node) => {
                let number = self.0.len();
                let stand_in = self.0.entry(text.clone()).or_insert(format!("captured{number}"));
                Value::Scalar { text: stand_in.clone(), meaning: Meaning::Text }
            }
            scalar => scalar.clone(),
        };
        Node { at: node.at, value }
    }
}

/// Whether a captured value could be anything, so that no stand-in fits.
fn is_left_out(entry: &Entry) -> bool {
    const NAMES: [&str; 7] = [
        "name",
        "base-iface",
        "copy-mac-from",
        "next-hop-interface",
        "peer",
        "controller",
        "description",
    ];
    is_captured(&entry.value) && !NAMES.contains(&entry.key.as_str())
}

/// What nmstate said, without a list of everything it would have taken.
fn said(error: &str) -> String {
    let error = one_line(error);
    let Some((head, expected)) = error.split_once(", expected one of ") else { return error };
    let unknown = head.split('`').nth(1).unwrap_or_default();
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(unknown, known), *known))
        .filter(|(distance, _)| *distance <= (unknown.chars().count() / 3).max(1))
        .collect();
    near.sort_unstable();
    match near.first() {
        Some((_, nearest)) => format!("{head}; did you mean `{nearest}`?"),
        None if known.len() <= 12 => format!("{head}; known are {}", known.join(", ")),
        None => head.to_owned(),
    }
}

fn one_line(text: &str) -> String {
    let trimmed = text.trim_start_matches("Invalid YAML string: ");
    trimmed.split_whitespace().collect::<Vec<_>>().join(" ")
}
