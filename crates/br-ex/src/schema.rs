//! Reads a document as nmstate does, and finds the location of what it rejects.
//!
//! nmstate reports what is wrong, but rarely where. The location is found by leaving out one part after
//! the other: the innermost part without which the error disappears, or becomes another one, is
//! the culprit.

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

/// Reads a policy. Captured values get a placeholder, so that the rest of the state
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
    let mut faults: Vec<Located<String>> = Vec::new();
    for iface in state.get("interfaces").map(Node::items).unwrap_or_default() {
        let name = iface.get("name").and_then(Node::text);
        let of = name.map(|name| format!(" of `{name}`")).unwrap_or_default();
        faults.extend(interface_faults(iface).iter().map(|fault| fault.located(&of)));
    }
    faults.extend(rest_faults(state).iter().map(|fault| fault.located("")));
    if faults.is_empty() {
        // Read piece by piece it is fine; only the text as a whole is not.
        faults.push(Located { at: state.at, value: shortened(whole) });
    }
    for Located { at, value } in faults {
        found.report(RuleId::B34, at, value);
    }
}

/// What nmstate refuses in an interface.
pub(crate) fn interface_faults(iface: &Node) -> Vec<Fault> {
    faults(iface, |json| serde_json::from_value::<Interface>(json).err().map(|it| it.to_string()))
}

/// What nmstate refuses in a state beside its interfaces.
pub(crate) fn rest_faults(state: &Node) -> Vec<Fault> {
    let is_rest = |entry: &&Entry| entry.key != "interfaces" || entry.value.items().is_empty();
    let rest = state.entries().iter().filter(is_rest).cloned().collect();
    let rest = Node { at: state.at, value: Value::Map(rest) };
    faults(&rest, |json| {
        serde_json::from_value::<NetworkState>(json).err().map(|it| it.to_string())
    })
}

/// A part that nmstate refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: Position,
    /// The field, `vlan.id`; empty for the whole.
    pub(crate) field: String,
    /// What is written there, when that is a single value.
    found: Option<String>,
    /// The message of nmstate.
    error: String,
    /// Its path, for its removal.
    path: Vec<Step>,
}

impl Fault {
    /// What is wrong and what to write.
    pub(crate) fn message(&self) -> String {
        let found = self.found.as_deref().map(|it| format!(", found {it:?}")).unwrap_or_default();
        // Texts of the standard library that do not describe the value.
        let expected = match self.error.as_str() {
            "invalid digit found in string" => "expected a whole number",
            "number too large to fit in target type" => "expected a smaller number",
            "number too small to fit in target type" => "expected a larger number",
            "cannot parse integer from empty string" => "expected a number",
            "invalid IP address syntax" => "expected an IP address",
            "provided string was not `true` or `false`" => "expected true or false",
            error => return shortened(error),
        };
        format!("{expected}{found}")
    }

    fn located(&self, of: &str) -> Located<String> {
        let value = match self.field.as_str() {
            "" => self.message(),
            field => format!("`{field}`{of}: {}", self.message()),
        };
        Located { at: self.at, value }
    }

    /// Removes the part from the tree it was found in.
    pub(crate) fn remove_from(&self, node: &mut Node) {
        if let [path @ .., last] = self.path.as_slice() {
            remove(node, path, *last);
        }
    }
}

/// How nmstate's errors about fields that are not there begin.
const MISSING: &str = "missing field";
/// So many faults of one part are reported.
const MAX_FAULTS: usize = 8;

/// The innermost parts that `read` refuses, one after the other.
fn faults(node: &Node, read: impl Fn(Json) -> Option<String>) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    let mut rest = node.clone();
    while let Some(error) = read(rest.to_json()) {
        let fault = culprit(&rest, &error, &read);
        let is_new = !faults.iter().any(|known| known.at == fault.at);
        // What is required and was removed as misspelt is missing now.
        let is_made = !faults.is_empty() && error.starts_with(MISSING);
        if !is_new || is_made || faults.len() == MAX_FAULTS {
            break;
        }
        let is_whole = fault.path.is_empty();
        rest = without(&rest, &fault, &read);
        faults.push(fault);
        if is_whole {
            break;
        }
    }
    faults
}

/// The tree without a fault. A value that is required is replaced by one that is accepted, so that
/// further faults beside it are found.
fn without(whole: &Node, fault: &Fault, read: &impl Fn(Json) -> Option<String>) -> Node {
    let mut removed = whole.clone();
    fault.remove_from(&mut removed);
    let is_required = |error: Option<String>| error.is_some_and(|it| it.starts_with(MISSING));
    if !is_required(read(removed.to_json())) {
        return removed;
    }
    for value in ["1", "192.0.2.1", "2001:db8::1", "true"] {
        let mut replaced = whole.clone();
        replace(&mut replaced, &fault.path, value);
        let next = read(replaced.to_json()).map(|error| culprit(&replaced, &error, read));
        if next.is_none_or(|next| next.at != fault.at) {
            return replaced;
        }
    }
    removed
}

fn replace(node: &mut Node, path: &[Step], text: &str) {
    match (&mut node.value, path) {
        (value, []) => *value = Value::Scalar { text: text.to_owned(), meaning: Meaning::Text },
        (Value::Map(entries), [step, path @ ..]) => replace(&mut entries[*step].value, path, text),
        (Value::List(items), [step, path @ ..]) => replace(&mut items[*step], path, text),
        (Value::Scalar { .. }, _) => {}
    }
}

/// The innermost part that causes an error.
fn culprit(whole: &Node, error: &str, read: &impl Fn(Json) -> Option<String>) -> Fault {
    let mut fault = Fault {
        at: whole.at,
        field: String::new(),
        found: None,
        error: error.to_owned(),
        path: Vec::new(),
    };
    if whole.size() > MAX_SEARCHED {
        return fault;
    }
    let mut part = whole.clone();
    while let Some((step, at, inner)) = guilty_child(whole, &part, &fault, read) {
        fault.at = at;
        fault.path.push(step);
        match part.entries().get(step) {
            Some(entry) if fault.field.is_empty() => fault.field.push_str(&entry.key),
            Some(entry) => fault.field.push_str(&format!(".{}", entry.key)),
            None => fault.field.push_str(&format!("[{step}]")),
        }
        part = inner;
    }
    if let Value::Scalar { text, .. } = &part.value {
        fault.found = Some(text.clone());
    }
    fault
}

/// A step of the path into a part: the number of an entry or item.
type Step = usize;

/// The child without which the error is another one, or none.
fn guilty_child(
    whole: &Node,
    part: &Node,
    so_far: &Fault,
    read: &impl Fn(Json) -> Option<String>,
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
    let key = |step: Step| part.entries().get(step).map(|entry| entry.key.as_str());
    children.sort_by_key(|(step, ..)| matches!(key(*step), Some("type" | "name")));
    let error = so_far.error.as_str();
    let is_guilty = |step: Step| {
        let mut without = whole.clone();
        remove(&mut without, &so_far.path, step);
        match read(without.to_json()) {
            None => true,
            // Of a part that lacks something, what it has is not the fault.
            Some(_) if error.starts_with(MISSING) => false,
            Some(other) => other != error,
        }
    };
    let guilty = children.into_iter().find(|(step, ..)| is_guilty(*step));
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

/// Whether a captured value could be anything, so that no placeholder fits.
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

/// The message of nmstate, without its list of all accepted values.
fn shortened(error: &str) -> String {
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
