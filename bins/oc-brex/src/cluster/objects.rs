//! The objects of a cluster that concern br-ex, as typed values. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result, bail};
use br_ex::Platform;
use br_ex::day2::Nodes;
use br_ex::inventory::short_name;
use br_ex::node_state::{self, NodeState};
use first_boot::summary::ANNOTATION;
use first_boot::{Candidate, Choice, Mac, Machine, ShortName, Summary, choose};
use machine_config::{BR_EX_FOLDER, MachineConfig, Pool, Role};
use serde_json::{Value, json};

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Nodes,
    MachineConfigs,
    NodeStates,
    Policies,
    Enactments,
    Networks,
    Infrastructures,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Nodes,
        Self::MachineConfigs,
        Self::NodeStates,
        Self::Policies,
        Self::Enactments,
        Self::Networks,
        Self::Infrastructures,
    ];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Nodes => "/api/v1/nodes",
            Self::MachineConfigs => "/apis/machineconfiguration.openshift.io/v1/machineconfigs",
            Self::NodeStates => "/apis/nmstate.io/v1beta1/nodenetworkstates",
            Self::Policies => "/apis/nmstate.io/v1/nodenetworkconfigurationpolicies",
            Self::Enactments => "/apis/nmstate.io/v1beta1/nodenetworkconfigurationenactments",
            Self::Networks => "/apis/config.openshift.io/v1/networks",
            Self::Infrastructures => "/apis/config.openshift.io/v1/infrastructures",
        }
    }

    /// Rendered MachineConfigs repeat the others and are large.
    pub(crate) fn is_of_interest(self, object: &Value) -> bool {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self != Self::MachineConfigs || !name.starts_with("rendered-")
    }

    /// What is unknown without it.
    fn consequence(self) -> &'static str {
        match self {
            Self::Nodes => "nothing is known about nodes",
            Self::MachineConfigs => "documents of the nodes are unknown",
            Self::NodeStates => "the current network of nodes is unknown, and so is drift",
            Self::Policies | Self::Enactments => "policies of the nodes are unknown",
            Self::Networks => "the MTU of the cluster network is unknown",
            Self::Infrastructures => "the platform is unknown",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path().rsplit('/').next().unwrap_or_default())
    }
}

/// A node of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct ClusterNode {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) is_ready: bool,
    /// What brex-report wrote; an error if it cannot be read.
    pub(crate) first_boot: Option<Result<Summary, String>>,
}

/// A policy that configures br-ex.
#[derive(Debug, Clone)]
pub(crate) struct ClusterPolicy {
    pub(crate) name: String,
    selector: BTreeMap<String, String>,
}

/// What became of a policy on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Enactment {
    pub(crate) policy: String,
    pub(crate) node: String,
    /// Available, Failing, Progressing, Pending or Aborted.
    pub(crate) condition: String,
    pub(crate) message: String,
}

/// Everything that was read.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) nodes: Vec<ClusterNode>,
    pub(crate) machine_configs: Vec<MachineConfig>,
    pub(crate) states: BTreeMap<String, NodeState>,
    pub(crate) policies: Vec<ClusterPolicy>,
    pub(crate) enactments: Vec<Enactment>,
    pub(crate) cluster_mtu: Option<u32>,
    pub(crate) platform: Option<Platform>,
    /// What could not be read, and what is unknown because of it.
    pub(crate) notes: Vec<String>,
    absent: BTreeSet<&'static str>,
}

impl Objects {
    pub(crate) fn note_absent(&mut self, kind: Kind) {
        self.absent.insert(kind.path());
        self.notes.push(format!("the cluster has no {kind}: {}", kind.consequence()));
    }

    pub(crate) fn note_forbidden(&mut self, kind: Kind, message: &str) {
        self.absent.insert(kind.path());
        self.notes.push(format!(
            "{kind} cannot be listed ({message}): {}; the ClusterRole in \
             examples/brex-cluster-reader.yaml has the necessary rights",
            kind.consequence()
        ));
    }

