//! From one version to the next and back, with handlers of both at the same time on real nodes.
//!
//! Both versions are the same program. The differences are simulated: pods carry their version, and
//! what another version would have written is written before this one reads it.

use std::sync::Arc;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use lab_cluster::node::{Lan, LanOptions, Relay};
use serde_json::{Value, json};

use crate::topologies::cluster::{Cluster, NAMESPACE, Profile, condition};
use crate::topologies::history::History;
use crate::topologies::hosted::machine;
use crate::topologies::kubelet::{Manner, Ports};

const OLD: &str = "4.99.0";
const NEW: &str = "4.99.1";
const NODES: [&str; 2] = ["node-a", "node-b"];
const HANDLER: &str = "nmstate-handler";

/// A change of a spare NIC. Each policy has its own.
fn policy(name: &str, nic: &str, mtu: u32) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": { "name": name },
        "spec": { "desiredState": { "interfaces": [{
            "name": nic, "type": "ethernet", "state": "up", "mtu": mtu,
            "ipv4": { "enabled": false }, "ipv6": { "enabled": false },
        }]}},
    })
    .to_string()
}

async fn is_available(cluster: &Cluster, name: &str) -> bool {
    let policy = cluster.get("nmstate.io/v1", "NodeNetworkConfigurationPolicy", name).await;
    condition(&policy, "Available") == "True SuccessfullyConfigured"
}

async fn enactment(cluster: &Cluster, node: &str, policy: &str) -> Value {
    let name = format!("{node}.{policy}");
    cluster.get("nmstate.io/v1beta1", "NodeNetworkConfigurationEnactment", &name).await
}

async fn report_version(cluster: &Cluster, node: &str, policy: &str) -> String {
    let report = enactment(cluster, node, policy).await;
    report["metadata"]["resourceVersion"].as_str().expect("it is there").to_owned()
}

/// How many checkpoints were requested from NetworkManager of a node.
fn checkpoints(cluster: &Cluster, node: &str) -> usize {
    let kubelet = cluster.kubelet.borrow();
    let log = kubelet.machine(node).log_folder().join("NetworkManager.log");
    let log = std::fs::read_to_string(&log).unwrap();
    log.lines().filter(|line| line.contains("checkpoint") && line.contains("create")).count()
}

fn mtu(cluster: &Cluster, node: &str, nic: &str) -> Value {
    let kubelet = cluster.kubelet.borrow();
    let links = kubelet.machine(node).succeed(&["ip", "-json", "link", "show", nic]).unwrap();
    serde_json::from_str::<Value>(&links).unwrap()[0]["mtu"].clone()
}

/// The version in the pods of handlers, by node.
async fn handler_versions(cluster: &Cluster) -> Vec<(String, String)> {
    let pods: Api<DynamicObject> = cluster.dynamic("v1", "Pod", Some(NAMESPACE));
    let mut found = Vec::new();
    for pod in pods.list(&Default::default()).await.unwrap() {
        let is_handler = pod.metadata.labels.is_some_and(|it| it.values().any(|it| it == HANDLER));
        let Some(node) = pod.data["spec"]["nodeName"].as_str().filter(|_| is_handler) else {
            continue;
        };
        let variables = pod.data["spec"]["containers"][0]["env"].as_array().unwrap();
        let version = variables.iter().find(|it| it["name"] == "RELEASE_VERSION").unwrap();
        found.push((node.to_owned(), version["value"].as_str().unwrap().to_owned()));
    }
    found.sort();
    found
}

/// The contract with the cluster-version operator, for every status that was ever reported.
fn was_quiet(history: &History, order: &[&str]) {
    let mut versions: Vec<String> = Vec::new();
    for object in history.seen() {
        if object["status"]["conditions"].is_null() {
            continue;
        }
        assert!(condition(&object, "Available").starts_with("True "), "{object:#}");
        assert!(condition(&object, "Degraded").starts_with("False "), "{object:#}");
        let Some(version) = object["status"]["versions"][0]["version"].as_str() else { continue };
        if versions.last().map(String::as_str) != Some(version) {
            let rolling = condition(&object, "Progressing");
            assert!(rolling.starts_with("False "), "{version} came while it was rolled out");
            versions.push(version.to_owned());
        }
    }
    assert_eq!(versions, order);
}

