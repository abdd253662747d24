//! What the tests run on: an API server, coordinators, and two nodes with their handlers.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use lab_cluster::kube::ApiServer;
use lab_cluster::node::{Lan, LanOptions, Node, NodeOptions, Relay};
use tokio::runtime::Runtime;

use crate::rollout::pool::Shared;

pub(crate) const NODES: [&str; 2] = ["node-a", "node-b"];

const PROGRAM: &str = env!("CARGO_BIN_EXE_nmstate-operator");
const IN_NODE: &str = "/usr/local/bin/nmstate-operator";
/// Long enough for a machine under load.
const DEADLINE: Duration = Duration::from_secs(600);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long handlers wait until the network works after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    Usual,
    /// For changes that are expected to be rolled back.
    Short,
    /// For changes that must last until something was done to them.
    Long,
}

impl Deadline {
    fn seconds(self) -> &'static str {
        match self {
            Self::Usual => "30",
            Self::Short => "6",
            Self::Long => "300",
        }
    }
}

/// The coordinator that leads unless a case needs another one.
pub(crate) const COORDINATOR: &str = "coordinator";

pub(crate) struct Bench {
    // Dropped in this order: programs before the servers that they use.
    handlers: BTreeMap<&'static str, Child>,
    coordinators: BTreeMap<&'static str, Child>,
    nodes: BTreeMap<&'static str, Node>,
    _relay: Relay,
    pub(crate) lan: Arc<Lan>,
    pub(crate) client: Client,
    pub(crate) runtime: Runtime,
    logs: tempfile::TempDir,
    starts: u32,
    patience: Deadline,
    current_log: BTreeMap<&'static str, PathBuf>,
    /// What logs contained when the test began.
    earlier: BTreeMap<PathBuf, usize>,
    server: ApiServer,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let programs = self.handlers.values_mut().chain(self.coordinators.values_mut());
        for child in programs {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let show = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
            for (name, path) in &self.current_log {
                eprintln!("--- {name}\n{}", show(path));
            }
        }
    }
}

impl Shared for Bench {
    type Setting = Deadline;

    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(ApiServer::start()).unwrap();
        for crd in nmstate_api::crd::all() {
            runtime.block_on(server.client().load_crd_text(&crd.to_string())).unwrap();
        }
        let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
        let client = runtime.block_on(client(&kubeconfig));
        let lan = Arc::new(Lan::start(&LanOptions::default()).unwrap());
        let relay = Relay::start(&lan, server.address()).unwrap();
        let mut nodes = BTreeMap::new();
        for name in NODES {
            let options = NodeOptions {
                hostname: name.to_owned(),
                binds: vec![(PROGRAM.into(), IN_NODE.into())],
                ..NodeOptions::default()
            };
            let node = Node::start_on(&lan, &options).unwrap();
            let kubeconfig = server.kubeconfig_at(relay.address());
            std::fs::write(node.shared().join("kubeconfig"), kubeconfig).unwrap();
            nodes.insert(name, node);
        }
        let mut bench = Self {
            handlers: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            nodes,
            _relay: relay,
            lan,
            client,
            runtime,
            logs: tempfile::tempdir().unwrap(),
            starts: 0,
            patience: Deadline::Usual,
            current_log: BTreeMap::new(),
            earlier: BTreeMap::new(),
            server,
        };
        bench.create_objects();
        bench.set_installed(true);
        bench.start_coordinator(COORDINATOR, &[]);
        for node in NODES {
            bench.node(node).wait_for_ipv4("nic0").unwrap();
            bench.start_handler(node);
        }
        bench
    }

    fn fits(&self, patience: Deadline) -> bool {
        self.patience == patience
    }

    /// Handlers use this `--patience`, and logs begin here.
    fn begin(&mut self, patience: Deadline) {
        let length = |path: &PathBuf| std::fs::metadata(path).map_or(0, |it| it.len());
        let lengths = self.current_log.values().map(|path| (path.clone(), length(path)));
        self.earlier =
            lengths.map(|(path, length)| (path, usize::try_from(length).unwrap())).collect();
        if self.patience != patience {
            self.patience = patience;
            NODES.iter().for_each(|node| self.restart_handler(node));
        }
    }

    /// Deletes all policies, and restores the initial network of nodes.
    fn restore(&mut self) {
        self.delete_policies();
        NODES.iter().for_each(|node| self.restore_network(node));
    }
}

impl Bench {
    pub(crate) fn node(&self, node: &str) -> &Node {
        &self.nodes[node]
    }

    /// Kills the API server and restarts it.
    pub(crate) fn restart_api(&mut self) {
        self.runtime.block_on(self.server.restart()).unwrap();
    }

    /// Powers a node off without a shutdown and starts it again, without its handler.
    pub(crate) fn reboot(&mut self, node: &'static str) {
        self.nodes.get_mut(node).unwrap().reboot().unwrap();
        // The program ended with all others.
        let _ = self.handlers.remove(node).unwrap().wait().unwrap();
        self.node(node).wait_for_ipv4("nic0").unwrap();
    }

    // Coordinators.

