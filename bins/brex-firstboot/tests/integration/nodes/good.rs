//! Good documents of every kind, in one transaction.

use std::sync::Arc;
use std::thread;

use lab_cluster::node::{Ipv6, Lan, LanOptions, Node};

use crate::nodes::bench::{
    ATTEMPT, DHCP, DOCUMENT, FLAG, assert_on_br_ex, dhcp, document, fixed, last_entry, node,
    node_with, options, succeed,
};

#[test]
fn br_ex_by_dhcp_keeps_the_mac_and_sets_the_flag_to_the_document() {
    let node = node(&dhcp());
    let mac = node.mac(0);
    succeed(&node, &["apply", "--patience", "120"]);
    assert_on_br_ex(&node);
    assert_eq!(node.read(FLAG).unwrap(), node.read(DOCUMENT).unwrap());
    assert!(!node.exists(ATTEMPT).unwrap());
    let state = node.state().unwrap();
    assert_eq!(state.interfaces["br-ex"].mac.as_deref(), Some(mac.as_str()));
    let entry = last_entry(&node);
    assert_eq!(entry["result"], "confirmed");
    assert_eq!(entry["attempt"], 1);
}

#[test]
fn br_ex_with_a_fixed_address() {
    let node = node(&fixed("198.51.100.1"));
    succeed(&node, &["apply", "--patience", "120"]);
    assert_on_br_ex(&node);
    let state = node.state().unwrap();
    assert_eq!(state.ipv4("br-ex").unwrap().to_string(), "198.51.100.10");
}

#[test]
fn br_ex_by_router_advertisement_with_ipv6_alone() {
    let lan = LanOptions {
        ipv6: Some(Ipv6::Autoconfiguration("2001:db8:1::".parse().unwrap())),
        ..LanOptions::default()
    };
    let text = document(
        "  ipv4: {enabled: false}
  ipv6: {enabled: true, autoconf: true, dhcp: true, auto-route-metric: 48}",
        "",
    );
    let node = node_with(&lan, &text);
    succeed(&node, &["apply", "--patience", "120"]);
    let state = node.state().unwrap();
    let global = state.interfaces["br-ex"].addresses.iter().any(|(address, _)| address.is_ipv6());
    assert!(global, "{state:?}");
    assert!(state.has_default_route("br-ex", "::".parse().unwrap()), "{state:?}");
}

#[test]
fn br_ex_on_a_bond_of_open_vswitch() {
    let text = dhcp().replace(
        "    - name: nic0\n",
        "    - name: bond0
      link-aggregation: {mode: balance-slb, port: [{name: nic0}, {name: nic1}]}\n",
    );
    let text = text.replace(
        "- name: br-ex\n  type: ovs-bridge",
        "- name: nic1
  type: ethernet
  state: up
  ipv4: {enabled: false}
  ipv6: {enabled: false}
- name: br-ex
  type: ovs-bridge",
    );
    let node = node(&text);
    succeed(&node, &["apply", "--patience", "120"]);
    assert_on_br_ex(&node);
}

#[test]
fn a_lease_that_comes_late_is_waited_for() {
    let node = node(&dhcp());
    node.lan().delay_dhcp(std::time::Duration::from_secs(6)).unwrap();
    succeed(&node, &["apply", "--patience", "120"]);
    assert_on_br_ex(&node);
}

#[test]
fn a_router_that_does_not_respond_to_pings_is_sufficient() {
    let node = node(&dhcp());
    node.lan().ignore_pings().unwrap();
    succeed(&node, &["apply", "--patience", "120"]);
    assert_eq!(last_entry(&node)["result"], "confirmed");
}

#[test]
fn two_nodes_at_once_do_not_mind_each_other() {
    let lan = Arc::new(Lan::start(&LanOptions::default()).unwrap());
    let nodes: Vec<Node> = (0..2).map(|_| Node::start_on(&lan, &options()).unwrap()).collect();
    thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(|| {
                node.wait_for_ipv4("nic0").unwrap();
                node.write(DOCUMENT, document(DHCP, ""), 0o644).unwrap();
                succeed(node, &["apply", "--patience", "120"]);
                assert_on_br_ex(node);
            });
        }
    });
}

#[test]
fn a_second_boot_changes_nothing() {
    let mut node = node(&dhcp());
    succeed(&node, &["apply", "--patience", "120"]);
    let profiles = node.nm_profiles().unwrap();
    node.reboot().unwrap();
    node.wait_for_ipv4("br-ex").unwrap();
    let output = succeed(&node, &["apply"]);
    assert!(output.contains("the flag is there"), "{output}");
    let persistent = |all: &std::collections::BTreeMap<String, Vec<u8>>| {
        all.iter()
            .filter(|(path, _)| path.starts_with("/etc"))
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(persistent(&node.nm_profiles().unwrap()), persistent(&profiles));
    assert_on_br_ex(&node);
}

/// As `oc-brex topology nic --uplink nic1 --node-ip-interface nic0 --dhcp` writes it.
#[test]
fn the_address_of_the_node_may_be_on_another_interface() {
    let other = "interfaces:
- name: nic0
  type: ethernet
  state: up
  ipv4: {enabled: true, dhcp: true, auto-gateway: false, auto-dns: false}
  ipv6: {enabled: false}
";
    let text = dhcp().replace("nic0", "nic1").replace("interfaces:\n", other);
    let node = node(&text);
    let address = node.state().unwrap().ipv4("nic0").unwrap();
    node.write("/run/nodeip-configuration/primary-ip", address.to_string(), 0o644).unwrap();
    succeed(&node, &["apply", "--patience", "120"]);
    assert_on_br_ex(&node);
    let state = node.state().unwrap();
    assert_eq!(state.ipv4("nic0"), Some(address));
    assert_ne!(state.ipv4("br-ex"), Some(address));
}

/// The lease arrives later than the first observation.
#[test]
fn a_late_lease_is_awaited() {
    let node = node(&dhcp());
    node.lan().delay_dhcp(std::time::Duration::from_secs(9)).unwrap();
    succeed(&node, &["apply", "--patience", "120"]);
    assert_on_br_ex(&node);
}

/// nodeip-configuration is off, and wait-for-node-ip would wait at every later boot.
#[test]
fn a_document_is_refused_where_the_next_boot_would_hang() {
    let node = node(&dhcp());
    let unit = "/etc/systemd/system/network-online.target.wants/wait-for-node-ip.service";
    node.write(unit, "[Unit]\n", 0o644).unwrap();
    let output = crate::nodes::bench::fail(&node, &["stage"]);
    assert!(output.contains("the node would not pass its next boot"), "{output}");
    assert!(!node.exists(ATTEMPT).unwrap() && !node.exists(FLAG).unwrap());
}
