//! Day-1 documents of br-ex as policies: the configuration that nodes took from MachineConfigs at
//! their first boot is described by policies from then on. A policy is created only if it changes
//! nothing, by the same comparison that the handler makes before it changes a node.

use std::collections::{BTreeMap, BTreeSet};

use br_ex::node_state::{self, NodeState};
use br_ex_day2::NotAdopted;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machine_config::{BR_EX_FOLDER, MachineConfig, Role};
use nmstate::NetworkState;
use nmstate_api::annotations::{ADOPTED, ADOPTED_FROM};
use nmstate_api::condition::{Condition, ConditionStatus};
use nmstate_api::{
    NMStateConditionType, NMStateReason, NodeNetworkConfigurationPolicy, PolicySpec,
};
use serde_json::{Value, json};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ROLE: &str = "node-role.kubernetes.io/";

/// A node, as far as its documents are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// By which a policy selects it.
    hostname: Option<String>,
    role: Option<Role>,
}

impl Node {
    pub fn of(metadata: &ObjectMeta) -> Self {
        let labels = metadata.labels.clone().unwrap_or_default();
        let roles: BTreeSet<&str> =
            labels.keys().filter_map(|label| label.strip_prefix(ROLE)).collect();
        // A node of the control plane is one whatever else it is; a pool of one's own is of
        // workers.
        let role = match roles.contains("master") || roles.contains("control-plane") {
            true => Some("master"),
            false => roles.iter().find(|role| **role != "worker").or(roles.first()).copied(),
        };
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            hostname: labels.get(HOSTNAME).cloned(),
            role: role.and_then(|role| role.parse().ok()),
        }
    }
}

/// The documents in a MachineConfig, or none.
pub fn documents(object: &Value) -> Result<Option<MachineConfig>, String> {
    let text = object.to_string();
    if !text.contains(BR_EX_FOLDER) {
        return Ok(None);
    }
    let read = machine_config::parse_all(&text).map_err(|error| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        format!("the MachineConfig {name} cannot be read: {error}")
    })?;
    let found = read.machine_configs.into_iter().next().map(|mut config| {
        config.files.retain(|file| file.path.is_within(BR_EX_FOLDER));
        config
    });
    Ok(found.filter(|config| !config.files.is_empty()))
}

/// What becomes of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// This policy describes it.
    Adopt(Box<NodeNetworkConfigurationPolicy>),
    /// It did not come from a document.
    NoDocument,
    Refused(String),
}

/// Evaluates a node by its NodeNetworkState and all MachineConfigs that have documents.
pub fn judge(node: &Node, report: &Value, configs: &[MachineConfig]) -> Judgement {
    let state = match node_state::parse(&report.to_string()) {
        Ok(states) => states.into_iter().next(),
        Err(error) => return Judgement::Refused(error.to_string()),
    };
    let Some(state) = state else {
        return Judgement::Refused("it reports no network".to_owned());
    };
    let adoption = match br_ex_day2::adopt(&state, configs, node.role.as_ref()) {
        Ok(adoption) => adoption,
        Err(NotAdopted::NoDocument(_)) => return Judgement::NoDocument,
        Err(NotAdopted::Differs { origin, left, .. }) => {
            return Judgement::Refused(format!("it differs from {origin}: {}", places(&left)));
        }
        Err(NotAdopted::WhichRole { .. }) => {
            return Judgement::Refused("it has no role that would tell its document".to_owned());
        }
        Err(error) => return Judgement::Refused(error.to_string()),
    };
    let Some(hostname) = &node.hostname else {
        return Judgement::Refused(format!("it has no label {HOSTNAME} to select it by"));
    };
    let made = policy(hostname, &adoption);
    let policy = match made {
        Ok(policy) => policy,
        Err(why) => return Judgement::Refused(why),
    };
    match obstacle(&policy.spec, &state) {
        Some(why) => Judgement::Refused(why),
        None => Judgement::Adopt(Box::new(policy)),
    }
}

