//! Changes that fail are rolled back, each for its own reason.

use std::collections::BTreeMap;

use lab_cluster::node::Node;

use crate::nodes::bench::{
    ATTEMPT, FLAG, assert_on_nic0, dhcp, fail, fail_without_leases, fixed, last_entry, node,
    succeed,
};

/// Runs `apply`, which must fail; the node must have its old network and profiles then. Returns
/// what the report contains about it.
fn taken_back(node: &Node, patience: &str) -> serde_json::Value {
    let profiles = node.nm_profiles().unwrap();
    fail(node, &["apply", "--patience", patience]);
    assert_as_before(node, &profiles);
    last_entry(node)
}

fn assert_as_before(node: &Node, profiles: &BTreeMap<String, Vec<u8>>) {
    assert_on_nic0(node);
    assert_eq!(node.nm_profiles().unwrap(), *profiles);
    assert!(!node.exists(FLAG).unwrap());
    assert!(!node.exists(ATTEMPT).unwrap());
}

#[test]
fn a_switch_that_does_not_work_fails_verification() {
    let node = node(&dhcp());
    node.pause_ovs().unwrap();
    let profiles = node.nm_profiles().unwrap();
    fail(&node, &["apply", "--patience", "5"]);
    node.resume_ovs().unwrap();
    assert_as_before(&node, &profiles);
    let entry = last_entry(&node);
    assert_eq!(entry["outcome"]["result"], "rolled-back");
    assert_eq!(entry["outcome"]["cause"], "verification");
}

#[test]
fn a_gateway_that_is_not_there_fails_the_probes() {
    let node = node(&fixed("198.51.100.77"));
    let entry = taken_back(&node, "15");
    assert_eq!(entry["outcome"]["cause"], "probes");
    assert_eq!(entry["outcome"]["recovery"]["state"], "works");
    let message = entry["message"].as_str().unwrap();
    assert!(message.contains("198.51.100.77"), "{message}");
}

#[test]
fn a_lease_that_never_comes_fails_the_facts() {
    let node = node(&dhcp());
    let profiles = node.nm_profiles().unwrap();
    fail_without_leases(&node, &["apply", "--patience", "6"]);
    assert_as_before(&node, &profiles);
    assert_eq!(last_entry(&node)["outcome"]["cause"], "facts");
}

/// Static routes are merged, so the old one stays unless the document removes it.
#[test]
fn a_default_route_left_behind_is_found() {
    let node = node(&fixed("198.51.100.1"));
    node.succeed(&["ip", "link", "set", "nic1", "up"]).unwrap();
    node.succeed(&["ip", "address", "add", "192.0.2.10/24", "dev", "nic1"]).unwrap();
    node.succeed(&[
        "ip",
        "route",
        "add",
        "default",
        "via",
        "192.0.2.1",
        "dev",
        "nic1",
        "metric",
        "10",
    ])
    .unwrap();
    let output = fail(&node, &["apply", "--patience", "6"]);
    assert!(output.contains("by nic1 (metric 10) is taken before"), "{output}");
    assert_eq!(last_entry(&node)["outcome"]["cause"], "facts");
}

#[test]
fn a_document_has_limited_attempts_and_a_changed_one_starts_again() {
    let node = node(&fixed("198.51.100.77"));
    for _ in 0..2 {
        fail(&node, &["apply", "--patience", "2", "--tries", "2"]);
        assert_eq!(last_entry(&node)["result"], "taken-back");
    }
    let profiles = node.nm_profiles().unwrap();
    let output = fail(&node, &["apply", "--patience", "2", "--tries", "2"]);
    assert!(output.contains("failed 2 times"), "{output}");
    assert_eq!(last_entry(&node)["result"], "gave-up");
    assert_as_before(&node, &profiles);
    node.write(crate::nodes::bench::DOCUMENT, fixed("198.51.100.1"), 0o644).unwrap();
    succeed(&node, &["apply", "--patience", "120", "--tries", "2"]);
}
