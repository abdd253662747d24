//! `oc-brex doctor` on reports, collections and must-gather folders.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn doctor(words: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oc-brex"));
    command.arg("doctor").args(words).output().unwrap()
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// As the program on a node writes it if the gateway does not respond.
const TAKEN_BACK: &str = r#"{
  "version": 1, "program": "brex-firstboot 0.1.0", "bootId": "b", "hostname": "worker-0",
  "entries": [{
    "command": "confirm", "at": "2026-11-16T02:00:00Z", "result": "taken-back",
    "message": "br-ex of worker-0.yml was rolled back",
    "observation": {"facts": [{"name": "uplink", "holds": false, "detail": "no port of br-ex is an interface of this machine that is up: nic7"}], "probes": []}
  }]
}"#;

const GOOD_STATE: &str = "apiVersion: nmstate.io/v1beta1
kind: NodeNetworkState
metadata: {name: worker-1.example.com}
status:
  currentState:
    interfaces:
    - {name: eno1, type: ethernet, state: up}
    - {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: eno1}, {name: br-ex}]}}
    - name: br-ex
      type: ovs-interface
      state: up
      ipv4: {enabled: true, address: [{ip: 192.0.2.2, prefix-length: 24}]}
    routes:
      running:
      - {destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 192.0.2.1, metric: 48, table-id: 254}
";

#[test]
fn a_report_of_a_failure_has_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    put(&report, TAKEN_BACK);
    let output = doctor(&[&report]);
    let message = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("worker-0:\n  broken: br-ex did not come up"), "{message}");
    assert!(
        message.contains("compare the port's name in the document with `ip link`"),
        "{message}"
    );
}

