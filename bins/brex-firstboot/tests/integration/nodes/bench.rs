//! A node with the program and a document.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

use lab_cluster::node::{Lan, LanOptions, Node, NodeOptions};
use serde_json::Value;

pub(crate) const FLAG: &str = "/etc/nmstate/openshift/applied";
pub(crate) const DOCUMENT: &str = "/etc/nmstate/openshift/worker-0.yml";
pub(crate) const STAGED: &str = "/etc/nmstate/worker-0.yml";
pub(crate) const ATTEMPT: &str = "/var/lib/brex-firstboot/attempt";
const PROGRAM: &str = "/usr/bin/brex-firstboot";

/// br-ex on nic0, with these lines for its internal port and after the interfaces.
pub(crate) fn document(ip: &str, rest: &str) -> String {
    format!(
        "interfaces:
- name: nic0
  type: ethernet
  state: up
  ipv4: {{enabled: false}}
  ipv6: {{enabled: false}}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge:
    allow-extra-patch-ports: true
    options: {{datapath: netdev}}
    port:
    - name: nic0
    - name: br-ex
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: nic0
{ip}
{rest}"
    )
}

pub(crate) const DHCP: &str = "  ipv4: {enabled: true, dhcp: true, auto-route-metric: 48}
  ipv6: {enabled: false}";

pub(crate) fn dhcp() -> String {
    document(DHCP, "")
}

pub(crate) fn fixed(gateway: &str) -> String {
    document(
        "  ipv4: {enabled: true, dhcp: false, address: [{ip: 198.51.100.10, prefix-length: 24}]}
  ipv6: {enabled: false}",
        &format!(
            "routes:
  config:
  - {{destination: 0.0.0.0/0, next-hop-address: {gateway}, next-hop-interface: br-ex, metric: 48}}
dns-resolver:
  config: {{server: [198.51.100.1]}}
"
        ),
    )
}

pub(crate) fn options() -> NodeOptions {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_brex-firstboot"));
    NodeOptions {
        hostname: "worker-0".into(),
        binds: vec![(program, PROGRAM.into())],
        ..NodeOptions::default()
    }
}

/// A node that is up on nic0, and has this document.
pub(crate) fn node(text: &str) -> Node {
    node_with(&LanOptions::default(), text)
}

pub(crate) fn node_with(lan: &LanOptions, text: &str) -> Node {
    let lan = Arc::new(Lan::start(lan).unwrap());
    let node = Node::start_on(&lan, &options()).unwrap();
    node.wait_for_ipv4("nic0").unwrap();
    node.write(DOCUMENT, text, 0o644).unwrap();
    node
}

/// Runs the program in the node.
pub(crate) fn run(node: &Node, words: &[&str]) -> Output {
    node.run(&[&[PROGRAM], words].concat()).unwrap()
}

pub(crate) fn succeed(node: &Node, words: &[&str]) -> String {
    let output = run(node, words);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {message}\n{}", node.logs());
    message
}

/// Runs the program, which must end with exit code 1, and returns its standard error.
pub(crate) fn fail(node: &Node, words: &[&str]) -> String {
    let output = run(node, words);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {message}");
    message
}

/// The same on a LAN without leases, until the bridge is removed again: the former network
/// needs one.
pub(crate) fn fail_without_leases(node: &Node, words: &[&str]) {
    let bridges = |node: &Node| node.succeed(&["ovs-vsctl", "--timeout=20", "list-br"]);
    node.lan().stop_dhcp().unwrap();
    let mut command = node.command(PROGRAM);
    let mut child = command.args(words).spawn().unwrap();
    if words[0] != "confirm" {
        node.wait_until("the bridge is made", |node| Ok(!bridges(node)?.is_empty())).unwrap();
    }
    node.wait_until("the bridge is removed", |node| Ok(bridges(node)?.is_empty())).unwrap();
    node.lan().start_dhcp().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// The last entry of the report.
pub(crate) fn last_entry(node: &Node) -> Value {
    let bytes = node.read("/var/log/brex-firstboot/report.json").unwrap();
    let report: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(report["version"], 1);
    report["entries"].as_array().unwrap().last().unwrap().clone()
}

/// The default route uses br-ex, and its gateway responds.
pub(crate) fn assert_on_br_ex(node: &Node) {
    let state = node.state().unwrap();
    let router: IpAddr = node.lan().router().into();
    assert!(state.bridges.contains_key("br-ex"), "{state:?}");
    assert!(state.has_default_route("br-ex", router), "{state:?}");
    node.wait_until("the router responds", |node| node.reaches(router)).unwrap();
}

/// The node has the network it booted with.
pub(crate) fn assert_on_nic0(node: &Node) {
    let router: IpAddr = node.lan().router().into();
    node.wait_until("the node is back on nic0", |node| {
        // A bridge may be removed while a snapshot of it is made.
        if !node.succeed(&["ovs-vsctl", "--timeout=20", "list-br"])?.is_empty() {
            return Ok(false);
        }
        Ok(node.state()?.has_default_route("nic0", router) && node.reaches(router)?)
    })
    .unwrap();
}
