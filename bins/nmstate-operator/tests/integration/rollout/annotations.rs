//! Annotations that are changed while a policy exists. The generation stays the same.

use node_policy::Phase;
use serde_json::json;

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{
    CANARY, DRIFT, PROBES, REVERT_ON_DELETE, WITH_DNS, everywhere, mtu, on,
};

pub(crate) fn take_effect(bench: &mut Bench) {
    let [first, second] = NODES;
    // Fails on the first node, so that the second one is not started.
    let before = bench.mtu(second);
    let fails_first = [WITH_DNS[0], (CANARY, first)];
    bench.apply_policy("asks", &everywhere(1, &mtu(1411)), &fails_first);
    bench.wait_for_policy("asks", "Degraded", "FailedToConfigure");
    let failed = bench.wait_for_phase(first, "asks", Phase::Failed);
    assert_eq!(failed.status()["failure"]["probe"], "dns", "{}", failed.status());
    assert_eq!(failed.status()["triedWith"], "probes: api-server,dns; memory-only: false");
    bench.wait_for_phase(second, "asks", Phase::Aborted);
    assert_eq!(bench.mtu(second), before);

    bench.annotate_policy("asks", PROBES, Some("api-server"));
    let policy = bench.wait_until_available("asks");
    assert_eq!(policy.0["metadata"]["generation"], 1);
    assert!(policy.status()["abortedGeneration"].is_null(), "{}", policy.status());
    for node in NODES {
        assert_eq!(bench.mtu(node), 1411);
        let status = bench.enactment(node, "asks").status().clone();
        assert!(status["triedWith"].is_null() && status["failure"].is_null(), "{status}");
    }

    // Drift is not corrected until an annotation requests it.
    bench.set_mtu(second, 1301);
    bench.annotate_policy("asks", DRIFT, Some("enforce"));
    bench.wait_for_mtu(second, 1411);
}

pub(crate) fn ways_back(bench: &mut Bench) {
    let [late, waived] = NODES;
    bench.apply_policy("late", &on(late, &mtu(1401)), &[]);
    bench.apply_policy("waived", &on(waived, &mtu(1402)), &[(REVERT_ON_DELETE, "true")]);
    bench.wait_until_available("late");
    bench.wait_until_available("waived");
    assert!(bench.enactment(waived, "waived").status()["revertState"].is_object());

    bench.annotate_policy("late", REVERT_ON_DELETE, Some("true"));
    let message = bench.wait_for_event("late", "NoWayBack");
    assert!(message.contains("deleting the policy does not revert it"), "{message}");
    bench.annotate_policy("waived", REVERT_ON_DELETE, None);
    bench.wait("the state for the rollback is removed", || {
        bench.enactment(waived, "waived").status()["revertState"].is_null().then_some(())
    });
    for (policy, node, mtu) in [("late", late, 1401), ("waived", waived, 1402)] {
        bench.delete_policy(policy);
        bench.wait_until_left(node, policy);
        // Whatever was going to be done about it is done before what comes later.
        bench.apply_policy("marker", &on(node, &json!({})), &[]);
        bench.wait_for_phase(node, "marker", Phase::Available);
        assert_eq!(bench.mtu(node), mtu, "{policy} was rolled back");
        bench.delete_policy("marker");
    }
}
