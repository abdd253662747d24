//! The state of br-ex of each node, from the objects of a cluster. Pure.

use std::fmt;

use br_ex::Document;
use br_ex::hosts::Reader;
use br_ex_day2::{Basis, Masquerade, PlanOptions, State};
use first_boot::report::Ending;
use first_boot::{Candidate, Summary};
use serde::Serialize;

use crate::cluster::objects::{ClusterNode, Enactment, Kind, Objects};

/// br-ex of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) node: String,
    pub(crate) role: Option<String>,
    pub(crate) is_ready: bool,
    /// The file that the node selects.
    pub(crate) document: Option<String>,
    pub(crate) sha256: Option<String>,
    pub(crate) first_boot: String,
    pub(crate) marker: Marker,
    pub(crate) policies: Vec<Policy>,
    pub(crate) drift: Drift,
    /// What to do next; absent if there is nothing to do.
    pub(crate) next_step: Option<String>,
    /// What the node reported.
    pub(crate) message: Option<String>,
    pub(crate) attention: Attention,
}

impl Row {
    pub(crate) fn policy_text(&self) -> String {
        let text = |policy: &Policy| format!("{} ({})", policy.name, policy.state);
        match self.policies.as_slice() {
            [] => "-".to_owned(),
            policies => policies.iter().map(text).collect::<Vec<_>>().join(", "),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) state: String,
}

/// Whether br-ex was configured from the document that the node selects now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Marker {
    Current,
    /// It was configured from another text.
    Outdated,
    NotSet,
    /// No report of the node has arrived.
    Unknown,
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "current",
            Self::Outdated => "outdated",
            Self::NotSet => "not set",
            Self::Unknown => "unknown",
        })
    }
}

/// Whether the network of a node differs from its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub(crate) enum Drift {
    None,
    Changes { count: usize, class: String },
    Unknown { reason: String },
}

