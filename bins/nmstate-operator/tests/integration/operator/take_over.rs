//! Taking over from kubernetes-nmstate and giving back, with OLM's CRDs, real garbage collection,
//! and a simulated OLM.

use std::fs;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use lab::{data_tier, eventually};
use nmstate_api::NMState;
use serde_json::{Value, json};

use crate::operator::cluster::{Cluster, INFRASTRUCTURE, NAMESPACE};

const THEIRS: &str = "openshift-nmstate";
const RECORD: &str = "nmstate-operator-taken-over";

/// Kinds of OpenShift that are not among the CRDs of the lab.
const MORE_CRDS: &str = include_str!("scenes/more_crds.yaml");
/// A version of kubernetes-nmstate, without its namespace.
const VERSION: &str = include_str!("scenes/version.yaml");
/// A cluster with nodes, policies and their reports.
const CLUSTER: &str = include_str!("scenes/cluster.yaml");
/// What OLM installs, and unrelated objects.
const INSTALLED: &str = include_str!("scenes/installed.yaml");
/// What the operator of kubernetes-nmstate deploys, owned by the NMState.
const DEPLOYED: &str = include_str!("scenes/deployed.yaml");
/// The objects of these that are deleted by a take-over, as paths on the server.
const GONE: [&str; 24] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/nmstate",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/nncp-validation-policy",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/nncp-validation-policy-binding",
    "/apis/console.openshift.io/v1/consoleplugins/nmstate-console-plugin",
    "/apis/apps/v1/namespaces/openshift-nmstate/daemonsets/nmstate-handler",
    "/apis/apps/v1/namespaces/openshift-nmstate/deployments/nmstate-webhook",
    "/apis/apps/v1/namespaces/openshift-nmstate/deployments/nmstate-metrics",
    "/apis/apps/v1/namespaces/openshift-nmstate/deployments/nmstate-console-plugin",
    "/apis/policy/v1/namespaces/openshift-nmstate/poddisruptionbudgets/nmstate-webhook",
    "/apis/networking.k8s.io/v1/namespaces/openshift-nmstate/networkpolicies/default-deny",
    "/apis/networking.k8s.io/v1/namespaces/openshift-nmstate/networkpolicies/allow-plugin-nmstate-console-plugin-ingress",
    "/apis/monitoring.coreos.com/v1/namespaces/openshift-nmstate/servicemonitors/controller-manager-metrics-monitor",
    "/apis/monitoring.coreos.com/v1/namespaces/openshift-nmstate/prometheusrules/nmstate-rules",
    "/api/v1/namespaces/openshift-nmstate/services/nmstate-webhook",
    "/api/v1/namespaces/openshift-nmstate/services/nmstate-monitor",
    "/api/v1/namespaces/openshift-nmstate/configmaps/nmstate-tls-config",
    "/api/v1/namespaces/openshift-nmstate/configmaps/nginx-conf",
    "/api/v1/namespaces/openshift-nmstate/serviceaccounts/nmstate-handler",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/openshift-nmstate/roles/nmstate-handler",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/openshift-nmstate/rolebindings/nmstate-handler",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/nmstate-handler-events",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/nmstate-handler",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/nmstate-handler",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/nmstate-cluster-reader",
];
/// Objects that are kept, whichever operator is installed.
const KEPT: [&str; 13] = [
    "/apis/nmstate.io/v1/nodenetworkconfigurationpolicies/storage",
    "/apis/nmstate.io/v1beta1/nodenetworkconfigurationenactments/worker-0.storage",
    "/apis/nmstate.io/v1beta1/nodenetworkstates/worker-0",
    "/apis/operators.coreos.com/v1alpha1/namespaces/openshift-nmstate/subscriptions/sriov",
    "/apis/operators.coreos.com/v1alpha1/namespaces/openshift-nmstate/clusterserviceversions/sriov-network-operator.v4.17.0",
    "/apis/operators.coreos.com/v1alpha1/namespaces/default/clusterserviceversions/kubernetes-nmstate-operator.v0.0.1",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/strangers",
    "/apis/networking.k8s.io/v1/namespaces/openshift-nmstate/networkpolicies/strangers",
    "/api/v1/namespaces/openshift-nmstate/configmaps/strangers",
    "/api/v1/namespaces/default/configmaps/nginx-conf",
    "/apis/apps/v1/namespaces/default/deployments/nmstate-webhook",
    "/api/v1/namespaces/openshift-nmstate",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodenetworkconfigurationpolicies.nmstate.io",
];

