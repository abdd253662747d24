//! From an installation with a policy to the removal of everything.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use lab::eventually;
use nmstate_api::{NMState, NodeNetworkConfigurationPolicy as Policy};
use serde_json::{Value, json};

use crate::operator::cluster::{Cluster, INFRASTRUCTURE, NAMESPACE};

const POLICY: &str = r#"{
    "apiVersion": "nmstate.io/v1",
    "kind": "NodeNetworkConfigurationPolicy",
    "metadata": { "name": "at-install" },
    "spec": { "desiredState": { "interfaces": [{ "name": "eth1", "type": "ethernet", "state": "up" }] } }
}"#;

#[tokio::test]
async fn from_an_installation_with_a_policy_to_the_removal_of_everything() {
    let cluster = Cluster::start().await;
    cluster.apply(INFRASTRUCTURE).await;
    cluster.platform("None").await;

    // The installer's manifests are applied long before the payload creates the CRD.
    let policy: Value = serde_json::from_str(POLICY).unwrap();
    let payload = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.apply_payload().await;
    };
    tokio::join!(cluster.bootstrap(vec![policy]), payload);

    let operator = cluster.operator("4.99.0").await;
    cluster.wait_for_condition("Disabled", "True", "UnsupportedPlatform").await;
    cluster.wait_for_condition("Available", "True", "AsExpected").await;
    cluster.ignored(true).await;
    cluster.deployed(false).await;

    cluster.platform("BareMetal").await;
    cluster.deployed(true).await;
    cluster.wait_for_condition("Progressing", "True", "RollingOut").await;
    cluster.all_pods_run().await;
    cluster.wait_for_condition("Progressing", "False", "AsExpected").await;
    cluster.wait_for_condition("Disabled", "False", "AsExpected").await;
    let nmstates: Api<NMState> = Api::all(cluster.client.clone());
    eventually("the NMState is Available", || async {
        let nmstate = nmstates.get("nmstate").await.unwrap();
        nmstate
            .status
            .is_some_and(|status| nmstate_api::condition::is_true(&status.conditions, "Available"))
    })
    .await;

    // A deleted ClusterOperator is created again.
    let object = json!({ "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator" });
    cluster.dynamic(&object).delete("nmstate", &DeleteParams::default()).await.unwrap();
    cluster.wait_for_condition("Available", "True", "AsExpected").await;

    // The next version: the old one is reported until no old component runs any more.
    operator.stop();
    let operator = cluster.operator("4.99.1").await;
    cluster.wait_for_condition("Progressing", "True", "RollingOut").await;
    assert_eq!(cluster.version().await, "4.99.0");
    cluster.wait_for_condition("Degraded", "False", "AsExpected").await;
    cluster.all_pods_run().await;
    cluster.wait_for_condition("Progressing", "False", "AsExpected").await;
    assert_eq!(cluster.version().await, "4.99.1");

    cluster.annotate("nmstate.landfall.dev/off", Some("true")).await;
    cluster.deployed(false).await;
    cluster.wait_for_condition("Disabled", "True", "TurnedOff").await;
    cluster.ignored(true).await;
    cluster.annotate("nmstate.landfall.dev/off", None).await;
    cluster.deployed(true).await;

    // A deletion is recorded, also for the next process.
    nmstates.delete("nmstate", &DeleteParams::default()).await.unwrap();
    cluster.deployed(false).await;
    cluster.wait_for_condition("Disabled", "True", "NMStateDeleted").await;
    operator.stop();
    let object = json!({ "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator" });
    cluster.dynamic(&object).delete("nmstate", &DeleteParams::default()).await.unwrap();
    let _operator = cluster.operator("4.99.1").await;
    cluster.wait_for_condition("Disabled", "True", "NMStateDeleted").await;
    assert!(nmstates.get_opt("nmstate").await.unwrap().is_none());

    // The user's policy and the objects of the payload remain.
    let policies: Api<Policy> = Api::all(cluster.client.clone());
    assert_eq!(policies.get("at-install").await.unwrap().name_any(), "at-install");
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let list = deployments.list(&kube::api::ListParams::default()).await.unwrap();
    let names: Vec<String> = list.items.iter().map(|object| object.name_any()).collect();
    assert_eq!(names, ["nmstate-operator"]);
}
