//! `nmstate-operator operator` with its own rights, on a real API server with OpenShift's CRDs: from
//! an installation that brings a policy along to the removal of everything.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

use std::fs;
use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt as _};
use lab::kube::{ApiServer, FieldValidation, Persistence};
use nmstate_api::condition::find;
use nmstate_api::{NMState, NodeNetworkConfigurationPolicy as Policy, PolicyConditionType};
use nmstate_deployment::payload;
use serde_json::{Value, json};
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(180);
const NAMESPACE: &str = "openshift-nmstate-operator";

/// A folder of real-world files beside the checkout. Says so when it is absent, past the capture
/// of test output.
fn data_tier(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    let mut uncaptured = std::io::stderr().lock();
    let _ = writeln!(uncaptured, "data tier: {} absent, not run", folder.display());
    None
}

async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let end = Instant::now() + DEADLINE;
    while !holds().await {
        assert!(Instant::now() < end, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A cluster that is being installed.
struct Cluster {
    server: ApiServer,
    client: Client,
    folder: TempDir,
}

/// The running program; gone when dropped.
struct Operator(Child);

impl Operator {
    /// Asks it to stop, as the kubelet does. It gives its lease back.
    fn stop(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Cluster {
    async fn start(crds: &Path) -> Self {
        let server = ApiServer::start().await.unwrap();
        server.load_crds(crds).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = Client::try_from(config).unwrap();
        Self { server, client, folder: tempfile::tempdir().unwrap() }
    }

    async fn apply(&self, yaml: &str) {
        self.server.apply(yaml, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    }

    async fn apply_payload(&self) {
        for file in payload::files() {
            let text = file.text().unwrap();
            if file.name.contains("_crd-") {
                self.server.client().load_crd_text(&text).await.unwrap();
            } else if file.name != "image-references" {
                self.apply(&text).await;
            }
        }
    }

    /// What cluster-bootstrap does: creates each file, never updates one, tries those that are
    /// left every 200 ms.
    async fn bootstrap(&self, manifests: Vec<Value>) {
        let mut left = manifests;
        let end = Instant::now() + DEADLINE;
        while !left.is_empty() {
            assert!(Instant::now() < end, "timed out creating manifests");
            let mut failed = Vec::new();
            for object in left {
                let api = self.dynamic(&object);
                let created: DynamicObject = serde_json::from_value(object.clone()).unwrap();
                match api.create(&PostParams::default(), &created).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(_) => failed.push(object),
                }
            }
            left = failed;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn dynamic(&self, object: &Value) -> Api<DynamicObject> {
        let (group, version) =
            object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let kind = object["kind"].as_str().unwrap();
        let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    async fn platform(&self, name: &str) {
        let object = json!({ "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure" });
        let patch = Patch::Merge(json!({ "status": {
            "platform": name,
            "platformStatus": { "type": name },
            "controlPlaneTopology": "HighlyAvailable",
            "infrastructureTopology": "HighlyAvailable",
        }}));
        let api = self.dynamic(&object);
        api.patch_status("cluster", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Starts the program with a token of its own service account.
    async fn operator(&self, version: &str) -> Operator {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), NAMESPACE);
        let request = TokenRequest::default();
        let answer = accounts
            .create_token_request("nmstate-operator", &PostParams::default(), &request)
            .await
            .unwrap();
        let mut kubeconfig: Value =
            serde_json::from_str(&fs::read_to_string(self.server.kubeconfig()).unwrap()).unwrap();
        kubeconfig["users"][0]["user"]["token"] = json!(answer.status.unwrap().token);
        let path = self.folder.path().join("kubeconfig");
        fs::write(&path, kubeconfig.to_string()).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_nmstate-operator"))
            .arg("operator")
            .arg(format!("--operand-image=example/i:{version}"))
            .arg(format!("--release-version={version}"))
            .arg("--listen=127.0.0.1:0")
            .env("KUBECONFIG", path)
            .spawn()
            .unwrap();
        Operator(child)
    }

    async fn condition(&self, type_: &str) -> (String, String) {
        let object = json!({ "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator" });
        let found = self.dynamic(&object).get_opt("nmstate").await.unwrap();
        let data = found.map(|object| object.data).unwrap_or_default();
        let conditions = data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions.iter().find(|condition| condition["type"] == type_);
        let text = |key: &str| {
            condition.and_then(|held| held[key].as_str()).unwrap_or_default().to_owned()
        };
        (text("status"), text("reason"))
    }

    async fn version(&self) -> String {
        let object = json!({ "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator" });
        let found = self.dynamic(&object).get("nmstate").await.unwrap();
        found.data["status"]["versions"][0]["version"].as_str().unwrap_or_default().to_owned()
    }

    async fn told(&self, type_: &str, status: &str, reason: &str) {
        eventually(&format!("ClusterOperator: {type_}={status} {reason}"), || async {
            self.condition(type_).await == (status.to_owned(), reason.to_owned())
        })
        .await;
    }

    async fn ignored(&self, holds: bool) {
        let policies: Api<Policy> = Api::all(self.client.clone());
        eventually("the policy is told that nobody acts on it", || async {
            let policy = policies.get("at-install").await.unwrap();
            let found = find(policy.conditions(), PolicyConditionType::Ignored);
            let told =
                found.is_some_and(|held| held.reason.as_deref() == Some("OperandNotDeployed"));
            told == holds
        })
        .await;
    }

    async fn deployed(&self, is_there: bool) {
        let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), NAMESPACE);
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        eventually(&format!("handlers are deployed: {is_there}"), || async {
            let set = sets.get_opt("nmstate-handler").await.unwrap().is_some();
            let role = roles.get_opt("openshift-nmstate-handler").await.unwrap().is_some();
            (set, role) == (is_there, is_there)
        })
        .await;
    }

    /// Plays the controllers that this server does not have: everything that is asked for runs.
    async fn all_pods_run(&self) {
        let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), NAMESPACE);
        let generation = sets.get("nmstate-handler").await.unwrap().metadata.generation;
        let status = Patch::Merge(json!({ "status": {
            "observedGeneration": generation, "desiredNumberScheduled": 3, "numberReady": 3,
            "updatedNumberScheduled": 3, "numberAvailable": 3, "currentNumberScheduled": 3,
            "numberMisscheduled": 0,
        }}));
        sets.patch_status("nmstate-handler", &PatchParams::default(), &status).await.unwrap();
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        eventually("the coordinator is deployed", || async {
            deployments.get_opt("nmstate-coordinator").await.unwrap().is_some()
        })
        .await;
        let found = deployments.get("nmstate-coordinator").await.unwrap();
        let status = Patch::Merge(json!({ "status": {
            "observedGeneration": found.metadata.generation, "replicas": 2, "updatedReplicas": 2,
            "readyReplicas": 2, "availableReplicas": 2,
        }}));
        let name = "nmstate-coordinator";
        deployments.patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }

    async fn annotate(&self, annotation: &str, value: Option<&str>) {
        let nmstates: Api<NMState> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { annotation: value } } }));
        nmstates.patch("nmstate", &PatchParams::default(), &patch).await.unwrap();
    }
}

