//! Nodes that are added, removed and selected.

use node_policy::Phase;
use serde_json::json;

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{WITH_DNS, mtu};

const LABEL: &str = "example.com/storage";

pub(crate) fn labels_choose(bench: &mut Bench) {
    let [node, other] = NODES;
    let spec = json!({"nodeSelector": {LABEL: "fast"}, "desiredState": mtu(1391)});
    bench.apply_policy("chosen", &spec, &[]);
    bench.wait_for_policy("chosen", "Ignored", "NoMatchingNode");
    bench.label_node(other, LABEL, Some("slow"));
    bench.label_node(node, LABEL, Some("fast"));
    let policy = bench.wait_until_available("chosen");
    assert_eq!(policy.message("Available"), "1/1 nodes successfully configured");
    assert_eq!(bench.mtu(node), 1391);
    assert!(!bench.has_enactment(other, "chosen"), "its label has another value");
    bench.label_node(node, LABEL, None);
    bench.wait_until_left(node, "chosen");
    bench.wait_for_policy("chosen", "Ignored", "NoMatchingNode");
    assert_eq!(bench.mtu(node), 1391, "the network stays");
    bench.label_node(other, LABEL, None);
}

pub(crate) fn deleted_meanwhile(bench: &mut Bench) {
    let [node, other] = NODES;
    bench.apply_policy("gone", &json!({"desiredState": mtu(1392)}), &[]);
    bench.wait_until_available("gone");
    bench.stop_handler(node);
    bench.delete_policy("gone");
    bench.wait_until_left(other, "gone");
    bench.start_handler(node);
    bench.wait_until_left(node, "gone");
    assert_eq!(bench.mtu(node), 1392, "the network stays");
}

pub(crate) fn node_is_lost(bench: &mut Bench) {
    let [lost, other] = NODES;
    bench.stop_handler(lost);
    bench.start_patient_handler(lost);
    let spec = json!({
        "nodeSelector": {LABEL: "lossy"}, "maxUnavailable": 1, "desiredState": mtu(1331),
    });
    bench.label_node(lost, LABEL, Some("lossy"));
    bench.apply_policy("lossy", &spec, &WITH_DNS);
    bench.wait_for_mtu(lost, 1331);
    bench.label_node(other, LABEL, Some("lossy"));
    bench.kill_handler(lost);
    bench.set_ready(lost, false);
    // As long as it is a node of the cluster, its state is unknown: no other node is started.
    bench.wait("the node counts as not ready", || {
        let policy = bench.policy("lossy");
        let message = policy.message("Progressing");
        message.contains("1 nodes ignored due to NotReady state").then_some(())
    });
    assert_eq!(bench.policy("lossy").status()["slots"][0]["node"], lost);
    assert_ne!(bench.mtu(other), 1331);

    bench.start_name_server();
    bench.delete_node(lost);
    let policy = bench.wait_until_available("lossy");
    assert_eq!(policy.message("Available"), "1/1 nodes successfully configured");
    assert_eq!(bench.mtu(other), 1331);

    // It returns as a new node.
    bench.create_node(lost);
    bench.label_node(lost, LABEL, Some("lossy"));
    bench.start_handler(lost);
    bench.wait_for_log(lost, "an interrupted change was rolled back");
    bench.wait("both nodes are done", || {
        let policy = bench.policy("lossy");
        let is_done = policy.holds("Available", "SuccessfullyConfigured");
        let message = is_done.then(|| policy.message("Available"))?;
        (message == "2/2 nodes successfully configured").then_some(())
    });
    assert_eq!(bench.enactment(lost, "lossy").phase(), Phase::Available);
    assert_eq!(bench.mtu(lost), 1331);
    bench.stop_name_server();
    NODES.iter().for_each(|node| bench.label_node(node, LABEL, None));
}
