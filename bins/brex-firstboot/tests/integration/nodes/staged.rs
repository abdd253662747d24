//! Staging and confirming, with another program applying in between as nmstate.service does.

use lab::node::Node;

use crate::nodes::bench::{
    ATTEMPT, DOCUMENT, FLAG, STAGED, assert_on_br_ex, assert_on_nic0, dhcp, fail,
    fail_without_leases, last_entry, node, succeed,
};

#[test]
fn staging_twice_changes_nothing() {
    let node = node(&dhcp());
    succeed(&node, &["stage"]);
    assert_eq!(node.read(STAGED).unwrap(), node.read(DOCUMENT).unwrap());
    let before = everything(&node);
    succeed(&node, &["stage"]);
    assert_eq!(last_entry(&node)["result"], "already-staged");
    assert_eq!(everything(&node), before);
}

/// All files that staging could touch, but the report.
fn everything(node: &Node) -> String {
    node.succeed(&[
        "sh",
        "-c",
        "find /etc/nmstate /etc/NetworkManager /run/NetworkManager/system-connections /var/lib/brex-firstboot -type f | sort | xargs sha256sum",
    ])
    .unwrap()
}

#[test]
fn another_file_of_that_name_is_not_overwritten() {
    let node = node(&dhcp());
    node.write(STAGED, "interfaces: []\n", 0o644).unwrap();
    let said = fail(&node, &["stage"]);
    assert!(said.contains("differs from worker-0.yml"), "{said}");
    assert_eq!(node.read(STAGED).unwrap(), b"interfaces: []\n");
    assert!(!node.exists(ATTEMPT).unwrap());
}

/// Nothing applied the document: as when nmstate.service could not, and was green.
#[test]
fn a_staged_document_that_nobody_applied_is_taken_back() {
    let node = node(&dhcp());
    let profiles = node.nm_profiles().unwrap();
    succeed(&node, &["stage"]);
    let said = fail(&node, &["confirm", "--patience", "3"]);
    assert!(said.contains("no Open vSwitch bridge br-ex"), "{said}");
    assert!(!node.exists(STAGED).unwrap() && !node.exists(FLAG).unwrap());
    assert_eq!(node.nm_profiles().unwrap(), profiles);
    assert_on_nic0(&node);
}

#[test]
fn a_bridge_that_was_applied_and_carries_the_node_is_confirmed() {
    let node = node(&dhcp());
    succeed(&node, &["stage"]);
    bridge_by_nmcli(&node);
    // The cluster delivers another one meanwhile; br-ex was not made of that.
    node.write(DOCUMENT, "interfaces: []\n", 0o644).unwrap();
    succeed(&node, &["confirm", "--patience", "120"]);
    assert_eq!(node.read(FLAG).unwrap(), dhcp().as_bytes());
    assert!(!node.exists(ATTEMPT).unwrap());
    assert_on_br_ex(&node);
}

/// The profiles are put back byte for byte, and NetworkManager uses them again.
#[test]
fn a_bridge_that_carries_nobody_is_taken_back_with_its_profiles() {
    let node = node(&dhcp());
    let profiles = node.nm_profiles().unwrap();
    succeed(&node, &["stage"]);
    node.lan().stop_dhcp().unwrap();
    bridge_by_nmcli(&node);
    assert_ne!(node.nm_profiles().unwrap(), profiles);
    fail_without_leases(&node, &["confirm", "--patience", "8"]);
    assert_eq!(node.nm_profiles().unwrap(), profiles);
    assert!(!node.exists(FLAG).unwrap() && !node.exists(STAGED).unwrap());
    assert_on_nic0(&node);
    assert_eq!(last_entry(&node)["result"], "taken-back");
}

/// Makes the bridge of the document with NetworkManager's own client.
fn bridge_by_nmcli(node: &Node) {
    let mac = node.mac(0);
    let add: [&[&str]; 5] = [
        &[
            "type",
            "ovs-bridge",
            "con-name",
            "br-ex-br",
            "ifname",
            "br-ex",
            "ovs-bridge.datapath-type",
            "netdev",
        ],
        &["type", "ovs-port", "con-name", "nic0-port", "ifname", "nic0-port", "master", "br-ex"],
        &["type", "ethernet", "con-name", "nic0-ovs", "ifname", "nic0", "master", "nic0-port"],
        &["type", "ovs-port", "con-name", "br-ex-port", "ifname", "br-ex-port", "master", "br-ex"],
        &[
            "type",
            "ovs-interface",
            "con-name",
            "br-ex-if",
            "ifname",
            "br-ex",
            "master",
            "br-ex-port",
            "slave-type",
            "ovs-port",
            "ipv4.method",
            "auto",
            "ipv4.route-metric",
            "48",
            "ipv6.method",
            "disabled",
            "802-3-ethernet.cloned-mac-address",
            &mac,
        ],
    ];
    for words in add {
        node.succeed(&[&["nmcli", "connection", "add"], words].concat()).unwrap();
    }
    node.succeed(&["nmcli", "connection", "up", "nic0-ovs"]).unwrap();
    // Without a lease the activation does not end; nobody waits for it.
    node.succeed(&["nmcli", "--wait", "0", "connection", "up", "br-ex-if"]).unwrap();
}
