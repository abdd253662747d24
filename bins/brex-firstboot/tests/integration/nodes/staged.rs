//! Staging and confirming, with another program applying in between as nmstate.service does.

use std::sync::Arc;

use lab_cluster::node::{Ipv6, Lan, LanOptions, Node, Profile};

use crate::nodes::bench::{
    ATTEMPT, DHCP, DOCUMENT, FLAG, STAGED, assert_on_br_ex, assert_on_nic0, dhcp, document, fail,
    fail_without_leases, last_entry, node, node_with, options, succeed,
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
    let output = fail(&node, &["stage"]);
    assert!(output.contains("differs from worker-0.yml"), "{output}");
    assert_eq!(node.read(STAGED).unwrap(), b"interfaces: []\n");
    assert!(!node.exists(ATTEMPT).unwrap());
}

/// Nothing applied the document: as when nmstate.service could not, and was green.
#[test]
fn a_staged_document_that_was_not_applied_is_rolled_back() {
    let node = node(&dhcp());
    let profiles = node.nm_profiles().unwrap();
    succeed(&node, &["stage"]);
    let output = fail(&node, &["confirm", "--patience", "3"]);
    assert!(output.contains("no Open vSwitch bridge br-ex"), "{output}");
    assert!(!node.exists(STAGED).unwrap() && !node.exists(FLAG).unwrap());
    assert_eq!(node.nm_profiles().unwrap(), profiles);
    assert_on_nic0(&node);
}

#[test]
fn a_bridge_that_was_applied_and_connects_the_node_is_confirmed() {
    let node = node(&dhcp());
    succeed(&node, &["stage"]);
    bridge_by_nmcli(&node);
    // The cluster delivers another one meanwhile; br-ex was not created from it.
    node.write(DOCUMENT, "interfaces: []\n", 0o644).unwrap();
    succeed(&node, &["confirm", "--patience", "120"]);
    assert_eq!(node.read(FLAG).unwrap(), dhcp().as_bytes());
    assert!(!node.exists(ATTEMPT).unwrap());
    assert_on_br_ex(&node);
}

