//! The memory of a handler that applies many VLANs: the real program on a machine with a kernel of its
//! own, with NetworkManager.

use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kube::Api;
use kube::api::PostParams;
use lab_cluster::kube::ApiServer;
use lab_cluster::node::uml::{SwitchedOn, Uml, UmlOptions};
use lab_cluster::node::{Lan, LanOptions, Profile, Relay};
use nmstate_api::{
    EnactmentConditionType, NodeNetworkConfigurationEnactment as Enactment,
    NodeNetworkConfigurationPolicy as Policy, NodeNetworkState, condition,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cluster::Cluster;

const NODE: &str = "node-0000";
const NIC: &str = "nic1";
const POLICY: &str = "vlans";
/// In kibibytes, with up to [`LIMITED`] VLANs.
const LIMIT: u64 = 64 * 1000 * 1000 / 1024;
const LIMITED: usize = 100;
/// Applying many VLANs takes long on a machine without a processor of its own.
const PATIENCE: &str = "600";
const DEADLINE: Duration = Duration::from_secs(3600);
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Applies a policy with so many VLANs, and prints what the handler needed for it.
pub(crate) fn measure(runtime: &Runtime, count: usize, program: &Path) -> Result<()> {
    ensure!((1..=4000).contains(&count), "--vlans: expected numbers from 1 to 4000");
    let site = Site::start(runtime, program)?;
    let idle = site.memory()?;
    let interfaces: Vec<Value> = (1..=count).map(vlan).collect();
    let mut policy = Policy::new(POLICY);
    policy.spec.desired_state = serde_json::from_value(json!({ "interfaces": interfaces }))?;
    let began = Instant::now();
    let policies: Api<Policy> = Api::all(site.client.clone());
    runtime.block_on(policies.create(&PostParams::default(), &policy))?;
    let enactments: Api<Enactment> = Api::all(site.client.clone());
    let name = format!("{NODE}.{POLICY}");
    site.wait("the policy is applied", || {
        let Some(found) = runtime.block_on(enactments.get_opt(&name))? else { return Ok(false) };
        let holds = |type_| condition::is_true(found.conditions(), type_);
        ensure!(!holds(EnactmentConditionType::Failing), "{:?}", found.conditions());
        Ok(holds(EnactmentConditionType::Available))
    })?;
    let took = began.elapsed();
    let reports: Api<NodeNetworkState> = Api::all(site.client.clone());
    let mut size = 0;
    site.wait("all VLANs are reported", || {
        let report = serde_json::to_value(runtime.block_on(reports.get(NODE))?)?;
        size = report.to_string().len();
        let interfaces = report["status"]["currentState"]["interfaces"].as_array();
        let vlans = interfaces.into_iter().flatten().filter(|it| it["type"] == "vlan");
        Ok(vlans.count() == count)
    })?;
    let memory = site.memory()?;
    println!(
        "{count} VLANs: applied in {:.1} s; the handler needed at most {:.1} MB ({:.1} MB before); the report has {size} bytes",
        took.as_secs_f64(),
        megabytes(memory),
        megabytes(idle),
    );
    ensure!(count > LIMITED || memory <= LIMIT, "more than 64 MB");
    Ok(())
}

fn megabytes(kibibytes: u64) -> f64 {
    kibibytes as f64 * 1024.0 / 1e6
}

fn vlan(id: usize) -> Value {
    let off = json!({"enabled": false});
    json!({
        "name": format!("{NIC}.{id}"), "type": "vlan", "state": "up",
        "vlan": {"base-iface": NIC, "id": id}, "ipv4": off, "ipv6": off,
    })
}

/// A machine with its handler, an API server and a coordinator.
struct Site {
    // Dropped in this order: programs before what they talk to.
    machine: SwitchedOn,
    coordinator: Child,
    _relay: Relay,
    client: kube::Client,
    _server: ApiServer,
}

impl Site {
    fn start(runtime: &Runtime, program: &Path) -> Result<Self> {
        let server = runtime.block_on(ApiServer::start()).context("starting a server")?;
        let cluster = runtime.block_on(Cluster::prepare(&server, 1))?;
        let coordinator = lab::bound_command(&std::path::absolute(program)?)
            .args(["--log-level", "warn", "coordinator", "--namespace", "default"])
            .args(["--listen", "127.0.0.1:0"])
            .env("KUBECONFIG", server.kubeconfig())
            .spawn()
            .context("starting the coordinator")?;
        let lan = Arc::new(Lan::start(&LanOptions::default())?);
        let relay = Relay::start(&lan, server.address())?;
        let machine = Uml::new(&UmlOptions {
            hostname: NODE.to_owned(),
            profiles: vec![Profile::fixed("mgmt0", "198.51.100.10/24", "198.51.100.1")],
            uplink: Some(lan),
            ..UmlOptions::default()
        })?;
        machine.install_as(program, "nmstate-operator")?;
        let kubeconfig = server.kubeconfig_at(relay.address());
        std::fs::write(machine.shared().join("kubeconfig"), kubeconfig)?;
        let machine = machine.switch_on()?;
        machine.succeed(&format!(
            "export KUBECONFIG=/host/kubeconfig
setsid ./nmstate-operator handler --node-name {NODE} --patience {PATIENCE} \\
  --listen 127.0.0.1:8089 < /dev/null > handler.log 2>&1 &
echo $! > /run/handler.pid"
        ))?;
        runtime.block_on(cluster.wait_for_report(NODE))?;
        let client = cluster.client()?;
        Ok(Self { machine, coordinator, _relay: relay, client, _server: server })
    }

    /// The handler's largest memory so far, in kibibytes.
    fn memory(&self) -> Result<u64> {
        let status = self.machine.succeed("cat /proc/$(cat /run/handler.pid)/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).context("the handler has ended")
    }

    fn wait(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let end = Instant::now() + DEADLINE;
        while !holds().with_context(|| self.log())? {
            if Instant::now() > end {
                bail!("not within {} s: {what}\n{}", DEADLINE.as_secs(), self.log());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn log(&self) -> String {
        let path = self.machine.shared().join("handler.log");
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.coordinator.kill();
        let _ = self.coordinator.wait();
    }
}
