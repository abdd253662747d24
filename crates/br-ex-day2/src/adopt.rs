//! Policies for what nodes have already, so that a cluster takes over from the first-boot files.

use br_ex::node_state::NodeState;
use br_ex::{Content, Document};
use machine_config::{BR_EX_FOLDER, MachineConfig, Pool, Role};
use machine_identity::short_name;
use nmstate::NetworkState;
use serde_json::{Value, json};

use crate::cross_check::really_new;
use crate::masquerade::Masquerade;
use crate::policy::{Nodes, Policy};
use crate::state::{Basis, MAIN_TABLE, State, StateError};

/// A node whose network a policy describes without changing anything.
#[derive(Debug, Clone)]
pub struct Adoption {
    pub policy: Policy,
    /// The MachineConfig and the file in it that defined the node's network.
    pub origin: String,
}

/// Why there is no policy for a node.
#[derive(Debug, thiserror::Error)]
pub enum NotAdopted {
    #[error("the state has no name of a node; give a NodeNetworkState object")]
    NoName,
    #[error("no MachineConfig has a document for {0}, and none for all nodes")]
    NoDocument(String),
    #[error(
        "{node} has no document of its own, and several roles have one for all their nodes ({}); \
         give --role",
        roles.join(", ")
    )]
    WhichRole { node: String, roles: Vec<String> },
    #[error("nmstate does not read {origin}; see `oc-brex check`")]
    Unread { origin: String },
    #[error("{origin} cannot be evaluated on {node}: {why}")]
    Captures { origin: String, node: String, why: String },
    #[error(
        "{node} differs from {origin}, so that a policy created from it would change the node: {left}"
    )]
    Differs { node: String, origin: String, left: String },
    #[error("nmstate cannot compare {origin} with {node}: {why}")]
    Incomparable { node: String, origin: String, why: String },
    #[error(transparent)]
    State(#[from] StateError),
}

/// The policy for a node, proved to change nothing there. `role` is that of nodes without
/// their own document.
pub fn adopt(
    node: &NodeState,
    configs: &[MachineConfig],
    role: Option<&Role>,
) -> Result<Adoption, NotAdopted> {
    let name = node.name.clone().ok_or(NotAdopted::NoName)?;
    let (origin, bytes) = document_of(&name, configs, role)?;
    adopt_document(node, &origin, &bytes)
}

/// The same for the document that the node is known to select; `origin` names it in messages.
pub fn adopt_document(
    node: &NodeState,
    origin: &str,
    bytes: &[u8],
) -> Result<Adoption, NotAdopted> {
    let name = node.name.clone().ok_or(NotAdopted::NoName)?;
    let origin = origin.to_owned();
    let state = State::new(&node.state, Basis::Node)?;
    let mut desired = concrete(&name, &origin, bytes, &node.state)?;
    name_tables(&mut desired);
    let masquerade = Masquerade::of_node(&state);
    let policy = Policy::new(Nodes::One(name.clone()), desired, &masquerade);
    let incomparable =
        |why: String| NotAdopted::Incomparable { node: name.clone(), origin: origin.clone(), why };
    let wanted = NetworkState::new_from_json(&policy.desired.to_string())
        .map_err(|error| incomparable(error.msg().to_owned()))?;
    let left = really_new(&wanted, &node.state).map_err(incomparable)?;
    if left.is_null() {
        Ok(Adoption { policy, origin })
    } else {
        Err(NotAdopted::Differs { node: name, origin, left: left.to_string() })
    }
}

/// Writes out the table of routes that name none: nodes report it, and nmstate compares it.
pub(super) fn name_tables(desired: &mut Value) {
    let routes = desired.pointer_mut("/routes/config").and_then(Value::as_array_mut);
    for route in routes.into_iter().flatten().filter_map(Value::as_object_mut) {
        route.entry("table-id").or_insert(json!(MAIN_TABLE));
    }
}

/// The file that the node used at its first boot.
fn document_of(
    node: &str,
    configs: &[MachineConfig],
    role: Option<&Role>,
) -> Result<(String, Vec<u8>), NotAdopted> {
    let short = short_name(node);
    let mut roles: Vec<Role> = configs.iter().filter_map(|config| config.role.clone()).collect();
    roles.sort();
    roles.dedup();
    let find = |role: &Role, stem: &str| {
        let files = Pool::new(role, configs).files();
        ["yml", "yaml"].iter().find_map(|ending| {
            let path = format!("{BR_EX_FOLDER}/{stem}.{ending}");
            let (_, rendered) = files.iter().find(|(of, _)| of.as_str() == path)?;
            let origin = format!("{path} of {}", rendered.from);
            Some((origin, rendered.file.contents.bytes().to_owned()))
        })
    };
    // Where a name is in several pools, the pool of one's own is the node's.
    let custom_first = |role: &&Role| !role.is_custom();
    let mut ordered: Vec<&Role> = roles.iter().collect();
    ordered.sort_by_key(custom_first);
    if let Some(own) = ordered.iter().find_map(|role| find(role, short)) {
        return Ok(own);
    }
    let for_all: Vec<&Role> = roles.iter().filter(|role| find(role, "cluster").is_some()).collect();
    match (role, for_all.as_slice()) {
        (Some(role), _) => find(role, "cluster"),
        (None, [only]) => find(only, "cluster"),
        (None, []) => None,
        (None, several) => {
            let roles = several.iter().map(ToString::to_string).collect();
            return Err(NotAdopted::WhichRole { node: node.to_owned(), roles });
        }
    }
    .ok_or_else(|| NotAdopted::NoDocument(node.to_owned()))
}

/// The document with nothing left to choose.
fn concrete(
    node: &str,
    origin: &str,
    bytes: &[u8],
    current: &NetworkState,
) -> Result<Value, NotAdopted> {
    let unread = || NotAdopted::Unread { origin: origin.to_owned() };
    let document = Document::parse(bytes);
    match document.content().ok_or_else(unread)? {
        Content::State(_) => {
            Ok(document.state_node().map(located_yaml::Node::to_json).unwrap_or_default())
        }
        Content::Policy(policy) => {
            let captured = policy.capture.execute(current);
            let filled = captured.and_then(|it| policy.desired.fill_with_captured_data(&it));
            let state = filled.map_err(|error| NotAdopted::Captures {
                origin: origin.to_owned(),
                node: node.to_owned(),
                why: error.msg().to_owned(),
            })?;
            serde_json::to_value(state).map_err(|_| unread())
        }
    }
}
