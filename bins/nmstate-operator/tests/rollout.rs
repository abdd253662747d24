//! Handlers on real nodes, with a coordinator, at a real API server across a wire.
//!
//! One server and two nodes serve all cases, which run one after the other: starting them takes
//! longer than most cases.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

#[path = "rollout/bench.rs"]
mod bench;
#[path = "rollout/object.rs"]
mod object;

use bench::{Bench, NODES};
use node_policy::Phase;
use serde_json::{Value, json};

type Case = (&'static str, fn(&mut Bench));

/// In this order.
const CASES: [Case; 9] = [
    ("nothing is applied before the cluster was installed once", not_before_installed),
    ("a policy comes to all nodes, as many at a time as it says", one_after_the_other),
    ("a handler that starts again does nothing about what is as it should be", restart_is_silent),
    ("a policy that cuts the node off is taken back and stops the others", taken_back),
    ("a handler that is killed in the middle leaves nothing behind", killed_in_the_middle),
    ("an edit supersedes what is under way", edit_supersedes),
    ("a node that loses the API takes the change back by itself", api_is_lost),
    ("a policy that asks for it is taken back when it is deleted", reverted_on_delete),
    ("what would take br-ex from a node is refused before anything is touched", br_ex_is_guarded),
];

#[test]
fn policies_roll_out_on_real_nodes() {
    let mut bench = Bench::start();
    for (name, case) in CASES {
        let began = std::time::Instant::now();
        case(&mut bench);
        bench.delete_policies();
        eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f32());
    }
}

/// A change of the spare NIC that nobody needs.
fn mtu(mtu: u32) -> Value {
    json!({"interfaces": [{
        "name": "nic1", "type": "ethernet", "state": "up", "mtu": mtu,
        "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
    }]})
}

fn on(node: &str, desired: &Value) -> Value {
    json!({"desiredState": desired, "nodeSelector": {"kubernetes.io/hostname": node}})
}

fn not_before_installed(bench: &mut Bench) {
    bench.apply_policy("early", &json!({"desiredState": mtu(1450)}), &[]);
    for node in NODES {
        bench.wait_for_log(node, "the cluster is being installed");
        bench.wait_for_report(node);
    }
    bench.create_marker("before-installation");
    bench.complete_installation();
    bench.wait_for_policy("early", "Available", "SuccessfullyConfigured");
    let marked = bench.marker_time("before-installation");
    for node in NODES {
        let enactment = bench.enactment(node, "early");
        assert!(enactment.created() >= marked, "{node} acted before the cluster was installed");
        assert_eq!(bench.mtu(node), 1450);
    }
}

fn one_after_the_other(bench: &mut Bench) {
    let spec = json!({"maxUnavailable": 1, "desiredState": mtu(1440)});
    let watch = bench.watch_policy("steps");
    bench.apply_policy("steps", &spec, &[]);
    let policy = bench.wait_for_policy("steps", "Available", "SuccessfullyConfigured");
    assert_eq!(policy.message("Available"), "2/2 nodes successfully configured");
    for node in NODES {
        assert_eq!(bench.mtu(node), 1440);
        let enactment = bench.enactment(node, "steps");
        assert_eq!(enactment.phase(), Phase::Available);
        assert_eq!(enactment.status()["desiredState"]["interfaces"][0]["mtu"], 1440);
        bench.wait_for_reported_mtu(node, 1440);
    }
    let seen = watch.end();
    assert!(seen.iter().any(|slots| slots.len() == 1), "slots were given: {seen:?}");
    assert!(seen.iter().all(|slots| slots.len() <= 1), "one at a time: {seen:?}");
}

fn restart_is_silent(bench: &mut Bench) {
    bench.apply_policy("kept", &json!({"desiredState": mtu(1430)}), &[]);
    bench.wait_for_policy("kept", "Available", "SuccessfullyConfigured");
    let [node, _] = NODES;
    let before = bench.enactment(node, "kept").version();
    bench.stop_handler(node);
    bench.start_handler(node);
    // Policies are looked at in the order of their names.
    bench.apply_policy("later", &on(node, &json!({})), &[]);
    bench.wait_for_phase(node, "later", Phase::Available);
    assert_eq!(bench.enactment(node, "kept").version(), before);
    assert!(!bench.log(node).contains("applying"), "{}", bench.log(node));
}

