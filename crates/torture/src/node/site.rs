//! What changes are made on: a machine with its own kernel and disk, whose only path to the
//! API server is the network that is changed.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab_cluster::kube::{ApiError, ApiServer};
use lab_cluster::node::uml::{SwitchedOn, Uml, UmlOptions};
use lab_cluster::node::{Lan, LanOptions, Profile, Relay};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::change::{self, ADDRESS, GATEWAY, Links, UPLINK};
use super::reachability::Reachability;
use super::report::Report;

const NODE: &str = "worker-0";
/// How long NetworkManager keeps a change that is not confirmed.
pub(crate) const CHECKPOINT: Duration = Duration::from_secs(20);
/// How long the network may take to be good after a change. The rest of the checkpoint's lifetime
/// is for making the change and for one probe.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

const POLICIES: &str = "/apis/nmstate.io/v1/nodenetworkconfigurationpolicies";
const STATES: &str = "/apis/nmstate.io/v1beta1/nodenetworkstates";
const ENACTMENTS: &str = "/apis/nmstate.io/v1beta1/nodenetworkconfigurationenactments";

/// Kills NetworkManager, which systemd starts again.
const KILL_NETWORK_MANAGER: &str = "kill -9 $(pidof NetworkManager)
sleep 0.1
setsid NetworkManager --debug >> /log/NetworkManager.log 2>&1 < /dev/null &";
const KILL_HANDLER: &str = "kill -9 $(cat /run/handler.pid)";
/// Whether the node reaches the router, behind which the API server is.
const REACHES: &str = "ping -q -c 1 -W 1";

/// Everything that a campaign needs.
pub(crate) struct Site {
    // Dropped in this order: programs before what they talk to.
    pub(crate) reachability: Reachability,
    machine: SwitchedOn,
    coordinator: Child,
    _relay: Relay,
    runtime: Runtime,
    folder: TempDir,
    server: ApiServer,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.coordinator.kill();
        let _ = self.coordinator.wait();
    }
}

impl Site {
    pub(crate) fn start(program: &Path) -> Result<Self> {
        let runtime = Runtime::new().context("starting a runtime")?;
        let lan = Arc::new(Lan::start(&LanOptions::default())?);
        // Both take seconds.
        let (machine, server) = std::thread::scope(|scope| {
            let machine = scope.spawn(|| boot(&lan, program));
            let server = runtime.block_on(start_server());
            let machine = machine.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (machine, server)
        });
        let (machine, server) = (machine?, server?);
        let folder = tempfile::tempdir().context("creating a folder")?;
        let log = File::create(folder.path().join("coordinator")).context("creating a log")?;
        let coordinator = Command::new(program)
            .args(["coordinator", "--namespace", "default", "--listen", "127.0.0.1:0"])
            .env("KUBECONFIG", server.kubeconfig())
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("starting the coordinator")?;

        let relay = Relay::start(&lan, server.address())?;
        let kubeconfig = server.kubeconfig_at(relay.address());
        fs::write(machine.shared().join("kubeconfig"), kubeconfig)
            .context("writing a kubeconfig")?;
        let reachability = Reachability::watch(&lan, ADDRESS)?;
        let site =
            Self { reachability, machine, coordinator, _relay: relay, runtime, folder, server };
        site.start_handler()?;
        Ok(site)
    }

    /// Creates a policy with this desired state.
    pub(crate) fn create_policy(&self, name: &str, desired: &Value) -> Result<()> {
        let policy = json!({
            "apiVersion": "nmstate.io/v1",
            "kind": "NodeNetworkConfigurationPolicy",
            "metadata": {"name": name},
            "spec": {"desiredState": desired},
        });
        let created = self.server.client().create(POLICIES, &policy);
        self.runtime.block_on(created).map(drop).with_context(|| format!("creating {name}"))
    }

    pub(crate) fn delete_policy(&self, name: &str) -> Result<()> {
        let path = format!("{POLICIES}/{name}");
        let deleted = self.server.client().delete(&path);
        self.runtime.block_on(deleted).with_context(|| format!("deleting {name}"))
    }

