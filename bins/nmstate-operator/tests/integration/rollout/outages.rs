//! Programs that end, run twice, or block others.

use node_policy::Phase;

use crate::rollout::basics::waiting_change;
use crate::rollout::bench::{Bench, COORDINATOR, NODES};
use crate::rollout::wishes::{ONLY_API, everywhere, mtu, on};

pub(crate) fn foreign_checkpoint(bench: &mut Bench) {
    let [node, _] = NODES;
    let checkpoint = bench.foreign_checkpoint(node, "nic1");
    let before = bench.mtu(node);
    bench.apply_policy("polite", &on(node, &mtu(1371)), &[]);
    bench.wait_for_log(node, "another program is changing the network");
    assert_eq!(bench.mtu(node), before);
    // Fails if the checkpoint was rolled back.
    bench.end_checkpoint(node, &checkpoint);
    bench.wait_until_available("polite");
    assert_eq!(bench.mtu(node), 1371);
}

pub(crate) fn network_manager_restarts(bench: &mut Bench) {
    let [_, node] = NODES;
    bench.restart_network_manager(node);
    bench.apply_policy("after", &on(node, &mtu(1361)), &[]);
    bench.wait_until_available("after");
    // It receives signals about changes again.
    bench.set_mtu(node, 1360);
    bench.wait_for_reported_mtu(node, 1360);
}

pub(crate) fn network_manager_hangs(bench: &mut Bench) {
    let [_, node] = NODES;
    bench.signal_network_manager(node, "STOP");
    bench.wait_for_log(node, "NetworkManager does not respond");
    bench.signal_network_manager(node, "CONT");
    bench.wait_for_log(node, "NetworkManager responds again");
    bench.apply_policy("awake", &on(node, &mtu(1362)), &[]);
    bench.wait_until_available("awake");
    assert_eq!(bench.mtu(node), 1362);
}

pub(crate) fn second_handler(bench: &mut Bench) {
    let [node, _] = NODES;
    let (second, name) = bench.start_second_handler(node);
    bench.wait_for_log(name, "another handler acts on this node");
    bench.apply_policy("one", &on(node, &mtu(1351)), &[]);
    bench.wait_until_available("one");
    assert!(!bench.log(name).contains("handling policies"), "{}", bench.log(name));
    bench.stop_handler(node);
    bench.adopt_handler(node, second, name);
    bench.wait_for_log(node, "handling policies");
    bench.apply_policy("one", &on(node, &mtu(1352)), &[]);
    bench.wait_for_generation(node, "one", 2, Phase::Available);
    assert_eq!(bench.mtu(node), 1352);
}

pub(crate) fn api_restarts(bench: &mut Bench) {
    let [node, other] = NODES;
    bench.stop_handler(node);
    bench.start_patient_handler(node);
    waiting_change(bench, "patient", 1341, &on(node, &mtu(1341)));
    bench.restart_api();
    bench.start_name_server();
    bench.wait_until_available("patient");
    assert_eq!(bench.mtu(node), 1341);
    bench.apply_policy("next", &everywhere(2, &mtu(1342)), &ONLY_API);
    bench.wait_until_available("next");
    assert_eq!((bench.mtu(node), bench.mtu(other)), (1342, 1342));
    bench.stop_name_server();
    bench.restart_handler(node);
}

pub(crate) fn coordinator_is_killed(bench: &mut Bench) {
    const FIRST: &str = "first coordinator";
    const SECOND: &str = "second coordinator";
    const SHORT: [&str; 2] = ["--lease", "12"];
    let [node, other] = NODES;
    bench.stop_coordinator(COORDINATOR);
    bench.start_coordinator(FIRST, &SHORT);
    bench.wait_for_log(FIRST, "leading");
    bench.start_coordinator(SECOND, &SHORT);
    bench.stop_handler(node);
    bench.start_patient_handler(node);
    waiting_change(bench, "halved", 1321, &everywhere(1, &mtu(1321)));
    bench.kill_coordinator(FIRST);
    bench.wait_for_log(SECOND, "leading");
    bench.start_name_server();
    let policy = bench.wait_until_available("halved");
    assert_eq!(policy.message("Available"), "2/2 nodes successfully configured");
    assert_eq!((bench.mtu(node), bench.mtu(other)), (1321, 1321));
    bench.stop_name_server();
    bench.stop_coordinator(SECOND);
    bench.start_coordinator(COORDINATOR, &[]);
    bench.restart_handler(node);
}