    /// Whether a kind was read.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        !self.absent.contains(kind.path())
    }

    pub(crate) fn add(&mut self, kind: Kind, items: Vec<Value>) -> Result<()> {
        match kind {
            Kind::Nodes => self.nodes = items.iter().map(node).collect(),
            Kind::MachineConfigs => {
                let text = list(&items);
                let read = machine_config::parse_all(&text).context("reading machineconfigs")?;
                let with_role = read.machine_configs.into_iter().filter(|it| it.role.is_some());
                self.machine_configs = with_role.collect();
            }
            Kind::NodeStates => {
                for item in items {
                    self.add_state(item);
                }
            }
            Kind::Policies => self.policies = items.iter().filter_map(policy).collect(),
            Kind::Enactments => self.enactments = items.iter().filter_map(enactment).collect(),
            Kind::Networks => {
                let mtu = items.first().and_then(|it| it["status"]["clusterNetworkMTU"].as_u64());
                self.cluster_mtu = mtu.and_then(|mtu| mtu.try_into().ok());
            }
            Kind::Infrastructures => {
                let status = items.first().map(|it| &it["status"]["platformStatus"]["type"]);
                let name = status.and_then(Value::as_str);
                self.platform = name.and_then(|name| name.parse().ok());
            }
        }
        Ok(())
    }

    /// A state that cannot be read must not hide those of other nodes.
    fn add_state(&mut self, item: Value) {
        let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match node_state::parse(&list(&[item])) {
            Ok(states) => {
                for state in states {
                    self.states.insert(name.clone(), state);
                }
            }
            Err(error) => self.notes.push(format!("the state of node {name} is left out: {error}")),
        }
    }

    /// Takes the network that a node reported, by its name or its short name.
    pub(crate) fn take_state(&mut self, node: &str) -> Result<NodeState> {
        let of_short = |name: &&String| short_name(name) == node;
        let found = match self.states.contains_key(node) {
            true => vec![node.to_owned()],
            false => self.states.keys().filter(of_short).cloned().collect(),
        };
        let known = || self.states.keys().cloned().collect::<Vec<_>>().join(", ");
        match found.as_slice() {
            [name] => self.states.remove(name).context("it was there"),
            [] if self.states.is_empty() => bail!(
                "node {node}: the cluster has no NodeNetworkStates; install the NMState operator, \
                 or use a file with the output of `nmstatectl show` of the node"
            ),
            [] => bail!("node {node}: the cluster has NodeNetworkStates of {}", known()),
            several => bail!("node {node}: expected one node, found {}", several.join(", ")),
        }
    }

    /// The documents of a node's pool, and the one that the node selects.
    pub(crate) fn document(&self, node: &ClusterNode) -> Selected {
        let Some(role) = self.role(node) else { return Selected::default() };
        let pool = Pool::new(&role, &self.machine_configs);
        let candidates: Vec<Candidate> = pool
            .files()
            .into_iter()
            .filter(|(path, _)| path.is_within(BR_EX_FOLDER))
            .filter_map(|(path, rendered)| {
                Candidate::new(path.file_name(), rendered.file.contents.bytes().to_vec())
            })
            .collect();
        let machine = self.machine(node);
        match choose(&machine, &candidates) {
            Ok(choice) => Selected {
                document: choice.map(|Choice { document, .. }| document.clone()),
                problem: None,
            },
            Err(error) => Selected { document: None, problem: Some(error.to_string()) },
        }
    }

    fn machine(&self, node: &ClusterNode) -> Machine {
        let state = self.states.get(&node.name).map(|state| &state.state);
        let macs = state.into_iter().flat_map(|state| state.interfaces.iter()).filter_map(|it| {
            let base = it.base_iface();
            let mac = base.permanent_mac_address.as_ref().or(base.mac_address.as_ref())?;
            mac.parse::<Mac>().ok()
        });
        Machine { name: ShortName::of(&node.name), macs: macs.collect(), serial: None }
    }

    /// The pool of a node: one of its own role before the worker's and master's.
    pub(crate) fn role(&self, node: &ClusterNode) -> Option<Role> {
        let roles: Vec<Role> = node
            .labels
            .keys()
            .filter_map(|label| label.strip_prefix("node-role.kubernetes.io/"))
            .filter_map(|name| name.parse().ok())
            .collect();
        let has_configs =
            |role: &Role| self.machine_configs.iter().any(|it| it.role.as_ref() == Some(role));
        let is_master = |role: &Role| *role == Role::master() || role.as_str() == "control-plane";
        if roles.iter().any(is_master) {
            return Some(Role::master());
        }
        let own = roles.iter().find(|role| role.is_custom() && has_configs(role));
        own.cloned().or_else(|| roles.contains(&Role::worker()).then(Role::worker))
    }

    /// Policies for br-ex that select a node, with what became of them.
    pub(crate) fn policies_of(
        &self,
        node: &ClusterNode,
    ) -> Vec<(&ClusterPolicy, Option<&Enactment>)> {
        let selects = |policy: &&ClusterPolicy| {
            policy.selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        };
        let with_enactment = |policy| {
            let of_node =
                |it: &&Enactment| it.node == node.name && it.policy == policy_name(policy);
            (policy, self.enactments.iter().find(of_node))
        };
        self.policies.iter().filter(selects).map(with_enactment).collect()
    }

    /// How a policy selects this node.
    pub(crate) fn selector(node: &ClusterNode) -> Nodes {
        Nodes::One(node.name.clone())
    }
}

