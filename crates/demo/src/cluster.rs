//! A cluster of two nodes on this machine: a real API server, and for each node namespaces with its
//! own NetworkManager.
//!
//! It has no kubelet: programs of pods are started separately.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence, open_crd};
use lab_cluster::node::{Lan, LanOptions, Node, NodeOptions, Relay};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::output::{show_command, show_text};

pub(super) const NODES: [&str; 2] = ["worker-0", "worker-1"];
const IN_NODE: &str = "/usr/local/bin/nmstate-operator";
/// Long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The API group of OpenShift.
const OPENSHIFT: &str = "config.openshift.io";
/// What `oc get clusteroperator` prints.
const COLUMNS: [(&str, &str); 4] = [
    ("Version", ".status.versions[?(@.name==\"operator\")].version"),
    ("Available", ".status.conditions[?(@.type==\"Available\")].status"),
    ("Progressing", ".status.conditions[?(@.type==\"Progressing\")].status"),
    ("Degraded", ".status.conditions[?(@.type==\"Degraded\")].status"),
];

/// On bare metal.
const INFRASTRUCTURE: &str = r#"
apiVersion: config.openshift.io/v1
kind: Infrastructure
metadata: {name: cluster}
spec: {}
"#;
const BARE_METAL: &str = r#"
apiVersion: config.openshift.io/v1
kind: Infrastructure
metadata: {name: cluster}
status:
  platformStatus: {type: BareMetal}
  controlPlaneTopology: HighlyAvailable
"#;

/// The cluster. All of it is removed when it is dropped.
pub(super) struct Cluster<'a> {
    program: &'a Path,
    folder: &'a Path,
    // Dropped in this order: programs before the servers that they connect to.
    programs: Vec<(String, Child)>,
    nodes: BTreeMap<&'static str, Node>,
    relay: Relay,
    runtime: Runtime,
    server: ApiServer,
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        for (_, child) in &mut self.programs {
            // It may have ended by itself; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl<'a> Cluster<'a> {
    pub(super) fn start(program: &'a Path, folder: &'a Path) -> Result<Self> {
        let runtime = Runtime::new().context("starting the runtime")?;
        let server = runtime.block_on(ApiServer::start())?;
        let lan = Arc::new(Lan::start(&LanOptions::default())?);
        let relay = Relay::start(&lan, server.address())?;
        let mut nodes = BTreeMap::new();
        for name in NODES {
            let options = NodeOptions {
                hostname: name.to_owned(),
                binds: vec![(program.into(), IN_NODE.into())],
                ..NodeOptions::default()
            };
            nodes.insert(name, Node::start_on(&lan, &options)?);
        }
        let cluster = Self { program, folder, programs: Vec::new(), nodes, relay, runtime, server };
        for crd in [
            open_crd(OPENSHIFT, "Infrastructure", "infrastructures", &[]),
            open_crd(OPENSHIFT, "ClusterOperator", "clusteroperators", &COLUMNS),
        ] {
            cluster.runtime.block_on(cluster.server.client().load_crd_text(&crd.to_string()))?;
        }
        cluster.apply(INFRASTRUCTURE)?;
        cluster.apply_status(BARE_METAL)?;
        for name in NODES {
            cluster.nodes[name].wait_for_ipv4("nic0")?;
            cluster.apply(&node_object(name))?;
            cluster.apply_status(&ready(name))?;
        }
        Ok(cluster)
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        self.server.kubeconfig()
    }

    // Objects.

    /// Applies manifests; CRDs among them are ready for use afterwards.
    pub(super) fn apply(&self, yaml: &str) -> Result<()> {
        if yaml.contains("kind: CustomResourceDefinition") {
            self.runtime.block_on(self.server.client().load_crd_text(yaml))?;
        } else {
            let stored = (Persistence::Stored, FieldValidation::Strict);
            self.runtime.block_on(self.server.apply(yaml, stored.0, stored.1))?;
        }
        Ok(())
    }

    fn apply_status(&self, yaml: &str) -> Result<()> {
        self.runtime.block_on(self.server.client().apply_status(yaml))?;
        Ok(())
    }

    pub(super) fn delete(&self, path: &str) -> Result<()> {
        Ok(self.runtime.block_on(self.server.client().delete(path))?)
    }

    /// Waits until the object at a path exists and `holds` accepts it.
    pub(super) fn wait(
        &self,
        what: &str,
        path: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let end = Instant::now() + DEADLINE;
        loop {
            let found = self.runtime.block_on(self.server.client().get(path));
            if let Ok(object) = &found
                && holds(object)
            {
                return Ok(object.clone());
            }
            ensure!(
                Instant::now() < end,
                "timed out waiting until {what}; last read from {path}: {found:?}\n{}",
                self.logs()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub(super) fn wait_until_gone(&self, path: &str) -> Result<()> {
        let end = Instant::now() + DEADLINE;
        while self.runtime.block_on(self.server.client().get(path)).is_ok() {
            ensure!(
                Instant::now() < end,
                "timed out waiting until {path} is deleted\n{}",
                self.logs()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Prints what `oc get` prints.
    pub(super) fn show_list(&self, command: &str, path: &str) -> Result<()> {
        show_command(command);
        let table = self.runtime.block_on(self.server.client().table(path))?;
        show_text(&table.to_string());
        Ok(())
    }

    // Programs.

    /// Starts a part of the operator outside of nodes.
    pub(super) fn start_part(&mut self, part: &str, arguments: &[&str]) -> Result<()> {
        show_command(&format!("nmstate-operator {part} {}", arguments.join(" ")));
        let mut command = Command::new(self.program);
        command
            .arg(part)
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            // Its ports are not used here.
            .args(["--listen", "127.0.0.1:0"]);
        self.spawn(part, command)
    }

    /// Starts the handler of a node, in the node.
    pub(super) fn start_handler(&mut self, node: &'static str) -> Result<()> {
        let arguments = ["handler", "--node-name", node, "--patience", "6"];
        show_command(&format!("nmstate-operator {}     # on {node}", arguments.join(" ")));
        let kubeconfig = self.server.kubeconfig_at(self.relay.address());
        let path = self.nodes[node].shared().join("kubeconfig");
        std::fs::write(&path, kubeconfig).with_context(|| format!("writing {}", path.display()))?;
        let mut command = self.nodes[node].command(IN_NODE);
        command.args(arguments).env("KUBECONFIG", "/host/kubeconfig");
        self.spawn(&format!("handler of {node}"), command)
    }

    fn spawn(&mut self, name: &str, mut command: Command) -> Result<()> {
        let log = self.log(name);
        let errors = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn();
        self.programs
            .push((name.to_owned(), child.with_context(|| format!("starting the {name}"))?));
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.log", name.replace(' ', "-")))
    }

    /// The logs of all programs.
    fn logs(&self) -> String {
        let log = |(name, _): &(String, Child)| {
            let text = std::fs::read_to_string(self.log(name)).unwrap_or_default();
            format!("--- {name}\n{text}")
        };
        self.programs.iter().map(log).collect()
    }

    // Nodes.

    /// Runs a command in a node; prints the command and its output.
    pub(super) fn show_in(&self, node: &str, words: &[&str]) -> Result<String> {
        show_command(&format!("{}     # on {node}", words.join(" ")));
        let output = self.nodes[node].succeed(words)?;
        show_text(&output);
        Ok(output)
    }
}

fn node_object(name: &str) -> String {
    let labels = json!({ "kubernetes.io/hostname": name, "node-role.kubernetes.io/worker": "" });
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
    })
    .to_string()
}

fn ready(name: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    })
    .to_string()
}
