//! What the cases run on: an API server, a coordinator, and two nodes with their handlers.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use lab::kube::ApiServer;
use lab::node::{Lan, LanOptions, Node, NodeOptions, Relay};
use node_policy::Phase;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::object::Object;

pub(crate) const NODES: [&str; 2] = ["node-a", "node-b"];

const PROGRAM: &str = env!("CARGO_BIN_EXE_nmstate-operator");
const IN_NODE: &str = "/usr/local/bin/nmstate-operator";
/// Long enough for a machine that is busy with other things.
const DEADLINE: Duration = Duration::from_secs(240);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How patient handlers are, in seconds.
const PATIENCE: &str = "6";
/// The same for changes that must last until something was done to them.
const LONG_PATIENCE: &str = "300";

/// A version of the cluster; of its real schema only this is looked at.
const CLUSTER_VERSION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterversions.config.openshift.io}
spec:
  group: config.openshift.io
  names: {kind: ClusterVersion, plural: clusterversions, singular: clusterversion, listKind: ClusterVersionList}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"#;

pub(crate) struct Bench {
    // Dropped in this order: programs before what they talk to.
    handlers: BTreeMap<&'static str, Child>,
    coordinator: Child,
    nodes: BTreeMap<&'static str, Node>,
    _relay: Relay,
    client: Client,
    runtime: Runtime,
    logs: tempfile::TempDir,
    starts: u32,
    current_log: BTreeMap<&'static str, PathBuf>,
    _server: ApiServer,
}

impl Drop for Bench {
    fn drop(&mut self) {
        for child in self.handlers.values_mut().chain([&mut self.coordinator]) {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let show = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
            eprintln!("--- coordinator\n{}", show(&self.logs.path().join("coordinator")));
            for (node, path) in &self.current_log {
                eprintln!("--- handler of {node}\n{}", show(path));
            }
        }
    }
}