async fn start() -> (Cluster, Relay) {
    let mut cluster = Cluster::start("BareMetal", "HighlyAvailable").await;
    cluster.update(Profile::SelfManaged, OLD).await;
    cluster.installed().await;
    cluster.server.start_controllers().await.unwrap();
    cluster.add_nodes(&NODES).await;
    let lan = Arc::new(Lan::start(&LanOptions::default()).unwrap());
    let port = cluster.server.url().rsplit(':').next().unwrap().parse().unwrap();
    let relay = Relay::start(&lan, ([127, 0, 0, 1], port).into()).unwrap();
    for node in NODES {
        let machine = machine(&lan, node, &relay, Ports::Own);
        cluster.kubelet.borrow_mut().give(node, machine);
    }
    (cluster, relay)
}

#[tokio::test]
async fn a_cluster_goes_to_the_next_version_and_back_with_handlers_of_both_side_by_side() {
    let (cluster, _relay) = start().await;
    let operators = cluster.dynamic("config.openshift.io/v1", "ClusterOperator", None);
    let history = History::of(operators, "nmstate");
    cluster.settled(OLD).await;
    cluster.apply(&policy("kept", "nic1", 1450)).await;
    cluster.until("the policy is applied", || is_available(&cluster, "kept")).await;

    upgrade(&cluster).await;
    written_by_the_next_version(&cluster).await;
    downgrade(&cluster).await;
    was_quiet(&history, &[OLD, NEW, OLD]);

    // The reports of a deleted policy are deleted with it.
    cluster.delete("nmstate.io/v1", "NodeNetworkConfigurationPolicy", "mixed").await;
    cluster
        .until("its reports are gone", || async {
            enactment(&cluster, NODES[0], "mixed").await.is_null()
                && enactment(&cluster, NODES[1], "mixed").await.is_null()
        })
        .await;
}

