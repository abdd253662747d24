//! The memory of a handler: the real program in a node with NetworkManager.

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result};
use kube::config::Kubeconfig;
use lab::kube::ApiServer;
use lab::node::{Lan, LanOptions, Node, NodeOptions, Relay};
use serde_json::{Value, json};
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
    let port = server.url().rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let port = port.context("the server's address has no port")?;
    let relay = Relay::start(&lan, ([127, 0, 0, 1], port).into())?;
    let options = NodeOptions {
        hostname: NAME.into(),
        binds: vec![(std::path::absolute(program)?, IN_NODE.into())],
        ..NodeOptions::default()
    };
    let node = Node::start_on(&lan, &options)?;
    node.wait_for_ipv4("nic0")?;
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig())?;
    let mut kubeconfig = serde_json::to_value(kubeconfig)?;
    let at = &mut kubeconfig["clusters"][0]["cluster"];
    at["server"] = json!(format!("https://{}", relay.address()));
    at["tls-server-name"] = json!("127.0.0.1");
    // The token must be written out, which the type keeps from being shown.
    let original: Value = serde_json::from_slice(&std::fs::read(server.kubeconfig())?)?;
    kubeconfig["users"] = original["users"].clone();
    std::fs::write(node.shared().join("kubeconfig"), kubeconfig.to_string())?;
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