const POLICY: &str = r#"{
    "apiVersion": "nmstate.io/v1",
    "kind": "NodeNetworkConfigurationPolicy",
    "metadata": { "name": "at-install" },
    "spec": { "desiredState": { "interfaces": [{ "name": "eth1", "type": "ethernet", "state": "up" }] } }
}"#;
const INFRASTRUCTURE: &str = "apiVersion: config.openshift.io/v1
kind: Infrastructure
metadata: {name: cluster}
spec: {}
";

#[tokio::test]
async fn from_an_installation_with_a_policy_to_the_removal_of_everything() {
    let Some(crds) = data_tier("cluster-crds") else { return };
    let cluster = Cluster::start(&crds).await;
    cluster.apply(INFRASTRUCTURE).await;
    cluster.platform("None").await;

    // The installer's manifests are tried long before the payload brings the CRD.
    let policy: Value = serde_json::from_str(POLICY).unwrap();
    let payload = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.apply_payload().await;
    };
    tokio::join!(cluster.bootstrap(vec![policy]), payload);

    let operator = cluster.operator("4.99.0").await;
    cluster.told("Disabled", "True", "UnsupportedPlatform").await;
    cluster.told("Available", "True", "AsExpected").await;
    cluster.ignored(true).await;
    cluster.deployed(false).await;

    cluster.platform("BareMetal").await;
    cluster.deployed(true).await;
    cluster.told("Progressing", "True", "RollingOut").await;
    cluster.all_pods_run().await;
    cluster.told("Progressing", "False", "AsExpected").await;
    cluster.told("Disabled", "False", "AsExpected").await;
    let nmstates: Api<NMState> = Api::all(cluster.client.clone());
    eventually("the NMState is Available", || async {
        let nmstate = nmstates.get("nmstate").await.unwrap();
        nmstate
            .status
            .is_some_and(|status| nmstate_api::condition::is_true(&status.conditions, "Available"))
    })
    .await;

    // Whoever deletes our ClusterOperator gets another.
    let object = json!({ "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator" });
    cluster.dynamic(&object).delete("nmstate", &DeleteParams::default()).await.unwrap();
    cluster.told("Available", "True", "AsExpected").await;

    // The next version: the old one is reported until nothing old runs any more.
    operator.stop();
    let operator = cluster.operator("4.99.1").await;
    cluster.told("Progressing", "True", "RollingOut").await;
    assert_eq!(cluster.version().await, "4.99.0");
    cluster.told("Degraded", "False", "AsExpected").await;
    cluster.all_pods_run().await;
    cluster.told("Progressing", "False", "AsExpected").await;
    assert_eq!(cluster.version().await, "4.99.1");

    cluster.annotate("nmstate.landfall.dev/off", Some("true")).await;
    cluster.deployed(false).await;
    cluster.told("Disabled", "True", "TurnedOff").await;
    cluster.ignored(true).await;
    cluster.annotate("nmstate.landfall.dev/off", None).await;
    cluster.deployed(true).await;

    // A deletion is remembered, also by the next process.
    nmstates.delete("nmstate", &DeleteParams::default()).await.unwrap();
    cluster.deployed(false).await;
    cluster.told("Disabled", "True", "NMStateDeleted").await;
    operator.stop();
    let object = json!({ "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator" });
    cluster.dynamic(&object).delete("nmstate", &DeleteParams::default()).await.unwrap();
    let _operator = cluster.operator("4.99.1").await;
    cluster.told("Disabled", "True", "NMStateDeleted").await;
    assert!(nmstates.get_opt("nmstate").await.unwrap().is_none());

    // What is left are the user's policy and what the payload brought.
    let policies: Api<Policy> = Api::all(cluster.client.clone());
    assert_eq!(policies.get("at-install").await.unwrap().name_any(), "at-install");
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let list = deployments.list(&kube::api::ListParams::default()).await.unwrap();
    let names: Vec<String> = list.items.iter().map(|object| object.name_any()).collect();
    assert_eq!(names, ["nmstate-operator"]);
}

