//! States of nodes: NodeNetworkState objects, lists of them, or what `nmstatectl show` prints.

use located_yaml::{Entry, Keys, Loaded, Node, Position, Value, load};
use machine_identity::short_name;
use nmstate::NetworkState;

use crate::schema;

/// The state of a node.
#[derive(Debug, Clone)]
pub struct NodeState {
    /// The node's name, if the text contains it.
    pub name: Option<String>,
    pub state: NetworkState,
    /// Parts that nmstate does not read and that were left out, each with its line.
    pub notes: Vec<String>,
}

/// Why a text is not a state of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeStateError {
    #[error("line {}, column {}: {problem}", at.line, at.column)]
    Yaml { at: Position, problem: located_yaml::Problem },
    #[error("the {kind} on line {} has no `status.currentState`", at.line)]
    Missing { kind: String, at: Position },
    #[error("expected a NodeNetworkState or the output of `nmstatectl show`, found {0}")]
    Kind(String),
    #[error("line {}: nmstate does not read {what}: {why}", at.line)]
    State { what: String, at: Position, why: String },
}

/// Reads the states of nodes in a text, YAML or JSON.
pub fn parse(text: &str) -> Result<Vec<NodeState>, NodeStateError> {
    let Loaded { root, problems, .. } = load(text, Keys::Exact);
    if let Some(problem) = problems.into_iter().next() {
        return Err(NodeStateError::Yaml { at: problem.at, problem: problem.value });
    }
    let Some(root) = root.filter(|root| !root.is_null()) else {
        return Err(NodeStateError::Kind("an empty file".to_owned()));
    };
    match root.get("kind").and_then(Node::text) {
        Some("NodeNetworkState") => Ok(vec![of_object(&root)?]),
        Some("List" | "NodeNetworkStateList") => {
            let items = root.get("items").map(Node::items).unwrap_or_default();
            items.iter().map(of_object).collect()
        }
        Some(kind) => Err(NodeStateError::Kind(format!("a {kind}"))),
        // A list as a console fetches it has no kind; a state has interfaces.
        None if root.get("items").is_some() => {
            root.get("items").map(Node::items).unwrap_or_default().iter().map(of_object).collect()
        }
        None if root.get("interfaces").is_some() => {
            let (state, notes) = read("the state", &root)?;
            Ok(vec![NodeState { name: None, state, notes }])
        }
        None => Err(NodeStateError::Kind("something without `interfaces`".to_owned())),
    }
}

fn of_object(object: &Node) -> Result<NodeState, NodeStateError> {
    let kind = object.get("kind").and_then(Node::text).unwrap_or("NodeNetworkState");
    let name = object.get("metadata").and_then(|it| it.get("name")).and_then(Node::text);
    let state = object.get("status").and_then(|status| status.get("currentState"));
    let missing = || NodeStateError::Missing { kind: kind.to_owned(), at: object.at };
    let what = format!("the state of node {}", name.unwrap_or("without a name"));
    let (state, notes) = read(&what, state.ok_or_else(missing)?)?;
    Ok(NodeState { name: name.map(str::to_owned), state, notes })
}

/// Reads a state. It was observed, so that a field which this nmstate does not know, of an
/// interface of no importance perhaps, must not hide the rest: it is left out, with a note.
fn read(what: &str, node: &Node) -> Result<(NetworkState, Vec<String>), NodeStateError> {
    let mut notes = Vec::new();
    let mut known = node.clone();
    // A reader of what an administrator writes would refuse these names; nodes of old versions
    // report them.
    if rename_old(&mut known) {
        notes.push(format!(
            "line {}: {what} was reported by nmstate 0.x or 1.x, which calls ports `slaves`",
            node.at.line
        ));
    }
    if NetworkState::new_from_json(&known.to_json().to_string()).is_err() {
        leave_out(&mut known, &mut notes);
    }
    match NetworkState::new_from_json(&known.to_json().to_string()) {
        Ok(state) => Ok((state, notes)),
        Err(error) => {
            let why = error.msg().split_whitespace().collect::<Vec<_>>().join(" ");
            Err(NodeStateError::State { what: what.to_owned(), at: node.at, why })
        }
    }
}

/// Removes every part that nmstate refuses.
fn leave_out(state: &mut Node, notes: &mut Vec<String>) {
    for fault in schema::rest_faults(state) {
        // A state without its interfaces would be another node's.
        if fault.field == "interfaces" {
            return;
        }
        let mut rest = state.clone();
        // The path counts entries without `interfaces`.
        let Value::Map(entries) = &mut rest.value else { continue };
        let is_apart = |entry: &Entry| entry.key == "interfaces" && !entry.value.items().is_empty();
        let place = entries.iter().position(is_apart);
        let interfaces = place.map(|place| entries.remove(place));
        fault.remove_from(&mut rest);
        if let (Value::Map(entries), Some(interfaces)) = (&mut rest.value, interfaces) {
            entries.insert(0, interfaces);
        }
        *state = rest;
        let line = fault.at.line;
        notes.push(format!("line {line}: `{}` is left out: {}", fault.field, fault.message()));
    }
    let Value::Map(entries) = &mut state.value else { return };
    let Some(entry) = entries.iter_mut().find(|entry| entry.key == "interfaces") else { return };
    let Value::List(interfaces) = &mut entry.value.value else { return };
    for iface in interfaces.iter_mut() {
        // A list that was cut off is not a state.
        let Some(name) = iface.get("name").and_then(Node::text).map(str::to_owned) else { return };
        for fault in schema::interface_faults(iface) {
            let (line, field) = (fault.at.line, &fault.field);
            fault.remove_from(iface);
            notes.push(format!(
                "line {line}: `{field}` of interface `{name}` is left out: {}",
                fault.message()
            ));
        }
        if !is_read(iface) {
            notes.push(format!(
                "line {}: of interface `{name}` only addresses, MAC address and MTU are read",
                iface.at.line
            ));
            if let Value::Map(entries) = &mut iface.value {
                entries.retain(|entry| BASIC.contains(&entry.key.as_str()));
            }
        }
    }
    interfaces.retain(is_read);
}