impl Drift {
    /// With the class of the change, or why it is unknown.
    pub(crate) fn with_reason(&self) -> String {
        match self {
            Self::None => self.to_string(),
            Self::Changes { class: reason, .. } | Self::Unknown { reason } => {
                format!("{self} ({reason})")
            }
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Changes { count: 1, .. } => f.write_str("1 change"),
            Self::Changes { count, .. } => write!(f, "{count} changes"),
            Self::Unknown { .. } => f.write_str("unknown"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Attention {
    None,
    Required,
}

/// One row per node, control plane first, then by role and name.
pub(crate) fn rows(objects: &Objects) -> Vec<Row> {
    let mut rows: Vec<Row> = objects.nodes.iter().map(|node| row(objects, node)).collect();
    rows.sort_by(|a, b| (&a.role, &a.node).cmp(&(&b.role, &b.node)));
    rows
}

fn row(objects: &Objects, node: &ClusterNode) -> Row {
    let selected = objects.document(node);
    let document = selected.document.as_ref();
    let summary = node.first_boot.as_ref().and_then(|it| it.as_ref().ok());
    let policies: Vec<Policy> = objects
        .policies_of(node)
        .into_iter()
        .map(|(policy, enactment)| Policy { name: policy.name.clone(), state: state(enactment) })
        .collect();
    let marker = marker(summary, document);
    let drift = drift(objects, node, document);
    let (next_step, attention) =
        next_step(node, &selected.problem, document, marker, &policies, &drift);
    Row {
        node: node.name.clone(),
        role: objects.role(node).map(|role| role.to_string()),
        is_ready: node.is_ready,
        document: document.map(|it| it.file.clone()),
        sha256: document.map(|it| it.hash.to_string()),
        first_boot: match &node.first_boot {
            None => "no report".to_owned(),
            Some(Err(_)) => "unreadable".to_owned(),
            Some(Ok(summary)) => result(summary).to_owned(),
        },
        marker,
        policies,
        drift,
        next_step,
        message: match &node.first_boot {
            None => None,
            Some(Err(problem)) => Some(problem.clone()),
            Some(Ok(summary)) => Some(summary.message.to_string()),
        },
        attention,
    }
}

/// The result in the terms of users.
fn result(summary: &Summary) -> &'static str {
    match summary.result {
        Ending::NothingToDo => "configured",
        Ending::NoDocument => "no document",
        Ending::Staged | Ending::AlreadyStaged => "not confirmed",
        Ending::Confirmed => "confirmed",
        Ending::Refused => "refused",
        Ending::GaveUp => "gave up",
        Ending::TakenBack => "rolled back",
        Ending::Recovered => "recovered",
        Ending::Failed => "failed",
    }
}

fn state(enactment: Option<&Enactment>) -> String {
    enactment.map_or_else(|| "not applied".to_owned(), |it| it.condition.to_ascii_lowercase())
}

fn marker(summary: Option<&Summary>, document: Option<&Candidate>) -> Marker {
    let Some(summary) = summary else { return Marker::Unknown };
    match (&summary.flag, document) {
        (None, _) => Marker::NotSet,
        (Some(flag), Some(document)) if *flag == document.hash => Marker::Current,
        (Some(_), _) => Marker::Outdated,
    }
}

/// Compares the network of a node with its document.
fn drift(objects: &Objects, node: &ClusterNode, document: Option<&Candidate>) -> Drift {
    let unknown = |reason: String| Drift::Unknown { reason };
    let Some(document) = document else { return unknown("it has no document".to_owned()) };
    let Some(current) = objects.states.get(&node.name) else {
        return unknown(match objects.has(Kind::NodeStates) {
            true => "it has no NodeNetworkState".to_owned(),
            false => "the cluster has no NodeNetworkStates".to_owned(),
        });
    };
    let old = match State::new(&current.state, Basis::Node) {
        Ok(old) => old,
        Err(error) => return unknown(error.to_string()),
    };
    let options = PlanOptions {
        nodes: Objects::selector(node),
        masquerade: Masquerade::of_node(&old),
        cluster_mtu: objects.cluster_mtu,
        file: String::new(),
        reader: Reader::Unknown,
    };
    match br_ex_day2::plan(&old, &Document::parse(&document.bytes), &options) {
        Ok(plan) => match plan.class() {
            None => Drift::None,
            Some(class) => Drift::Changes { count: plan.changes.len(), class: class.to_string() },
        },
        Err(error) => unknown(error.to_string()),
    }
}

/// The one thing to do first.
fn next_step(
    node: &ClusterNode,
    problem: &Option<String>,
    document: Option<&Candidate>,
    marker: Marker,
    policies: &[Policy],
    drift: &Drift,
) -> (Option<String>, Attention) {
    let required = |text: String| (Some(text), Attention::Required);
    let optional = |text: &str| (Some(text.to_owned()), Attention::None);
    if let Some(problem) = problem {
        return required(format!("correct the documents: {problem}"));
    }
    let summary = match &node.first_boot {
        Some(Err(_)) => return required("update brex-report on the node".to_owned()),
        Some(Ok(summary)) => Some(summary),
        None => None,
    };
    let file = document.map_or("the document", |document| document.file.as_str());
    if let Some(summary) = summary
        && marker == Marker::NotSet
    {
        return match (summary.result, document) {
            (Ending::NoDocument, None) => {
                optional("br-ex is from configure-ovs; `oc brex migrate` writes documents")
            }
            (Ending::NoDocument, Some(_)) => required(format!(
                "{file} arrived after the first boot; `oc brex migrate` applies it"
            )),
            _ => required(format!("correct {file}: see `oc brex doctor --cluster`")),
        };
    }
    if let Some(policy) =
        policies.iter().find(|it| ["failing", "aborted"].contains(&it.state.as_str()))
    {
        return required(format!("see the enactment {}.{}", node.name, policy.name));
    }
    if marker == Marker::Outdated && document.is_some() {
        return required(format!("{file} changed after the first boot: `oc brex plan --cluster`"));
    }
    if let Drift::Changes { .. } = drift {
        return required("`oc brex plan --cluster` shows the differences".to_owned());
    }
    match (summary, document) {
        (None, Some(_)) => optional("enable brex-report (`oc brex render --service`)"),
        (None, None) => optional("br-ex is from configure-ovs; `oc brex migrate` writes documents"),
        (Some(_), _) => (None, Attention::None),
    }
}

#[cfg(test)]
mod tests {
    use first_boot::DocumentHash;
    use serde_json::{Value, json};

    use super::*;

    const DOCUMENT: &str = "interfaces:
- {name: eno1, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
- {name: br-ex, type: ovs-bridge, state: up, bridge: {allow-extra-patch-ports: true, port: [{name: eno1}, {name: br-ex}]}}
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: eno1
  ipv4: {enabled: true, dhcp: true, auto-route-metric: 48}
  ipv6: {enabled: false}
";

    fn node(name: &str, role: &str, summary: Option<Value>) -> Value {
        let annotations = match summary {
            Some(summary) => json!({ "brex.landfall.dev/first-boot": summary.to_string() }),
            None => json!({}),
        };
        json!({
            "metadata": {
                "name": name,
                "labels": { format!("node-role.kubernetes.io/{role}"): "" },
                "annotations": annotations,
            },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    }

    fn machine_config(files: &[&str]) -> Value {
        let file = |name: &&str| {
            let source = format!("data:,{}", urlencode(DOCUMENT));
            json!({ "path": format!("/etc/nmstate/openshift/{name}"), "mode": 420, "contents": { "source": source } })
        };
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {
                "name": "10-br-ex-worker",
                "labels": { "machineconfiguration.openshift.io/role": "worker" },
            },
            "spec": { "config": { "ignition": { "version": "3.2.0" }, "storage": { "files": files.iter().map(file).collect::<Vec<_>>() } } },
        })
    }

    fn urlencode(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02X}")).collect()
    }

    fn summary(result: &str, flag: Option<&str>) -> Value {
        let flag = flag.map(|text| DocumentHash::of(text.as_bytes()).to_string());
        json!({ "version": 1, "result": result, "message": "as it was", "flag": flag })
    }

    fn one(nodes: Vec<Value>, configs: Vec<Value>) -> Vec<Row> {
        let mut objects = Objects::default();
        objects.add(Kind::Nodes, nodes).unwrap();
        objects.add(Kind::MachineConfigs, configs).unwrap();
        rows(&objects)
    }

    #[test]
    fn each_state_of_a_node_has_its_own_next_step() {
        let cases: [(&str, Option<Value>, Marker, Attention, &str); 6] = [
            (
                "w-0",
                Some(summary("confirmed", Some(DOCUMENT))),
                Marker::Current,
                Attention::None,
                "",
            ),
            (
                "w-0",
                Some(summary("confirmed", Some("x"))),
                Marker::Outdated,
                Attention::Required,
                "changed after",
            ),
            (
                "w-0",
                Some(summary("taken-back", None)),
                Marker::NotSet,
                Attention::Required,
                "correct w-0.yml",
            ),
            (
                "w-0",
                Some(summary("no-document", None)),
                Marker::NotSet,
                Attention::Required,
                "arrived after",
            ),
            (
                "w-9",
                Some(summary("no-document", None)),
                Marker::NotSet,
                Attention::None,
                "configure-ovs",
            ),
            ("w-0", None, Marker::Unknown, Attention::None, "enable brex-report"),
        ];
        for (name, summary, marker, attention, step) in cases {
            let rows = one(
                vec![node(&format!("{name}.example.com"), "worker", summary)],
                vec![machine_config(&["w-0.yml"])],
            );
            let row = &rows[0];
            assert_eq!((row.marker, row.attention), (marker, attention), "{row:?}");
            let next = row.next_step.clone().unwrap_or_default();
            assert!(next.contains(step) && (step.is_empty() == next.is_empty()), "{row:?}");
        }
    }

    #[test]
    fn documents_of_another_pool_are_not_those_of_the_control_plane() {
        let rows = one(vec![node("w-0", "master", None)], vec![machine_config(&["w-0.yml"])]);
        assert_eq!(rows[0].document, None);
        let rows = one(vec![node("w-0", "worker", None)], vec![machine_config(&["cluster.yml"])]);
        assert_eq!(rows[0].document.as_deref(), Some("cluster.yml"));
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_reported() {
        let rows = one(vec![node("w-0", "worker", Some(json!({"version": 9})))], vec![]);
        assert_eq!(
            (rows[0].first_boot.as_str(), rows[0].attention),
            ("unreadable", Attention::Required)
        );
    }
}