const OTHERS: &str = "apiVersion: v1
kind: Namespace
metadata: {name: openshift-nmstate}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: nmstate-operator, namespace: openshift-nmstate, labels: {app: kubernetes-nmstate-operator}}
spec:
  selector: {matchLabels: {app: o}}
  template: {metadata: {labels: {app: o}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nmstate-handler, namespace: openshift-nmstate, labels: {app: kubernetes-nmstate}}
spec:
  selector: {matchLabels: {app: h}}
  template: {metadata: {labels: {app: h}}, spec: {containers: [{name: c, image: i}]}}
";

#[tokio::test]
async fn another_operator_of_this_api_is_left_alone_and_taken_over_from_on_request() {
    let Some(crds) = data_tier("cluster-crds") else { return };
    let cluster = Cluster::start(&crds).await;
    cluster.apply(INFRASTRUCTURE).await;
    cluster.platform("BareMetal").await;
    cluster.apply_payload().await;
    cluster.apply(OTHERS).await;
    cluster.apply("apiVersion: nmstate.io/v1\nkind: NMState\nmetadata: {name: nmstate}\n").await;

    let _operator = cluster.operator("4.99.1").await;
    cluster.told("Disabled", "True", "OtherOperatorPresent").await;
    cluster.deployed(false).await;

    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "openshift-nmstate");
    deployments.delete("nmstate-operator", &DeleteParams::default()).await.unwrap();
    cluster.annotate("nmstate.landfall.dev/adopt", Some("true")).await;
    cluster.deployed(true).await;
    let sets: Api<DaemonSet> = Api::namespaced(cluster.client.clone(), "openshift-nmstate");
    eventually("the other handlers are gone", || async {
        sets.get_opt("nmstate-handler").await.unwrap().is_none()
    })
    .await;
}