/// Uid and version of everything that must not be modified. Other components write the status of
/// some: for those, the generation counts.
async fn untouched(cluster: &Cluster) -> Vec<String> {
    let mut seen = Vec::new();
    for path in KEPT {
        let object = cluster.server.client().get(path).await.unwrap();
        let metadata = &object["metadata"];
        let generation = path.contains("/apps/") || path.contains("/customresource");
        let version = if generation { "generation" } else { "resourceVersion" };
        seen.push(format!("{path}: {} {}", metadata["uid"], metadata[version]));
    }
    let nmstate =
        cluster.server.client().get("/apis/nmstate.io/v1/nmstates/nmstate").await.unwrap();
    seen.push(format!("NMState: {}", nmstate["metadata"]["uid"]));
    seen
}

async fn is_there(cluster: &Cluster, path: &str) -> bool {
    match cluster.server.client().get(path).await {
        Ok(_) => true,
        Err(lab_cluster::kube::ApiError::Refused { code: 404, .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn gone(cluster: &Cluster, paths: &[&str]) {
    for path in paths {
        eventually(&format!("{path} is gone"), || async { !is_there(cluster, path).await }).await;
    }
}

/// A version of kubernetes-nmstate in this namespace.
fn version(bundle: &str, namespace: &str) -> String {
    assert!(bundle.contains("  namespace: placeholder\n"));
    bundle.replace("  namespace: placeholder\n", &format!("  namespace: {namespace}\n"))
}

/// The uid of the object at a path.
async fn uid(cluster: &Cluster, path: &str) -> String {
    let object = cluster.server.client().get(path).await.unwrap();
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Simulates OLM for a version: it deploys its operator, which is deleted with it.
async fn olm_deploys(cluster: &Cluster) {
    let path = "/apis/operators.coreos.com/v1alpha1/namespaces/openshift-nmstate/clusterserviceversions/kubernetes-nmstate-operator.v0.0.1";
    let owner = uid(cluster, path).await;
    let deployment = include_str!("scenes/their_operator.yaml");
    assert!(deployment.contains("UID"));
    cluster.apply(&deployment.replace("UID", &owner)).await;
}

/// Simulates their operator for an NMState.
async fn they_deploy(cluster: &Cluster) {
    let owner = uid(cluster, "/apis/nmstate.io/v1/nmstates/nmstate").await;
    let reference = format!(
        "ownerReferences: [{{apiVersion: nmstate.io/v1, kind: NMState, name: nmstate, uid: {owner}, controller: true, blockOwnerDeletion: true}}]"
    );
    assert!(DEPLOYED.contains("OWNED"));
    cluster.apply(&DEPLOYED.replace("OWNED: true", &reference)).await;
}

/// A pod with this label in their namespace that does not end before it is released.
async fn hold_pod(cluster: &Cluster, label: &str) -> String {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), THEIRS);
    let list = ListParams::default().labels(label);
    eventually(&format!("a pod {label}"), || async {
        !pods.list(&list).await.unwrap().items.is_empty()
    })
    .await;
    let name = pods.list(&list).await.unwrap().items[0].name_any();
    finalizers(&pods, &name, &json!(["example.com/held"])).await;
    name
}

async fn finalizers(pods: &Api<Pod>, name: &str, list: &Value) {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": list } }));
    pods.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn let_go(cluster: &Cluster, name: &str) {
    finalizers(&Api::namespaced(cluster.client.clone(), THEIRS), name, &Value::Null).await;
}

/// Whether the condition of the NMState that is true, or the first one, contains this.
async fn says(cluster: &Cluster, text: &str) {
    let nmstates: Api<NMState> = Api::all(cluster.client.clone());
    eventually(&format!("the NMState says {text:?}"), || async {
        let status = nmstates.get("nmstate").await.unwrap().status.unwrap_or_default();
        let mut messages = status.conditions.iter().filter_map(|held| held.message.as_deref());
        messages.any(|message| message.contains(text))
    })
    .await;
}

async fn record(cluster: &Cluster) -> Option<ConfigMap> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    maps.get_opt(RECORD).await.unwrap()
}

/// Simulates the kubelet for ours: every pod runs.
async fn our_pods_run(cluster: &Cluster) {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    eventually("the roll-out is over", || async {
        for pod in pods.list(&ListParams::default()).await.unwrap().items {
            let status = Patch::Merge(json!({ "status": {
                "phase": "Running",
                "conditions": [{ "type": "Ready", "status": "True" }],
            }}));
            // It may have been deleted in the meantime.
            let _ = pods.patch_status(&pod.name_any(), &PatchParams::default(), &status).await;
        }
        cluster.condition("Progressing").await.0 == "False"
    })
    .await;
}

fn is_refused<T: std::fmt::Debug>(result: Result<T, kube::Error>, message: &str) {
    match result.unwrap_err() {
        kube::Error::Api(status) => assert!(status.message.contains(message), "{status:?}"),
        error => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_cluster_is_taken_over_from_olm_in_one_step_and_given_back_in_one() {
    take_over_and_give_back(VERSION).await;
}

/// Data tier: the bundle is not part of this repository.
#[tokio::test]
async fn the_published_bundle_is_taken_over_from_olm_and_given_back() {
    let Some(folder) = data_tier("kubernetes-nmstate-api") else { return };
    let path =
        folder.join("bundle/manifests/kubernetes-nmstate-operator.clusterserviceversion.yaml");
    take_over_and_give_back(&fs::read_to_string(path).unwrap()).await;
}

/// Take-over and return, where OLM installed this version of kubernetes-nmstate.
async fn take_over_and_give_back(bundle: &str) {
    let mut cluster = Cluster::start().await;
    cluster.server.client().load_crd_text(MORE_CRDS).await.unwrap();
    cluster.apply(INFRASTRUCTURE).await;
    cluster.platform("BareMetal").await;
    cluster.apply_payload().await;
    cluster.server.start_controllers().await.unwrap();
    cluster.apply(CLUSTER).await;
    cluster.server.client().apply_status(include_str!("scenes/status.yaml")).await.unwrap();
    cluster.apply(INSTALLED).await;
    cluster.apply(&version(bundle, THEIRS)).await;
    let copied = version(bundle, "default").replace(
        "metadata:\n  annotations:",
        "metadata:\n  labels: {olm.copiedFrom: openshift-nmstate}\n  annotations:",
    );
    assert!(copied.contains("olm.copiedFrom"));
    cluster.apply(&copied).await;
    olm_deploys(&cluster).await;
    they_deploy(&cluster).await;
    let operator_pod = hold_pod(&cluster, "app=kubernetes-nmstate-operator").await;
    let handler_pod = hold_pod(&cluster, "component=kubernetes-nmstate-handler").await;

    // The cluster is left unchanged, and that is reported.
    let operator = cluster.operator("4.99.1").await;
    cluster.wait_for_condition("Disabled", "True", "OtherOperatorPresent").await;
    says(&cluster, "The operator openshift-nmstate/nmstate-operator serves this API").await;
    cluster.deployed(false).await;
    let before = untouched(&cluster).await;

    // The plan is printed, and nothing is changed.
    let printed = cluster.command(&["take-over"]).finish().await;
    assert!(printed.contains("would record and remove the Subscription openshift-nmstate/"));
    assert_eq!(untouched(&cluster).await, before);
    assert!(record(&cluster).await.is_none());

    // The take-over itself. Their operator ends slowly, and ours waits for it.
    let taking = cluster.command(&["take-over", "--yes"]);
    cluster.wait_for_condition("Disabled", "True", "TakingOver").await;
    taking.prints(&format!("waiting for the pod openshift-nmstate/{operator_pod} to end")).await;
    let subscription = "/apis/operators.coreos.com/v1alpha1/namespaces/openshift-nmstate/subscriptions/kubernetes-nmstate-operator";
    let installed = "/apis/operators.coreos.com/v1alpha1/namespaces/openshift-nmstate/clusterserviceversions/kubernetes-nmstate-operator.v0.0.1";
    assert!(!is_there(&cluster, subscription).await && !is_there(&cluster, installed).await);
    for path in GONE {
        assert!(is_there(&cluster, path).await, "{path} stays while its operator runs");
    }
    let written = record(&cluster).await.unwrap().data.unwrap()["objects.json"].clone();
    assert!(written.contains(r#""channel": "stable""#), "{written}");

    // If it is killed in the middle, the next ones continue.
    drop(taking);
    operator.kill(&cluster).await;
    let taking = cluster.command(&["take-over", "--yes"]);
    let operator = cluster.operator("4.99.1").await;
    let_go(&cluster, &operator_pod).await;

    // A handler of theirs ends slowly: it keeps its permissions, and does not delay ours.
    cluster.deployed(true).await;
    cluster.wait_for_condition("Disabled", "False", "AsExpected").await;
    let daemon_sets: Api<DaemonSet> = Api::namespaced(cluster.client.clone(), THEIRS);
    eventually("their handlers are ending", || async {
        let set = daemon_sets.get_opt("nmstate-handler").await.unwrap();
        set.is_none_or(|set| set.metadata.deletion_timestamp.is_some())
    })
    .await;
    our_pods_run(&cluster).await;
    says(&cluster, "Pods of kubernetes-nmstate are ending still, those of DaemonSet openshift-nmstate/nmstate-handler").await;
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/nmstate-handler";
    assert!(is_there(&cluster, role).await, "what a handler needs stays as long as it runs");
    let_go(&cluster, &handler_pod).await;
    gone(&cluster, &GONE).await;
    let console =
        cluster.server.client().get("/apis/operator.openshift.io/v1/consoles/cluster").await;
    assert_eq!(console.unwrap()["spec"]["plugins"], json!(["strangers", "more"]));
    eventually("it is written down that nothing is left", || async {
        record(&cluster).await.unwrap().data.unwrap()["phase"] == "Done"
    })
    .await;
    taking.finish().await;
    assert_eq!(untouched(&cluster).await, before);
    let printed = cluster.command(&["take-over", "--yes"]).finish().await;
    assert!(printed.contains("nmstate-operator serves this API now"), "{printed}");

    // What the operator is not permitted to do.
    its_rights_end_there(&cluster).await;

    // And the reverse.
    let printed = cluster.command(&["give-back"]).finish().await;
    assert!(printed.contains("would restore the Subscription openshift-nmstate/"), "{printed}");
    let giving = cluster.command(&["give-back", "--yes"]);
    cluster.wait_for_condition("Disabled", "True", "GivingBack").await;
    cluster.deployed(false).await;
    let waits =
        "waiting for what the Subscription openshift-nmstate/kubernetes-nmstate-operator installs";
    giving.prints(waits).await;
    let restored = cluster.server.client().get(subscription).await.unwrap();
    let text: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(restored["spec"], text["items"][0]["spec"]);
    assert_eq!(restored["metadata"]["labels"], json!({ "team": "network" }));
    assert!(record(&cluster).await.is_some(), "kept until the other one runs");
    operator.stop();
    drop(giving);
    let giving = cluster.command(&["give-back", "--yes"]);
    let _operator = cluster.operator("4.99.1").await;
    cluster.apply(&version(bundle, THEIRS)).await;
    olm_deploys(&cluster).await;
    cluster.wait_for_condition("Disabled", "True", "OtherOperatorPresent").await;
    they_deploy(&cluster).await;
    giving.finish().await;
    assert!(record(&cluster).await.is_none());
    cluster.wait_for_condition("Progressing", "False", "AsExpected").await;
    for path in GONE {
        assert!(is_there(&cluster, path).await, "{path} is theirs again");
    }
    assert_eq!(untouched(&cluster).await, before);
}

/// The operator's token permits access to its own objects only.
async fn its_rights_end_there(cluster: &Cluster) {
    let client = cluster.client_of("nmstate-operator").await;
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let olm = |kind: &str| -> Api<DynamicObject> {
        let kind = kube::core::GroupVersionKind::gvk("operators.coreos.com", "v1alpha1", kind);
        let resource = kube::api::ApiResource::from_gvk(&kind);
        Api::namespaced_with(client.clone(), THEIRS, &resource)
    };
    let cannot = "cannot delete resource";
    let subscriptions = olm("Subscription");
    is_refused(subscriptions.delete("sriov", &dry).await, cannot);
    is_refused(subscriptions.list(&ListParams::default()).await, "cannot list resource");
    let versions = olm("ClusterServiceVersion");
    is_refused(versions.delete("sriov-network-operator.v4.17.0", &dry).await, cannot);
    let mut version: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": { "name": "kubernetes-nmstate-operator.v9" },
    }))
    .unwrap();
    version.data = json!({ "spec": {} });
    let created = versions.create(&kube::api::PostParams::default(), &version).await;
    is_refused(created, "cannot create resource");
    let policies: Api<k8s_openapi::api::networking::v1::NetworkPolicy> =
        Api::namespaced(client.clone(), THEIRS);
    is_refused(policies.delete("strangers", &dry).await, cannot);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    is_refused(deployments.delete("nmstate-webhook", &dry).await, cannot);
    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(client.clone());
    is_refused(roles.delete("cluster-admin", &dry).await, cannot);
    // Policies only of documents of nodes.
    let network: Api<nmstate_api::NodeNetworkConfigurationPolicy> = Api::all(client.clone());
    let policy = nmstate_api::NodeNetworkConfigurationPolicy::new("p");
    let created = network.create(&kube::api::PostParams::default(), &policy).await;
    is_refused(created, "creates policies of documents of nodes only");
    let maps: Api<ConfigMap> = Api::namespaced(client, THEIRS);
    is_refused(maps.delete("strangers", &dry).await, cannot);
}

/// The network add-ons of OpenShift Virtualization, on a cluster that has neither OLM nor
/// monitoring nor a console: kinds that are not there have no objects.
#[tokio::test]
async fn a_cluster_is_taken_over_from_the_network_add_ons_and_given_back() {
    let cluster = Cluster::empty().await;
    let kinds = ["clusteroperators.config.openshift.io", "infrastructures.config.openshift.io"];
    cluster.server.client().load_published_crds(&kinds).await.unwrap();
    let addons =
        MORE_CRDS.split("---\n").find(|text| text.contains("networkaddonsconfigs")).unwrap();
    cluster.server.client().load_crd_text(addons).await.unwrap();
    cluster.apply(INFRASTRUCTURE).await;
    cluster.platform("None").await;
    cluster.apply_payload_without("monitoring").await;
    cluster.apply(include_str!("scenes/addons.yaml")).await;
    let path = "/apis/networkaddonsoperator.network.kubevirt.io/v1/networkaddonsconfigs/cluster";
    let owner = uid(&cluster, path).await;
    let handlers = include_str!("scenes/addons_handlers.yaml");
    assert!(handlers.contains("UID"));
    cluster.apply(&handlers.replace("UID", &owner)).await;
    cluster.apply("apiVersion: nmstate.io/v1\nkind: NMState\nmetadata: {name: nmstate}\n").await;

    let _operator = cluster.operator("4.99.1").await;
    cluster.wait_for_condition("Disabled", "True", "OtherOperatorPresent").await;
    says(
        &cluster,
        "The DaemonSet openshift-cnv/nmstate-handler of the NetworkAddonsConfig cluster serves",
    )
    .await;

    let taking = cluster.command(&["take-over", "--yes"]);
    let spec = || async { cluster.server.client().get(path).await.unwrap()["spec"].clone() };
    eventually("nmstate is not requested", || async { spec().await["nmstate"].is_null() }).await;
    assert_eq!(spec().await, json!({ "multus": {} }));
    says(&cluster, "waiting for the DaemonSet openshift-cnv/nmstate-handler of the NetworkAddonsConfig cluster").await;
    taking.prints("removing spec.nmstate of the NetworkAddonsConfig cluster").await;
    cluster.deployed(false).await;
    // The add-ons remove what they deployed.
    let handlers_of =
        |client: &Client| -> Api<DaemonSet> { Api::namespaced(client.clone(), "openshift-cnv") };
    let theirs = handlers_of(&cluster.client);
    theirs.delete("nmstate-handler", &DeleteParams::default()).await.unwrap();
    cluster.deployed(true).await;
    cluster.wait_for_condition("Disabled", "False", "AsExpected").await;

    taking.finish().await;

    let giving = cluster.command(&["give-back", "--yes"]);
    eventually("nmstate is requested again", || async {
        spec().await["nmstate"] == json!({ "some": "setting" })
    })
    .await;
    cluster.wait_for_condition("Disabled", "True", "GivingBack").await;
    cluster.deployed(false).await;
    cluster.apply(&handlers.replace("UID", &owner)).await;
    cluster.wait_for_condition("Disabled", "True", "OtherOperatorPresent").await;
    giving.finish().await;
    assert!(record(&cluster).await.is_none());
}
