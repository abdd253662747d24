//! What must respond after a change.

use node_policy::Phase;
use serde_json::{Value, json};

use crate::rollout::basics::waiting_change;
use crate::rollout::bench::{Bench, NODES};
use crate::rollout::object::Object;
use crate::rollout::wishes::{PING_TARGET, PROBES, WITH_DNS, everywhere, mtu, on};

const ALL: [(&str, &str); 1] = [(PROBES, "api-server,gateway,dns,node-readiness")];

/// The NIC that leads to the API server, configured by DHCP with fewer options than before.
fn uplink(ipv4: &Value) -> Value {
    let mut ip = json!({"enabled": true, "dhcp": true});
    ip.as_object_mut().unwrap().extend(ipv4.as_object().unwrap().clone());
    json!({"interfaces": [{"name": "nic0", "type": "ethernet", "state": "up", "ipv4": ip}]})
}

fn failed_because_of(bench: &Bench, node: &str, policy: &str, probe: &str) -> Object {
    let failed = bench.wait_for_phase(node, policy, Phase::Failed);
    let failure = &failed.status()["failure"];
    assert_eq!((&failure["kind"], &failure["probe"]), (&json!("ProbeFailed"), &json!(probe)));
    let message = failed.message("Failing");
    assert!(message.contains("the node has its former network again"), "{message}");
    failed
}

pub(crate) fn decide(bench: &mut Bench) {
    let [first, second] = NODES;
    bench.start_name_server();
    bench.apply_policy("asks-all", &everywhere(2, &mtu(1415)), &ALL);
    bench.wait_until_available("asks-all");
    NODES.iter().for_each(|node| assert_eq!(bench.mtu(node), 1415));

    // The API server still responds: it is on the same network segment.
    let no_gateway = uplink(&json!({"auto-gateway": false}));
    bench.apply_policy("no-gateway", &on(first, &no_gateway), &[(PROBES, "gateway")]);
    let mut no_names = uplink(&json!({"auto-dns": false}));
    no_names["dns-resolver"] = json!({"config": {"server": ["198.51.100.99"]}});
    bench.apply_policy("no-names", &on(second, &no_names), &[]);
    failed_because_of(bench, first, "no-gateway", "gateway");
    failed_because_of(bench, second, "no-names", "dns");
    let route = bench.node(first).succeed(&["ip", "route", "show", "default"]).unwrap();
    assert!(route.contains("198.51.100.1"), "{route}");
    let names = bench.node(second).read("/etc/resolv.conf").unwrap();
    assert!(!String::from_utf8_lossy(&names).contains("198.51.100.99"));

    // Without the gateway among the probes the same change is fine.
    bench.annotate_policy("no-gateway", PROBES, Some("api-server"));
    bench.wait_until_available("no-gateway");
    let route = bench.node(first).succeed(&["ip", "route", "show", "default"]).unwrap();
    assert_eq!(route, "");
    let gateway = uplink(&json!({"auto-gateway": true}));
    bench.apply_policy("no-gateway", &on(first, &gateway), &[]);
    bench.wait_until_available("no-gateway");
    bench.stop_name_server();
}

pub(crate) fn readiness(bench: &mut Bench) {
    let [node, _] = NODES;
    let before = bench.mtu(node);
    bench.stop_handler(node);
    bench.start_patient_handler(node);
    waiting_change(bench, "ready", 1416, &on(node, &mtu(1416)));
    // The node holds a slot, so it may continue although it is not ready any more.
    bench.kill_handler(node);
    bench.set_ready(node, false);
    bench.annotate_policy("ready", PROBES, Some("api-server,node-readiness"));
    bench.start_handler(node);
    failed_because_of(bench, node, "ready", "node-readiness");
    assert_eq!(bench.mtu(node), before);
    bench.set_ready(node, true);
}

/// The address that must respond is not that of a gateway.
pub(crate) fn ping_target(bench: &mut Bench) {
    let [node, other] = NODES;
    let router = bench.lan.router().to_string();
    let pinged = [(PROBES, "gateway"), (PING_TARGET, router.as_str())];
    bench.apply_policy("pinged", &on(node, &mtu(1417)), &pinged);
    bench.wait_until_available("pinged");
    assert_eq!(bench.mtu(node), 1417);
    let silent = [(PROBES, "gateway"), (PING_TARGET, "198.51.100.99")];
    bench.apply_policy("silent", &on(other, &mtu(1418)), &silent);
    let failed = failed_because_of(bench, other, "silent", "gateway");
    let message = failed.message("Failing");
    assert!(message.contains("198.51.100.99"), "{message}");
    assert_ne!(bench.mtu(other), 1418);
}

/// A failure remains until another attempt is requested.
pub(crate) fn retried_on_request(bench: &mut Bench) {
    let [node, _] = NODES;
    bench.apply_policy("again", &on(node, &mtu(1311)), &WITH_DNS);
    let failed = bench.wait_for_phase(node, "again", Phase::Failed);
    assert_eq!(failed.status()["failure"]["probe"], "dns", "{}", failed.status());
    bench.start_name_server();
    bench.command(&["retry", "again", "--node", "elsewhere"]);
    let unchanged = bench.enactment(node, "again");
    assert_eq!(unchanged.phase(), Phase::Failed, "the request is about another node");
    bench.command(&["retry", "again"]);
    bench.wait_until_available("again");
    assert_eq!(bench.mtu(node), 1311);
    bench.stop_name_server();
}
