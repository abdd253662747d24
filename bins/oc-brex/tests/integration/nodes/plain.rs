//! br-ex on one NIC, on nodes in namespaces: name servers, MTU, and a change that fails.

use std::fs;
use std::net::IpAddr;
use std::process::Command;

use lab_cluster::node::{LanOptions, Node, NodeOptions, Subnet};
use node_network::{Cause, Outcome, Recovery};

use crate::nodes::change::{OUTCOME, PATIENCE, POLICY, PROGRAM, STATE};
use crate::nodes::page::{self, Change};

pub(crate) const DNS: &str = "Name servers";
pub(crate) const MTU: &str = "MTU";
pub(crate) const FAILED: &str = "A change that fails";

const TESTS: &str = "/usr/bin/tests";
/// Two name servers that know one name.
const NAME_SERVERS: [&str; 2] = ["192.0.2.53", "192.0.2.54"];
/// What ovnkube adds besides: a port to its own bridge.
const OVNKUBE: &str = "set -e
p=patch-br-ex_worker-0-to-br-int q=patch-br-int-to-br-ex_worker-0
ovs-vsctl --timeout=60 add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure \
  -- add-port br-int $q -- set interface $q type=patch options:peer=$p \
  -- add-port br-ex $p -- set interface $p type=patch options:peer=$q
number() { ovs-vsctl --timeout=60 get interface $1 ofport; }
ovs-ofctl add-flow br-ex \"cookie=0xdeff105,priority=100,ip,in_port=$(number nic0),actions=NORMAL\"
ovs-ofctl add-flow br-ex \\
  \"cookie=0xdeff105,priority=100,ip,in_port=$(number $p),actions=output:$(number nic0)\"";
/// What ovnkube depends on: the numbers of the ports that its flows name, and the flows.
const OPENFLOW: &str = "set -e
for port in nic0 patch-br-ex_worker-0-to-br-int; do
  ovs-vsctl --timeout=60 get interface $port ofport
done
ovs-ofctl --no-stats --sort=priority dump-flows br-ex";

