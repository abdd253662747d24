//! Objects of kubernetes-nmstate under its CRDs, under ours, and under its own again.

use std::collections::BTreeMap;

use kube::api::{Api, Patch, PatchParams};
use lab::data_tier;
use nmstate_api::{
    NMState, NodeNetworkConfigurationEnactment as Enactment,
    NodeNetworkConfigurationPolicy as Policy, NodeNetworkState,
};
use node_policy::Phase;
use serde_json::{Value, json};

use crate::topologies::cluster::Cluster;

/// As kubernetes-nmstate and its users write them, in all versions that it serves.
const OBJECTS: &str = r#"
apiVersion: nmstate.io/v1beta1
kind: NMState
metadata: {name: nmstate}
spec: {nodeSelector: {node-role.kubernetes.io/worker: ""}, logLevel: debug}
---
apiVersion: nmstate.io/v1beta1
kind: NodeNetworkConfigurationPolicy
metadata: {name: older, annotations: {nmstate.io/webhook-mutating-timestamp: "1784000000000000000"}}
spec:
  maxUnavailable: 3
  capture: {default-gw: 'routes.running.destination=="0.0.0.0/0"'}
  desiredState: {interfaces: "{{ capture.default-gw.interfaces }}"}
---
apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata: {name: newer}
spec: {maxUnavailable: 50%, desiredState: {interfaces: [{name: eth1, type: ethernet, state: up}]}}
---
apiVersion: nmstate.io/v1beta1
kind: NodeNetworkConfigurationEnactment
metadata: {name: node-a.newer, labels: {nmstate.io/node: node-a, nmstate.io/policy: newer}}
---
apiVersion: nmstate.io/v1beta1
kind: NodeNetworkState
metadata: {name: node-a}
"#;

const STATUSES: &str = r#"
apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata: {name: newer}
status:
  conditions:
  - {type: Available, status: "True", reason: SuccessfullyConfigured, message: 1/1 nodes successfully configured, lastHeartbeatTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Degraded, status: "False", reason: SuccessfullyConfigured}
  - {type: Progressing, status: "False"}
  unavailableNodeCountMap: {"1": 0}
  lastUnavailableNodeCountUpdate: "2026-01-01T00:00:00Z"
---
apiVersion: nmstate.io/v1beta1
kind: NodeNetworkConfigurationEnactment
metadata: {name: node-a.newer}
status:
  policyGeneration: 1
  features: [iface-count-under-10]
  retryCount: {"1": 2}
  desiredState: {interfaces: [{name: eth1, type: ethernet, state: up}]}
  capturedStates: {gw: {state: {routes: {running: []}}, metaInfo: {version: "0", time: "2026-01-01T00:00:00Z"}}}
  conditions:
  - {type: Available, status: "True", reason: SuccessfullyConfigured, message: successfully reconciled}
  - {type: Failing, status: "False", reason: SuccessfullyConfigured}
  - {type: Progressing, status: "False", reason: SuccessfullyConfigured}
  - {type: Pending, status: "False", reason: SuccessfullyConfigured}
  - {type: Aborted, status: "False", reason: SuccessfullyConfigured}
---
apiVersion: nmstate.io/v1beta1
kind: NodeNetworkState
metadata: {name: node-a}
status:
  currentState: {interfaces: [{name: eth1, type: ethernet, state: up}], dns-resolver: {}}
  lastSuccessfulUpdateTime: "2026-01-01T00:00:00Z"
  handlerNmstateVersion: 2.2.38
  hostNetworkManagerVersion: 1.46.0
"#;

/// Writes what only we write. Returns whether it was accepted: a server needs a moment after it got
/// a new schema.
async fn write_ours(cluster: &Cluster) -> bool {
    let merge = async |version: &str, kind: &str, name: &str, status: Value| {
        let api = cluster.dynamic(version, kind, None);
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(name, &PatchParams::default(), &patch).await.is_ok()
    };
    let slot = json!({ "node": "node-a", "generation": 1, "expires": "2026-01-01T00:00:00Z" });
    let status = json!({ "observedGeneration": 1, "slots": [slot] });
    let policy = merge("nmstate.io/v1", "NodeNetworkConfigurationPolicy", "older", status).await;
    let back = json!({ "interfaces": [{ "name": "eth1", "type": "ethernet", "state": "down" }] });
    let status = json!({ "failure": { "kind": "ProbeFailed" }, "revertState": back });
    let kind = "NodeNetworkConfigurationEnactment";
    policy && merge("nmstate.io/v1beta1", kind, "node-a.newer", status).await
}

