//! The regular operation of handlers and the coordinator.

use node_policy::Phase;
use serde_json::json;

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{CANARY, ONLY_API, REVERT_ON_DELETE, WITH_DNS, everywhere, mtu, on};

pub(crate) fn not_before_installed(bench: &mut Bench) {
    bench.set_installed(false);
    NODES.iter().for_each(|node| bench.restart_handler(node));
    bench.apply_policy("early", &json!({"desiredState": mtu(1450)}), &[]);
    for node in NODES {
        bench.wait_for_log(node, "the cluster is being installed");
        bench.wait_for_report(node);
    }
    bench.create_marker("before-installation");
    bench.set_installed(true);
    bench.wait_until_available("early");
    let marked = bench.marker_time("before-installation");
    for node in NODES {
        let enactment = bench.enactment(node, "early");
        assert!(enactment.created() >= marked, "{node} acted before the cluster was installed");
        assert_eq!(bench.mtu(node), 1450);
    }
}

pub(crate) fn one_after_the_other(bench: &mut Bench) {
    let watch = bench.watch_policy("steps");
    bench.apply_policy("steps", &everywhere(1, &mtu(1440)), &[]);
    let policy = bench.wait_until_available("steps");
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
    let message = bench.wait_for_event("steps", "Applied");
    assert_eq!(message, "2/2 nodes successfully configured");
}

pub(crate) fn restart_is_silent(bench: &mut Bench) {
    bench.apply_policy("kept", &json!({"desiredState": mtu(1430)}), &[]);
    bench.wait_until_available("kept");
    let [node, _] = NODES;
    let before = bench.enactment(node, "kept").version();
    bench.restart_handler(node);
    // Policies are processed in the order of their names.
    bench.apply_policy("later", &on(node, &json!({})), &[]);
    bench.wait_for_phase(node, "later", Phase::Available);
    assert_eq!(bench.enactment(node, "kept").version(), before);
    assert!(!bench.log(node).contains("applying"), "{}", bench.log(node));
}

/// A network in which the node reaches no other host.
pub(crate) fn cut_off() -> serde_json::Value {
    json!({"interfaces": [{
        "name": "nic0", "type": "ethernet", "state": "up",
        "ipv4": {
            "enabled": true, "dhcp": false,
            "address": [{"ip": "203.0.113.7", "prefix-length": 24}],
        },
    }]})
}

pub(crate) fn taken_back(bench: &mut Bench) {
    bench.apply_policy("bad", &everywhere(1, &cut_off()), &[]);
    let policy = bench.wait_for_policy("bad", "Degraded", "FailedToConfigure");
    assert!(policy.message("Degraded").starts_with("1/2 nodes failed to configure"));
    // The first node that observed the policy was the first to be changed.
    let (first, second) = bench.wait_for_one("bad", Phase::Failed);
    let failed = bench.enactment(first, "bad");
    assert_eq!(failed.status()["failure"]["kind"], "ProbeFailed", "{}", failed.status());
    assert_eq!(failed.status()["failure"]["probe"], "api-server");
    let message = failed.message("Failing");
    assert!(message.contains("the node has its former network again"), "{message}");
    assert!(message.len() <= 1024, "{message}");
    bench.wait_for_phase(second, "bad", Phase::Aborted);
    for node in NODES {
        assert!(!bench.has_address(node, "203.0.113.7"));
    }
    let message = bench.wait_for_event("bad", "RolledBack");
    let expected = format!("{first}: the node was cut off by the change; it was rolled back");
    assert!(message.starts_with(&expected), "{message}");
    assert!(bench.wait_for_event("bad", "ReconcileFailed").starts_with(first));
    let message = bench.wait_for_event("bad", "Aborted");
    assert!(message.starts_with("no further node is changed: 1/2 nodes failed"), "{message}");
}

/// A change of the first node that is applied and waits for a DNS response.
pub(crate) fn waiting_change(bench: &Bench, policy: &str, wanted: u32, spec: &serde_json::Value) {
    let [node, _] = NODES;
    assert_ne!(bench.mtu(node), wanted, "nothing would be waited for");
    let first = [WITH_DNS[0], (CANARY, node)];
    bench.apply_policy(policy, spec, &first);
    bench.wait_for_mtu(node, wanted);
}

pub(crate) fn killed_in_the_middle(bench: &mut Bench) {
    let [node, _] = NODES;
    let before = bench.mtu(node);
    bench.stop_handler(node);
    bench.start_patient_handler(node);
    waiting_change(bench, "killed", 1390, &on(node, &mtu(1390)));
    bench.kill_handler(node);
    bench.start_patient_handler(node);
    bench.wait_for_log(node, "an interrupted change was rolled back");
    bench.wait_for_mtu(node, before);
    bench.apply_policy("killed", &on(node, &mtu(1380)), &ONLY_API);
    bench.wait_until_available("killed");
    assert_eq!(bench.mtu(node), 1380);
    bench.restart_handler(node);
}