/// The profiles are restored byte for byte, and NetworkManager uses them again.
#[test]
fn a_bridge_that_does_not_connect_the_node_is_rolled_back_with_its_profiles() {
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

/// nmstate.service applies other files of the node as well, and the document may set more than
/// interfaces.
#[test]
fn a_rollback_restores_what_the_document_changed_and_nothing_of_others() {
    let text = document(
        DHCP,
        "hostname: {config: worker-0.changed}\novs-db: {external_ids: {rack: '7', row: '2'}}\n",
    )
    .replace(
        "  ipv6: {enabled: false}\n- name: br-ex",
        "  ipv6: {enabled: false}\n  dispatch: {post-activation: logger up}\n- name: br-ex",
    );
    let node = node(&text);
    let ids = |node: &Node| {
        let words = ["ovs-vsctl", "--timeout=20", "get", "Open_vSwitch", ".", "external_ids"];
        node.succeed(&words).unwrap()
    };
    node.succeed(&["ovs-vsctl", "set", "Open_vSwitch", ".", "external_ids:row=1"]).unwrap();
    let before = ids(&node);
    let hostname = node.read("/etc/hostname").unwrap();
    let script = "/etc/NetworkManager/dispatcher.d/nmstate-nic0-up.sh";
    let profiles = node.nm_profiles().unwrap();
    succeed(&node, &["stage"]);

    // What nmstate does with the document.
    node.lan().stop_dhcp().unwrap();
    bridge_by_nmcli(&node);
    node.write("/etc/hostname", "worker-0.changed\n", 0o644).unwrap();
    node.write(script, "#!/bin/sh\n", 0o744).unwrap();
    let ids_now = ["external_ids:rack=7", "external_ids:row=2"];
    node.succeed(&["ovs-vsctl", "set", "Open_vSwitch", ".", ids_now[0], ids_now[1]]).unwrap();
    // What it does with the file of another program.
    let storage =
        ["type", "bridge", "con-name", "storage", "ifname", "storage0", "ipv4.method", "manual"];
    let address = ["ipv4.addresses", "203.0.113.7/24"];
    node.succeed(&[&["nmcli", "connection", "add"], &storage[..], &address[..]].concat()).unwrap();
    node.wait_until("the storage network is up", |node| {
        let printed = node.run(&["ip", "-4", "address", "show", "storage0"])?;
        Ok(String::from_utf8_lossy(&printed.stdout).contains("203.0.113.7"))
    })
    .unwrap();
    node.write("/etc/nmstate/storage.applied", "storage\n", 0o600).unwrap();

    fail_without_leases(&node, &["confirm", "--patience", "8"]);
    assert_on_nic0(&node);
    let after = node.nm_profiles().unwrap();
    let (theirs, ours): (Vec<_>, Vec<_>) =
        after.into_iter().partition(|(path, _)| path.contains("storage"));
    assert_eq!(theirs.len(), 1, "the profile of another program must stay");
    assert_eq!(ours.into_iter().collect::<std::collections::BTreeMap<_, _>>(), profiles);
    assert!(node.exists("/etc/nmstate/storage.applied").unwrap());
    let address = node.succeed(&["ip", "-4", "address", "show", "storage0"]).unwrap();
    assert!(address.contains("203.0.113.7"), "{address}");
    assert_eq!(ids(&node), before);
    assert_eq!(node.read("/etc/hostname").unwrap(), hostname);
    assert!(!node.exists(script).unwrap());
    let entry = last_entry(&node);
    assert!(entry["restored"].get("problem").is_none(), "{entry:#}");
}

/// br-ex has an IPv4 address and its gateway responds; the document enables IPv6 as well.
#[test]
fn a_family_that_the_document_enables_and_br_ex_lacks_is_not_confirmed() {
    let dual = "  ipv4: {enabled: true, dhcp: true, auto-route-metric: 48}
  ipv6: {enabled: true, dhcp: true, autoconf: true, auto-route-metric: 48}";
    let text = document(dual, "");
    let node = node(&text);
    succeed(&node, &["stage"]);
    bridge_by_nmcli(&node);
    let output = fail(&node, &["confirm", "--patience", "15"]);
    assert!(output.contains("br-ex has no IPv6 address, which the document demands"), "{output}");
    assert_on_nic0(&node);
    assert!(!node.exists(FLAG).unwrap());

    // The document itself states what is enough.
    let text = text.replace("  copy-mac-from", "  wait-ip: ipv4\n  copy-mac-from");
    node.write(DOCUMENT, text, 0o644).unwrap();
    succeed(&node, &["stage"]);
    bridge_by_nmcli(&node);
    succeed(&node, &["confirm", "--patience", "120"]);
}

/// The API server responds, by a NIC beside br-ex.
#[test]
fn an_api_server_that_responds_by_another_nic_confirms_nothing() {
    let lan = Arc::new(Lan::start(&LanOptions::default()).unwrap());
    lan.add_address("192.0.2.1/24").unwrap();
    let mut options = options();
    options.profiles = vec![
        Profile::dhcp("nic0"),
        Profile { name: "nic1".into(), text: "[connection]\nid=nic1\ntype=ethernet\ninterface-name=nic1\n[ipv4]\nmethod=manual\naddress1=192.0.2.9/24\n[ipv6]\nmethod=disabled\n".into() },
    ];
    let node = Node::start_on(&lan, &options).unwrap();
    node.wait_for_ipv4("nic0").unwrap();
    node.wait_for_ipv4("nic1").unwrap();
    node.write(DOCUMENT, crate::nodes::bench::fixed("198.51.100.77"), 0o644).unwrap();
    let serve = "while :; do printf 'HTTP/1.0 400 Bad Request\r\n\r\n' | busybox nc -l -p 6443 -s 192.0.2.1 -w 1; done";
    let mut server = lan.command("sh").args(["-c", serve]).spawn().unwrap();
    let output = fail(&node, &["apply", "--patience", "6", "--api-server", "192.0.2.1:6443"]);
    server.kill().unwrap();
    let _ = server.wait();
    assert!(output.contains("198.51.100.77") && output.contains("through br-ex"), "{output}");
}

#[test]
fn a_document_with_both_families_is_confirmed_when_both_are_there() {
    let lan = LanOptions {
        ipv6: Some(Ipv6::Autoconfiguration("2001:db8:1::".parse().unwrap())),
        ..LanOptions::default()
    };
    let dual = "  ipv4: {enabled: true, dhcp: true, auto-route-metric: 48}
  ipv6: {enabled: true, dhcp: true, autoconf: true, auto-route-metric: 48}";
    let node = node_with(&lan, &document(dual, ""));
    node.write("/run/nodeip-configuration/ipv4", "198.51.100.250\n", 0o644).unwrap();
    let output = fail(&node, &["apply", "--patience", "5"]);
    assert!(output.contains("no interface has 198.51.100.250"), "{output}");
    node.succeed(&["rm", "/run/nodeip-configuration/ipv4"]).unwrap();
    succeed(&node, &["apply", "--patience", "120"]);
    let entry = last_entry(&node);
    let checks = entry["outcome"]["after"]["probes"].as_array().unwrap();
    let ids: Vec<_> = checks.iter().map(|check| check["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["reachability-ipv4", "reachability-ipv6", "own-addresses"]);
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
    // Without a lease the activation does not end; it is not waited for.
    node.succeed(&["nmcli", "--wait", "0", "connection", "up", "br-ex-if"]).unwrap();
}