fn taken_back(bench: &mut Bench) {
    let cut_off = json!({"interfaces": [{
        "name": "nic0", "type": "ethernet", "state": "up",
        "ipv4": {
            "enabled": true, "dhcp": false,
            "address": [{"ip": "203.0.113.7", "prefix-length": 24}],
        },
    }]});
    bench.apply_policy("bad", &json!({"maxUnavailable": 1, "desiredState": cut_off}), &[]);
    let policy = bench.wait_for_policy("bad", "Degraded", "FailedToConfigure");
    assert!(policy.message("Degraded").starts_with("1/2 nodes failed to configure"));
    let [first, second] = NODES;
    let failed = bench.wait_for_phase(first, "bad", Phase::Failed);
    assert_eq!(failed.status()["failure"]["kind"], "ProbeFailed", "{}", failed.status());
    assert_eq!(failed.status()["failure"]["probe"], "api-server");
    let message = failed.message("Failing");
    assert!(message.contains("the node has its former network again"), "{message}");
    assert!(message.len() <= 1024, "{message}");
    bench.wait_for_phase(second, "bad", Phase::Aborted);
    for node in NODES {
        assert!(!bench.has_address(node, "203.0.113.7"));
    }
}

/// A change that is made and waits for an answer that never comes.
fn waiting_change(bench: &Bench, policy: &str, wanted: u32) {
    let [node, _] = NODES;
    // Nobody answers for DNS on this LAN.
    let probes = [("nmstate.landfall.dev/probes", "api-server,dns")];
    bench.apply_policy(policy, &on(node, &mtu(wanted)), &probes);
    bench.wait_for_mtu(node, wanted);
}

const ONLY_API: [(&str, &str); 1] = [("nmstate.landfall.dev/probes", "api-server")];

fn killed_in_the_middle(bench: &mut Bench) {
    let [node, _] = NODES;
    let before = bench.mtu(node);
    bench.stop_handler(node);
    bench.start_patient_handler(node);
    waiting_change(bench, "killed", 1390);
    bench.kill_handler(node);
    bench.start_patient_handler(node);
    bench.wait_for_log(node, "it is taken back");
    bench.wait_for_mtu(node, before);
    bench.apply_policy("killed", &on(node, &mtu(1380)), &ONLY_API);
    bench.wait_for_policy("killed", "Available", "SuccessfullyConfigured");
    assert_eq!(bench.mtu(node), 1380);
}

fn edit_supersedes(bench: &mut Bench) {
    let [node, _] = NODES;
    waiting_change(bench, "edited", 1370);
    bench.apply_policy("edited", &on(node, &mtu(1360)), &ONLY_API);
    bench.wait_for_generation(node, "edited", 2, Phase::Available);
    assert_eq!(bench.mtu(node), 1360);
    bench.stop_handler(node);
    bench.start_handler(node);
}

fn api_is_lost(bench: &mut Bench) {
    let [node, _] = NODES;
    let before = bench.mtu(node);
    waiting_change(bench, "lost", 1350);
    bench.cut_off(node);
    bench.wait_for_mtu(node, before);
    bench.plug_in(node);
    // The name server never comes; the node says so once it can.
    bench.wait_for_policy("lost", "Degraded", "FailedToConfigure");
    assert_eq!(bench.mtu(node), before);
}

fn reverted_on_delete(bench: &mut Bench) {
    let [_, node] = NODES;
    let before = bench.mtu(node);
    let revert = [("nmstate.landfall.dev/revert-on-delete", "true")];
    bench.apply_policy("passing", &on(node, &mtu(1340)), &revert);
    bench.wait_for_policy("passing", "Available", "SuccessfullyConfigured");
    assert_eq!(bench.mtu(node), 1340);
    bench.delete_policy("passing");
    bench.wait_for_mtu(node, before);
    bench.wait_until_left(node, "passing");
}

fn br_ex_is_guarded(bench: &mut Bench) {
    let [node, _] = NODES;
    let off = json!({"enabled": false});
    let bridge = json!({"interfaces": [
        {"name": "nic1", "type": "ethernet", "state": "up", "ipv4": off, "ipv6": off},
        {
            "name": "br-ex", "type": "ovs-bridge", "state": "up",
            "bridge": {"options": {"datapath": "netdev"}, "port": [{"name": "nic1"}, {"name": "br-ex"}]},
        },
        {
            "name": "br-ex", "type": "ovs-interface", "state": "up",
            "ipv4": {"enabled": true, "dhcp": false, "address": [{"ip": "192.0.2.10", "prefix-length": 24}]},
            "ipv6": off,
        },
    ]});
    bench.apply_policy("bridge", &on(node, &bridge), &[]);
    bench.wait_for_policy("bridge", "Available", "SuccessfullyConfigured");
    let absent =
        json!({"interfaces": [{"name": "br-ex", "type": "ovs-bridge", "state": "absent"}]});
    bench.apply_policy("no-bridge", &on(node, &absent), &[]);
    let failed = bench.wait_for_phase(node, "no-bridge", Phase::Failed);
    assert_eq!(failed.reason("Failing"), "FailedToConfigure");
    assert_eq!(failed.status()["failure"]["rule"], "B1", "{}", failed.status());
    assert!(failed.message("Failing").starts_with("nothing was changed: forbidden"));
    assert!(bench.has_address(node, "192.0.2.10"));
}
