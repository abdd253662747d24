//! Policies of the documents that nodes took at their first boot.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use lab::eventually;
use machine_config::{Encoding, File, MachineConfig, Role};
use nmstate::NetworkState;
use nmstate_api::condition::{Condition, ConditionStatus};
use nmstate_api::{NMState, NodeNetworkConfigurationPolicy as Policy, NodeNetworkState};
use serde_json::{Value, json};

use crate::operator::cluster::Cluster;

const ADOPT_BR_EX: &str = "nmstate.landfall.dev/adopt-br-ex";
const DOCUMENT: &str = include_str!("scenes/document.yaml");
/// What the handler of a node reports that took the document, with what ovnkube added.
const REPORT: &str = include_str!("scenes/report.yaml");

/// The document of a node whose NIC has this MTU.
fn document(mtu: u32) -> String {
    DOCUMENT.replace("MTU", &mtu.to_string())
}

/// The MachineConfig of all workers, as the administrator gave it to the installer.
fn machine_config(documents: &[(&str, u32)]) -> String {
    let mut config = MachineConfig::new("10-br-ex-worker".parse().unwrap(), Role::worker());
    for (node, mtu) in documents {
        let path = format!("/etc/nmstate/openshift/{node}.yml").parse().unwrap();
        config.files.push(File::new(path, document(*mtu).as_bytes(), Encoding::Gzip));
    }
    config.to_yaml().unwrap()
}

async fn node(cluster: &Cluster, name: &str) {
    let labels =
        format!("{{kubernetes.io/hostname: {name}, node-role.kubernetes.io/worker: \"\"}}");
    let node =
        format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {labels}}}\n");
    cluster.apply(&node).await;
    let report = format!(
        "apiVersion: nmstate.io/v1beta1\nkind: NodeNetworkState\nmetadata: {{name: {name}}}\n"
    );
    cluster.apply(&report).await;
    reports(cluster, name, 1500).await;
}

/// What the handler of a node writes.
async fn reports(cluster: &Cluster, name: &str, mtu: u32) {
    let text = REPORT.replace("NODE", name).replace("MTU", &mtu.to_string());
    cluster.server.client().apply_status(&text).await.unwrap();
}

async fn condition(cluster: &Cluster) -> Option<Condition> {
    let nmstates: Api<NMState> = Api::all(cluster.client.clone());
    let status = nmstates.get_opt("nmstate").await.unwrap()?.status?;
    status.conditions.into_iter().find(|held| held.type_ == "BrExAdopted")
}

async fn says(cluster: &Cluster, status: ConditionStatus, message: &str) {
    eventually(&format!("BrExAdopted says {message:?}"), || async {
        condition(cluster)
            .await
            .is_some_and(|held| held.status == status && held.message.as_deref() == Some(message))
    })
    .await;
}

async fn made(policies: &Api<Policy>, name: &str) -> Policy {
    eventually(&format!("the policy {name} is made"), || async {
        policies.get_opt(name).await.unwrap().is_some()
    })
    .await;
    policies.get(name).await.unwrap()
}

#[tokio::test]
async fn documents_become_policies_where_they_change_nothing_once_and_only_on_request() {
    let cluster = Cluster::on_bare_metal().await;
    for name in ["worker-0", "worker-1", "worker-2"] {
        node(&cluster, name).await;
    }
    // The MTU of worker-1 was changed since; worker-2 was created by configure-ovs.
    cluster.apply(&machine_config(&[("worker-0", 1500), ("worker-1", 9000)])).await;
    let operator = cluster.operator("4.99.1").await;
    cluster.deployed(true).await;
    let policies: Api<Policy> = Api::all(cluster.client.clone());
    assert!(policies.list(&Default::default()).await.unwrap().items.is_empty());

    cluster.annotate(ADOPT_BR_EX, Some("true")).await;
    let policy = made(&policies, "worker-0-br-ex").await;
    assert_eq!(policy.labels()["nmstate.landfall.dev/adopted"], "br-ex");
    let from = "/etc/nmstate/openshift/worker-0.yml of 10-br-ex-worker";
    assert_eq!(policy.annotations()["nmstate.landfall.dev/adopted-from"], from);
    let differs = "Policies were made for 1 node; 1 node came from no document; not for worker-1: \
                   it differs from /etc/nmstate/openshift/worker-1.yml of 10-br-ex-worker: \
                   eno1 (mtu) differ";
    says(&cluster, ConditionStatus::False, differs).await;

    // Its handler has nothing to do, by the functions that the handler itself uses.
    let states: Api<NodeNetworkState> = Api::all(cluster.client.clone());
    let status = states.get("worker-0").await.unwrap().status.unwrap();
    let current = serde_json::to_value(&status).unwrap()["currentState"].to_string();
    let current = NetworkState::new_from_json(&current).unwrap();
    let rendered = node_policy::render(&policy.spec, &BTreeMap::new(), &current).unwrap();
    assert_eq!(node_policy::differs(&rendered.desired, &current), Ok(false));

    // After the correction, the other node is adopted without further action.
    reports(&cluster, "worker-1", 9000).await;
    made(&policies, "worker-1-br-ex").await;
    let all = "Policies were made for 2 nodes; 1 node came from no document";
    says(&cluster, ConditionStatus::True, all).await;

    // An edit is kept, and a deleted policy is not created again, not even by the next process.
    let edit = Patch::Merge(json!({ "spec": { "maxUnavailable": 2 } }));
    policies.patch("worker-0-br-ex", &PatchParams::default(), &edit).await.unwrap();
    policies.delete("worker-1-br-ex", &DeleteParams::default()).await.unwrap();
    operator.stop();
    let _operator = cluster.operator("4.99.1").await;
    let documents = [("worker-0", 1500), ("worker-1", 9000), ("worker-3", 1500)];
    cluster.apply(&machine_config(&documents)).await;
    node(&cluster, "worker-3").await;
    made(&policies, "worker-3-br-ex").await;
    let edited = policies.get("worker-0-br-ex").await.unwrap();
    let spec: Value = serde_json::to_value(&edited.spec).unwrap();
    assert_eq!(spec["maxUnavailable"], 2);
    assert!(policies.get_opt("worker-1-br-ex").await.unwrap().is_none());
    let all = "Policies were made for 3 nodes; 1 node came from no document";
    says(&cluster, ConditionStatus::True, all).await;

    // Policies belong to the administrator; the annotation may be removed.
    cluster.annotate(ADOPT_BR_EX, None).await;
    eventually("no condition about br-ex", || async { condition(&cluster).await.is_none() }).await;
    for name in ["worker-0-br-ex", "worker-3-br-ex"] {
        assert!(policies.get_opt(name).await.unwrap().is_some(), "{name} stays");
    }
}