fn policy(
    hostname: &str,
    adoption: &br_ex_day2::Adoption,
) -> Result<NodeNetworkConfigurationPolicy, String> {
    let mut policy = NodeNetworkConfigurationPolicy::new(&adoption.policy.name);
    policy.spec = serde_json::from_value(json!({
        "nodeSelector": { HOSTNAME: hostname },
        "maxUnavailable": 1,
        "desiredState": adoption.policy.desired,
    }))
    .map_err(|error| error.to_string())?;
    let pair = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    policy.metadata.labels = Some(pair(ADOPTED, "br-ex"));
    policy.metadata.annotations = Some(pair(ADOPTED_FROM, &adoption.origin));
    Ok(policy)
}

/// Why the handler of this node would change anything for the policy, or why it must not be
/// published.
fn obstacle(spec: &PolicySpec, state: &NodeState) -> Option<String> {
    let rendered = match node_policy::render(spec, &BTreeMap::new(), &state.state) {
        Ok(rendered) => rendered,
        Err(error) => return Some(error.to_string()),
    };
    let mut shown = rendered.desired.clone();
    shown.hide_secrets();
    if shown != rendered.desired {
        return Some("its document has a password, and many may read policies".to_owned());
    }
    match node_policy::differs(&rendered.desired, &state.state) {
        Ok(false) => None,
        Ok(true) => Some("its handler would see a difference to its document".to_owned()),
        Err(why) => Some(why),
    }
}

/// Where a state differs, without its values: some are secret, and all are long.
fn places(left: &str) -> String {
    let Ok(left) = NetworkState::new_from_json(left) else { return "it differs".to_owned() };
    let value = serde_json::to_value(&left).unwrap_or_default();
    let mut places: Vec<String> = Vec::new();
    for interface in value["interfaces"].as_array().into_iter().flatten() {
        let name = interface["name"].as_str().unwrap_or_default();
        let keys = interface.as_object().into_iter().flat_map(|it| it.keys());
        let keys: Vec<&str> = keys
            .map(String::as_str)
            .filter(|key| !matches!(*key, "name" | "type" | "state"))
            .collect();
        places.push(format!("{name} ({})", keys.join(", ")));
    }
    let others = value.as_object().into_iter().flatten();
    places.extend(
        others
            .filter(|(key, _)| *key != "interfaces")
            .filter(|(_, value)| {
                !value.is_null() && value.as_array().is_none_or(|it| !it.is_empty())
            })
            .map(|(key, _)| key.clone()),
    );
    format!("{} differ", places.join(", "))
}

/// Whether an existing policy is for this node.
pub fn is_for(
    policy: &NodeNetworkConfigurationPolicy,
    wanted: &NodeNetworkConfigurationPolicy,
) -> bool {
    policy.spec.node_selector == wanted.spec.node_selector
}

/// The progress for all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Nodes whose policy was created, whether it still exists or not.
    pub adopted: usize,
    pub without_document: usize,
    /// Nodes that have not reported their network yet, or were not evaluated yet.
    pub waiting: usize,
    pub refused: BTreeMap<String, String>,
    /// Why no node could be adopted at all.
    pub trouble: Option<String>,
}

impl Progress {
    /// For the `NMState`.
    pub(crate) fn condition(&self) -> Condition {
        const SHOWN: usize = 5;
        let (holds, reason) = match self {
            Self { trouble: Some(_), .. } => (false, NMStateReason::InternalError),
            Self { refused, .. } if !refused.is_empty() => (false, NMStateReason::NodesDiffer),
            Self { waiting: 1.., .. } => (false, NMStateReason::WaitingForNodes),
            _ => (true, NMStateReason::Adopted),
        };
        let mut parts = vec![format!("Policies were made for {}", nodes(self.adopted))];
        parts.extend(self.trouble.iter().map(|why| bounded(why)));
        if self.waiting > 0 {
            parts.push(format!("{} did not report yet", nodes(self.waiting)));
        }
        if self.without_document > 0 {
            parts.push(format!("{} came from no document", nodes(self.without_document)));
        }
        for (name, why) in self.refused.iter().take(SHOWN) {
            parts.push(format!("not for {name}: {}", bounded(why)));
        }
        if self.refused.len() > SHOWN {
            parts.push(format!("nor for {} more", nodes(self.refused.len() - SHOWN)));
        }
        Condition::new(NMStateConditionType::BrExAdopted, ConditionStatus::from(holds))
            .reason(reason)
            .message(parts.join("; "))
    }
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

fn bounded(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "adoption_tests.rs"]
mod tests;
