//! A handler on a real node changes nothing after a take-over, nor for an adopted document.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use lab::eventually;
use lab_cluster::node::{Lan, LanOptions, Node, NodeOptions, Relay};
use machine_config::{Encoding, File as MachineFile, MachineConfig, Role};
use nmstate_api::condition::is_true;
use nmstate_api::{
    NodeNetworkConfigurationEnactment as Enactment, NodeNetworkConfigurationPolicy as Policy,
};
use serde_json::{Value, json};

use crate::operator::cluster::{Cluster, INFRASTRUCTURE};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nmstate-operator");
const IN_NODE: &str = "/usr/local/bin/nmstate-operator";
const NAME: &str = "worker-0";
/// What ovnkube adds to br-ex once it runs.
const OVNKUBE: &str = "
ovs-vsctl --timeout=60 \
    -- --may-exist add-br br-int -- set bridge br-int datapath_type=netdev \
    -- --may-exist add-port br-int patch-br-int-to-br-ex_worker-0 \
    -- set interface patch-br-int-to-br-ex_worker-0 type=patch options:peer=patch-br-ex_worker-0-to-br-int \
    -- --may-exist add-port br-ex patch-br-ex_worker-0-to-br-int \
    -- set interface patch-br-ex_worker-0-to-br-int type=patch options:peer=patch-br-int-to-br-ex_worker-0
";

/// br-ex on the spare NIC, as a document or with the address that ovnkube adds.
fn br_ex(addresses: &[(&str, u8)]) -> Value {
    let off = json!({ "enabled": false });
    let address = |(ip, length): &(&str, u8)| json!({ "ip": ip, "prefix-length": length });
    let addresses: Vec<Value> = addresses.iter().map(address).collect();
    json!({ "interfaces": [
        { "name": "nic1", "type": "ethernet", "state": "up", "ipv4": off, "ipv6": off },
        { "name": "br-ex", "type": "ovs-bridge", "state": "up", "bridge": {
            "options": { "datapath": "netdev" },
            "port": [{ "name": "nic1" }, { "name": "br-ex" }],
        }},
        { "name": "br-ex", "type": "ovs-interface", "state": "up",
          "ipv4": { "enabled": true, "dhcp": false, "address": addresses }, "ipv6": off },
    ]})
}

/// A program of ours that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Scene {
    node: Node,
    _relay: Relay,
    logs: tempfile::TempDir,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["coordinator", "first", "second"] {
                eprintln!("--- {name}\n{}", fs::read_to_string(self.log(name)).unwrap_or_default());
            }
        }
    }
}

impl Scene {
    fn start(cluster: &Cluster) -> Self {
        let lan = Arc::new(Lan::start(&LanOptions::default()).unwrap());
        let relay = Relay::start(&lan, cluster.server.address()).unwrap();
        let options = NodeOptions {
            hostname: NAME.to_owned(),
            binds: vec![(PROGRAM.into(), IN_NODE.into())],
            ..NodeOptions::default()
        };
        let node = Node::start_on(&lan, &options).unwrap();
        let kubeconfig = cluster.server.kubeconfig_at(relay.address());
        fs::write(node.shared().join("kubeconfig"), kubeconfig).unwrap();
        node.wait_for_ipv4("nic0").unwrap();
        Self { node, _relay: relay, logs: tempfile::tempdir().unwrap() }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.path().join(name)
    }

    fn handler(&self, log: &str) -> Running {
        let child = self
            .node
            .command(IN_NODE)
            .args(["handler", "--node-name", NAME, "--namespace", "default"])
            .args(["--patience", "60", "--listen", "127.0.0.1:0"])
            .env("KUBECONFIG", "/host/kubeconfig")
            .stderr(File::create(self.log(log)).unwrap())
            .spawn();
        Running(child.unwrap())
    }

    fn coordinator(&self, cluster: &Cluster) -> Running {
        let child = Command::new(PROGRAM)
            .args(["coordinator", "--namespace", "default", "--listen", "127.0.0.1:0"])
            .env("KUBECONFIG", cluster.server.kubeconfig())
            .stdin(Stdio::null())
            .stderr(File::create(self.log("coordinator")).unwrap())
            .spawn();
        Running(child.unwrap())
    }
}

async fn is_available(enactments: &Api<Enactment>, policy: &str) {
    eventually(&format!("{policy} is Available on the node"), || async {
        let found = enactments.get_opt(&format!("{NAME}.{policy}")).await.unwrap();
        let status = found.and_then(|it| it.status).unwrap_or_default();
        is_true(&status.conditions, "Available")
    })
    .await;
}