/// Every object in every served version, without the metadata of the server. None while the server
/// is not ready for new schemas.
async fn read(cluster: &Cluster) -> Option<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for crd in nmstate_api::crd::all() {
        let versions = crd["spec"]["versions"].as_array().unwrap();
        for version in versions.iter().filter(|version| version["served"] == true) {
            let (plural, version) = (&crd["spec"]["names"]["plural"], &version["name"]);
            let (plural, version) = (plural.as_str().unwrap(), version.as_str().unwrap());
            let path = format!("/apis/nmstate.io/{version}/{plural}");
            let list = cluster.server.client().get(&path).await.ok()?;
            for object in list["items"].as_array().unwrap() {
                let mut object = object.clone();
                let metadata = object["metadata"].as_object_mut().unwrap();
                metadata
                    .retain(|key, _| !matches!(key.as_str(), "managedFields" | "resourceVersion"));
                found.insert(format!("{path}/{}", object["metadata"]["name"]), object);
            }
        }
    }
    Some(found)
}

/// Whether all that was `before` is there, with the same content.
async fn has_kept(cluster: &Cluster, before: &BTreeMap<String, Value>) -> bool {
    let Some(after) = read(cluster).await else { return false };
    for (name, object) in before {
        let now = after.get(name).unwrap_or_else(|| panic!("{name} is gone"));
        assert_eq!(now["spec"], object["spec"], "{name}");
        for (field, value) in object["status"].as_object().into_iter().flatten() {
            assert_eq!(&now["status"][field], value, "{name}: {field}");
        }
    }
    true
}

async fn ours_are_kept(cluster: &Cluster) -> bool {
    if !write_ours(cluster).await {
        return false;
    }
    let policies: Api<Policy> = Api::all(cluster.client.clone());
    let older = policies.get("older").await;
    older.is_ok_and(|it| it.status.is_some_and(|status| status.slots.len() == 1))
}

/// Parses the objects as our programs do; none while the server is not ready.
async fn typed(cluster: &Cluster) -> Option<()> {
    let policies: Api<Policy> = Api::all(cluster.client.clone());
    let older = policies.get("older").await.ok()?;
    assert_eq!(older.spec.capture.len(), 1);
    let enactments: Api<Enactment> = Api::all(cluster.client.clone());
    let enactment = enactments.get("node-a.newer").await.ok()?.status.unwrap();
    assert_eq!(Phase::of(&enactment.conditions), Phase::Available);
    assert_eq!(enactment.policy_generation, Some(1));
    assert!(!enactment.revert_state.is_empty());
    let states: Api<NodeNetworkState> = Api::all(cluster.client.clone());
    let state = states.get("node-a").await.ok()?.status.unwrap();
    assert!(!state.current_state.is_empty());
    let nmstates: Api<NMState> = Api::all(cluster.client.clone());
    let nmstate = nmstates.get("nmstate").await.ok()?;
    assert_eq!(nmstate.spec.node_selector.unwrap().len(), 1);
    Some(())
}

/// The versions in which objects of each kind are kept.
async fn stored_versions(cluster: &Cluster) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for crd in nmstate_api::crd::all() {
        let name = crd["metadata"]["name"].as_str().unwrap();
        let kind = "CustomResourceDefinition";
        let held = cluster.get("apiextensions.k8s.io/v1", kind, name).await;
        found.push((name.to_owned(), held["status"]["storedVersions"].clone()));
    }
    found
}

#[tokio::test]
async fn what_is_stored_under_one_set_of_crds_is_read_under_the_other_and_back() {
    let Some(theirs) = data_tier("kubernetes-nmstate-api") else { return };
    let theirs = theirs.join("deploy/crds");
    let cluster = Cluster::bare().await;
    cluster.server.load_crds(&theirs).await.unwrap();
    cluster.apply(OBJECTS).await;
    cluster.server.client().apply_status(STATUSES).await.unwrap();
    cluster.until("it is read", || async { read(&cluster).await.is_some() }).await;
    let before = read(&cluster).await.unwrap();
    let kept_in = stored_versions(&cluster).await;
    assert_eq!(before.len(), 8, "{:?}", before.keys());

    for crd in nmstate_api::crd::all() {
        cluster.server.client().load_crd_text(&crd.to_string()).await.unwrap();
    }
    cluster.until("our fields are kept", || ours_are_kept(&cluster)).await;
    cluster.until("all is there under ours", || has_kept(&cluster, &before)).await;
    cluster.until("our programs read it", || async { typed(&cluster).await.is_some() }).await;

    cluster.server.load_crds(&theirs).await.unwrap();
    cluster.until("all is read again", || has_kept(&cluster, &before)).await;
    assert_eq!(stored_versions(&cluster).await, kept_in);
}
