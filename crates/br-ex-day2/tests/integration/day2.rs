//! Classes of changes, by the table in the documentation of day-2 changes.

use br_ex::Document;
use br_ex_day2::{Basis, Class, Masquerade, Nodes, Plan, PlanOptions, State, differences, plan};
use nmstate::NetworkState;

const BOND: &str = "\
interfaces:
- name: eno1
  type: ethernet
  state: up
  mtu: 1500
  ipv4: {enabled: false}
  ipv6: {enabled: false}
- name: eno2
  type: ethernet
  state: up
  mtu: 1500
  ipv4: {enabled: false}
  ipv6: {enabled: false}
- name: bond0
  type: bond
  state: up
  mtu: 1500
  ipv4: {enabled: false}
  ipv6: {enabled: false}
  link-aggregation:
    mode: active-backup
    options: {miimon: '100'}
    port: [eno1, eno2]
- name: br-ex
  type: ovs-bridge
  state: up
  bridge:
    allow-extra-patch-ports: true
    options: {mcast-snooping-enable: true}
    port: [{name: bond0}, {name: br-ex}]
- name: br-ex
  type: ovs-interface
  state: up
  mtu: 1500
  copy-mac-from: eno1
  ipv4:
    enabled: true
    dhcp: false
    address: [{ip: 192.0.2.20, prefix-length: 24}]
  ipv6: {enabled: false}
dns-resolver:
  config:
    server: [192.0.2.1]
routes:
  config:
  - destination: 0.0.0.0/0
    next-hop-address: 192.0.2.1
    next-hop-interface: br-ex
    metric: 48
";

fn state(text: &str, basis: Basis) -> State {
    State::new(&NetworkState::new_from_yaml(text).expect("a state"), basis).expect("a state")
}

fn planned(old: &str, new: &str, cluster_mtu: Option<u32>) -> Plan {
    let options = PlanOptions {
        nodes: Nodes::One("worker-0".to_owned()),
        masquerade: Masquerade::default(),
        cluster_mtu,
        file: "policy.yaml".to_owned(),
        reader: br_ex::hosts::Reader::default(),
    };
    let new = Document::parse(new.as_bytes());
    plan(&state(old, Basis::Document), &new, &options).expect("a plan")
}

/// The class of replacing a part of the document.
fn class(from: &str, to: &str) -> Option<Class> {
    assert!(BOND.contains(from), "{from}");
    let plan = planned(BOND, &BOND.replace(from, to), None);
    if plan.class() != Some(Class::Forbidden) {
        // nmstate sees no more than we do.
        assert!(plan.unforeseen.is_empty(), "{from} → {to}: {:?}", plan.unforeseen);
    }
    plan.class()
}

#[test]
fn every_row_of_the_table_has_its_class() {
    let vlan = "dns-resolver:";
    for (from, to, expected) in [
        // Hitless.
        ("server: [192.0.2.1]", "server: [192.0.2.1, 192.0.2.2]", Class::Hitless),
        ("mcast-snooping-enable: true", "mcast-snooping-enable: false", Class::Hitless),
        (
            "  mtu: 1500\n  ipv4: {enabled: false}\n  ipv6: {enabled: false}\n- name: eno2",
            "  mtu: 1500\n  description: left\n  ipv4: {enabled: false}\n  ipv6: {enabled: false}\n- name: eno2",
            Class::Hitless,
        ),
        (
            vlan,
            "- {name: bond0.7, type: vlan, state: up, vlan: {base-iface: bond0, id: 7}}\ndns-resolver:",
            Class::Hitless,
        ),
        (
            "    metric: 48\n",
            "    metric: 48\n  - {destination: 198.51.100.0/24, next-hop-address: 192.0.2.2, next-hop-interface: br-ex}\n",
            Class::Hitless,
        ),
        (
            vlan,
            "ovn: {bridge-mappings: [{localnet: a, bridge: br-ex, state: present}]}\ndns-resolver:",
            Class::Hitless,
        ),
        // A short interruption on the node.
        ("miimon: '100'", "miimon: '140'", Class::Interruption),
        ("mode: active-backup", "mode: balance-xor", Class::Interruption),
        ("port: [eno1, eno2]", "port: [eno1]", Class::Interruption),
        ("metric: 48", "metric: 50", Class::Interruption),
        ("mtu: 1500", "mtu: 9000", Class::Interruption),
        (
            "options: {miimon: '100'}",
            "options: {miimon: '100', xmit_hash_policy: layer3+4}",
            Class::Interruption,
        ),
        (
            "port: [eno1, eno2]",
            "port: [eno1, eno2]\n    ports-config: [{name: eno1, queue-id: 1}, {name: eno2, queue-id: 2}]",
            Class::Interruption,
        ),
        // A procedure of the cluster.
        ("mtu: 1500", "mtu: 1400", Class::ClusterProcedure),
        (
            "prefix-length: 24}]\n  ipv6: {enabled: false}",
            "prefix-length: 24}]\n  ipv6: {enabled: true, dhcp: true, autoconf: true, auto-route-metric: 48}",
            Class::ClusterProcedure,
        ),
        // Disruptive.
        ("copy-mac-from: eno1", "copy-mac-from: eno2", Class::Disruptive),
        (
            "options: {mcast-snooping-enable: true}",
            "options: {mcast-snooping-enable: true, fail-mode: secure}",
            Class::Disruptive,
        ),
        // Forbidden.
        ("ip: 192.0.2.20", "ip: 192.0.2.21", Class::Forbidden),
        (
            "- name: br-ex\n  type: ovs-bridge\n  state: up",
            "- name: br-ex\n  type: ovs-bridge\n  state: absent",
            Class::Forbidden,
        ),
        ("dhcp: false", "dhcp: true", Class::Forbidden),
    ] {
        assert_eq!(class(from, to), Some(expected), "{from} → {to}");
    }
}