/// The kernel of a node in namespaces may have no Open vSwitch.
fn for_the_lab(text: &str) -> String {
    let mut lines = Vec::new();
    for line in crate::nodes::for_the_lab(text).lines() {
        lines.push(line.to_owned());
        if let Some(indentation) = line.strip_suffix("mcast-snooping-enable: true") {
            lines.push(format!("{indentation}datapath: netdev"));
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A node whose br-ex was created from the page's document, in a cluster.
fn node(change: &Change) -> Node {
    let tests = std::env::current_exe().unwrap();
    let node = Node::start(&NodeOptions {
        hostname: change.node.clone(),
        binds: vec![(tests, TESTS.into())],
        lan: LanOptions { subnet: Subnet::new(192, 0, 2), ..LanOptions::default() },
        ..NodeOptions::default()
    })
    .unwrap();
    node.wait_for_ipv4("nic0").unwrap();
    for address in NAME_SERVERS {
        node.lan().add_address(&format!("{address}/24")).unwrap();
    }
    let listen = format!("--listen-address={}", NAME_SERVERS.join(","));
    let words = [
        "dnsmasq",
        "--conf-file=/dev/null",
        "--user=root",
        "--bind-interfaces",
        "--no-resolv",
        "--no-hosts",
        "--pid-file=/run/names.pid",
        "--address=/api.example/192.0.2.7",
        &listen,
    ];
    let started = node.lan().run(&words).unwrap();
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    // With the address that ovnkube adds.
    let outcome = apply(&node, &for_the_lab(&with_masquerade(&change.old)), 120);
    assert!(outcome.is_committed(), "{outcome}\n{}", node.logs());
    node.succeed(&["sh", "-c", OVNKUBE]).unwrap();
    node
}

/// The document with the address that ovnkube added.
fn with_masquerade(document: &str) -> String {
    let own = "    - ip: \"192.0.2.10\"\n      prefix-length: 24\n";
    let both = format!("{own}    - ip: \"169.254.0.2\"\n      prefix-length: 17\n");
    assert!(document.contains(own));
    document.replace(own, &both)
}

/// Makes a change in the node.
fn apply(node: &Node, policy: &str, patience: u32) -> Outcome {
    fs::write(node.shared().join(POLICY), policy).unwrap();
    fs::write(node.shared().join(PATIENCE), patience.to_string()).unwrap();
    node.succeed(&[&[TESTS], &PROGRAM[..]].concat()).unwrap();
    serde_json::from_slice(&fs::read(node.shared().join(OUTCOME)).unwrap()).unwrap()
}

/// Plans the change from the state of the node. Returns the policy and the one that reverts it.
fn plan(node: &Node, change: &Change) -> (String, String) {
    let folder = node.shared();
    fs::write(folder.join("new.yml"), for_the_lab(&change.new)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_oc-brex"))
        .args(["plan", "--from", STATE, "--to", "new.yml", "--out", "policies"])
        .current_dir(folder)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    let planned = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{message}{planned}");
    assert!(!planned.contains("note: nmstate"), "nmstate sees no more than we do: {planned}");
    let read = |name: &str| fs::read_to_string(folder.join("policies").join(name)).unwrap();
    let policy = read("policy.yaml");
    assert_eq!(policy, for_the_lab(&change.policy), "{}", change.title);
    (policy, read("way-back.yaml"))
}

/// Adopts the node: a policy of the document it was installed with, which changes nothing there.
fn adopt(node: &Node, change: &Change) -> String {
    let folder = node.shared();
    fs::create_dir_all(folder.join("hosts/worker")).unwrap();
    let document = format!("hosts/worker/{}.yml", change.node);
    fs::write(folder.join(document), for_the_lab(&change.old)).unwrap();
    let mc = "manifests/10-br-ex-worker.yaml";
    for words in [
        &["render", "--hosts", "hosts", "--out", "manifests"][..],
        &["adopt", "--mc", mc, "--nns", STATE, "--out", "adopted"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_oc-brex"))
            .args(words)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    fs::read_to_string(folder.join(format!("adopted/{}-br-ex.yaml", change.node))).unwrap()
}

fn openflow(node: &Node) -> String {
    let text = node.succeed(&["sh", "-c", OPENFLOW]).unwrap();
    assert_eq!(text.matches("0xdeff105").count(), 2, "{text}");
    text
}

/// Plans the change and makes it. Returns the policy that reverts it.
fn make(node: &Node, change: &Change) -> String {
    let (policy, back) = plan(node, change);
    let before = openflow(node);
    let outcome = apply(node, &policy, 120);
    // None of the changes that are made here is planned with a restart of ovnkube.
    assert!(!change.says.contains("disruptive"), "{}", change.says);
    assert_eq!(openflow(node), before, "{}", change.title);
    assert!(outcome.is_committed(), "{}: {outcome}\n{}", change.title, node.logs());
    assert_in_the_cluster(node);
    back
}

/// The node is where it was, with what ovnkube put there.
fn assert_in_the_cluster(node: &Node) {
    let router: IpAddr = node.lan().router().into();
    node.wait_until("the gateway responds", |node| node.reaches(router)).unwrap();
    let addresses = node.succeed(&["ip", "-o", "-4", "address", "show", "br-ex"]).unwrap();
    assert!(addresses.contains("192.0.2.10/24"), "{addresses}");
    assert!(addresses.contains("169.254.0.2/17"), "{addresses}");
    let ports = node.succeed(&["ovs-vsctl", "--timeout=60", "list-ports", "br-ex"]).unwrap();
    assert!(ports.contains("patch-br-ex_worker-0-to-br-int"), "{ports}");
}

fn assert_resolves_by(node: &Node, server: &str) {
    node.wait_until("resolv.conf names the server", |node| {
        let text = String::from_utf8_lossy(&node.read("/etc/resolv.conf")?).into_owned();
        let servers: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("nameserver ")).collect();
        Ok(servers == [server])
    })
    .unwrap();
    node.wait_until("the name is known", |node| {
        let found = node.run(&["getent", "hosts", "api.example"])?;
        Ok(String::from_utf8_lossy(&found.stdout).starts_with("192.0.2.7"))
    })
    .unwrap();
}

#[test]
fn an_adopted_node_changes_nothing_and_then_uses_the_new_name_servers() {
    let change = page::find(DNS);
    let node = node(&change);
    assert_resolves_by(&node, NAME_SERVERS[0]);
    let before = node.state().unwrap();
    let outcome = apply(&node, &adopt(&node, &change), 120);
    assert!(outcome.is_committed(), "{outcome}\n{}", node.logs());
    node.wait_until("the node is as it was", |node| Ok(node.state()? == before)).unwrap();
    make(&node, &change);
    assert_resolves_by(&node, NAME_SERVERS[1]);
}

#[test]
fn large_frames_leave_the_node_after_a_change_of_the_mtu_until_the_way_back() {
    let change = page::find(MTU);
    let node = node(&change);
    // The switch is ready for them.
    for port in ["node0-0", "br0"] {
        node.lan().run(&["ip", "link", "set", port, "mtu", "9000"]).unwrap();
    }
    let large = |node: &Node| {
        let words = ["ping", "-q", "-c", "1", "-W", "1", "-M", "do", "-s", "8972", "192.0.2.1"];
        Ok(node.run(&words)?.status.success())
    };
    assert!(!large(&node).unwrap());
    let back = make(&node, &change);
    node.wait_until("large frames arrive", large).unwrap();

    let before = openflow(&node);
    let outcome = apply(&node, &back, 120);
    assert!(outcome.is_committed(), "{outcome}\n{back}\n{}", node.logs());
    assert_eq!(openflow(&node), before);
    assert_in_the_cluster(&node);
    let links = node.succeed(&["ip", "-o", "link", "show"]).unwrap();
    let large: Vec<_> = links.lines().filter(|link| link.contains("mtu 9000")).collect();
    assert!(large.is_empty(), "{links}");
}

#[test]
fn a_gateway_that_does_not_exist_fails_and_the_node_keeps_its_network() {
    let change = page::find(FAILED);
    let node = node(&change);
    let (before, flows) = (node.state().unwrap(), openflow(&node));
    let (policy, _) = plan(&node, &change);
    let outcome = apply(&node, &policy, 15);
    let message = outcome.to_string();
    let Outcome::RolledBack { cause, recovery, .. } = outcome else { panic!("{message}") };
    assert_eq!((cause, recovery), (Cause::Probes, Recovery::Works), "{message}");
    // The page quotes it.
    let quoted = change.text.rsplit_once("```text\n").unwrap().1.split_once("```").unwrap().0;
    let mut parts = quoted.trim_end().split('…');
    assert!(message.starts_with(parts.next().unwrap()), "{message}");
    assert!(message.ends_with(parts.next().unwrap()), "{message}");
    assert_in_the_cluster(&node);
    assert_eq!(openflow(&node), flows);
    assert_resolves_by(&node, NAME_SERVERS[0]);
    node.wait_until("the node is as it was", |node| Ok(node.state()? == before)).unwrap();
}