/// On one node the old handler does not end at once; then the nodes run different versions, and a
/// policy is created for both.
async fn upgrade(cluster: &Cluster) {
    for node in NODES {
        cluster.kubelet.borrow_mut().set_manner(node, Manner::Loses);
    }
    cluster.update(Profile::SelfManaged, NEW).await;
    cluster
        .until("a handler of the new version is started", || async {
            let Some(node) = cluster.kubelet.borrow().orphaned() else { return false };
            handler_versions(cluster).await.contains(&(node, NEW.to_owned()))
        })
        .await;
    let first = cluster.kubelet.borrow().orphaned().unwrap();
    let second = NODES.into_iter().find(|node| *node != first).unwrap();
    cluster.kubelet.borrow_mut().set_manner(second, Manner::Slow);
    let before = report_version(cluster, &first, "kept").await;
    let made = checkpoints(cluster, &first);
    assert!(made > 0, "the log does not tell of checkpoints");

    let waits = "another handler acts on this node";
    cluster
        .until("the new handler waits for the old one", || async {
            let kubelet = cluster.kubelet.borrow();
            kubelet.runs(HANDLER, &first) && kubelet.log(HANDLER, &first).contains(waits)
        })
        .await;
    assert!(!cluster.kubelet.borrow().says_ready(HANDLER, &first));
    cluster.wait_for_condition("Progressing", "True RollingOut").await;
    cluster.kubelet.borrow_mut().end_orphans();
    cluster
        .until("the new handler takes over", || async {
            cluster.kubelet.borrow().says_ready(HANDLER, &first)
        })
        .await;

    // Now the two nodes are of two versions.
    cluster.apply(&policy("mixed", "nic2", 1450)).await;
    cluster.until("a policy comes to both", || is_available(cluster, "mixed")).await;
    let versions = handler_versions(cluster).await;
    assert!(versions.contains(&(second.to_owned(), OLD.to_owned())), "{versions:?}");
    assert_eq!(cluster.condition("Progressing").await, "True RollingOut");
    let log = cluster.kubelet.borrow().log(HANDLER, &first);
    assert!(!log.contains(r#"applying policy="kept""#), "{log}");
    assert_eq!(report_version(cluster, &first, "kept").await, before);
    let applied = log.matches("applying policy=").count();
    assert_eq!(checkpoints(cluster, &first) - made, applied, "{log}");

    for node in NODES {
        cluster.kubelet.borrow_mut().set_manner(node, Manner::Prompt);
    }
    cluster.settled(NEW).await;
    cluster.apply(&policy("mixed", "nic2", 1440)).await;
    cluster
        .until("an edit comes to both", || async {
            mtu(cluster, NODES[0], "nic2") == 1440
                && mtu(cluster, NODES[1], "nic2") == 1440
                && is_available(cluster, "mixed").await
        })
        .await;
}

/// Fields and annotations that this version does not support.
async fn written_by_the_next_version(cluster: &Cluster) {
    let merge = async |api: Api<DynamicObject>, name: &str, patch: Value| {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    // The next version's admission policies allow more annotations than ours.
    let admission = "admissionregistration.k8s.io/v1";
    for rule in ["nmstate-nmstates", "nmstate-policies"] {
        let rules = cluster.dynamic(admission, "ValidatingAdmissionPolicyBinding", None);
        let only_audited = json!({ "spec": { "validationActions": ["Audit"] } });
        merge(rules, rule, only_audited).await;
    }
    let note =
        json!({ "metadata": { "annotations": { "nmstate.landfall.dev/of-tomorrow": "1" } } });
    let nmstates = cluster.dynamic("nmstate.io/v1", "NMState", None);
    cluster
        .until("the annotation is taken", || async {
            let parameters = PatchParams::default();
            nmstates.patch("nmstate", &parameters, &Patch::Merge(&note)).await.is_ok()
        })
        .await;
    cluster.apply(&policy("of-tomorrow", "nic3", 1430)).await;
    let policies = cluster.dynamic("nmstate.io/v1", "NodeNetworkConfigurationPolicy", None);
    // The API server applies changes of admission policies one by one.
    cluster
        .until("the annotation of a policy is taken", || async {
            let parameters = PatchParams::default();
            policies.patch("of-tomorrow", &parameters, &Patch::Merge(&note)).await.is_ok()
        })
        .await;
    let memory = json!({ "data": { "ofTomorrow": "remembered" } });
    let maps = cluster.dynamic("v1", "ConfigMap", Some(NAMESPACE));
    merge(maps, "nmstate-operator-memory", memory).await;
    for node in NODES {
        let name = format!("{node}.kept");
        let api = cluster.dynamic("nmstate.io/v1beta1", "NodeNetworkConfigurationEnactment", None);
        let known = enactment(cluster, node, "kept").await["status"]["conditions"].clone();
        let mut conditions = known.as_array().unwrap().clone();
        conditions.push(json!({ "type": "OfTomorrow", "status": "True", "reason": "New" }));
        let status = json!({ "status": { "conditions": conditions, "ofTomorrow": { "a": 1 } } });
        let parameters = PatchParams::default();
        api.patch_status(&name, &parameters, &Patch::Merge(&status)).await.unwrap();
        merge(api, &name, note.clone()).await;
    }
}

async fn downgrade(cluster: &Cluster) {
    let mut before = Vec::new();
    for node in NODES {
        before.push(report_version(cluster, node, "kept").await);
    }
    let made = NODES.map(|node| checkpoints(cluster, node));
    cluster.update(Profile::SelfManaged, OLD).await;
    cluster.settled(OLD).await;
    assert!(handler_versions(cluster).await.iter().all(|(_, version)| version == OLD));
    // Policies are processed in the order of their names.
    cluster.apply(&policy("zero", "nic2", 1440)).await;
    cluster.until("a further policy comes to both", || is_available(cluster, "zero")).await;

    // The conditions are the same, and none was written again.
    for (node, before) in NODES.into_iter().zip(before) {
        assert_eq!(report_version(cluster, node, "kept").await, before, "{node}");
        assert_eq!(mtu(cluster, node, "nic1"), 1450);
    }
    assert_eq!(NODES.map(|node| checkpoints(cluster, node)), made);
    let memory = cluster.get("v1", "ConfigMap", "nmstate-operator-memory").await;
    assert_eq!(memory["data"]["ofTomorrow"], "remembered");
    let nmstate = cluster.get("nmstate.io/v1", "NMState", "nmstate").await;
    assert_eq!(condition(&nmstate, "Available"), "True SuccessfullyDeployed");

    // What this version cannot honour is not applied in part: it is reported, and can be corrected.
    let kind = "NodeNetworkConfigurationPolicy";
    let found = cluster.get("nmstate.io/v1", kind, "of-tomorrow").await;
    assert_eq!(condition(&found, "Ignored"), "True InvalidAnnotation", "{found:#}");
    let api = cluster.dynamic("nmstate.io/v1", kind, None);
    let label = Patch::Merge(json!({ "metadata": { "labels": { "seen": "true" } } }));
    api.patch("of-tomorrow", &PatchParams::default(), &label).await.unwrap();
    let none = json!({ "nmstate.landfall.dev/of-tomorrow": null });
    let without = Patch::Merge(json!({ "metadata": { "annotations": none } }));
    api.patch("of-tomorrow", &PatchParams::default(), &without).await.unwrap();
    let again = Patch::Merge(json!({ "metadata": { "annotations": {
        "nmstate.landfall.dev/of-tomorrow": "1",
    }}}));
    let refused = api.patch("of-tomorrow", &PatchParams::default(), &again).await.unwrap_err();
    assert!(refused.to_string().contains("known here are"), "{refused}");
    cluster
        .until("without the annotation it is applied", || is_available(cluster, "of-tomorrow"))
        .await;
}