#[test]
fn nothing_changed_is_nothing_to_do() {
    let plan = planned(BOND, BOND, None);
    assert_eq!(plan.class(), None);
    assert!(plan.policy.is_none() && plan.steps.is_empty());
}

#[test]
fn from_a_nic_to_a_bond_is_disruptive_and_drains() {
    let start = BOND.find("- name: bond0\n").unwrap();
    let end = BOND.find("- name: br-ex\n").unwrap();
    let nic =
        format!("{}{}", &BOND[..start], &BOND[end..]).replace("{name: bond0}", "{name: eno1}");
    let plan = planned(&nic, BOND, None);
    assert_eq!(plan.class(), Some(Class::Disruptive), "{:#?}", plan.changes);
    let commands: Vec<_> = plan.steps.iter().flat_map(|step| &step.commands).collect();
    let at = |expected: &str| {
        commands
            .iter()
            .position(|it| it.starts_with(expected))
            .unwrap_or_else(|| panic!("{expected}"))
    };
    assert!(at("oc adm drain worker-0") < at("oc apply --server-side -f policy.yaml"));
    assert!(at("oc apply --server-side -f policy.yaml") < at("oc adm uncordon worker-0"));
}

#[test]
fn another_vlan_below_is_disruptive() {
    let vlan = BOND
        .replace("{name: bond0}, ", "{name: bond0.100}, ")
        .replace(
            "- name: br-ex\n  type: ovs-bridge",
            "- name: bond0.100\n  type: vlan\n  state: up\n  mtu: 1500\n  ipv4: {enabled: false}\n  ipv6: {enabled: false}\n  \
             vlan: {base-iface: bond0, id: 100}\n- name: br-ex\n  type: ovs-bridge",
        );
    let plan = planned(&vlan, &vlan.replace("id: 100", "id: 101"), None);
    assert_eq!(plan.class(), Some(Class::Disruptive), "{:#?}", plan.changes);
}

/// Members of a bond may be listed with their settings in place of by name alone.
#[test]
fn settings_of_links_interrupt_and_priorities_of_the_vlan_in_br_ex_restart_ovnkube() {
    let configured = "ports-config: [{name: eno1, queue-id: 1}, {name: eno2, queue-id: 2}]";
    assert_eq!(class("port: [eno1, eno2]", configured), Some(Class::Interruption));
    let vlan = BOND.replace("{name: bond0}, ", "{name: bond0.100}, ").replace(
        "- name: br-ex\n  type: ovs-bridge",
        "- name: bond0.100\n  type: vlan\n  state: up\n  ipv4: {enabled: false}\n  ipv6: {enabled: false}\n  \
         vlan: {base-iface: bond0, id: 100}\n- name: br-ex\n  type: ovs-bridge",
    );
    let maps = vlan.replace("id: 100}", "id: 100, egress-qos-map: [{from: 6, to: 5}]}");
    // The VLAN gets another OpenFlow port: the node test of oc-brex compares them.
    assert_eq!(planned(&vlan, &maps, None).class(), Some(Class::Disruptive));
}

/// nmstate adds routes to those a node has. Two default routes would be left.
#[test]
fn the_former_gateway_of_a_node_goes_when_another_one_comes() {
    let extra = "  - {destination: 198.51.100.0/24, next-hop-address: 192.0.2.2, next-hop-interface: br-ex}\n";
    let node = state(&format!("{BOND}{extra}"), Basis::Node);
    let new = BOND.replace("next-hop-address: 192.0.2.1", "next-hop-address: 192.0.2.254");
    let found = differences(&node, &state(&new, Basis::Document));
    let printed: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        printed,
        [
            "route to 0.0.0.0/0 via 192.0.2.1 on br-ex: gone",
            "route to 0.0.0.0/0 via 192.0.2.254 on br-ex: new",
        ]
    );
}

