//! Documents that must not be touched by, and choices that cannot be made.

use crate::nodes::bench::{
    ATTEMPT, DOCUMENT, FLAG, STAGED, assert_on_nic0, dhcp, fail, last_entry, node, succeed,
};

/// nmstate would make an internal port of the name, and call that a success.
#[test]
fn a_nic_that_does_not_exist_is_refused_before_anything_is_touched() {
    let text = dhcp().replace("nic0", "nic7");
    let node = node(&text);
    let profiles = node.nm_profiles().unwrap();
    for command in ["stage", "apply"] {
        let output = fail(&node, &[command]);
        assert!(output.contains("nic7"), "{output}");
        assert_eq!(last_entry(&node)["result"], "refused");
    }
    assert!(!node.exists(STAGED).unwrap() && !node.exists(FLAG).unwrap());
    assert!(!node.exists(ATTEMPT).unwrap());
    assert_eq!(node.nm_profiles().unwrap(), profiles);
    assert_on_nic0(&node);
}

#[test]
fn a_document_that_is_not_for_this_node_leaves_br_ex_to_configure_ovs_unless_one_is_required() {
    let node = node(&dhcp());
    node.succeed(&["mv", DOCUMENT, "/etc/nmstate/openshift/worker-0.example.com.yml"]).unwrap();
    let output = succeed(&node, &["stage"]);
    assert!(output.contains("worker-0.example.com.yml"), "{output}");
    assert_eq!(last_entry(&node)["result"], "no-document");
    let output = fail(&node, &["stage", "--required"]);
    assert!(output.contains("required"), "{output}");
    assert_on_nic0(&node);
}

#[test]
fn a_name_that_comes_late_is_waited_for() {
    let mut node = node(&dhcp());
    node.set_hostname("localhost").unwrap();
    let output = fail(&node, &["stage", "--hostname-timeout", "0"]);
    assert!(output.contains("no host name"), "{output}");
    let mut waiting = node.command("/usr/bin/brex-firstboot");
    let mut child = waiting.args(["stage", "--hostname-timeout", "60"]).spawn().unwrap();
    node.set_hostname("worker-0.example.com").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(node.exists(STAGED).unwrap());
}

#[test]
fn a_document_may_be_for_a_mac() {
    let mut node = node(&dhcp());
    let text = format!("# brex-match: mac={}\n{}", node.mac(0), dhcp());
    node.succeed(&["rm", DOCUMENT]).unwrap();
    node.write("/etc/nmstate/openshift/rack-7.yaml", &text, 0o644).unwrap();
    node.set_hostname("localhost").unwrap();
    succeed(&node, &["stage", "--hostname-timeout", "0"]);
    assert_eq!(node.read("/etc/nmstate/rack-7.yml").unwrap(), text.as_bytes());
    assert_eq!(last_entry(&node)["document"]["file"], "rack-7.yaml");
}
