//! A cluster without any kind of OpenShift.

use kube::api::{Api, DeleteParams};
use lab::eventually;
use nmstate_api::condition::is_true;
use nmstate_api::{NMState, NodeNetworkConfigurationPolicy as Policy, PolicyConditionType};
use nmstate_deployment::payload;

use crate::operator::cluster::Cluster;

const POLICY: &str = "apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata: {name: at-install}
spec: {desiredState: {interfaces: [{name: eth1, type: ethernet, state: up}]}}
";
const NMSTATE: &str = "apiVersion: nmstate.io/v1
kind: NMState
metadata: {name: nmstate}
";

#[tokio::test]
async fn the_operator_deploys_and_reports_in_a_cluster_that_is_not_openshift() {
    let cluster = Cluster::empty().await;
    for file in payload::kubernetes_files("example/i:1", "1.0.0") {
        let text = file.text().unwrap();
        match file.name.contains("crd-") {
            true => drop(cluster.server.client().load_crd_text(&text).await.unwrap()),
            false => cluster.apply(&text).await,
        }
    }
    cluster.apply(POLICY).await;
    let _operator = cluster.operator("1.0.0").await;
    // No NMState is created by default, and policies report that.
    cluster.ignored(true).await;
    cluster.deployed(false).await;

    cluster.apply(NMSTATE).await;
    cluster.deployed(true).await;
    cluster.all_pods_run().await;
    let nmstates: Api<NMState> = Api::all(cluster.client.clone());
    eventually("the NMState is Available", || async {
        let status = nmstates.get("nmstate").await.unwrap().status;
        status.is_some_and(|status| is_true(&status.conditions, "Available"))
    })
    .await;

    nmstates.delete("nmstate", &DeleteParams::default()).await.unwrap();
    cluster.deployed(false).await;
    cluster.ignored(true).await;
    let policies: Api<Policy> = Api::all(cluster.client.clone());
    let policy = policies.get("at-install").await.unwrap();
    assert!(is_true(policy.conditions(), PolicyConditionType::Ignored));
}