    /// What the node reports about a policy; none before its first report, and after its last.
    pub(crate) fn report(&self, policy: &str) -> Result<Option<Report>> {
        let path = format!("{ENACTMENTS}/{NODE}.{policy}");
        match self.runtime.block_on(self.server.client().get(&path)) {
            Ok(object) => Ok(Some(Report::parse(&object)?)),
            Err(ApiError::Refused { code: 404, .. }) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {path}")),
        }
    }

    /// Whether the node has reported its network: its handler runs, and waits for policies.
    pub(crate) fn is_network_reported(&self) -> Result<bool> {
        let path = format!("{STATES}/{NODE}");
        match self.runtime.block_on(self.server.client().get(&path)) {
            Ok(state) => Ok(!state["status"].is_null()),
            Err(ApiError::Refused { code: 404, .. }) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("reading {path}")),
        }
    }

    /// What the kernel has of the interfaces that changes are about.
    pub(crate) fn links(&self) -> Result<Links> {
        let printed = self.machine.succeed("ip -json address")?;
        Ok(change::links(&serde_json::from_str(&printed).context("reading `ip -json address`")?))
    }

    pub(crate) fn kill_handler(&self) -> Result<()> {
        // It may have ended a moment ago and not be started again yet.
        self.machine.run(KILL_HANDLER).map(drop)
    }

    pub(crate) fn kill_network_manager(&self) -> Result<()> {
        self.machine.run(KILL_NETWORK_MANAGER).map(drop)
    }

    /// Cuts the power and switches the node on again. No handler runs then.
    pub(crate) fn lose_power(&mut self) -> Result<()> {
        self.machine.lose_power()
    }

    /// Whether the node reaches the router now.
    pub(crate) fn is_connected(&self) -> Result<bool> {
        Ok(self.machine.run(&format!("{REACHES} {GATEWAY}"))?.status.success())
    }

    /// Starts the handler, and starts it again whenever it ends, as the kubelet does.
    pub(crate) fn start_handler(&self) -> Result<()> {
        let (patience, checkpoint) = (PATIENCE.as_secs(), CHECKPOINT.as_secs());
        let supervise = format!(
            "cat > /run/supervise <<'EOF'
export KUBECONFIG=/host/kubeconfig
while :; do
  /host/nmstate-operator handler --node-name {NODE} --namespace default --patience {patience} \\
    --checkpoint {checkpoint} --listen 127.0.0.1:8089 >> /host/handler.log 2>&1 < /dev/null &
  echo $! > /run/handler.pid
  wait $!
  sleep 0.5
done
EOF
setsid bash /run/supervise > /dev/null 2>&1 < /dev/null &"
        );
        self.machine.succeed(&supervise).map(drop).context("starting the handler")
    }

    /// The ends of all logs.
    pub(crate) fn logs(&self) -> String {
        let tail = |path: &Path, most: usize| {
            let text = fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(most)..].join("\n")
        };
        format!(
            "--- handler\n{}\n--- coordinator\n{}\n{}",
            tail(&self.machine.shared().join("handler.log"), 60),
            tail(&self.folder.path().join("coordinator"), 20),
            self.machine.logs()
        )
    }
}

/// Starts the node, without a handler.
fn boot(lan: &Arc<Lan>, program: &Path) -> Result<SwitchedOn> {
    let machine = Uml::new(&UmlOptions {
        hostname: NODE.to_owned(),
        profiles: vec![Profile::fixed(UPLINK, &format!("{ADDRESS}/24"), GATEWAY)],
        uplink: Some(Arc::clone(lan)),
        ..UmlOptions::default()
    })?;
    machine.install_as(program, "nmstate-operator")?;
    machine.switch_on()
}

/// Starts an API server that has our API and the node.
async fn start_server() -> Result<ApiServer> {
    let server = ApiServer::start().await?;
    let crds = nmstate_api::crd::all();
    ensure!(!crds.is_empty(), "there are no CRDs");
    for crd in crds {
        server.client().load_crd_text(&crd.to_string()).await.context("loading a CRD")?;
    }
    server.add_ready_node(NODE).await?;
    Ok(server)
}