    pub(crate) fn start_coordinator(&mut self, name: &'static str, more: &[&str]) {
        let log = self.log_file(name);
        let child = lab::bound_command(Path::new(PROGRAM))
            .args(["coordinator", "--namespace", "default", "--listen", "127.0.0.1:0"])
            .args(["--identity", name])
            .args(more)
            .env("KUBECONFIG", self.server.kubeconfig())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        self.current_log.insert(name, log);
        self.coordinators.insert(name, child);
    }

    /// Requests it to stop, and waits until it has.
    pub(crate) fn stop_coordinator(&mut self, name: &'static str) {
        let mut child = self.coordinators.remove(name).unwrap();
        let stopped = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(stopped.unwrap().success());
        // Not `wait`, which kills it.
        self.wait(&format!("{name} ends"), || child.try_wait().unwrap());
    }

    pub(crate) fn kill_coordinator(&mut self, name: &'static str) {
        let mut child = self.coordinators.remove(name).unwrap();
        child.kill().unwrap();
        let _ = child.wait().unwrap();
    }

    /// Runs a command of the program as an administrator does.
    pub(crate) fn command(&self, words: &[&str]) {
        let mut command = Command::new(PROGRAM);
        command.args(words).env("KUBECONFIG", self.server.kubeconfig()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {text}");
    }

    /// The same for a command that is rejected. Returns its output.
    pub(crate) fn failing_command(&self, words: &[&str]) -> String {
        let mut command = Command::new(PROGRAM);
        command.args(words).env("KUBECONFIG", self.server.kubeconfig()).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    // Handlers.

    pub(crate) fn start_handler(&mut self, node: &'static str) {
        self.start_with(node, self.patience);
    }

    pub(crate) fn start_patient_handler(&mut self, node: &'static str) {
        self.start_with(node, Deadline::Long);
    }

    fn start_with(&mut self, node: &'static str, patience: Deadline) {
        let (child, log) = self.spawn_handler(node, node, patience);
        self.current_log.insert(node, log);
        self.handlers.insert(node, child);
    }

    /// A second handler beside the existing one. Returns a name for its log.
    pub(crate) fn start_second_handler(&mut self, node: &'static str) -> (Child, &'static str) {
        const NAME: &str = "second handler";
        let (child, log) = self.spawn_handler(node, NAME, self.patience);
        self.current_log.insert(NAME, log);
        (child, NAME)
    }

    fn spawn_handler(&mut self, node: &str, name: &str, patience: Deadline) -> (Child, PathBuf) {
        let log = self.log_file(name);
        let child = self
            .node(node)
            .command(IN_NODE)
            .args(["handler", "--node-name", node, "--namespace", "default"])
            .args(["--patience", patience.seconds(), "--listen", "127.0.0.1:0"])
            .env("KUBECONFIG", "/host/kubeconfig")
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        (child, log)
    }

    /// Replaces a handler that was stopped.
    pub(crate) fn adopt_handler(&mut self, node: &'static str, child: Child, name: &'static str) {
        let log = self.current_log.remove(name).unwrap();
        self.current_log.insert(node, log);
        self.handlers.insert(node, child);
    }

    /// Requests it to stop, as the kubelet does.
    pub(crate) fn stop_handler(&mut self, node: &'static str) {
        let status = self.end_handler(node, "TERM");
        assert!(status.success(), "{node}: {status}\n{}", self.log(node));
    }

    /// Kills it immediately.
    pub(crate) fn kill_handler(&mut self, node: &'static str) {
        let _ = self.end_handler(node, "KILL");
    }

    fn end_handler(&mut self, node: &'static str, signal: &str) -> std::process::ExitStatus {
        // The first one, by its PID: another one may wait for its end.
        let first = "pidof -s nmstate-operator >/dev/null && kill -$1 \
            $(pidof nmstate-operator | tr ' ' '\\n' | sort -n | head -1)";
        self.node(node).succeed(&["sh", "-c", first, "sh", signal]).unwrap();
        self.handlers.remove(node).unwrap().wait().unwrap()
    }

    /// Restarts the handler, with the usual `--patience`.
    pub(crate) fn restart_handler(&mut self, node: &'static str) {
        self.stop_handler(node);
        self.start_handler(node);
    }

    // Logs.

    fn log_file(&mut self, name: &str) -> PathBuf {
        self.starts += 1;
        self.logs.path().join(format!("{name}-{}", self.starts))
    }

    /// What a program logged since it was started last, and in this test; handlers have the names of
    /// their nodes.
    pub(crate) fn log(&self, name: &str) -> String {
        let path = &self.current_log[name];
        let bytes = std::fs::read(path).unwrap();
        let earlier = self.earlier.get(path).copied().unwrap_or_default();
        String::from_utf8_lossy(&bytes[earlier..]).into_owned()
    }

    pub(crate) fn wait_for_log(&self, name: &str, words: &str) {
        self.wait(&format!("{name} says: {words}"), || {
            self.log(name).contains(words).then_some(())
        });
    }

    pub(crate) fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < end, "waited in vain until {what}\n{}", self.objects());
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}
