//! A cluster that is being installed, and the program in it with its own permissions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use lab::eventually;
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use nmstate_api::condition::find;
use nmstate_api::{NMState, NodeNetworkConfigurationPolicy as Policy, PolicyConditionType};
use nmstate_deployment::payload;
use serde_json::{Value, json};
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(600);
pub(crate) const NAMESPACE: &str = "openshift-nmstate-operator";

/// A cluster that is being installed.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    folder: TempDir,
}

/// The running program; stopped when dropped.
pub(crate) struct Operator(Child);

impl Operator {
    /// Requests it to stop, as the kubelet does. It releases its lease.
    pub(crate) fn stop(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }

    /// Kills it. The lease that it leaves behind would block the next one for two minutes.
    pub(crate) async fn kill(self, cluster: &Cluster) {
        drop(self);
        let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
        leases.delete("nmstate-operator", &DeleteParams::default()).await.unwrap();
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that an administrator runs; killed when dropped.
pub(crate) struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    /// Its output so far.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    /// Waits until it has printed this.
    pub(crate) async fn prints(&self, text: &str) {
        eventually(&format!("it prints {text:?}"), || async { self.output().contains(text) }).await;
    }

    /// Waits until it ends, which must be a success.
    pub(crate) async fn finish(mut self) -> String {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{}", self.output());
                return self.output();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

impl Cluster {
    /// A server with OpenShift's CRDs.
    pub(crate) async fn start() -> Self {
        let cluster = Self::empty().await;
        cluster.server.load_cluster_crds().await.unwrap();
        cluster
    }

    /// A cluster on bare metal with the files of the payload.
    pub(crate) async fn on_bare_metal() -> Self {
        let cluster = Self::start().await;
        cluster.apply(INFRASTRUCTURE).await;
        cluster.platform("BareMetal").await;
        cluster.apply_payload().await;
        cluster
    }

    /// A server with no CRDs.
    pub(crate) async fn empty() -> Self {
        let server = ApiServer::start().await.unwrap();
        let client = client(server.kubeconfig()).await;
        Self { server, client, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn apply(&self, yaml: &str) {
        self.server.apply(yaml, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    }

    pub(crate) async fn apply_payload(&self) {
        self.apply_payload_without("nothing").await;
    }

    /// Applies the files whose names do not contain this word.
    pub(crate) async fn apply_payload_without(&self, word: &str) {
        for file in payload::files().iter().filter(|file| !file.name.contains(word)) {
            let text = file.text().unwrap();
            if file.name.contains("_crd-") {
                self.server.client().load_crd_text(&text).await.unwrap();
            } else if file.name != "image-references" {
                self.apply(&text).await;
            }
        }
    }

    /// Does what cluster-bootstrap does: creates each file, never updates one, retries the
    /// remaining ones every 200 ms.
    pub(crate) async fn bootstrap(&self, manifests: Vec<Value>) {
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

    pub(crate) fn dynamic(&self, object: &Value) -> Api<DynamicObject> {
        let (group, version) =
            object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let kind = object["kind"].as_str().unwrap();
        let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    pub(crate) async fn platform(&self, name: &str) {
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

    /// A kubeconfig with a token of a service account.
    async fn kubeconfig_of(&self, account: &str) -> PathBuf {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), NAMESPACE);
        let request = TokenRequest::default();
        let response =
            accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
        let mut kubeconfig: Value =
            serde_json::from_str(&fs::read_to_string(self.server.kubeconfig()).unwrap()).unwrap();
        kubeconfig["users"][0]["user"]["token"] = json!(response.status.unwrap().token);
        let path = self.folder.path().join(format!("kubeconfig-{account}"));
        fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// A client with a token of a service account.
    pub(crate) async fn client_of(&self, account: &str) -> Client {
        client(&self.kubeconfig_of(account).await).await
    }

    /// Starts a command of the program with the administrator's permissions.
    pub(crate) fn command(&self, arguments: &[&str]) -> Running {
        let output = self.folder.path().join(format!("{}.out", arguments.join("")));
        let file = fs::File::create(&output).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_nmstate-operator"))
            .args(arguments)
            .env("KUBECONFIG", self.server.kubeconfig())
            .stdout(file)
            .spawn()
            .unwrap();
        Running { child, output }
    }

    /// Starts the program with its own permissions.
    pub(crate) async fn operator(&self, version: &str) -> Operator {
        let path = self.kubeconfig_of("nmstate-operator").await;
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

    pub(crate) async fn condition(&self, type_: &str) -> (String, String) {
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

    pub(crate) async fn version(&self) -> String {
        let object = json!({ "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator" });
        let found = self.dynamic(&object).get("nmstate").await.unwrap();
        found.data["status"]["versions"][0]["version"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn wait_for_condition(&self, type_: &str, status: &str, reason: &str) {
        eventually(&format!("ClusterOperator: {type_}={status} {reason}"), || async {
            self.condition(type_).await == (status.to_owned(), reason.to_owned())
        })
        .await;
    }

    pub(crate) async fn ignored(&self, holds: bool) {
        let policies: Api<Policy> = Api::all(self.client.clone());
        eventually("the policy reports that it is not applied", || async {
            let policy = policies.get("at-install").await.unwrap();
            let found = find(policy.conditions(), PolicyConditionType::Ignored);
            let is_ignored =
                found.is_some_and(|held| held.reason.as_deref() == Some("OperandNotDeployed"));
            is_ignored == holds
        })
        .await;
    }

    pub(crate) async fn deployed(&self, is_there: bool) {
        let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), NAMESPACE);
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        eventually(&format!("handlers are deployed: {is_there}"), || async {
            let set = sets.get_opt("nmstate-handler").await.unwrap().is_some();
            let role = roles.get_opt("openshift-nmstate-handler").await.unwrap().is_some();
            (set, role) == (is_there, is_there)
        })
        .await;
    }

    /// Simulates the controllers that this server does not have: all requested pods run.
    pub(crate) async fn all_pods_run(&self) {
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

    pub(crate) async fn annotate(&self, annotation: &str, value: Option<&str>) {
        let nmstates: Api<NMState> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { annotation: value } } }));
        nmstates.patch("nmstate", &PatchParams::default(), &patch).await.unwrap();
    }
}

pub(crate) const INFRASTRUCTURE: &str = "apiVersion: config.openshift.io/v1
kind: Infrastructure
metadata: {name: cluster}
spec: {}
";
