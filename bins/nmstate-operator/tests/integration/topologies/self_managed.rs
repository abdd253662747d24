//! Clusters that run their own control plane: on one node, on several, and from one to the other.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::topologies::cluster::{Cluster, Profile};
use crate::topologies::inventory::everything;

const VERSION: &str = "4.99.0";
const NMSTATE: &str = "apiVersion: nmstate.io/v1\nkind: NMState\nmetadata: {name: nmstate}\n";
const POLICY: &str = r#"
apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata: {name: kept}
spec: {desiredState: {interfaces: [{name: eth1, type: ethernet, state: up}]}}
"#;

async fn coordinators(cluster: &Cluster) -> (Value, Value) {
    let deployment = cluster.get("apps/v1", "Deployment", "nmstate-coordinator").await;
    let budget = cluster.get("policy/v1", "PodDisruptionBudget", "nmstate-coordinator").await;
    (deployment, budget)
}

/// What only the controllers write: that so many pods are available and may be away.
async fn has_copies(cluster: &Cluster, copies: u64) -> bool {
    let (deployment, budget) = coordinators(cluster).await;
    let available = deployment["status"]["availableReplicas"] == copies
        && deployment["status"]["replicas"] == copies;
    let apart = &deployment["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"];
    match copies {
        1 => available && apart.is_null() && budget.is_null(),
        _ => {
            available
                && apart.is_object()
                && budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
                && budget["status"]["disruptionsAllowed"] == copies - 1
        }
    }
}

#[tokio::test]
async fn a_cluster_grows_from_one_node_to_three_and_what_was_deployed_goes_without_a_trace() {
    let mut cluster = Cluster::start("None", "SingleReplica").await;
    cluster.update(Profile::SingleNodeDeveloper, VERSION).await;
    cluster.server.start_controllers().await.unwrap();
    cluster.add_nodes(&["node-a"]).await;
    cluster.apply(POLICY).await;

    // Platform None: the operator runs, by its own Deployment, and does not change the cluster.
    cluster.wait_for_condition("Disabled", "True UnsupportedPlatform").await;
    assert_eq!(cluster.condition("Available").await, "True AsExpected");
    cluster
        .until("the operator's Deployment is complete", || async {
            let operator = cluster.get("apps/v1", "Deployment", "nmstate-operator").await;
            operator["status"]["availableReplicas"] == 1
        })
        .await;
    admission_rules_are_sound(&cluster).await;
    cluster.until("the cluster's own controllers are done", || is_quiet(&cluster)).await;
    let before = ours_and_users(&cluster).await;

    // A user requests it nevertheless.
    cluster.apply(NMSTATE).await;
    cluster.settled(VERSION).await;
    cluster.until("one coordinator on a single node", || has_copies(&cluster, 1)).await;
    pods_have_the_documented_settings(&cluster).await;

    // The cluster grows.
    cluster.add_nodes(&["node-b", "node-c"]).await;
    cluster.infrastructure("None", "HighlyAvailable").await;
    cluster.until("two coordinators on three nodes", || has_copies(&cluster, 2)).await;
    cluster.settled(VERSION).await;
    let nodes: BTreeSet<String> = coordinator_nodes(&cluster).await;
    assert_eq!(nodes.len(), 2, "they share a node: {nodes:?}");

    // And shrinks: a budget that blocks the drain of the only node must not remain.
    cluster.infrastructure("None", "SingleReplica").await;
    cluster.until("one coordinator again", || has_copies(&cluster, 1)).await;
    cluster.settled(VERSION).await;

    reports(&cluster).await;
    cluster.delete("nmstate.io/v1", "NMState", "nmstate").await;
    cluster.wait_for_condition("Disabled", "True NMStateDeleted").await;
    let grown: BTreeSet<String> = [
        "Node /node-b ",
        "Node /node-c ",
        // It is recorded that there was an NMState, so that a default is not created again.
        "ConfigMap openshift-nmstate-operator/nmstate-operator-memory ",
    ]
    .map(str::to_owned)
    .into();
    let expected: BTreeSet<String> = before.union(&grown).cloned().collect();
    let printed = RefCell::new(BTreeSet::new());
    cluster
        .until("what was deployed is gone", || async {
            let found = ours_and_users(&cluster).await;
            let differs: BTreeSet<String> =
                found.symmetric_difference(&expected).cloned().collect();
            let is_same = differs.is_empty();
            if printed.replace(differs.clone()) != differs {
                eprintln!("there or missing: {differs:?}");
            }
            is_same
        })
        .await;
}

