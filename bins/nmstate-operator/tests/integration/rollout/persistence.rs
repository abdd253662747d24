//! What survives a reboot, a power loss or a restart of NetworkManager, and what does not.

use serde_json::json;

use node_policy::Phase;

use crate::rollout::basics::{cut_off, waiting_change};
use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{MEMORY_ONLY, ONLY_API, mtu, on};

const LASTING: &str = "/etc/NetworkManager/system-connections";
const PASSING: &str = "/run/NetworkManager/system-connections";

pub(crate) fn memory_only(bench: &mut Bench) {
    let [passing, lasting] = NODES;
    let bridge = json!({"interfaces": [{
        "name": "stay0", "type": "linux-bridge", "state": "up",
        "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
    }]});
    bench.apply_policy("passing", &on(passing, &bridge), &[(MEMORY_ONLY, "true")]);
    bench.apply_policy("lasting", &on(lasting, &bridge), &[]);
    bench.wait_until_available("passing");
    bench.wait_until_available("lasting");
    assert_eq!(bench.profile_folders(passing, "stay0"), [PASSING]);
    assert_eq!(bench.profile_folders(lasting, "stay0"), [LASTING]);
    NODES.iter().for_each(|node| assert!(bench.has_interface(node, "stay0")));

    NODES.iter().for_each(|node| bench.reboot(node));
    bench.wait("what lasts is there again", || bench.has_interface(lasting, "stay0").then_some(()));
    assert!(bench.profile_folders(passing, "stay0").is_empty());
    assert!(!bench.has_interface(passing, "stay0"));
    // The policy still exists, so it is applied to the node again.
    NODES.iter().for_each(|node| bench.start_handler(node));
    bench.wait("what does not last is made again", || {
        bench.has_interface(passing, "stay0").then_some(())
    });
    assert_eq!(bench.profile_folders(passing, "stay0"), [PASSING]);
}

/// The checkpoint ends with NetworkManager, and NetworkManager uses the bad profiles again.
pub(crate) fn manager_restarts_in_a_bad_change(bench: &mut Bench) {
    let [node, _] = NODES;
    bench.apply_policy("bad", &on(node, &cut_off()), &ONLY_API);
    bench
        .wait("the bad network is in use", || bench.has_address(node, "203.0.113.7").then_some(()));
    bench.restart_network_manager(node);
    bench.wait_for_log(node, "the node has its former network again");
    // Another attempt follows, without a restart. It is rolled back by the checkpoint.
    let failed = bench.wait_for_phase(node, "bad", Phase::Failed);
    assert_eq!(failed.status()["failure"]["kind"], "ProbeFailed", "{}", failed.status());
    assert!(!bench.has_address(node, "203.0.113.7"));
    bench.delete_policy("bad");
    bench.wait_until_left(node, "bad");
}

/// A change that is not confirmed is lost after a power loss, before any handler runs.
pub(crate) fn power_loss_in_a_change(bench: &mut Bench) {
    let [node, _] = NODES;
    let before = bench.mtu(node);
    bench.stop_handler(node);
    bench.start_patient_handler(node);
    waiting_change(bench, "cut", 1331, &on(node, &mtu(1331)));
    bench.reboot(node);
    bench.wait_for_mtu(node, before);
    bench.start_handler(node);
    bench.wait_for_log(node, "an interrupted change was rolled back");
    let reported = bench.wait_for_phase(node, "cut", Phase::Retrying);
    assert_eq!(reported.status()["failure"]["kind"], "Interrupted", "{}", reported.status());
    // A confirmed change survives.
    bench.apply_policy("cut", &on(node, &mtu(1332)), &ONLY_API);
    bench.wait_until_available("cut");
    bench.reboot(node);
    bench.wait_for_mtu(node, 1332);
    bench.start_handler(node);
}
