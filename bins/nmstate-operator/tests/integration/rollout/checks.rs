//! Policies are compared with every node before the first one is changed.

use node_policy::Phase;
use serde_json::json;

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{NODE_SELECTOR, PAUSED, everywhere, impossible, mtu, on};

pub(crate) fn one_node_refuses(bench: &mut Bench) {
    let [node, other] = NODES;
    bench.apply_policy("impossible", &everywhere(1, &impossible()), &[]);
    for node in NODES {
        let refused = bench.wait_for_phase(node, "impossible", Phase::Failed);
        assert_eq!(refused.status()["failure"]["kind"], "Invalid", "{}", refused.status());
        let message = refused.message("Failing");
        assert!(message.contains("cannot be made so: interfaces[0]: "), "{message}");
    }
    assert!(bench.policy("impossible").status()["slots"].is_null());

    let bridge = json!({"interfaces": [{"name": "only0", "type": "linux-bridge", "state": "up"}]});
    bench.apply_policy("only", &on(node, &bridge), &[]);
    bench.wait_until_available("only");
    let mut spec = everywhere(2, &mtu(1377));
    spec["capture"] = json!({"there": "interfaces.name==\"only0\""});
    bench.apply_policy("refused", &spec, &[]);
    let refused = bench.wait_for_phase(other, "refused", Phase::Failed);
    assert_eq!(refused.status()["failure"]["kind"], "NotRendered", "{}", refused.status());
    bench.wait("the policy names the node", || {
        let policy = bench.policy("refused");
        let is_failed = policy.holds("Degraded", "FailedToConfigure");
        let message = is_failed.then(|| policy.message("Degraded"))?;
        message.contains(&format!("; no node was changed: {other}: ")).then_some(())
    });
    assert!(bench.policy("refused").status()["slots"].is_null());
    assert_ne!(bench.mtu(node), 1377);

    // Without the node that refuses it, the policy continues.
    let without = format!("kubernetes.io/hostname notin ({other})");
    bench.apply_policy("refused", &spec, &[(NODE_SELECTOR, &without)]);
    let policy = bench.wait_until_available("refused");
    assert_eq!(policy.message("Available"), "1/1 nodes successfully configured");
    assert_eq!(bench.mtu(node), 1377);
    bench.wait_until_left(other, "refused");
}

pub(crate) fn warns(bench: &mut Bench) {
    let [node, _] = NODES;
    let desired = json!({"interfaces": [
        {"name": "nic1", "type": "ethernet", "state": "up", "mtu": 1379, "ipv4": {"enabled": false, "dhcp": true}},
        {"name": "gone0", "type": "dummy", "state": "absent", "mtu": 1400},
    ]});
    // No node is changed yet.
    bench.apply_policy("warned", &on(node, &desired), &[(PAUSED, "true")]);
    let policy = bench.wait_for_policy("warned", "Warning", "PartsWithoutEffect");
    let message = policy.message("Warning");
    let ours = format!("{node}: interfaces[0].ipv4.dhcp: it has no effect on nic1");
    assert!(message.contains(&ours), "{message}");
    // In the words of nmstate.
    let of_nmstate = format!("{node}: interfaces[1]: ");
    assert!(message.contains(&of_nmstate) && message.contains("gone0"), "{message}");
    assert!(!policy.message("Progressing").contains("no effect"));
    let warnings = bench.enactment(node, "warned").status()["warnings"].clone();
    assert_eq!(warnings.as_array().map(Vec::len), Some(2), "{warnings}");
    bench.annotate_policy("warned", PAUSED, None);
    bench.wait_until_available("warned");
    assert_eq!(bench.mtu(node), 1379);
}

pub(crate) fn paused(bench: &mut Bench) {
    bench.apply_policy("paused", &everywhere(2, &mtu(1378)), &[(PAUSED, "true")]);
    for node in NODES {
        bench.wait("it is known on the node", || bench.has_enactment(node, "paused").then_some(()));
    }
    bench.wait("the policy says so", || {
        let policy = bench.policy("paused");
        let waits = policy.holds("Progressing", "ConfigurationProgressing");
        let message = waits.then(|| policy.message("Progressing"))?;
        message.contains("no further node is changed").then_some(())
    });
    assert!(bench.policy("paused").status()["slots"].is_null());
    bench.apply_policy("paused", &everywhere(2, &mtu(1378)), &[(PAUSED, "false")]);
    bench.wait_until_available("paused");
    NODES.iter().for_each(|node| assert_eq!(bench.mtu(node), 1378));
}