/// Everything except the objects that Kubernetes manages itself.
async fn ours_and_users(cluster: &Cluster) -> BTreeSet<String> {
    let all = everything(&cluster.client).await;
    all.into_iter().filter(|entry| !entry.contains(" kube-")).collect()
}

/// Whether controllers have made what they make of every namespace and Service.
async fn is_quiet(cluster: &Cluster) -> bool {
    let all = ours_and_users(cluster).await;
    let of = |kind: &str| {
        let names = all.iter().filter_map(|entry| entry.strip_prefix(&format!("{kind} ")));
        names.map(|name| name.trim_end().to_owned()).collect::<Vec<_>>()
    };
    let (accounts, maps, slices) = (of("ServiceAccount"), of("ConfigMap"), of("EndpointSlice"));
    let has_both = |namespace: &String| {
        accounts.contains(&format!("{}/default", &namespace[1..]))
            && maps.contains(&format!("{}/kube-root-ca.crt", &namespace[1..]))
    };
    let is_found = |service: &String| {
        service == "default/kubernetes" || slices.iter().any(|it| it.starts_with(service.as_str()))
    };
    of("Namespace").iter().filter(|it| !it.starts_with("/kube-")).all(has_both)
        && of("Service").iter().all(is_found)
}

/// What handlers on nodes would have written.
async fn reports(cluster: &Cluster) {
    for node in ["node-a", "node-b"] {
        cluster
            .apply(&format!(
                "apiVersion: nmstate.io/v1beta1\nkind: NodeNetworkState\nmetadata: {{name: {node}}}"
            ))
            .await;
        cluster
            .apply(&format!(
                "apiVersion: nmstate.io/v1beta1\nkind: NodeNetworkConfigurationEnactment\nmetadata:\n  name: {node}.kept\n  labels: {{nmstate.io/node: {node}, nmstate.io/policy: kept}}"
            ))
            .await;
    }
}

/// The server's own check of the expressions in our admission policies.
async fn admission_rules_are_sound(cluster: &Cluster) {
    let api = cluster.dynamic("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", None);
    cluster
        .until("the types of all rules are checked", || async {
            let list = api.list(&Default::default()).await.unwrap().items;
            assert!(list.len() >= 3);
            list.iter().all(|rule| {
                let warnings = &rule.data["status"]["typeChecking"]["expressionWarnings"];
                assert!(warnings.is_null(), "{warnings:#}");
                rule.data["status"]["observedGeneration"] == json!(rule.metadata.generation)
            })
        })
        .await;
}

async fn coordinator_nodes(cluster: &Cluster) -> BTreeSet<String> {
    let pods = cluster.dynamic("v1", "Pod", None).list(&Default::default()).await.unwrap();
    let of = |name: &str| {
        let pods =
            pods.items.iter().filter(|it| it.metadata.name.as_deref().unwrap().starts_with(name));
        pods.map(|it| it.data["spec"]["nodeName"].as_str().unwrap().to_owned()).collect()
    };
    of("nmstate-coordinator")
}

/// What admission made of our pods: their priority is a number only where the class exists.
async fn pods_have_the_documented_settings(cluster: &Cluster) {
    let pods = cluster.dynamic("v1", "Pod", None).list(&Default::default()).await.unwrap();
    let mut seen = BTreeSet::new();
    for pod in &pods {
        let spec = &pod.data["spec"];
        let labels = pod.metadata.labels.as_ref().unwrap();
        let component = labels["app.kubernetes.io/component"].clone();
        let class = if component == "nmstate-handler" {
            "system-node-critical"
        } else {
            "system-cluster-critical"
        };
        assert_eq!(spec["priorityClassName"], class, "{component}");
        assert!(spec["priority"].as_i64().unwrap() >= 2_000_000_000, "{component}");
        assert_eq!(spec["serviceAccountName"], component.as_str());
        let annotations = pod.metadata.annotations.as_ref().unwrap();
        let management = &annotations["target.workload.openshift.io/management"];
        assert_eq!(management, r#"{"effect": "PreferredDuringScheduling"}"#, "{component}");
        seen.insert(component);
    }
    let expected = ["nmstate-coordinator", "nmstate-handler", "nmstate-operator"];
    assert!(seen.iter().eq(expected), "{seen:?}");
}
