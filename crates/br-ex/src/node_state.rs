//! States of nodes: NodeNetworkState objects, lists of them, or what `nmstatectl show` prints.

use located_yaml::{Keys, Loaded, Node, Position, load};
use nmstate::NetworkState;

/// The state of a node.
#[derive(Debug, Clone)]
pub struct NodeState {
    /// The node's name, where the text says it.
    pub name: Option<String>,
    pub state: NetworkState,
}

/// Why a text is no state of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeStateError {
    #[error("line {}, column {}: {problem}", at.line, at.column)]
    Yaml { at: Position, problem: located_yaml::Problem },
    #[error("the {kind} on line {} has no `status.currentState`", at.line)]
    Missing { kind: String, at: Position },
    #[error("a NodeNetworkState or the output of `nmstatectl show` is due, but this is {0}")]
    Kind(String),
    #[error("nmstate does not read {what}: {why}")]
    State { what: String, why: String },
}

/// Reads the states of nodes in a text, YAML or JSON.
pub fn parse(text: &str) -> Result<Vec<NodeState>, NodeStateError> {
    let Loaded { root, problems, .. } = load(text, Keys::Exact);
    if let Some(problem) = problems.into_iter().next() {
        return Err(NodeStateError::Yaml { at: problem.at, problem: problem.value });
    }
    let Some(root) = root.filter(|root| !root.is_null()) else {
        return Err(NodeStateError::Kind("empty".to_owned()));
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
            Ok(vec![NodeState { name: None, state: read("the state", &root)? }])
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
    let state = read(&what, state.ok_or_else(missing)?)?;
    Ok(NodeState { name: name.map(str::to_owned), state })
}

fn read(what: &str, node: &Node) -> Result<NetworkState, NodeStateError> {
    NetworkState::new_from_json(&node.to_json().to_string()).map_err(|error| {
        let why = error.msg().split_whitespace().collect::<Vec<_>>().join(" ");
        NodeStateError::State { what: what.to_owned(), why }
    })
}

/// The state that is meant for a host: the one of its name, or the only one, when that
/// does not say whose it is or nothing else is asked for.
pub fn of_host<'s>(states: &'s [NodeState], host: Option<&str>) -> Option<&'s NetworkState> {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    match (states, host) {
        ([only], None) => Some(&only.state),
        (_, None) => None,
        (states, Some(host)) => {
            let is_it = |state: &&NodeState| match &state.name {
                Some(name) => short(name) == short(host),
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
    fn what_is_no_state_is_refused_by_its_kind() {
        let said = |text: &str| parse(text).unwrap_err().to_string();
        assert!(said("kind: Node\n").ends_with("but this is a Node"));
        assert!(said("kind: NodeNetworkState\n").contains("has no `status.currentState`"));
        assert!(said("").ends_with("but this is empty"));
        let unknown = said("interfaces:\n- {name: a, type: ethernet, mtuu: 1}\n");
        assert!(unknown.starts_with("nmstate does not read the state: "), "{unknown}");
        assert!(unknown.contains("mtuu"), "{unknown}");
    }
}
