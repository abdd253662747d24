//! The metrics of a running component: real TLS, certificates of CAs created for the test, and the
//! client CA in a real API server. Then all of it as the operator deploys it.

mod profile;
pub(crate) mod scene;

use std::fs;

use lab::certificates::Authority;
use lab_cluster::kube::ApiServer;
use reqwest::tls::Version;

use scene::{MONITORING, Part, TestClient, put_client_authority};

#[tokio::test]
async fn numbers_are_for_the_monitoring_alone_whatever_is_rotated_meanwhile() {
    let server = ApiServer::start().await.unwrap();
    for crd in nmstate_api::crd::all() {
        server.client().load_crd_text(&crd.to_string()).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let (serving, clients) = (Authority::generate().unwrap(), Authority::generate().unwrap());
    let monitoring = clients.client(MONITORING).unwrap();
    let mut part = Part::start(
        "coordinator",
        &["--namespace=default".to_owned(), "--identity=one".to_owned()],
        server.kubeconfig(),
        folder.path(),
    )
    .await;
    let asking = |trusted: &Authority| TestClient::of(trusted).with(&monitoring);

    // Without certificate and CA the port does not respond to any client and logs the reason;
    // everything else continues to work.
    part.says("metrics are not served: the serving certificate is missing").await;
    asking(&serving).refused(&part).await;
    serving.server().unwrap().write(folder.path(), "tls").unwrap();
    asking(&serving).refused(&part).await;
    part.says("metrics are not served: the CA of clients is missing").await;
    assert_eq!(part.health("/healthz").await, 200);
    assert_eq!(part.health("/readyz").await, 200);
    assert_eq!(part.health("/metrics").await, 404);

    put_client_authority(&server, &clients).await;
    let line = "kubernetes_nmstate_policies_status{status=\"Degraded\"} 0\n";
    asking(&serving).numbers_with(line, &part).await;
    part.says("metrics are served").await;

    // Other clients are distinguished by what they lack.
    let other_account =
        clients.client("system:serviceaccount:openshift-monitoring:grafana").unwrap();
    let text = TestClient::of(&serving).with(&other_account).response_with(403, &part).await;
    assert!(
        text.contains("metrics are for system:serviceaccount:openshift-monitoring:prometheus-k8s")
    );
    TestClient::of(&serving).refused(&part).await;
    let other_authority = Authority::generate().unwrap().client(MONITORING).unwrap();
    TestClient::of(&serving).with(&other_authority).refused(&part).await;
    let server_certificate = clients.server().unwrap();
    TestClient::of(&serving).with(&server_certificate).refused(&part).await;
    for version in [Version::TLS_1_2, Version::TLS_1_3] {
        asking(&serving).only(version).numbers(&part).await;
    }
    a_version_below_the_minimum_is_refused(&server, &clients).await;
    handlers_serve_theirs_likewise(&server, &clients).await;

    // A new certificate is presented from the next connection on.
    let new_serving = Authority::generate().unwrap();
    new_serving.server().unwrap().write(folder.path(), "tls").unwrap();
    asking(&new_serving).numbers(&part).await;
    asking(&serving).refused(&part).await;

    // A new CA is read when an unknown client connects; the old one is then no longer trusted.
    let new_clients = Authority::generate().unwrap();
    put_client_authority(&server, &new_clients).await;
    let new_monitoring = new_clients.client(MONITORING).unwrap();
    TestClient::of(&new_serving).with(&new_monitoring).numbers(&part).await;
    asking(&new_serving).refused(&part).await;

    assert!(part.runs());
    let log = fs::read_to_string(part.log()).unwrap();
    assert_eq!(log.matches("the serving certificate is missing").count(), 1, "{log}");
    assert!(!log.contains("PRIVATE KEY"), "{log}");
}

/// A component that is configured for TLS 1.3 only.
async fn a_version_below_the_minimum_is_refused(server: &ApiServer, clients: &Authority) {
    let folder = tempfile::tempdir().unwrap();
    let serving = Authority::generate().unwrap();
    serving.server().unwrap().write(folder.path(), "tls").unwrap();
    let arguments = ["--namespace=default".to_owned(), "--tls-min-version=VersionTLS13".to_owned()];
    let part = Part::start("coordinator", &arguments, server.kubeconfig(), folder.path()).await;
    let monitoring = clients.client(MONITORING).unwrap();
    let asking = |version| TestClient::of(&serving).with(&monitoring).only(version);
    asking(Version::TLS_1_3).numbers(&part).await;
    asking(Version::TLS_1_2).refused(&part).await;
}

/// A handler for a node that has no policies. It counts from zero.
async fn handlers_serve_theirs_likewise(server: &ApiServer, clients: &Authority) {
    let folder = tempfile::tempdir().unwrap();
    let serving = Authority::generate().unwrap();
    serving.server().unwrap().write(folder.path(), "tls").unwrap();
    let lock = folder.path().join("lock").join("handler_lock");
    let arguments = ["--node-name=n1".to_owned(), format!("--node-lock={}", lock.display())];
    let part = Part::start("handler", &arguments, server.kubeconfig(), folder.path()).await;
    let monitoring = clients.client(MONITORING).unwrap();
    let asking = TestClient::of(&serving).with(&monitoring);
    let line = "nmstate_handler_rollbacks_total{cause=\"probe\"} 0\n";
    asking.numbers_with(line, &part).await;
    assert_eq!(part.health("/healthz").await, 200);
}
