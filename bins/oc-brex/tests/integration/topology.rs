//! `oc-brex topology` from outside.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn topology(arguments: &str) -> Output {
    let arguments = arguments.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_oc-brex")).arg("topology").args(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The examples, and the arguments that generate them.
const EXAMPLES: [(&str, &str); 8] = [
    ("nic-dhcp.yml", "nic --uplink eno1 --dhcp"),
    (
        "nic-static.yml",
        "nic --uplink eno1 --static 192.0.2.10/24 --gateway 192.0.2.1 --dns 192.0.2.53",
    ),
    (
        "nic-static-dual-stack.yml",
        "nic --uplink eno1 --static 192.0.2.10/24,2001:db8::10/64 --gateway 192.0.2.1,2001:db8::1 --dns 192.0.2.53",
    ),
    ("bond-lacp-jumbo.yml", "bond --uplink eno1,eno2 --mode 802.3ad --dhcp --mtu 9000"),
    ("vlan-dhcp.yml", "vlan --uplink eno1 --vlan-id 100 --dhcp"),
    (
        "vlan-on-bond-static.yml",
        "vlan-on-bond --uplink eno1,eno2 --vlan-id 100 --static 192.0.2.10/24 --gateway 192.0.2.1 --dns 192.0.2.53",
    ),
    ("slb-dhcp.yml", "slb --uplink eno1,eno2 --dhcp"),
    ("auto-bond-dhcp.yml", "auto --uplink bond --dhcp"),
];

#[test]
fn the_examples_are_what_their_commands_print() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/br-ex");
    for (file, arguments) in EXAMPLES {
        let done = topology(arguments);
        assert_eq!(done.status.code(), Some(0), "{arguments}: {}", err(&done));
        let written = fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!(out(&done), written, "oc-brex topology {arguments}");
    }
}

#[test]
fn what_cannot_be_made_is_refused_with_what_to_do() {
    for (arguments, message) in [
        ("nic --uplink eno1", "required arguments were not provided"),
        ("nic --uplink eno1 --dhcp --static 192.0.2.10/24", "cannot be used with"),
        ("nic --uplink eno1 --static 192.0.2.10", "write the address with its prefix"),
        (
            "nic --uplink eno1 --static 192.0.2.10/24",
            "192.0.2.10/24 has no gateway; add one with --gateway",
        ),
        ("nic --uplink an-interface-name-too-long --dhcp", "1 to 15 letters"),
        ("bond --uplink eno1 --dhcp", "add another --uplink"),
        ("vlan --uplink eno1 --vlan-id 5000 --dhcp", "the number of a VLAN, from 1 to 4094"),
        ("auto", "required arguments were not provided"),
    ] {
        let done = topology(arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments}: {}", out(&done));
        assert!(err(&done).contains(message), "{arguments}: {}", err(&done));
    }
}

#[test]
fn a_bridge_beside_the_nodes_address_is_explained() {
    let done = topology("nic --uplink ens19 --dhcp --node-ip-interface ens18");
    assert_eq!(done.status.code(), Some(0));
    assert!(err(&done).contains("The address of the node is on ens18"), "{}", err(&done));
    assert!(err(&done).contains("KUBELET_NODEIP_HINT"));
    // The other interface keeps its address and brings no second default route.
    assert!(out(&done).contains("auto-gateway: false"));
}

#[test]
fn a_document_that_breaks_a_rule_is_not_printed() {
    let done = topology("nic --uplink br-int --dhcp");
    assert_eq!((out(&done), done.status.code()), (String::new(), Some(1)));
    assert!(err(&done).contains("[B19]"), "{}", err(&done));
}

#[test]
fn the_policy_for_a_node_is_chosen_and_several_default_routes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let state = |routes: &str| {
        format!(
            "interfaces:\n- {{name: eth0, type: ethernet, state: up, mtu: 1500, mac-address: '02:00:00:00:00:01', \
             ipv4: {{enabled: true, dhcp: true, address: [{{ip: 192.0.2.10, prefix-length: 24}}]}}}}\n\
             routes:\n  running:\n{routes}"
        )
    };
    let route = |interface: &str, metric: u32| {
        format!(
            "  - {{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: {interface}, \
             metric: {metric}, table-id: 254}}\n"
        )
    };
    let path = folder.path().join("nns.yaml");
    fs::write(&path, state(&route("eth0", 100))).unwrap();
    let done = topology(&format!("auto --nns {}", path.display()));
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    assert!(out(&done).starts_with("# For nodes whose default route goes through a NIC"));
    fs::write(&path, state(&(route("eth0", 100) + &route("eth1", 50)))).unwrap();
    let done = topology(&format!("auto --nns {}", path.display()));
    assert_eq!((out(&done), done.status.code()), (String::new(), Some(2)));
    let named = "through eth1 via 192.0.2.1, metric 50; through eth0 via 192.0.2.1, metric 100";
    assert!(err(&done).contains(named), "{}", err(&done));
}