impl Bench {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(ApiServer::start()).unwrap();
        for crd in nmstate_api::crd::all() {
            runtime.block_on(server.client().load_crd_text(&crd.to_string())).unwrap();
        }
        runtime.block_on(server.client().load_crd_text(CLUSTER_VERSION)).unwrap();
        let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
        let client = runtime.block_on(client(&kubeconfig));
        let lan = Arc::new(Lan::start(&LanOptions::default()).unwrap());
        let port = server.url().rsplit(':').next().unwrap().parse().unwrap();
        let relay = Relay::start(&lan, ([127, 0, 0, 1], port).into()).unwrap();
        let logs = tempfile::tempdir().unwrap();
        let coordinator = Command::new(PROGRAM)
            .args(["coordinator", "--namespace", "default", "--listen", "127.0.0.1:0"])
            .env("KUBECONFIG", server.kubeconfig())
            .stdin(Stdio::null())
            .stderr(File::create(logs.path().join("coordinator")).unwrap())
            .spawn()
            .unwrap();
        let mut nodes = BTreeMap::new();
        for name in NODES {
            let options = NodeOptions {
                hostname: name.to_owned(),
                binds: vec![(PROGRAM.into(), IN_NODE.into())],
                ..NodeOptions::default()
            };
            let node = Node::start_on(&lan, &options).unwrap();
            // The server's certificate is for the address it listens on.
            let mut config: Value = serde_json::from_str(&kubeconfig).unwrap();
            let cluster = &mut config["clusters"][0]["cluster"];
            cluster["server"] = json!(format!("https://{}", relay.address()));
            cluster["tls-server-name"] = json!("127.0.0.1");
            std::fs::write(node.shared().join("kubeconfig"), config.to_string()).unwrap();
            nodes.insert(name, node);
        }
        let mut bench = Self {
            handlers: BTreeMap::new(),
            coordinator,
            nodes,
            _relay: relay,
            client,
            runtime,
            logs,
            starts: 0,
            current_log: BTreeMap::new(),
            _server: server,
        };
        bench.create_objects();
        for node in NODES {
            bench.nodes[node].wait_for_ipv4("nic0").unwrap();
            bench.start_handler(node);
        }
        bench
    }

    fn create_objects(&self) {
        let partial = json!({"history": [{"state": "Partial"}]});
        let version = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": {"name": "version"}, "status": partial,
        });
        self.put(&cluster_versions(), "version", &version);
        for name in NODES {
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            });
            self.put(&resource("", "v1", "Node", "nodes"), name, &node);
            let ready = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            });
            let nodes = self.api(&resource("", "v1", "Node", "nodes"));
            self.runtime
                .block_on(nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&ready)))
                .unwrap();
        }
    }

    pub(crate) fn complete_installation(&self) {
        let versions = self.api(&cluster_versions());
        let done = json!({"status": {"history": [{"state": "Completed"}]}});
        self.runtime
            .block_on(versions.patch("version", &PatchParams::default(), &Patch::Merge(&done)))
            .unwrap();
    }

    pub(crate) fn create_marker(&self, name: &str) {
        let marker = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"},
        });
        let maps: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            "default",
            &resource("", "v1", "ConfigMap", "configmaps"),
        );
        self.runtime.block_on(maps.patch(name, &apply(), &Patch::Apply(&marker))).unwrap();
    }

    pub(crate) fn marker_time(&self, name: &str) -> String {
        let maps: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            "default",
            &resource("", "v1", "ConfigMap", "configmaps"),
        );
        let marker = self.runtime.block_on(maps.get(name)).unwrap();
        Object(serde_json::to_value(marker).unwrap()).created()
    }

    // Policies and reports.

    pub(crate) fn apply_policy(&self, name: &str, spec: &Value, annotations: &[(&str, &str)]) {
        let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        let policy = json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
            "metadata": {"name": name, "annotations": annotations}, "spec": spec,
        });
        self.put(&policies(), name, &policy);
    }

    pub(crate) fn delete_policy(&self, name: &str) {
        let policies = self.api(&policies());
        drop(self.runtime.block_on(policies.delete(name, &DeleteParams::default())).unwrap());
    }

    /// Deletes all policies, and waits until all handlers have let go of them.
    pub(crate) fn delete_policies(&self) {
        let all = self.runtime.block_on(self.api(&policies()).list(&Default::default())).unwrap();
        for policy in all {
            self.delete_policy(&policy.metadata.name.unwrap());
        }
        self.wait("all reports about deleted policies are gone", || {
            let list = self.api(&enactments());
            let list = self.runtime.block_on(list.list(&Default::default())).unwrap();
            list.items.is_empty().then_some(())
        });
    }

    pub(crate) fn wait_for_policy(&self, name: &str, type_: &str, reason: &str) -> Object {
        self.wait(&format!("policy {name} is {type_} ({reason})"), || {
            self.get(&policies(), name).filter(|policy| policy.holds(type_, reason))
        })
    }

    pub(crate) fn enactment(&self, node: &str, policy: &str) -> Object {
        let name = format!("{node}.{policy}");
        self.get(&enactments(), &name).unwrap_or_else(|| panic!("there is no {name}"))
    }

    pub(crate) fn wait_for_phase(&self, node: &str, policy: &str, phase: Phase) -> Object {
        self.wait(&format!("{policy} is {phase:?} on {node}"), || {
            let enactment = self.get(&enactments(), &format!("{node}.{policy}"))?;
            (enactment.phase() == phase).then_some(enactment)
        })
    }

    pub(crate) fn wait_for_generation(
        &self,
        node: &str,
        policy: &str,
        generation: i64,
        phase: Phase,
    ) {
        self.wait(&format!("generation {generation} of {policy} is {phase:?} on {node}"), || {
            let enactment = self.get(&enactments(), &format!("{node}.{policy}"))?;
            let is_of = enactment.status()["policyGeneration"] == generation;
            (is_of && enactment.phase() == phase).then_some(())
        });
    }

    pub(crate) fn wait_until_left(&self, node: &str, policy: &str) {
        self.wait(&format!("{node} has no report about {policy}"), || {
            self.get(&enactments(), &format!("{node}.{policy}")).is_none().then_some(())
        });
    }

    pub(crate) fn wait_for_report(&self, node: &str) {
        self.wait(&format!("{node} reports its network"), || {
            let report = self.get(&node_states(), node)?;
            report.status()["currentState"]["interfaces"].is_array().then_some(())
        });
    }

    pub(crate) fn wait_for_reported_mtu(&self, node: &str, mtu: u32) {
        self.wait(&format!("{node} reports an MTU of {mtu}"), || {
            let report = self.get(&node_states(), node)?;
            let interfaces = report.status()["currentState"]["interfaces"].as_array()?.clone();
            let nic = interfaces.into_iter().find(|it| it["name"] == "nic1")?;
            (nic["mtu"] == mtu).then_some(())
        });
    }

    /// Collects the slots of every version of a policy from now on.
    pub(crate) fn watch_policy(&self, name: &str) -> Watch {
        let policies: Api<DynamicObject> = self.api(&policies());
        let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
        let stream = self.runtime.block_on(policies.watch(&parameters, "0")).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let task = self.runtime.spawn(async move {
            let mut stream = stream.boxed();
            while let Some(event) = stream.next().await {
                if let Ok(WatchEvent::Added(it) | WatchEvent::Modified(it)) = event {
                    let slots = it.data["status"]["slots"].as_array().cloned().unwrap_or_default();
                    let names = slots.iter().filter_map(|it| Some(it["node"].as_str()?.to_owned()));
                    kept.lock().unwrap().push(names.collect());
                }
            }
        });
        Watch { seen, task }
    }

    // Handlers.

    pub(crate) fn start_handler(&mut self, node: &'static str) {
        self.start_with(node, PATIENCE);
    }

    pub(crate) fn start_patient_handler(&mut self, node: &'static str) {
        self.start_with(node, LONG_PATIENCE);
    }

    fn start_with(&mut self, node: &'static str, patience: &str) {
        self.starts += 1;
        let log = self.logs.path().join(format!("{node}-{}", self.starts));
        let child = self.nodes[node]
            .command(IN_NODE)
            .args(["handler", "--node-name", node])
            .args(["--patience", patience, "--listen", "127.0.0.1:8089"])
            .env("KUBECONFIG", "/host/kubeconfig")
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        self.current_log.insert(node, log);
        self.handlers.insert(node, child);
    }

    /// Asks it to stop, as the kubelet does.
    pub(crate) fn stop_handler(&mut self, node: &'static str) {
        self.nodes[node].succeed(&["sh", "-c", "kill -TERM $(pidof nmstate-operator)"]).unwrap();
        let status = self.handlers.get_mut(node).unwrap().wait().unwrap();
        assert!(status.success(), "{node}: {status}\n{}", self.log(node));
    }

    /// Kills it where it stands.
    pub(crate) fn kill_handler(&mut self, node: &'static str) {
        self.nodes[node].succeed(&["sh", "-c", "kill -KILL $(pidof nmstate-operator)"]).unwrap();
        let child = self.handlers.get_mut(node).unwrap();
        let _ = child.wait().unwrap();
    }

    /// What the handler said since it was started last.
    pub(crate) fn log(&self, node: &str) -> String {
        std::fs::read_to_string(&self.current_log[node]).unwrap()
    }

    pub(crate) fn wait_for_log(&self, node: &str, words: &str) {
        self.wait(&format!("the handler of {node} says: {words}"), || {
            self.log(node).contains(words).then_some(())
        });
    }

    // Nodes.

    pub(crate) fn mtu(&self, node: &str) -> u32 {
        let json = self.nodes[node].succeed(&["ip", "-json", "link", "show", "nic1"]).unwrap();
        let links: Value = serde_json::from_str(&json).unwrap();
        links[0]["mtu"].as_u64().unwrap().try_into().unwrap()
    }

    pub(crate) fn wait_for_mtu(&self, node: &str, mtu: u32) {
        self.wait(&format!("{node} has an MTU of {mtu}"), || (self.mtu(node) == mtu).then_some(()));
    }

    pub(crate) fn has_address(&self, node: &str, address: &str) -> bool {
        let text = self.nodes[node].succeed(&["ip", "address"]).unwrap();
        text.contains(&format!("inet {address}/"))
    }

    pub(crate) fn cut_off(&self, node: &str) {
        self.nodes[node].drop_packets(0).unwrap();
    }

    pub(crate) fn plug_in(&self, node: &str) {
        self.nodes[node].plug_in(0).unwrap();
    }

    // The API.

    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), resource)
    }

    fn put(&self, resource: &ApiResource, name: &str, object: &Value) {
        let api = self.api(resource);
        self.runtime.block_on(api.patch(name, &apply(), &Patch::Apply(object))).unwrap();
    }

    fn get(&self, resource: &ApiResource, name: &str) -> Option<Object> {
        let found = self.runtime.block_on(self.api(resource).get_opt(name)).unwrap();
        found.map(|object| Object(serde_json::to_value(object).unwrap()))
    }

    fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            if Instant::now() > end {
                let list = |of: &ApiResource| {
                    let list = self.runtime.block_on(self.api(of).list(&Default::default()));
                    let all = list.unwrap().items.into_iter();
                    let lines =
                        all.map(|it| format!("{:?}: {}", it.metadata.name, it.data["status"]));
                    lines.collect::<Vec<_>>().join("\n")
                };
                panic!(
                    "waited in vain until {what}\n{}\n{}",
                    list(&policies()),
                    list(&enactments())
                );
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// A watch under way.
pub(crate) struct Watch {
    seen: Arc<Mutex<Vec<Vec<String>>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Watch {
    /// Who held slots, in each version of the policy.
    pub(crate) fn end(self) -> Vec<Vec<String>> {
        self.task.abort();
        self.seen.lock().unwrap().clone()
    }
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

fn apply() -> PatchParams {
    PatchParams::apply("test").force()
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
    }
}

fn policies() -> ApiResource {
    resource(
        "nmstate.io",
        "v1",
        "NodeNetworkConfigurationPolicy",
        "nodenetworkconfigurationpolicies",
    )
}

fn enactments() -> ApiResource {
    let kind = "NodeNetworkConfigurationEnactment";
    resource("nmstate.io", "v1beta1", kind, "nodenetworkconfigurationenactments")
}

fn node_states() -> ApiResource {
    resource("nmstate.io", "v1beta1", "NodeNetworkState", "nodenetworkstates")
}

fn cluster_versions() -> ApiResource {
    resource("config.openshift.io", "v1", "ClusterVersion", "clusterversions")
}