fn policy_name(policy: &ClusterPolicy) -> &str {
    &policy.name
}

/// The document that a node selects.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(crate) document: Option<Candidate>,
    /// Why none could be selected.
    pub(crate) problem: Option<String>,
}

fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn map(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.clone(), text(value))).collect()
}

/// The condition of this type that is true.
fn is_true(conditions: &Value, kind: &str) -> bool {
    let mut all = conditions.as_array().into_iter().flatten();
    all.any(|it| it["type"] == kind && it["status"] == "True")
}

/// A Node, from a list or from a file.
pub(crate) fn node(object: &Value) -> ClusterNode {
    let metadata = &object["metadata"];
    let annotation = metadata["annotations"][ANNOTATION].as_str();
    ClusterNode {
        name: text(&metadata["name"]),
        labels: map(&metadata["labels"]),
        is_ready: is_true(&object["status"]["conditions"], "Ready"),
        first_boot: annotation.map(|text| match serde_json::from_str::<Summary>(text) {
            Ok(summary) if summary.version == Summary::VERSION => Ok(summary),
            Ok(summary) => {
                Err(format!("expected version {}, found {}", Summary::VERSION, summary.version))
            }
            Err(error) => Err(error.to_string()),
        }),
    }
}

fn policy(object: &Value) -> Option<ClusterPolicy> {
    let interfaces = object["spec"]["desiredState"]["interfaces"].as_array();
    let is_br_ex = |it: &Value| it["name"] == br_ex::BRIDGE;
    interfaces?.iter().any(is_br_ex).then(|| ClusterPolicy {
        name: text(&object["metadata"]["name"]),
        selector: map(&object["spec"]["nodeSelector"]),
    })
}

fn enactment(object: &Value) -> Option<Enactment> {
    let labels = map(&object["metadata"]["labels"]);
    let policy = labels.get("nmstate.io/policy")?.clone();
    let name = text(&object["metadata"]["name"]);
    let node = match labels.get("nmstate.io/node") {
        Some(node) => node.clone(),
        None => name.strip_suffix(&format!(".{policy}"))?.to_owned(),
    };
    let conditions = &object["status"]["conditions"];
    let kinds = ["Failing", "Aborted", "Progressing", "Pending", "Available"];
    let condition = kinds.into_iter().find(|kind| is_true(conditions, kind)).unwrap_or("Unknown");
    let message = conditions.as_array().into_iter().flatten();
    let message = message.filter(|it| it["type"] == condition).map(|it| text(&it["message"]));
    Some(Enactment {
        policy,
        node,
        condition: condition.to_owned(),
        message: message.collect::<Vec<_>>().join(" "),
    })
}