/// What every interface has, whatever its type.
const BASIC: [&str; 7] = ["name", "type", "state", "mac-address", "mtu", "ipv4", "ipv6"];

fn is_read(iface: &Node) -> bool {
    serde_json::from_value::<nmstate::Interface>(iface.to_json()).is_ok()
}

/// Gives ports the name they have today. Whether there was one of another name.
fn rename_old(node: &mut Node) -> bool {
    let mut is_old = false;
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| is_old |= rename_old(item)),
        Value::Map(entries) => {
            for entry in entries {
                if entry.key == "slaves" {
                    entry.key = "port".to_owned();
                    is_old = true;
                }
                is_old |= rename_old(&mut entry.value);
            }
        }
        Value::Scalar { .. } => {}
    }
    is_old
}

/// The state of a host: the one with its name, or the only one, if that one has no name or
/// no host is given.
pub fn of_host<'s>(states: &'s [NodeState], host: Option<&str>) -> Option<&'s NetworkState> {
    match (states, host) {
        ([only], None) => Some(&only.state),
        (_, None) => None,
        (states, Some(host)) => {
            let is_it = |state: &&NodeState| match &state.name {
                Some(name) => short_name(name) == short_name(host),
                None => states.len() == 1,
            };
            states.iter().find(is_it).map(|state| &state.state)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = "\
kind: NodeNetworkState
metadata: {name: node-1.example.com}
status:
  currentState:
    interfaces:
    - {name: eth0, type: ethernet, state: up}
";

    #[test]
    fn objects_lists_and_plain_states_are_read() {
        let names = |text: &str| -> Vec<Option<String>> {
            parse(text).unwrap().into_iter().map(|state| state.name).collect()
        };
        assert_eq!(names(OBJECT), [Some("node-1.example.com".to_owned())]);
        assert_eq!(names("interfaces:\n- {name: eth0, type: ethernet}\n"), [None]);
        let list = "{items: [{metadata: {name: a}, status: {currentState: {interfaces: []}}}]}";
        assert_eq!(names(list), [Some("a".to_owned())]);
    }

    #[test]
    fn a_host_gets_the_state_of_its_short_name() {
        let states = parse(OBJECT).unwrap();
        assert!(of_host(&states, Some("node-1")).is_some());
        assert!(of_host(&states, Some("node-2")).is_none());
        assert!(of_host(&states, None).is_some());
    }

    #[test]
    fn a_document_that_is_not_a_state_is_rejected_by_its_kind() {
        let output = |text: &str| parse(text).unwrap_err().to_string();
        assert!(output("kind: Node\n").ends_with("found a Node"));
        assert!(output("kind: NodeNetworkState\n").contains("has no `status.currentState`"));
        assert!(output("").ends_with("found an empty file"));
        let unknown = output("interfaces: {a: 1}\n");
        assert!(unknown.starts_with("line 1: nmstate does not read the state: "), "{unknown}");
    }

    #[test]
    fn a_field_of_one_interface_that_nmstate_refuses_hides_no_other() {
        let text = "\
interfaces:
- name: eth0
  type: ethernet
  state: up
  mtu: 9000
- name: vxlan_sys_4789
  type: vxlan
  state: down
  vxlan:
    id: 0
    remote: ''
    base-iface: eth0
  capabilities: [a]
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: eth0, next-hop-address: 192.0.2.1, age: 1}
";
        let [node] = parse(text).unwrap().try_into().unwrap();
        assert_eq!(node.state.interfaces.iter().count(), 2);
        let route = node.state.routes.running.as_ref().unwrap();
        assert_eq!(route.len(), 1);
        let starts: Vec<&str> =
            node.notes.iter().map(|note| note.split(" is left out").next().unwrap()).collect();
        assert!(
            starts.contains(&"line 13: `capabilities` of interface `vxlan_sys_4789`"),
            "{starts:?}"
        );
        assert!(starts.contains(&"line 16: `routes.running[0].age`"), "{starts:?}");
    }

    #[test]
    fn a_state_of_an_old_version_is_read_with_a_note_about_its_age() {
        let text = "interfaces:\n- name: bond0\n  type: bond\n  state: up\n  link-aggregation:\n    \
                    mode: active-backup\n    slaves: [eth0, eth1]\n";
        let [node] = parse(text).unwrap().try_into().unwrap();
        assert!(node.notes[0].contains("which calls ports `slaves`"), "{:?}", node.notes);
        let bond = serde_json::to_value(&node.state).unwrap();
        let ports = &bond["interfaces"][0]["link-aggregation"]["port"];
        assert_eq!(ports, &serde_json::json!(["eth0", "eth1"]));
    }
}
