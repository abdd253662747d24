//! The order of canaries and other nodes.

use node_policy::Phase;
use serde_json::json;

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{CANARY, WITH_DNS, everywhere, mtu};

const WAITS: &str = "waits";

pub(crate) fn never_comes(bench: &mut Bench) {
    let bridge = json!({"interfaces": [{"name": "wait0", "type": "linux-bridge", "state": "up"}]});
    bench.apply_policy(WAITS, &everywhere(2, &bridge), &[(CANARY, "node-z")]);
    bench.wait("the coordinator says whom it waits for", || {
        let policy = bench.policy(WAITS);
        let waits = policy.holds("Progressing", "ConfigurationProgressing");
        let names = || policy.message("Progressing").contains("waiting for the canary node-z");
        (waits && names()).then_some(())
    });
    for node in NODES {
        let enactment = bench.wait_for_phase(node, WAITS, Phase::Pending);
        assert_eq!(enactment.reason("Pending"), "MaxUnavailableLimitReached");
        assert!(enactment.message("Pending").starts_with("waiting for its turn"));
        assert!(!bench.has_interface(node, "wait0"), "{node} did not wait");
    }
    let policy = bench.policy(WAITS);
    assert!(policy.status()["slots"].is_null(), "{}", policy.status());
}

pub(crate) fn goes_first(bench: &mut Bench) {
    let watch = bench.watch_policy("canary");
    bench.apply_policy("canary", &everywhere(2, &mtu(1431)), &[(CANARY, "1")]);
    bench.wait_until_available("canary");
    let mut seen = watch.end();
    seen.dedup();
    seen.retain(|slots| !slots.is_empty());
    let mut holders = seen.concat();
    assert_eq!(holders.len(), 2, "one after the other: {seen:?}");
    holders.sort();
    assert_eq!(holders, NODES);
}

pub(crate) fn fails(bench: &mut Bench) {
    let annotations = [(CANARY, "node-b"), WITH_DNS[0]];
    bench.apply_policy("canary", &everywhere(2, &mtu(1432)), &annotations);
    let failed = bench.wait_for_phase("node-b", "canary", Phase::Failed);
    assert_eq!(failed.status()["failure"]["kind"], "ProbeFailed", "{}", failed.status());
    let untouched = bench.wait_for_phase("node-a", "canary", Phase::Aborted);
    assert!(untouched.message("Aborted").starts_with("not started"));
    let policy = bench.wait_for_policy("canary", "Degraded", "FailedToConfigure");
    let expected = "1/2 nodes failed to configure, 1 nodes aborted configuration";
    bench.wait("the policy counts both", || {
        (bench.policy("canary").message("Degraded") == expected).then_some(())
    });
    assert_eq!(policy.status()["abortedGeneration"], 1);
}
