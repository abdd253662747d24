//! The program against a real API server with the Node authorizer and NodeRestriction.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use lab_cluster::kube::{ApiServer, FieldValidation, Persistence, ServerOptions};
use serde_json::Value;

const ANNOTATION: &str = "brex.landfall.dev/first-boot";
const REPORT: &str = r#"{
  "version": 1, "program": "brex-firstboot 0.1.0", "bootId": "b-1", "hostname": "worker-0",
  "entries": [{
    "command": "confirm", "at": "2026-11-17T02:00:00Z", "result": "taken-back",
    "message": "br-ex of worker-0.yml was rolled back: no IPv6 default route by br-ex",
    "document": {"file": "worker-0.yml", "sha256": "abc", "because": "it was staged"}
  }]
}"#;

/// The files that brex-firstboot leaves on a node.
fn node(report: Option<&str>, flag: Option<&str>) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    if let Some(report) = report {
        put("var/log/brex-firstboot/report.json", report);
    }
    if let Some(flag) = flag {
        put("etc/nmstate/openshift/applied", flag);
    }
    root
}

fn report(root: &Path, kubeconfig: &Path) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = Command::new(env!("CARGO_BIN_EXE_brex-report"))
        .args(["--timeout", "1", "--root"])
        .arg(root)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()
        .unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

async fn server() -> ApiServer {
    let options = ServerOptions { node: Some("worker-0"), ..ServerOptions::default() };
    ApiServer::start_with(options).await.unwrap()
}

/// The events about nodes. The API server has some about itself.
async fn events(server: &ApiServer) -> Vec<Value> {
    let list = server.client().get("/api/v1/namespaces/default/events").await.unwrap();
    let all = list["items"].as_array().unwrap().iter();
    all.filter(|event| event["involvedObject"]["kind"] == "Node").cloned().collect()
}

#[tokio::test]
async fn the_kubelet_of_a_node_reports_on_its_own_node_once() {
    let server = server().await;
    let nodes = "apiVersion: v1\nkind: Node\nmetadata: {name: worker-0}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: worker-1}\n";
    let kubeconfig = server.kubelet_kubeconfig();
    let root = node(Some(REPORT), None);
    // Before the node has joined.
    let (code, message) = report(root.path(), &kubeconfig);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("the node has not joined yet"), "{message}");

    server.apply(nodes, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    let (code, message) = report(root.path(), &kubeconfig);
    assert_eq!(code, Some(0), "{message}");
    let object = server.client().get("/api/v1/nodes/worker-0").await.unwrap();
    let summary = object["metadata"]["annotations"][ANNOTATION].as_str().unwrap();
    let summary: Value = serde_json::from_str(summary).unwrap();
    assert_eq!(summary["result"], "taken-back");
    assert_eq!(summary["document"]["file"], "worker-0.yml");
    let all = events(&server).await;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0]["reason"], "BrexRolledBack");
    assert_eq!(all[0]["type"], "Warning");
    assert_eq!(all[0]["involvedObject"]["name"], "worker-0");

    // Every boot runs it; an unchanged report is not sent again.
    let (code, message) = report(root.path(), &kubeconfig);
    assert_eq!(code, Some(0), "{message}");
    assert_eq!(events(&server).await.len(), 1);

    // A later boot succeeded.
    let good = node(Some(&REPORT.replace("taken-back", "confirmed")), Some("interfaces: []\n"));
    let (code, message) = report(good.path(), &kubeconfig);
    assert_eq!(code, Some(0), "{message}");
    let all = events(&server).await;
    assert!(all.iter().any(|event| event["reason"] == "BrexConfirmed"), "{all:?}");
    let other = server.client().get("/api/v1/nodes/worker-1").await.unwrap();
    assert!(other["metadata"]["annotations"][ANNOTATION].is_null());
}

#[tokio::test]
async fn credentials_of_others_and_unreadable_reports_are_named() {
    let server = server().await;
    let root = node(Some(REPORT), None);
    let (code, message) = report(root.path(), server.kubeconfig());
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("expected the credentials of a kubelet"), "{message}");
    let missing = root.path().join("no-kubeconfig");
    let (code, message) = report(root.path(), &missing);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("no-kubeconfig: No such file"), "{message}");
    let broken = node(Some("{"), None);
    let (code, message) = report(broken.path(), &server.kubelet_kubeconfig());
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("report.json"), "{message}");
}
