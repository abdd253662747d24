//! What is deleted or edited of the operand is restored; what is not the operator's, it cannot edit.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use lab::eventually;
use serde_json::json;

use crate::operator::cluster::{Cluster, NAMESPACE};

#[tokio::test]
async fn what_is_deleted_or_edited_is_restored() {
    let cluster = Cluster::on_bare_metal().await;
    let _operator = cluster.operator("4.99.0").await;
    cluster.deployed(true).await;
    cluster.all_pods_run().await;
    cluster.wait_for_condition("Progressing", "False", "AsExpected").await;

    let cluster_roles: Api<ClusterRole> = Api::all(cluster.client.clone());
    let policies: Api<NetworkPolicy> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let roles: Api<Role> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let rules = roles.get("nmstate-coordinator").await.unwrap().rules;
    let once = DeleteParams::default();
    cluster_roles.delete("openshift-nmstate-handler", &once).await.unwrap();
    policies.delete("nmstate-coordinator", &once).await.unwrap();
    let emptied = Patch::Merge(json!({ "rules": [] }));
    roles.patch("nmstate-coordinator", &PatchParams::default(), &emptied).await.unwrap();

    eventually("the ClusterRole is restored", || async {
        cluster_roles.get_opt("openshift-nmstate-handler").await.unwrap().is_some()
    })
    .await;
    eventually("the NetworkPolicy is restored", || async {
        policies.get_opt("nmstate-coordinator").await.unwrap().is_some()
    })
    .await;
    eventually("the rules are restored", || async {
        roles.get("nmstate-coordinator").await.unwrap().rules == rules
    })
    .await;

    let own: Api<ClusterRole> = Api::all(cluster.client_of("nmstate-operator").await);
    for name in ["view", "system:node"] {
        let refused = own.patch(name, &PatchParams::default(), &emptied).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "{name}");
    }
}
