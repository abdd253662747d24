//! One policy for many nodes: values of each node, and nodes on which it is reverted.

use serde_json::{Value, json};

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{NODE_VALUES, REVERT_ON_DELETE, everywhere, mtu};

const ADDRESSES: &str = "addresses";

/// An address and an MTU of each node for the spare NIC.
fn with_values() -> Value {
    json!({"interfaces": [{
        "name": "nic1", "type": "ethernet", "state": "up", "mtu": "{{ values.mtu }}",
        "ipv4": {
            "enabled": true, "dhcp": false,
            "address": [{"ip": "198.51.100.{{ values.last }}", "prefix-length": 24}],
        },
        "ipv6": {"enabled": false},
    }]})
}

fn wait_for_problem(bench: &Bench, words: &[&str]) {
    bench.wait(&format!("the policy names what is wrong: {words:?}"), || {
        let policy = bench.policy("each");
        let is_blocked = policy.holds("Degraded", "InvalidNodeValues");
        let message = is_blocked.then(|| policy.message("Degraded"))?;
        words.iter().all(|words| message.contains(words)).then_some(())
    });
    assert!(bench.policy("each").status()["slots"].is_null());
}

pub(crate) fn one_address_each(bench: &mut Bench) {
    let [a, b] = NODES;
    let annotations = [(NODE_VALUES, ADDRESSES), (REVERT_ON_DELETE, "true")];
    bench.apply_policy("each", &everywhere(2, &with_values()), &annotations);
    wait_for_problem(bench, &["ConfigMap addresses not found"]);
    bench.put_config_map(ADDRESSES, &json!({a: "{last: 21, mtu: 1411}"}));
    wait_for_problem(bench, &["ConfigMap addresses: node-b: there are no values for this node"]);
    bench.put_config_map(ADDRESSES, &json!({a: "{last: 21, mtu: 1411}", b: "{mtu: 1412}"}));
    wait_for_problem(bench, &["node-b: ", "address[0].ip: value last not found"]);
    let same = json!({a: "{last: 21, mtu: 1411}", b: "{last: 21, mtu: 1412}"});
    bench.put_config_map(ADDRESSES, &same);
    wait_for_problem(bench, &["node-a and node-b would both have the address 198.51.100.21"]);
    for node in NODES {
        assert!(!bench.has_address(node, "198.51.100.21"), "{node} was changed");
    }

    let right = json!({a: "{last: 21, mtu: 1411}", b: "{last: 22, mtu: 1412}"});
    bench.put_config_map(ADDRESSES, &right);
    bench.wait_until_available("each");
    for (node, address, mtu) in [(a, "198.51.100.21", 1411), (b, "198.51.100.22", 1412)] {
        assert!(bench.has_address(node, address), "{node}");
        assert_eq!(bench.mtu(node), mtu);
        let reported = bench.enactment(node, "each").status()["desiredState"].clone();
        assert_eq!(reported["interfaces"][0]["mtu"], mtu, "a number");
    }

    // Another address of one node changes that node only.
    let before = bench.enactment(a, "each").version();
    let moved = json!({a: "{last: 21, mtu: 1411}", b: "{last: 23, mtu: 1412}"});
    bench.put_config_map(ADDRESSES, &moved);
    bench.wait("the second node has its new address", || {
        bench.has_address(b, "198.51.100.23").then_some(())
    });
    bench.wait_until_available("each");
    assert!(!bench.has_address(b, "198.51.100.22"));
    assert_eq!(bench.enactment(a, "each").version(), before);
}

pub(crate) fn reverted_on_one_node(bench: &mut Bench) {
    let [a, b] = NODES;
    let before = bench.mtu(a);
    bench.apply_policy("kept", &everywhere(2, &mtu(1421)), &[]);
    bench.wait_until_available("kept");
    let refusal = bench.failing_command(&["revert", "kept", "--node", a]);
    assert!(refusal.contains("does not know what was there before"), "{refusal}");
    bench.apply_policy("passing", &everywhere(2, &mtu(1422)), &[(REVERT_ON_DELETE, "true")]);
    bench.wait_until_available("passing");
    bench.command(&["revert", "passing", "--node", a]);
    bench.wait_until_left(a, "passing");
    assert_eq!((bench.mtu(a), bench.mtu(b)), (1421, 1422));
    assert_ne!(before, 1421, "nothing would be seen");
    let policy = bench.wait("the policy counts its other node", || {
        let policy = bench.policy("passing");
        let is_available = policy.holds("Available", "SuccessfullyConfigured");
        let is_counted = is_available && policy.message("Available").starts_with("1/1 nodes");
        is_counted.then_some(policy)
    });
    drop(policy);
    bench.command(&["revert", "passing", "--node", a, "--undo"]);
    bench.wait_for_mtu(a, 1422);
    bench.wait_until_available("passing");
}