/// A policy and what kubernetes-nmstate reported of it.
async fn known_to_the_other(policies: &Api<Policy>, enactments: &Api<Enactment>) -> String {
    let mut policy = Policy::new("kept");
    policy.spec = serde_json::from_value(json!({ "desiredState": { "interfaces": [
        { "name": "nic1", "type": "ethernet", "state": "up", "ipv4": { "enabled": false } },
    ]}}))
    .unwrap();
    policies.create(&PostParams::default(), &policy).await.unwrap();
    let name = format!("{NAME}.kept");
    let mut enactment = Enactment::new(&name);
    enactment.labels_mut().insert("nmstate.io/node".into(), NAME.into());
    enactment.labels_mut().insert("nmstate.io/policy".into(), "kept".into());
    enactments.create(&PostParams::default(), &enactment).await.unwrap();
    let condition = |type_: &str, status: &str| {
        json!({
            "type": type_, "status": status, "reason": "SuccessfullyConfigured",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let status = Patch::Merge(json!({ "status": {
        "policyGeneration": 1,
        "desiredState": policy.spec.desired_state,
        "conditions": [
            condition("Available", "True"), condition("Failing", "False"),
            condition("Progressing", "False"), condition("Pending", "False"),
            condition("Aborted", "False"),
        ],
    }}));
    let written = enactments.patch_status(&name, &PatchParams::default(), &status).await;
    written.unwrap().resource_version().unwrap()
}

#[tokio::test]
async fn a_handler_applies_nothing_of_what_the_other_did_and_of_an_adopted_document() {
    let cluster = Cluster::empty().await;
    let kinds = [
        "clusteroperators.config.openshift.io",
        "infrastructures.config.openshift.io",
        "machineconfigs.machineconfiguration.openshift.io",
    ];
    cluster.server.client().load_published_crds(&kinds).await.unwrap();
    cluster.apply(INFRASTRUCTURE).await;
    cluster.platform("None").await;
    cluster.apply_payload_without("monitoring").await;
    let labels = "{kubernetes.io/hostname: worker-0, node-role.kubernetes.io/worker: \"\"}";
    cluster
        .apply(&format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {NAME}, labels: {labels}}}\n"
        ))
        .await;
    let ready = "apiVersion: v1\nkind: Node\nmetadata: {name: worker-0}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}\n";
    cluster.server.client().apply_status(ready).await.unwrap();
    let policies: Api<Policy> = Api::all(cluster.client.clone());
    let enactments: Api<Enactment> = Api::all(cluster.client.clone());

    // The first boot, simulated by a policy that is deleted again.
    let scene = Scene::start(&cluster);
    let coordinator = scene.coordinator(&cluster);
    let handler = scene.handler("first");
    let mut first = Policy::new("first-boot");
    let own = ("192.0.2.10", 24);
    first.spec = serde_json::from_value(json!({
        "desiredState": br_ex(&[own, ("169.254.0.2", 17)]),
    }))
    .unwrap();
    policies.create(&PostParams::default(), &first).await.unwrap();
    is_available(&enactments, "first-boot").await;
    scene.node.succeed(&["sh", "-c", OVNKUBE]).unwrap();
    policies.delete("first-boot", &DeleteParams::default()).await.unwrap();
    eventually("the first boot is over", || async {
        enactments.get_opt(&format!("{NAME}.first-boot")).await.unwrap().is_none()
    })
    .await;
    let path = "/apis/nmstate.io/v1beta1/nodenetworkstates/worker-0";
    eventually("the port of ovnkube is reported", || async {
        let state = cluster.server.client().get(path).await.unwrap();
        state.to_string().contains("patch-br-ex_worker-0-to-br-int")
    })
    .await;
    drop(handler);
    // The other operator's objects are complete before ours starts: a coordinator that sees the
    // enactment before its status is written would give it a slot.
    drop(coordinator);

    // The other one's report, and the operator with a document to adopt.
    let before = known_to_the_other(&policies, &enactments).await;
    let _coordinator = scene.coordinator(&cluster);
    let mut config = MachineConfig::new("10-br-ex-worker".parse().unwrap(), Role::worker());
    let path = format!("/etc/nmstate/openshift/{NAME}.yml").parse().unwrap();
    let document = br_ex(&[own]).to_string();
    config.files.push(MachineFile::new(path, document.as_bytes(), Encoding::Plain));
    cluster.apply(&config.to_yaml().unwrap()).await;
    let nmstate = "apiVersion: nmstate.io/v1\nkind: NMState\nmetadata: {name: nmstate, annotations: {nmstate.landfall.dev/adopt-br-ex: \"true\"}}\n";
    cluster.apply(nmstate).await;
    let _operator = cluster.operator("4.99.1").await;
    let policy = "worker-0-br-ex";
    eventually("the document is adopted", || async {
        policies.get_opt(policy).await.unwrap().is_some()
    })
    .await;

    let profiles = scene.node.nm_profiles().unwrap();
    let _handler = scene.handler("second");
    is_available(&enactments, policy).await;
    let kept = enactments.get(&format!("{NAME}.kept")).await.unwrap();
    assert_eq!(kept.resource_version().unwrap(), before);
    let log = fs::read_to_string(scene.log("second")).unwrap();
    assert!(!log.contains("applying"), "{log}");
    assert_eq!(scene.node.nm_profiles().unwrap(), profiles);
}