#[test]
fn a_must_gather_folder_is_read_by_what_is_in_it() {
    let top = tempfile::tempdir().unwrap();
    let at = |path: &str| top.path().join(path);
    put(
        &at("cluster-scoped-resources/nmstate.io/nodenetworkstates/worker-1.example.com.yaml"),
        GOOD_STATE,
    );
    let bad = GOOD_STATE
        .replace("worker-1", "worker-2")
        .replace("next-hop-interface: br-ex", "next-hop-interface: eno1");
    put(
        &at("cluster-scoped-resources/nmstate.io/nodenetworkstates/worker-2.example.com.yaml"),
        &bad,
    );
    put(
        &at("cluster-scoped-resources/machineconfiguration.openshift.io/machineconfigs/10-br-ex-worker.yaml"),
        "apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 10-br-ex-worker, labels: {machineconfiguration.openshift.io/role: worker}}
spec:
  config:
    ignition: {version: 3.2.0}
    storage:
      files:
      - {path: /etc/nmstate/openshift/worker-9.yml, mode: 420, contents: {source: 'data:,interfaces%3A%20%5B%5D%0A'}}
",
    );
    put(
        &at("host_service_logs/masters/ovs-vswitchd_service.log"),
        "bridge|WARN|could not open network device nic7 (No such device)\n",
    );
    put(
        &at("cluster-scoped-resources/core/nodes/worker-3.example.com.yaml"),
        "apiVersion: v1
kind: Node
metadata:
  name: worker-3.example.com
  annotations:
    brex.landfall.dev/first-boot: '{\"version\":1,\"result\":\"refused\",\"message\":\"worker-3.yml:3:1: no bridge [B1]\"}'
",
    );
    put(&at("namespaces/x/pods.yaml"), "not: [our, business\n");
    let output = Command::new(env!("CARGO_BIN_EXE_oc-brex"))
        .args(["doctor", "-o", "json"])
        .arg(top.path())
        .output()
        .unwrap();
    let message: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message:#}");
    let weights = |node: &str| -> Vec<String> {
        let nodes = message["nodes"].as_array().unwrap();
        let found = nodes
            .iter()
            .find(|one| one["node"] == node)
            .unwrap_or_else(|| panic!("{node}: {message:#}"));
        let all = found["diagnoses"].as_array().unwrap().iter();
        all.map(|one| one["weight"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(weights("worker-1.example.com"), ["fine"]);
    assert_eq!(weights("worker-2.example.com"), ["broken"]);
    assert_eq!(weights("worker-3.example.com"), ["broken"]);
    assert_eq!(weights("masters"), ["warning"]);
    // The document of a node that never joined is checked; this one has no bridge.
    let unseen = weights("(not seen)");
    assert_eq!((unseen[0].as_str(), unseen.last().unwrap().as_str()), ("broken", "warning"));
    assert!(message.to_string().contains("rule B1 at worker-9.yml:1:"), "{message:#}");
    assert!(message.to_string().contains("there is no information about worker-9"), "{message:#}");
}

#[test]
fn a_folder_without_evidence_is_an_error_that_names_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    let output = doctor(&[folder.path()]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("brex-firstboot gather"), "{message}");
}

#[test]
fn a_collection_of_a_node_is_read_as_a_whole() {
    let top = tempfile::tempdir().unwrap();
    let at = |path: &str| top.path().join(path);
    put(
        &at("index.json"),
        r#"{"version": 1, "program": "brex-firstboot 0.1.0", "at": "x", "hostname": "worker-0", "items": []}"#,
    );
    put(&at("files/etc/nmstate/openshift/worker-0.yml"), "interfaces: []\n");
    put(&at("files/etc/nmstate/openshift/applied"), "");
    put(&at("files/var/log/brex-firstboot/report.json"), TAKEN_BACK);
    put(
        &at("nmstate.json"),
        r#"{"interfaces": [{"name": "eno1", "type": "ethernet", "state": "up"}]}"#,
    );
    put(&at("journal/nmstate.log"), "InvalidArgument: unknown field `interface`\n");
    let output = doctor(&[top.path()]);
    let message = String::from_utf8_lossy(&output.stdout);
    for expected in [
        "br-ex did not come up",
        "there is no Open vSwitch bridge br-ex",
        "the flag is empty",
        "nmstate rejected the document",
        "rule B1 at worker-0.yml:1:",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

/// The collection of a node by its handler, below a must-gather folder.
fn handler_collection(top: &Path, node: &str, flag: &str) {
    let at = |path: &str| top.join("nmstate/nodes").join(node).join(path);
    let index = serde_json::json!({
        "version": 1, "program": "nmstate-operator 0.1.0", "at": "x", "hostname": node, "items": [],
    });
    put(&at("index.json"), &index.to_string());
    put(&at("files/etc/nmstate/openshift/worker-1.yml"), "interfaces: []\n");
    put(&at("files/etc/nmstate/openshift/worker-9.yml"), "interfaces: []\n");
    put(&at("files/etc/nmstate/openshift/applied"), flag);
    put(&at("journal/nmstate.log"), "InvalidArgument: unknown field `interface`\n");
}

#[test]
fn must_gather_is_evaluated_as_a_running_cluster_is() {
    let top = tempfile::tempdir().unwrap();
    let at = |path: &str| top.path().join(path);
    handler_collection(top.path(), "worker-1.example.com", "an older text");
    put(
        &at("nmstate/nodes.yaml"),
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: \
         worker-1.example.com, labels: {node-role.kubernetes.io/worker: ''}}\n- apiVersion: v1\n  kind: \
         Node\n  metadata: {name: worker-2.example.com, labels: {node-role.kubernetes.io/worker: ''}}\n",
    );
    put(
        &at("nmstate/nodenetworkconfigurationpolicies.yaml"),
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: nmstate.io/v1\n  kind: \
         NodeNetworkConfigurationPolicy\n  metadata: {name: mtu}\n  spec: {desiredState: {interfaces: \
         [{name: br-ex, type: ovs-interface, mtu: 9000}]}}\n",
    );
    put(
        &at("nmstate/nodenetworkconfigurationenactments.yaml"),
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: nmstate.io/v1beta1\n  kind: \
         NodeNetworkConfigurationEnactment\n  metadata: {name: worker-2.example.com.mtu, labels: \
         {nmstate.io/policy: mtu, nmstate.io/node: worker-2.example.com}}\n  status: {conditions: \
         [{type: Failing, status: 'True', message: the switch drops large frames}]}\n",
    );
    // The node calls itself by its short name.
    let report = TAKEN_BACK.replace("worker-0", "worker-2");
    put(&at("worker-2/report.json"), &report);
    let output = doctor(&[top.path()]);
    let message = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let nodes: Vec<&str> = message.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(
        nodes,
        ["worker-1.example.com:", "worker-2.example.com:", "(not seen):"],
        "{message}"
    );
    for expected in [
        "worker-1.yml was changed after br-ex was configured from it",
        "nmstate rejected the document",
        "policy mtu is not applied on this node",
        "the switch drops large frames",
        "br-ex did not come up",
        "there is no information about worker-9",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn a_small_folder_is_read_whatever_its_files_are_called() {
    let work_dir = crate::support::WorkDir::new();
    work_dir.put("hosts/worker/worker-0.yml", crate::support::host("192.0.2.20"));
    work_dir.done(&["render", "--hosts", "hosts", "--out", "m"]);
    let output = doctor(&[&work_dir.path("m")]);
    let message = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(message.contains("there is no information about worker-0"), "{message}");
}
