//! States about which one can be in doubt, applied to a node by nmstate: the checks report an error if
//! and only if nmstate or NetworkManager refuses the state.

use std::fs;

use br_ex::{ClusterFacts, Document, Severity, check};
use lab_cluster::node::{LanOptions, Node, NodeOptions, Subnet};
use nmstate::NetworkState;

const TESTS: &str = "/usr/bin/tests";
const PROGRAM: [&str; 3] = ["nodes::doubtful::apply_states", "--exact", "--ignored"];
const STATES: &str = "states.json";
const RESULTS: &str = "results.json";

/// What the node is given back between two states.
const CLEAN: &str = "interfaces:
- {name: br-ex, type: ovs-interface, state: absent}
- {name: br-ex, type: ovs-bridge, state: absent}
- {name: nic1, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
routes: {config: [{next-hop-interface: nic1, state: absent}]}
dns-resolver: {config: {}}
";

/// br-ex on nic1, with these lines for the bridge.
fn bridge(lines: &str) -> String {
    let ipv4 = "enabled: true, dhcp: false, address: [{ip: 203.0.113.10, prefix-length: 24}, \
                {ip: 169.254.0.2, prefix-length: 17}]";
    document(lines, ipv4, "enabled: false", "203.0.113.1")
}

/// br-ex on nic1 with these sections for IP and this gateway.
fn families(ipv4: &str, ipv6: &str, gateway: &str) -> String {
    document("", ipv4, ipv6, gateway)
}

fn document(lines: &str, ipv4: &str, ipv6: &str, gateway: &str) -> String {
    let destination = if gateway.contains(':') { "::/0" } else { "0.0.0.0/0" };
    format!(
        "interfaces:
- {{name: nic1, type: ethernet, state: up, ipv4: {{enabled: false}}, ipv6: {{enabled: false}}}}
- name: br-ex
  type: ovs-bridge
  state: up
{lines}  bridge:
    allow-extra-patch-ports: true
    options: {{datapath: netdev, stp: false}}
    port: [{{name: nic1}}, {{name: br-ex}}]
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: nic1
  ipv4: {{{ipv4}}}
  ipv6: {{{ipv6}}}
routes: {{config: [{{destination: '{destination}', next-hop-address: '{gateway}', next-hop-interface: br-ex, metric: 48}}]}}
"
    )
}

/// Documents of a first boot, where nmstate creates br-ex: what is in doubt, and the document.
fn documents() -> Vec<(&'static str, String)> {
    let v4 = "enabled: true, dhcp: false, address: [{ip: 203.0.113.10, prefix-length: 24}]";
    let v6 = "enabled: true, dhcp: false, autoconf: false, \
              address: [{ip: '2001:db8:1::10', prefix-length: 64}]";
    let (gateway4, gateway6) = ("203.0.113.1", "2001:db8:1::1");
    vec![
        ("br-ex: IPv4 enabled without a method", families("enabled: true", v6, gateway6)),
        ("br-ex: IPv4, no addresses", families("enabled: true, address: []", v6, gateway6)),
        ("br-ex: IPv6 enabled without a method", families(v4, "enabled: true", gateway4)),
        ("br-ex: autoconf alone", families(v4, "enabled: true, autoconf: true", gateway4)),
    ]
}

/// An address of nic1 with a route.
fn routed(address: &str, route: &str) -> String {
    format!(
        "interfaces:
- {{name: nic1, type: ethernet, state: up, ipv4: {{enabled: true, dhcp: false, address: [{address}]}}, ipv6: {{enabled: false}}}}
routes: {{config: [{{{route}, next-hop-interface: nic1}}]}}
"
    )
}

/// What is in doubt, and the state.
fn states() -> Vec<(&'static str, String)> {
    let nic = |lines: &str| {
        format!("interfaces:\n- {{name: nic1, type: ethernet, state: up, {lines}}}\n")
    };
    let network = "{ip: 203.0.113.10, prefix-length: 24}";
    let host = "{ip: 203.0.113.10, prefix-length: 32}";
    let to = "destination: 198.51.100.0/24";
    vec![
        // nic0 keeps its addresses. On a NIC that has none, nmstate refuses it: its verification finds
        // IPv4 disabled. Without the state of the node, a check cannot tell.
        (
            "IPv4 enabled without addresses",
            "interfaces: [{name: nic0, type: ethernet, state: up, ipv4: {enabled: true}}]\n"
                .to_owned(),
        ),
        (
            "a gateway beside an address without a subnet",
            routed(host, &format!("{to}, next-hop-address: 203.0.113.1")),
        ),
        ("a route without a gateway", routed(network, to)),
        ("a gateway that is a word", routed(network, &format!("{to}, next-hop-address: gateway"))),
        (
            "a destination that is not a network",
            routed(network, "destination: 198.51.100, next-hop-address: 203.0.113.1"),
        ),
        ("a MAC address that is a word", nic("mac-address: unknown")),
        ("an MTU that is a word", nic("mtu: large")),
        (
            "a name of 16 letters",
            "interfaces: [{name: an-interface-abc, type: dummy, state: up}]\n".to_owned(),
        ),
        (
            "a name server that is a name",
            "dns-resolver: {config: {server: [ns.example.com]}}\n".to_owned(),
        ),
        ("a bridge without further lines", bridge("")),
        ("`copy-mac-from` on the bridge", bridge("  copy-mac-from: nic1\n")),
        ("a MAC address on the bridge", bridge("  mac-address: '52:54:00:00:00:99'\n")),
        ("addresses on the bridge", bridge("  ipv4: {enabled: true, dhcp: true}\n")),
        ("an MTU on the bridge", bridge("  mtu: 1500\n")),
    ]
}

/// The errors of a state in the policy that a cluster would get.
fn policy_errors(state: &str) -> Vec<String> {
    let indented: String = state.lines().map(|line| format!("    {line}\n")).collect();
    let policy = format!(
        "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {{name: doubtful}}\n\
         spec:\n  desiredState:\n{indented}"
    );
    errors(&policy)
}

fn errors(document: &str) -> Vec<String> {
    let findings = check(&Document::parse(document.as_bytes()), &ClusterFacts::default());
    let errors = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| finding.to_string()).collect()
}

