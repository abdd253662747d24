//! What a handler collects of its node for must-gather, on a node with real NetworkManager and Open
//! vSwitch.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab_cluster::node::{Node, NodeOptions};
use serde_json::Value;

const PROGRAM: &str = "/usr/bin/nmstate-operator";
const DOCUMENT: &str = "# ours\ninterfaces: []\n";
/// With a secret, which also occurs in a document.
const PROFILE: &str = "[connection]\nid=dot1x\nuuid=0f0f0f0f-0000-4000-8000-000000000001\ntype=ethernet\nautoconnect=false\ninterface-name=nic1\n[802-1x]\neap=md5;\nidentity=x\npassword=hunter2\n";
const SECRET_DOCUMENT: &str =
    "interfaces: [{name: nic1, type: ethernet, 802.1x: {identity: x, password: hunter2}}]\n";

fn node() -> Node {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_nmstate-operator"));
    let node = Node::start(&NodeOptions {
        hostname: "worker-0".into(),
        binds: vec![(program, PROGRAM.into())],
        ..NodeOptions::default()
    })
    .unwrap();
    for (path, text, mode) in [
        ("/etc/nmstate/openshift/worker-0.yml", DOCUMENT, 0o644),
        ("/etc/nmstate/openshift/applied", DOCUMENT, 0o644),
        ("/etc/nmstate/openshift/worker-9.yml", SECRET_DOCUMENT, 0o644),
        ("/etc/NetworkManager/system-connections/dot1x.nmconnection", PROFILE, 0o600),
        ("/var/log/brex-firstboot/report.json", "{}", 0o644),
    ] {
        node.write(path, text, mode).unwrap();
    }
    let add = "ovs-vsctl --timeout=20 add-br br-ex -- set bridge br-ex datapath_type=netdev";
    node.succeed(&["sh", "-c", add]).unwrap();
    node
}

#[test]
fn documents_profiles_and_open_vswitch_are_collected_and_no_secret_is() {
    let node = node();
    let gather = "NODE_NAME=worker-0.example.com nmstate-operator gather > /host/node.tar && mkdir \
                  /host/collection && tar -xf /host/node.tar -C /host/collection";
    node.succeed(&["sh", "-c", gather]).unwrap();
    let top = node.shared().join("collection");
    let read = |path: &str| fs::read_to_string(top.join(path)).unwrap();
    let index: Value = serde_json::from_str(&read("index.json")).unwrap();
    assert_eq!(index["hostname"], "worker-0.example.com");
    let problems: Vec<&Value> = index["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| !item["problem"].is_null())
        .collect();
    assert!(problems.is_empty(), "{problems:?}");
    // Files without secrets are copied byte for byte.
    assert_eq!(read("files/etc/nmstate/openshift/worker-0.yml"), DOCUMENT);
    assert_eq!(read("files/etc/nmstate/openshift/applied"), DOCUMENT);
    assert_eq!(read("files/var/log/brex-firstboot/report.json"), "{}");
    let bridges: Value = serde_json::from_str(&read("open-vswitch/Bridge.json")).unwrap();
    assert_eq!(bridges[0]["name"], "br-ex");
    let state: Value = serde_json::from_str(&read("nmstate.json")).unwrap();
    let names: Vec<&Value> =
        state["interfaces"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert!(names.contains(&&Value::from("nic0")), "{names:?}");
    let profile = read("files/etc/NetworkManager/system-connections/dot1x.nmconnection");
    assert!(profile.contains("identity=x"), "{profile}");
    // By another program.
    let found = Command::new("grep").args(["-r", "hunter2"]).arg(&top).output().unwrap();
    assert_eq!(found.status.code(), Some(1), "{}", String::from_utf8_lossy(&found.stdout));
}

#[test]
fn a_node_without_open_vswitch_is_collected_with_the_reason() {
    let node = node();
    node.succeed(&["sh", "-c", "mv /run/openvswitch/db.sock /run/openvswitch/gone"]).unwrap();
    let gather = "nmstate-operator gather --out /host/collection --node x";
    node.succeed(&["sh", "-c", gather]).unwrap();
    let index = fs::read(node.shared().join("collection/index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let items = index["items"].as_array().unwrap();
    let of = |source: &str| items.iter().find(|item| item["source"] == source).unwrap();
    let problem = of("table Bridge of Open vSwitch")["problem"].as_str().unwrap();
    assert!(problem.starts_with("connecting to /run/openvswitch/db.sock"), "{problem}");
    assert!(of("/etc/nmstate/openshift/worker-0.yml")["problem"].is_null());
}

/// `oc exec` needs a kubelet; this one starts the same command in the node. Everything else fails,
/// as without permissions.
const OC: &str = r#"#!/bin/bash
case "$*" in
*"get pods -l app.kubernetes.io/component=nmstate-handler"*) echo "handler-abc worker-0.example.com" ;;
*"exec handler-abc -c handler -- /usr/bin/nmstate-operator gather") exec cat "$ARCHIVE" ;;
*) echo "forbidden: $*" >&2; exit 1 ;;
esac
"#;

#[test]
fn the_script_unpacks_what_handlers_send_below_the_names_of_their_nodes() {
    let node = node();
    let gather = "nmstate-operator gather --node worker-0.example.com > /host/node.tar";
    node.succeed(&["sh", "-c", gather]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let oc = folder.path().join("oc");
    fs::write(&oc, OC).unwrap();
    fs::set_permissions(&oc, fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/nmstate-operator/must-gather/gather_nmstate");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let ended = Command::new("bash")
        .arg(script)
        .arg(folder.path().join("out"))
        .env("PATH", path)
        .env("ARCHIVE", node.shared().join("node.tar"))
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let nodes = folder.path().join("out/nmstate/nodes");
    let index = fs::read_to_string(nodes.join("worker-0.example.com/index.json")).unwrap();
    assert!(index.contains("nmstate-operator"), "{index}");
    assert!(!nodes.join("worker-0.example.com.error").exists());
}
