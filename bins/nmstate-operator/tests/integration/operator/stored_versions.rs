//! Objects that an old kubernetes-nmstate stored in a version that is not served any more.

use kube::api::Api;
use lab::eventually;
use nmstate_api::{NodeNetworkConfigurationPolicy as Policy, crd};
use serde_json::{Value, json};

use crate::operator::cluster::{Cluster, INFRASTRUCTURE};

const OBJECTS: &str = r#"
apiVersion: nmstate.io/v1alpha1
kind: NodeNetworkConfigurationPolicy
metadata: {name: old}
spec: {desiredState: {interfaces: [{name: eth1, type: ethernet, state: up}]}}
---
apiVersion: nmstate.io/v1alpha1
kind: NodeNetworkState
metadata: {name: node-a}
"#;

/// Our CRDs as if only this version existed, stored and served.
fn with_version(definition: &Value, name: &str) -> Value {
    let mut crd = definition.clone();
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    versions.retain(|version| version["name"] == name);
    versions[0]["served"] = json!(true);
    versions[0]["storage"] = json!(true);
    crd
}

/// The same without the versions that are not served.
fn served(definition: &Value) -> Value {
    let mut crd = definition.clone();
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    versions.retain(|version| version["served"] == true);
    crd
}

async fn stored_versions(cluster: &Cluster, definition: &Value) -> Vec<Value> {
    let name = definition["metadata"]["name"].as_str().unwrap();
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let held = cluster.server.client().get(&path).await.unwrap();
    held["status"]["storedVersions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn objects_stored_in_a_former_version_do_not_block_an_update_and_are_migrated() {
    let cluster = Cluster::start().await;
    cluster.apply(INFRASTRUCTURE).await;
    cluster.platform("None").await;
    for definition in crd::all() {
        let former = with_version(&definition, "v1alpha1");
        cluster.server.client().load_crd_text(&former.to_string()).await.unwrap();
    }
    cluster.apply(OBJECTS).await;

    // This is where the cluster-version operator would stop.
    for definition in crd::all() {
        let without = served(&definition).to_string();
        let refused = cluster.server.client().load_crd_text(&without).await;
        assert!(refused.unwrap_err().to_string().contains("v1alpha1"));
    }
    cluster.apply_payload().await;

    let _operator = cluster.operator("4.99.0").await;
    for definition in crd::all() {
        eventually(&format!("{} is migrated", definition["metadata"]["name"]), || async {
            let stored = stored_versions(&cluster, &definition).await;
            stored.len() == 1 && stored[0] != "v1alpha1"
        })
        .await;
    }
    // A later release may drop the version, and every object is still there.
    for definition in crd::all() {
        let later = served(&definition).to_string();
        cluster.server.client().load_crd_text(&later).await.unwrap();
    }
    let policies: Api<Policy> = Api::all(cluster.client.clone());
    let policy = policies.get("old").await.unwrap();
    assert_eq!(policy.spec.desired_state.to_value()["interfaces"][0]["name"], "eth1");
    let state = "/apis/nmstate.io/v1beta1/nodenetworkstates/node-a";
    cluster.server.client().get(state).await.unwrap();
}
