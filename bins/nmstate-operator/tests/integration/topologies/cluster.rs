//! A cluster: an API server with OpenShift's CRDs, controllers, nodes, and what a release contains.

use std::cell::RefCell;
use std::future::Future;
use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence, ServerOptions};
use nmstate_deployment::payload;
use serde_json::{Value, json};

use crate::topologies::kubelet::Kubelet;

pub(crate) const NAMESPACE: &str = "openshift-nmstate-operator";
/// Long enough for a machine under load.
const DEADLINE: Duration = Duration::from_secs(600);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Which manifests of a payload are for a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    SelfManaged,
    SingleNodeDeveloper,
    Hypershift,
}

impl Profile {
    fn annotation(self) -> &'static str {
        match self {
            Self::SelfManaged => "include.release.openshift.io/self-managed-high-availability",
            Self::SingleNodeDeveloper => "include.release.openshift.io/single-node-developer",
            Self::Hypershift => "include.release.openshift.io/hypershift",
        }
    }
}

/// A cluster. All of it is removed when dropped.
pub(crate) struct Cluster {
    // Dropped before the server that its pods use.
    pub(crate) kubelet: RefCell<Kubelet>,
    pub(crate) client: Client,
    pub(crate) server: ApiServer,
}

impl Cluster {
    /// A server with OpenShift's kinds, and an Infrastructure with this platform and topology.
    pub(crate) async fn start(platform: &str, topology: &str) -> Self {
        let cluster = Self::bare().await;
        cluster.server.load_cluster_crds().await.unwrap();
        cluster
            .apply("apiVersion: config.openshift.io/v1\nkind: Infrastructure\nmetadata: {name: cluster}\nspec: {}")
            .await;
        cluster.infrastructure(platform, topology).await;
        cluster
    }

    /// A server with Kubernetes' own kinds only.
    pub(crate) async fn bare() -> Self {
        let options = ServerOptions {
            is_audited: true,
            wants_service_accounts: true,
            ..ServerOptions::default()
        };
        let server = ApiServer::start_with(options).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let kubelet = Kubelet::new(client.clone(), server.kubeconfig());
        Self { kubelet: RefCell::new(kubelet), client, server }
    }

    pub(crate) async fn apply(&self, yaml: &str) -> Vec<Value> {
        self.server.apply(yaml, Persistence::Stored, FieldValidation::Strict).await.unwrap()
    }

    /// Does what the cluster-version operator does with a release of this version: of its manifests
    /// it applies those of the cluster's profile, with image and version filled in.
    pub(crate) async fn update(&self, profile: Profile, version: &str) {
        for file in payload::files() {
            if file.name == "image-references" {
                continue;
            }
            for object in file.objects {
                if object["metadata"]["annotations"][profile.annotation()] != "true" {
                    continue;
                }
                let text = released(&object.to_string(), version);
                if object["kind"] == "CustomResourceDefinition" {
                    self.server.client().load_crd_text(&text).await.unwrap();
                } else {
                    self.apply(&text).await;
                }
            }
        }
    }

    pub(crate) async fn infrastructure(&self, platform: &str, topology: &str) {
        let status = json!({ "status": {
            "platform": platform,
            "platformStatus": { "type": platform },
            "controlPlaneTopology": topology,
            "infrastructureTopology": if topology == "External" { "HighlyAvailable" } else { topology },
        }});
        self.dynamic("config.openshift.io/v1", "Infrastructure", None)
            .patch_status("cluster", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    }

    /// Reports that the cluster was installed; before that, no node is changed.
    pub(crate) async fn installed(&self) {
        self.apply("apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {name: version}\nspec: {clusterID: 6b1f8e2c-8d3b-4c53-9a53-0d1f5d0f7a11}")
            .await;
        let time = "2026-01-01T00:00:00Z";
        let status = json!({ "status": {
            "availableUpdates": [], "observedGeneration": 1, "versionHash": "",
            "desired": { "image": "i", "version": "4.99.0" },
            "history": [{
                "state": "Completed", "image": "i", "version": "4.99.0", "verified": true,
                "startedTime": time, "completionTime": time,
            }],
        }});
        self.dynamic("config.openshift.io/v1", "ClusterVersion", None)
            .patch_status("version", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    }

    /// Nodes that are Ready.
    pub(crate) async fn add_nodes(&self, names: &[&str]) {
        for name in names {
            self.apply(&format!(
                "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/os: linux, kubernetes.io/hostname: {name}}}}}\n"
            ))
            .await;
            let ready =
                json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
            self.dynamic("v1", "Node", None)
                .patch_status(name, &PatchParams::default(), &Patch::Merge(&ready))
                .await
                .unwrap();
        }
    }

    pub(crate) fn dynamic(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// The object as stored by the server, or null.
    pub(crate) async fn get(&self, api_version: &str, kind: &str, name: &str) -> Value {
        let namespace = matches!(
            kind,
            "DaemonSet" | "Deployment" | "PodDisruptionBudget" | "ConfigMap" | "Lease"
        )
        .then_some(NAMESPACE);
        let found = self.dynamic(api_version, kind, namespace).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
    }

    pub(crate) async fn delete(&self, api_version: &str, kind: &str, name: &str) {
        let api = self.dynamic(api_version, kind, None);
        drop(api.delete(name, &DeleteParams::default()).await.unwrap());
    }

    /// Waits, while pods are scheduled and run.
    pub(crate) async fn until<F: Future<Output = bool>>(
        &self,
        what: &str,
        mut holds: impl FnMut() -> F,
    ) {
        let began = Instant::now();
        loop {
            self.kubelet.borrow_mut().sync().await;
            if holds().await {
                eprintln!("{what}: {:.1} s", began.elapsed().as_secs_f32());
                return;
            }
            if began.elapsed() > DEADLINE {
                let found = self.get("config.openshift.io/v1", "ClusterOperator", "nmstate").await;
                panic!("{what}: not within {DEADLINE:?}\n{:#}", found["status"]);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// A condition of our ClusterOperator, as in `True AsExpected`.
    pub(crate) async fn condition(&self, type_: &str) -> String {
        let object = self.get("config.openshift.io/v1", "ClusterOperator", "nmstate").await;
        condition(&object, type_)
    }

    /// Waits for a condition of our ClusterOperator.
    pub(crate) async fn wait_for_condition(&self, type_: &str, expected: &str) {
        self.until(&format!("the ClusterOperator has {type_}={expected}"), || async {
            self.condition(type_).await == expected
        })
        .await;
    }

    /// Waits until all expected components run in this version, and this is reported.
    pub(crate) async fn settled(&self, version: &str) {
        self.until(&format!("{version} is rolled out"), || async {
            let object = self.get("config.openshift.io/v1", "ClusterOperator", "nmstate").await;
            object["status"]["versions"][0]["version"] == version
                && condition(&object, "Progressing") == "False AsExpected"
                && condition(&object, "Disabled") == "False AsExpected"
        })
        .await;
    }
}

/// Status and reason of a condition.
pub(crate) fn condition(object: &Value, type_: &str) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|it| it["type"] == type_);
    let text = |key: &str| found.and_then(|it| it[key].as_str()).unwrap_or_default();
    format!("{} {}", text("status"), text("reason"))
}

/// What release tooling makes of a manifest.
pub(crate) fn released(manifest: &str, version: &str) -> String {
    manifest
        .replace(
            "quay.io/openshift/nmstate-operator:latest",
            &format!("registry.test/nmstate:{version}"),
        )
        .replace("0.0.1-snapshot", version)
}
