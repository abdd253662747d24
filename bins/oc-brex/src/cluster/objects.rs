//! The objects of a cluster that concern br-ex, as typed values. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result, bail};
use br_ex::node_state::{self, NodeState};
use br_ex::{ClusterFacts, Platform};
use br_ex_authoring::inventory::short_name;
use br_ex_day2::Nodes;
use first_boot::summary::ANNOTATION;
use first_boot::{Candidate, Choice, Mac, Machine, ShortName, Summary, choose};
use ipnet::IpNet;
use machine_config::{
    BR_EX_FOLDER, DisruptionPolicy, MachineConfig, Pool, Role, parse_disruption_policy,
};
use nmstate::{Interface, NetworkState};
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
    DisruptionPolicies,
}

impl Kind {
    /// What an overview of br-ex needs.
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
            Self::DisruptionPolicies => "/apis/operator.openshift.io/v1/machineconfigurations",
        }
    }

    /// The kind of an object of a file.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let group = object["apiVersion"].as_str()?.split_once('/').map_or("", |(group, _)| group);
        match (group, object["kind"].as_str()?) {
            ("", "Node") => Some(Self::Nodes),
            ("machineconfiguration.openshift.io", "MachineConfig") => Some(Self::MachineConfigs),
            ("nmstate.io", "NodeNetworkState") => Some(Self::NodeStates),
            ("nmstate.io", "NodeNetworkConfigurationPolicy") => Some(Self::Policies),
            ("nmstate.io", "NodeNetworkConfigurationEnactment") => Some(Self::Enactments),
            ("config.openshift.io", "Network") => Some(Self::Networks),
            ("config.openshift.io", "Infrastructure") => Some(Self::Infrastructures),
            _ => None,
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
            Self::Nodes => "there is no information about nodes",
            Self::MachineConfigs => "documents of the nodes are unknown",
            Self::NodeStates => "the current network of nodes is unknown, and so is drift",
            Self::Policies | Self::Enactments => "policies of the nodes are unknown",
            Self::Networks => "the MTU and the networks of the cluster are unknown",
            Self::Infrastructures => "the platform is unknown",
            Self::DisruptionPolicies => "the default disruption policies are assumed",
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
    pub(crate) cluster_networks: Vec<IpNet>,
    pub(crate) service_networks: Vec<IpNet>,
    pub(crate) machine_networks: Vec<IpNet>,
    pub(crate) platform: Option<Platform>,
    pub(crate) disruption: DisruptionPolicy,
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
                for item in items {
                    self.add_machine_config(item);
                }
            }
            Kind::NodeStates => {
                for item in items {
                    self.add_state(item);
                }
            }
            Kind::Policies => self.policies = items.iter().filter_map(policy).collect(),
            Kind::Enactments => self.enactments = items.iter().filter_map(enactment).collect(),
            Kind::Networks => {
                let Some(status) = items.first().map(|it| &it["status"]) else { return Ok(()) };
                let mtu = status["clusterNetworkMTU"].as_u64();
                self.cluster_mtu = mtu.and_then(|mtu| mtu.try_into().ok());
                self.cluster_networks = networks(&status["clusterNetwork"]);
                self.service_networks = networks(&status["serviceNetwork"]);
            }
            Kind::Infrastructures => {
                let Some(status) = items.first().map(|it| &it["status"]["platformStatus"]) else {
                    return Ok(());
                };
                let name = status["type"].as_str();
                self.platform = name.and_then(|name| name.parse().ok());
                // The settings of a platform are below its name.
                let of_platform = status.as_object().into_iter().flat_map(|it| it.values());
                self.machine_networks =
                    of_platform.flat_map(|it| networks(&it["machineNetworks"])).collect();
            }
            Kind::DisruptionPolicies => {
                let is_cluster = |it: &&Value| it["metadata"]["name"] == "cluster";
                if let Some(item) = items.iter().find(is_cluster) {
                    let mut object = item.clone();
                    object["apiVersion"] = "operator.openshift.io/v1".into();
                    object["kind"] = "MachineConfiguration".into();
                    self.disruption = parse_disruption_policy(&object.to_string())
                        .context("reading machineconfigurations")?;
                }
            }
        }
        Ok(())
    }

    /// One that cannot be read must not hide the others; those without a role are for no node.
    fn add_machine_config(&mut self, item: Value) {
        let name = text(&item["metadata"]["name"]);
        match machine_config::parse_all(&list(&[item])) {
            Ok(read) => {
                let with_role = read.machine_configs.into_iter().filter(|it| it.role.is_some());
                self.machine_configs.extend(with_role);
            }
            Err(error) => {
                let error = anyhow::Error::new(error);
                self.notes.push(format!("machineconfig {name} is left out: {error:#}"));
            }
        }
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

    /// What checks need to know about the cluster.
    pub(crate) fn cluster_facts(&self) -> ClusterFacts {
        ClusterFacts {
            cluster_mtu: self.cluster_mtu,
            machine_networks: self.machine_networks.clone(),
            cluster_networks: self.cluster_networks.clone(),
            service_networks: self.service_networks.clone(),
            platform: self.platform,
            nmstate: None,
            current: None,
        }
    }

    /// The states of nodes of a role, or of these nodes.
    ///
    /// # Errors
    /// If a node is not there, or has not reported its state.
    pub(crate) fn states_of(&self, nodes: &[&ClusterNode]) -> Result<Vec<NodeState>> {
        let (mut states, mut missing) = (Vec::new(), Vec::new());
        for node in nodes {
            match self.states.get(&node.name) {
                Some(state) => states.push(state.clone()),
                None => missing.push(node.name.as_str()),
            }
        }
        if !missing.is_empty() {
            bail!(
                "the current network of {} is unknown: the cluster has no NodeNetworkState of it; \
                 install the NMState operator, and check that its handler runs there",
                missing.join(", ")
            );
        }
        Ok(states)
    }

    /// The node of this name or short name.
    pub(crate) fn find_node(&self, name: &str) -> Result<&ClusterNode> {
        let of_short = |node: &&ClusterNode| short_name(&node.name) == name;
        let exact = self.nodes.iter().find(|node| node.name == name);
        exact.or_else(|| self.nodes.iter().find(of_short)).with_context(|| {
            let known: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            format!("the cluster has no node {name}; it has {}", known.join(", "))
        })
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

    /// What distinguishes a node from others. The API does not have serial numbers.
    pub(crate) fn machine(&self, node: &ClusterNode) -> Machine {
        let state = self.states.get(&node.name);
        let macs = state.map(|state| macs(&state.state)).unwrap_or_default();
        Machine { name: ShortName::of(&node.name), macs, serial: None }
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

/// The MAC addresses of a node: the current ones of its NICs, and the permanent ones.
pub(crate) fn macs(state: &NetworkState) -> BTreeSet<Mac> {
    let of_interface = |it: &Interface| {
        let base = it.base_iface();
        let both = [base.mac_address.clone(), base.permanent_mac_address.clone()];
        both.into_iter().flatten().filter_map(|text| text.parse::<Mac>().ok()).collect::<Vec<_>>()
    };
    state.interfaces.iter().flat_map(of_interface).collect()
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

/// Networks in a list of texts, or of objects with a `cidr`. What is not a network is left out.
fn networks(list: &Value) -> Vec<IpNet> {
    let items = list.as_array().into_iter().flatten();
    let text = |item: &Value| item["cidr"].as_str().or(item.as_str()).map(str::to_owned);
    items.filter_map(text).filter_map(|text| text.parse().ok()).collect()
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