#[test]
fn the_mtu_is_measured_by_the_cluster_network() {
    let smaller = BOND.replace("mtu: 1500", "mtu: 1460");
    for (cluster, expected) in [(1400, Class::Interruption), (1403, Class::Forbidden)] {
        assert_eq!(planned(BOND, &smaller, Some(cluster)).class(), Some(expected), "{cluster}");
    }
}

#[test]
fn without_its_default_route_a_node_is_not_left() {
    let start = BOND.find("routes:").unwrap();
    assert_eq!(planned(BOND, &BOND[..start], None).class(), Some(Class::Forbidden));
}

#[test]
fn a_mistake_in_the_new_document_forbids_the_change() {
    let broken = BOND.replace("{name: bond0}, {name: br-ex}", "{name: bond0}");
    let plan = planned(BOND, &broken, None);
    assert!(!plan.objections.is_empty());
    assert_eq!(plan.class(), Some(Class::Forbidden));
    assert!(plan.policy.is_none());
}

#[test]
fn a_policy_repeats_all_of_br_ex_and_names_what_must_go() {
    let more =
        "- {name: bond0.7, type: vlan, state: up, vlan: {base-iface: bond0, id: 7}}\ndns-resolver:";
    let route = "  - {destination: 198.51.100.0/24, next-hop-address: 192.0.2.2, next-hop-interface: br-ex}\n";
    let old = format!("{}{route}", BOND.replace("dns-resolver:", more));
    let plan = planned(&old, BOND, None);
    let yaml = plan.policy.unwrap().to_yaml().unwrap();
    for part in [
        "maxUnavailable: 1\n",
        "ip: \"169.254.0.2\"\n",
        "name: bond0.7\n",
        "destination: 198.51.100.0/24\n",
    ] {
        assert!(yaml.contains(part), "{part}: {yaml}");
    }
    assert_eq!(yaml.matches("state: absent").count(), 2, "{yaml}");
    // nmstate reads the desired state of it.
    let document = Document::parse(yaml.as_bytes());
    assert!(document.content().is_some());
}

#[test]
fn the_way_back_undoes_the_change() {
    let new = BOND.replace("miimon: '100'", "miimon: '140'");
    let plan = planned(BOND, &new, None);
    let yaml = plan.way_back.unwrap().to_yaml().unwrap();
    assert!(yaml.contains("miimon: 100\n") || yaml.contains("miimon: '100'"), "{yaml}");
    assert!(yaml.contains("name: worker-0-br-ex-back\n"), "{yaml}");
}

#[test]
fn on_a_node_only_what_the_document_mentions_counts() {
    let node = BOND
        .replace(
            "ip: 192.0.2.20, prefix-length: 24}",
            "ip: 192.0.2.20, prefix-length: 24}, {ip: 169.254.0.2, prefix-length: 17}",
        )
        .replace(
            "port: [{name: bond0}, {name: br-ex}]",
            "port: [{name: bond0}, {name: br-ex}, {name: patch-br-ex_worker-0-to-br-int}]",
        )
        .replace("dns-resolver:", "- {name: eno9, type: ethernet, state: up}\ndns-resolver:");
    // Nodes do not report instructions, and report NICs of virtual machines by their own type.
    let node = node
        .replace("    allow-extra-patch-ports: true\n", "")
        .replace("  copy-mac-from: eno1\n", "")
        .replace("type: ethernet", "type: veth");
    let (node, document) = (state(&node, Basis::Node), state(BOND, Basis::Document));
    assert_eq!(differences(&node, &document), []);
}

#[test]
fn a_lease_that_becomes_static_is_fine_when_the_node_shows_the_same_address() {
    let node = BOND
        .replace("dhcp: false", "dhcp: true")
        .replace("- name: eno1\n", "- name: eno1\n  mac-address: 52:54:00:00:00:01\n");
    let options = |cluster_mtu| PlanOptions {
        nodes: Nodes::One("worker-0".to_owned()),
        masquerade: Masquerade::default(),
        cluster_mtu,
        file: String::new(),
        reader: br_ex::hosts::Reader::default(),
    };
    let to = |address: &str| Document::parse(BOND.replace("192.0.2.20", address).as_bytes());
    let class = |address| {
        let node = state(&node, Basis::Node);
        plan(&node, &to(address), &options(None)).unwrap().class()
    };
    assert_eq!(class("192.0.2.20"), Some(Class::Interruption));
    assert_eq!(class("192.0.2.21"), Some(Class::Forbidden));
}
