//! One policy for each node, as clusters with static addresses have them: what a handler receives
//! must not depend on the number of nodes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab_cluster::kube::ApiServer;
use nmstate_deployment::names;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::traffic::Traffic;
use crate::{identities, start_handlers};

/// The largest difference between the two sizes.
const TOLERANCE: f64 = 0.10;
/// With fewer nodes, events of a handler that starts are in its first list or after it by chance, and
/// nothing follows from a difference.
const FEWEST: usize = 100;
/// In kibibytes.
const COORDINATOR_LIMIT: u64 = 150 * 1000 * 1000 / 1024;
/// After the last policy, for reports that are on their way.
const SETTLE: Duration = Duration::from_secs(10);

/// What was measured with so many nodes.
pub(crate) struct Measured {
    nodes: usize,
    requests: f64,
    bytes: f64,
    events: f64,
    most_bytes: u64,
    most_events: u64,
    took: Duration,
    /// The largest memory of the coordinator, in kibibytes.
    coordinator: u64,
}

impl Measured {
    pub(crate) fn print(&self) {
        println!(
            "{} nodes with a policy each: per handler {:.1} requests, {:.0} bytes (at most {}), {:.2} events (at most {}); coordinator {:.1} MB; {:.1} s until all were Available",
            self.nodes,
            self.requests,
            self.bytes,
            self.most_bytes,
            self.events,
            self.most_events,
            self.coordinator as f64 * 1024.0 / 1e6,
            self.took.as_secs_f64(),
        );
    }
}

/// Checks that handlers of the larger cluster do not receive more, and what the coordinator needs.
pub(crate) fn compare(small: &Measured, large: &Measured) -> Result<()> {
    let fewest = small.nodes.min(large.nodes);
    for (what, small, large) in
        [("bytes", small.bytes, large.bytes), ("events", small.events, large.events)]
    {
        let difference = (large - small).abs() / small;
        println!("{what} per handler differ by {:.1} %", difference * 100.0);
        let is_good = difference <= TOLERANCE || fewest < FEWEST;
        ensure!(is_good, "more than {:.0} %", TOLERANCE * 100.0);
    }
    for measured in [small, large] {
        ensure!(
            measured.coordinator <= COORDINATOR_LIMIT,
            "the coordinator needs more than 150 MB"
        );
    }
    Ok(())
}

pub(crate) fn measure(
    runtime: &Runtime,
    nodes: usize,
    change: Duration,
    program: &Path,
) -> Result<Measured> {
    let server = runtime.block_on(ApiServer::start()).context("starting a server")?;
    runtime.block_on(identities::install(&server))?;
    let cluster = runtime.block_on(Cluster::with_nodes(&server, nodes))?;
    let admin = cluster.client()?;
    let config = cluster.config();
    let handlers = runtime.block_on(identities::handlers(&admin, &config, cluster.names()))?;
    let token = runtime.block_on(identities::coordinator(&admin))?;
    let mut coordinator = Coordinator::start(&server, program, &token)?;
    let stop = CancellationToken::new();
    let traffic: Vec<Arc<Traffic>> = handlers.iter().map(|_| Arc::default()).collect();
    let threads = start_handlers(&handlers, Some(&traffic), change, &stop);
    runtime.block_on(cluster.wait_until_assigned())?;
    let began = Instant::now();
    runtime.block_on(cluster.apply_policy_of_each())?;
    let took = began.elapsed();
    std::thread::sleep(SETTLE);
    let memory = coordinator.memory()?;
    stop.cancel();
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a thread ended badly"))??;
    }
    let mean = |of: fn(&Traffic) -> u64| {
        traffic.iter().map(|it| of(it)).sum::<u64>() as f64 / traffic.len() as f64
    };
    let most = |of: fn(&Traffic) -> u64| traffic.iter().map(|it| of(it)).max().unwrap_or_default();
    Ok(Measured {
        nodes,
        requests: mean(Traffic::requests),
        bytes: mean(Traffic::bytes),
        events: mean(Traffic::events),
        most_bytes: most(Traffic::bytes),
        most_events: most(Traffic::events),
        took,
        coordinator: memory,
    })
}

/// The real program, with the token of its pod.
struct Coordinator {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Coordinator {
    fn start(server: &ApiServer, program: &Path, token: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut kubeconfig = kube::config::Kubeconfig::read_from(server.kubeconfig())?;
        for user in kubeconfig.auth_infos.iter_mut().filter_map(|it| it.auth_info.as_mut()) {
            *user = kube::config::AuthInfo {
                token: Some(token.to_owned().into()),
                ..kube::config::AuthInfo::default()
            };
        }
        let path = folder.path().join("kubeconfig");
        // A token is written as it is only by this type.
        let mut text = serde_json::to_value(&kubeconfig)?;
        for user in text["users"].as_array_mut().into_iter().flatten() {
            user["user"]["token"] = token.into();
        }
        std::fs::write(&path, text.to_string())?;
        let child = Command::new(program)
            .args(["--log-level", "warn", "coordinator"])
            .args(["--namespace", names::NAMESPACE, "--listen", "127.0.0.1:0"])
            // There is no other coordinator. A server that shares its processors with all handlers may not
            // respond for longer than a usual lease lasts.
            .args(["--lease", "600"])
            .env("KUBECONFIG", &path)
            .stdin(Stdio::null())
            .spawn()
            .context("starting the coordinator")?;
        Ok(Self { child, _folder: folder })
    }

    /// Its largest memory so far, in kibibytes.
    fn memory(&mut self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).context("reading the coordinator's memory")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).context("the coordinator has ended")
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
