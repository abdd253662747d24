//! The memory of a handler: the real program in a node with NetworkManager.

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result};
use lab_cluster::kube::ApiServer;
use lab_cluster::node::{Lan, LanOptions, Node, NodeOptions, Relay};
use tokio::runtime::Runtime;

use super::cluster::{Cluster, create_node};

const NAME: &str = "measured";
const IN_NODE: &str = "/usr/local/bin/nmstate-operator";

pub(crate) fn measure(
    server: &ApiServer,
    cluster: &Cluster,
    runtime: &Runtime,
    program: &Path,
) -> Result<String> {
    runtime.block_on(create_node(&cluster.client()?, NAME))?;
    let lan = Arc::new(Lan::start(&LanOptions::default())?);
    let relay = Relay::start(&lan, server.address())?;
    let options = NodeOptions {
        hostname: NAME.into(),
        binds: vec![(std::path::absolute(program)?, IN_NODE.into())],
        ..NodeOptions::default()
    };
    let node = Node::start_on(&lan, &options)?;
    node.wait_for_ipv4("nic0")?;
    let kubeconfig = server.kubeconfig_at(relay.address());
    std::fs::write(node.shared().join("kubeconfig"), kubeconfig)?;
    let handler = node
        .command(IN_NODE)
        .args(["handler", "--node-name", NAME])
        .env("KUBECONFIG", "/host/kubeconfig")
        .stderr(Stdio::null())
        .spawn()
        .context("starting a handler")?;
    let _running = Running(handler);
    runtime.block_on(cluster.wait_for_report(NAME))?;
    let status = "grep -E 'VmRSS|VmHWM' /proc/$(pidof nmstate-operator)/status";
    let status = node.succeed(&["sh", "-c", status])?;
    let lines: Vec<String> =
        status.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    Ok(format!("memory of one handler: {}", lines.join(", ")))
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
