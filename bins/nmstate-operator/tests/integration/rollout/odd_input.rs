//! Policies that cannot be processed, and reports with invalid content.

use node_policy::Phase;
use serde_json::{Value, json};

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{mtu, on};

/// Deeper than the default limit of JSON parsers.
const DEEP: usize = 400;

pub(crate) fn does_not_hinder_others(bench: &mut Bench) {
    let [node, other] = NODES;
    let deep = (0..DEEP).fold(json!("hunter2"), |inner, _| json!({ "deeper": inner }));
    bench.apply_policy("a-deep", &json!({"desiredState": deep}), &[]);
    let misspelt: Value =
        json!({"interfaces": [{"name": "nic1", "type": "ethernet", "state": "up", "mtuu": 1400}]});
    bench.apply_policy("b-misspelt", &on(node, &misspelt), &[]);
    let secret = json!({"interfaces": [{
        "name": "nic1", "type": "ethernet", "state": "up", "mtu": "hunter2",
        "802.1x": {"identity": "me", "eap-methods": ["pwd"], "password": "hunter2"},
    }]});
    bench.apply_policy("c-secret", &on(other, &secret), &[]);
    let many: Vec<Value> = (0..1000)
        .map(|number| json!({"name": format!("absent{number}"), "type": "linux-bridge", "state": "absent"}))
        .collect();
    bench.apply_policy("d-many", &json!({"desiredState": {"interfaces": many}}), &[]);
    bench.apply_policy("e-good", &json!({"desiredState": mtu(1381)}), &[]);

    bench.wait_until_available("e-good");
    bench.wait_until_available("d-many");
    let policy = bench.wait_for_policy("a-deep", "Ignored", "UnreadableSpec");
    assert!(policy.message("Ignored").contains("nested too deep"));
    let failed = bench.wait_for_phase(node, "b-misspelt", Phase::Failed);
    assert_eq!(failed.status()["failure"]["kind"], "NotRendered");
    assert!(failed.message("Failing").contains("`mtuu`"), "{}", failed.message("Failing"));
    let failed = bench.wait_for_phase(other, "c-secret", Phase::Failed);
    assert!(!failed.0.to_string().contains("hunter2"), "{}", failed.0);
    for node in NODES {
        assert!(!bench.has_enactment(node, "a-deep"));
        assert!(!bench.log(node).contains("hunter2"), "{}", bench.log(node));
    }
    assert!(!bench.log(crate::rollout::bench::COORDINATOR).contains("hunter2"));
}

pub(crate) fn reports_come_back(bench: &mut Bench) {
    let [deleted, spoilt] = NODES;
    bench.delete_report(deleted);
    bench.wait_for_report(deleted);
    bench.spoil_report(spoilt);
    bench.wait_for_report(spoilt);
}