#[test]
fn checks_refuse_what_a_node_refuses_and_nothing_else() {
    let node = Node::start(&NodeOptions {
        hostname: "worker-0".into(),
        binds: vec![(std::env::current_exe().unwrap(), TESTS.into())],
        lan: LanOptions { subnet: Subnet::new(192, 0, 2), ..LanOptions::default() },
        ..NodeOptions::default()
    })
    .unwrap();
    node.wait_for_ipv4("nic0").unwrap();
    let checked = |errors: fn(&str) -> Vec<String>| {
        move |(title, state): (&'static str, String)| {
            let errors = errors(&state);
            (title, state, errors)
        }
    };
    let policies = states().into_iter().map(checked(policy_errors));
    let checked: Vec<_> = policies.chain(documents().into_iter().map(checked(errors))).collect();
    let states: Vec<_> = checked.iter().map(|(title, state, _)| (title, state)).collect();
    fs::write(node.shared().join(STATES), serde_json::to_string(&states).unwrap()).unwrap();
    node.succeed(&[&[TESTS], &PROGRAM[..]].concat()).unwrap();
    let results = fs::read(node.shared().join(RESULTS)).unwrap();
    let results: Vec<Option<String>> = serde_json::from_slice(&results).unwrap();
    let mut wrong = Vec::new();
    assert_eq!(results.len(), checked.len());
    for ((title, _, errors), refusal) in checked.iter().zip(results) {
        if errors.is_empty() != refusal.is_none() {
            wrong.push(format!("{title}: the node: {refusal:?}; the checks: {errors:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
#[ignore = "a program for nodes; another test starts it there"]
fn apply_states() {
    // Only nodes have this folder: the network of a host is not touched.
    let text = fs::read_to_string(format!("/host/{STATES}")).expect("a node of the lab");
    let states: Vec<(String, String)> = serde_json::from_str(&text).unwrap();
    let apply = |text: &str| -> Option<String> {
        let state = match NetworkState::new_from_yaml(text) {
            Ok(state) => state,
            Err(error) => return Some(error.to_string()),
        };
        state.apply().err().map(|error| error.to_string())
    };
    let mut results = Vec::new();
    for (title, state) in &states {
        results.push(apply(state));
        let problem = apply(CLEAN);
        assert_eq!(problem, None, "after {title}");
    }
    fs::write(format!("/host/{RESULTS}"), serde_json::to_string(&results).unwrap()).unwrap();
}
