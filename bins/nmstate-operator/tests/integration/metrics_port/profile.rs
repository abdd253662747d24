//! The cluster's TLS profile, from the APIServer to the clients of the metrics port.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use lab::certificates::Authority;
use lab::eventually;
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence, open_crd};
use nmstate_api::{NMState, condition};
use nmstate_deployment::payload;
use reqwest::tls::Version;
use serde_json::{Value, json};

use crate::metrics_port::scene::{MONITORING, Part, TestClient, put_client_authority};

const NAMESPACE: &str = "openshift-nmstate-operator";

struct Cluster {
    server: ApiServer,
    client: Client,
}

impl Cluster {
    /// A cluster with the payload, on a platform where nothing is enabled by default.
    async fn start() -> Self {
        let server = ApiServer::start().await.unwrap();
        server.load_cluster_crds().await.unwrap();
        // Only this part of its real schema is read.
        let servers = open_crd("config.openshift.io", "APIServer", "apiservers", &[]);
        server.client().load_crd_text(&servers.to_string()).await.unwrap();
        for file in payload::files() {
            let text = file.text().unwrap();
            if file.name.contains("_crd-") {
                server.client().load_crd_text(&text).await.unwrap();
            } else if file.name != "image-references" {
                server.apply(&text, Persistence::Stored, FieldValidation::Strict).await.unwrap();
            }
        }
        let client = client(server.kubeconfig()).await;
        Self { server, client }
    }

    async fn apply(&self, object: &Value) {
        let text = object.to_string();
        self.server.apply(&text, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    }

    async fn profile(&self, profile: &Value) {
        self.apply(&json!({
            "apiVersion": "config.openshift.io/v1",
            "kind": "APIServer",
            "metadata": { "name": "cluster" },
            "spec": { "tlsSecurityProfile": profile },
        }))
        .await;
    }

    /// A kubeconfig with a token of this account, in this folder.
    async fn kubeconfig(&self, account: &str, folder: &Path) -> PathBuf {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), NAMESPACE);
        let response = accounts
            .create_token_request(account, &PostParams::default(), &TokenRequest::default())
            .await
            .unwrap();
        let text = fs::read_to_string(self.server.kubeconfig()).unwrap();
        let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
        kubeconfig["users"][0]["user"] = json!({ "token": response.status.unwrap().token });
        let path = folder.join(account);
        fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// Flags of the handlers and of the coordinator.
    async fn flags(&self) -> Option<[Vec<String>; 2]> {
        let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), NAMESPACE);
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let set = sets.get_opt("nmstate-handler").await.unwrap()?;
        let deployment = deployments.get_opt("nmstate-coordinator").await.unwrap()?;
        let templates = [set.spec?.template, deployment.spec?.template];
        Some(templates.map(|it| it.spec.unwrap().containers[0].args.clone().unwrap_or_default()))
    }

    async fn flags_become(&self, what: &str, holds: impl Fn(&[String]) -> bool) {
        eventually(what, || async {
            self.flags().await.is_some_and(|parts| parts.iter().all(|flags| holds(flags)))
        })
        .await;
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn the_tls_profile_of_the_cluster_is_followed_by_all_parts() {
    let cluster = Cluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::generate().unwrap();
    put_client_authority(&cluster.server, &authority).await;
    authority.server().unwrap().write(folder.path(), "tls").unwrap();
    let nmstate = json!({ "apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": { "name": "nmstate" } });
    cluster.apply(&nmstate).await;

    let kubeconfig = cluster.kubeconfig("nmstate-operator", folder.path()).await;
    let arguments = ["--operand-image=i".to_owned(), "--release-version=1".to_owned()];
    let operator = Part::start("operator", &arguments, &kubeconfig, folder.path()).await;
    let monitoring = authority.client(MONITORING).unwrap();
    let asking = |version| TestClient::of(&authority).with(&monitoring).only(version);

    // A cluster without a profile gets the default; with its own service account every component
    // can read the CA of clients.
    let numbers = asking(Version::TLS_1_2).numbers(&operator).await;
    assert!(numbers.contains("nmstate_operator_looks_total{outcome=\"done\"}"), "{numbers}");
    let has = |flags: &[String], flag: &str| flags.iter().any(|it| it == flag);
    cluster.flags_become("TLS 1.2", |it| has(it, "--tls-min-version=VersionTLS12")).await;
    for account in ["nmstate-handler", "nmstate-coordinator", "nmstate-operator"] {
        let client = client(&cluster.kubeconfig(account, folder.path()).await).await;
        let maps: Api<ConfigMap> = Api::namespaced(client, "kube-system");
        maps.get("extension-apiserver-authentication").await.unwrap();
    }

    cluster.profile(&json!({ "type": "Modern", "modern": {} })).await;
    cluster.flags_become("TLS 1.3", |it| has(it, "--tls-min-version=VersionTLS13")).await;
    asking(Version::TLS_1_3).numbers(&operator).await;
    asking(Version::TLS_1_2).refused(&operator).await;

    // A profile that cannot be honoured is reported, and metrics are not served with other
    // settings.
    let custom = json!({ "minTLSVersion": "VersionTLS13", "ciphers": [], "groups": ["secp521r1"] });
    cluster.profile(&json!({ "type": "Custom", "custom": custom })).await;
    cluster.flags_become("no metrics", |it| !it.iter().any(|flag| flag.contains("metrics"))).await;
    let nmstates: Api<NMState> = Api::all(cluster.client.clone());
    eventually("the NMState says so", || async {
        let status = nmstates.get("nmstate").await.unwrap().status.unwrap_or_default();
        let degraded = condition::find(&status.conditions, "Degraded");
        degraded.is_some_and(|it| it.reason.as_deref() == Some("TLSProfileNotFullyHonored"))
    })
    .await;
    asking(Version::TLS_1_3).refused(&operator).await;
    operator.says("metrics are not served: nothing that the cluster's TLS profile").await;
}