pub(crate) fn edit_supersedes(bench: &mut Bench) {
    let [node, _] = NODES;
    bench.stop_handler(node);
    bench.start_patient_handler(node);
    waiting_change(bench, "edited", 1370, &on(node, &mtu(1370)));
    bench.apply_policy("edited", &on(node, &mtu(1360)), &ONLY_API);
    bench.wait_for_generation(node, "edited", 2, Phase::Available);
    assert_eq!(bench.mtu(node), 1360);
    bench.restart_handler(node);
}

pub(crate) fn api_is_lost(bench: &mut Bench) {
    let [node, _] = NODES;
    let before = bench.mtu(node);
    waiting_change(bench, "lost", 1350, &on(node, &mtu(1350)));
    bench.cut_off(node);
    bench.wait_for_mtu(node, before);
    bench.plug_in(node);
    // The name server is never started; the node reports the failure once it can.
    bench.wait_for_policy("lost", "Degraded", "FailedToConfigure");
    assert_eq!(bench.mtu(node), before);
}

pub(crate) fn reverted_on_delete(bench: &mut Bench) {
    let [_, node] = NODES;
    let before = bench.mtu(node);
    let revert = [(REVERT_ON_DELETE, "true")];
    bench.apply_policy("passing", &on(node, &mtu(1340)), &revert);
    bench.wait_until_available("passing");
    assert_eq!(bench.mtu(node), 1340);
    bench.delete_policy("passing");
    bench.wait_for_mtu(node, before);
    bench.wait_until_left(node, "passing");
}

pub(crate) fn reverted_with_slots(bench: &mut Bench) {
    let [down, node] = NODES;
    let before = [bench.mtu(down), bench.mtu(node)];
    let revert = [(REVERT_ON_DELETE, "true")];
    bench.apply_policy("passing", &everywhere(1, &mtu(1339)), &revert);
    bench.wait_until_available("passing");
    // A node that is down gets no slot, so the other one does not wait for it.
    bench.stop_handler(down);
    bench.set_ready(down, false);
    bench.delete_policy("passing");
    bench.wait_for_mtu(node, before[1]);
    bench.wait_until_left(node, "passing");
    assert_eq!(bench.mtu(down), 1339);
    // A new policy of the same name is not reverted, and the slots of the old one do not remain.
    bench.set_ready(down, true);
    bench.start_handler(down);
    bench.wait_for_mtu(down, before[0]);
    bench.wait_until_left(down, "passing");
    bench.apply_policy("passing", &everywhere(1, &mtu(1338)), &[]);
    bench.wait_until_available("passing");
    NODES.iter().for_each(|node| assert_eq!(bench.mtu(node), 1338));
    bench.wait("the slots of reverts have ended", || (bench.revert_slots() == "{}").then_some(()));
}

pub(crate) fn br_ex_is_guarded(bench: &mut Bench) {
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
    bench.apply_policy("bridge", &on(node, &bridge), &[(REVERT_ON_DELETE, "true")]);
    bench.wait_until_available("bridge");
    let absent =
        json!({"interfaces": [{"name": "br-ex", "type": "ovs-bridge", "state": "absent"}]});
    bench.apply_policy("no-bridge", &on(node, &absent), &[]);
    let failed = bench.wait_for_phase(node, "no-bridge", Phase::Failed);
    assert_eq!(failed.reason("Failing"), "FailedToConfigure");
    assert_eq!(failed.status()["failure"]["rule"], "B1", "{}", failed.status());
    assert!(failed.message("Failing").starts_with("nothing was changed: forbidden"));
    assert!(bench.has_address(node, "192.0.2.10"));

    // Nor is it removed when the policy that created it is deleted.
    bench.delete_policy("bridge");
    bench.wait_for_log(node, "the policy was not reverted: nothing was changed: forbidden");
    bench.wait_until_left(node, "bridge");
    assert!(bench.has_address(node, "192.0.2.10"));
    // Other cases change the same NIC.
    let remove = "nmcli -g NAME connection | grep -E 'br-ex|nic1' | while read -r name; do \
        nmcli connection delete \"$name\"; done";
    bench.node(node).succeed(&["sh", "-c", remove]).unwrap();
    bench.wait("the bridge is gone", || (!bench.has_address(node, "192.0.2.10")).then_some(()));
}
