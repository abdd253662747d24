//! Networks that are changed outside of a policy.

use node_policy::Phase;

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{DRIFT, mtu, on};

pub(crate) fn reported_and_corrected(bench: &mut Bench) {
    let [reported, corrected] = NODES;
    bench.apply_policy("reported", &on(reported, &mtu(1421)), &[(DRIFT, "report")]);
    bench.apply_policy("kept", &on(corrected, &mtu(1422)), &[(DRIFT, "enforce")]);
    bench.wait_until_available("reported");
    bench.wait_until_available("kept");
    bench.set_mtu(reported, 1300);
    bench.set_mtu(corrected, 1300);

    bench.wait_for_mtu(corrected, 1422);
    assert_eq!(
        bench.wait_for_event("kept", "Drift"),
        "node-b: the network is no longer what the policy made it"
    );
    bench.wait_for_event("kept", "DriftCorrected");
    bench.wait_until_available("kept");

    says(bench, reported, "the network is no longer what the policy made it");
    assert!(bench.wait_for_event("reported", "Drift").starts_with("node-a: "));
    // A handler that restarts does not correct it either. It processes a later policy only after
    // this one.
    let before = bench.enactment(reported, "reported").version();
    bench.restart_handler(reported);
    bench.apply_policy("xx-later", &on(reported, &serde_json::json!({})), &[]);
    bench.wait_for_phase(reported, "xx-later", Phase::Available);
    assert_eq!(bench.mtu(reported), 1300, "it was only to be reported");
    assert_eq!(bench.enactment(reported, "reported").version(), before, "it is reported once");
    // The handler may not have compared it yet; it knows the message that was reported before.
    bench.set_mtu(reported, 1421);
    says(bench, reported, "the network is again what the policy made it");
}

fn says(bench: &Bench, node: &str, words: &str) {
    bench.wait(&format!("{node} says: {words}"), || {
        let report = bench.enactment(node, "reported");
        let holds = report.phase() == Phase::Available;
        (holds && report.message("Available") == words).then_some(())
    });
}
