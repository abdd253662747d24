//! Nodes that match their documents, and nodes that do not.

use machine_config::{Encoding, File, MachineConfig};

use super::*;

const DOCUMENT: &str = "\
interfaces:
- {name: eno1, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge: {options: {mcast-snooping-enable: true}, port: [{name: eno1}, {name: br-ex}]}
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: eno1
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.20, prefix-length: 24}]}
  ipv6: {enabled: false}
dns-resolver: {config: {server: [192.0.2.1]}}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: br-ex, metric: 48}
";

/// What the handler of such a node reports, with what ovnkube added.
fn report(mtu: u32) -> Value {
    let route = json!({
        "destination": "0.0.0.0/0", "next-hop-address": "192.0.2.1",
        "next-hop-interface": "br-ex", "metric": 48, "table-id": 254,
    });
    json!({
        "apiVersion": "nmstate.io/v1beta1",
        "kind": "NodeNetworkState",
        "metadata": { "name": "worker-0.example.com" },
        "status": { "currentState": {
            "dns-resolver": { "config": { "search": [], "server": ["192.0.2.1"] } },
            "interfaces": [
                { "name": "eno1", "type": "ethernet", "state": "up", "mtu": mtu,
                  "mac-address": "52:54:00:00:00:01",
                  "ipv4": { "enabled": false }, "ipv6": { "enabled": false } },
                { "name": "br-ex", "type": "ovs-bridge", "state": "up", "bridge": {
                    "options": { "fail-mode": "", "mcast-snooping-enable": true, "rstp": false,
                                 "stp": { "enabled": false } },
                    "port": [{ "name": "br-ex" }, { "name": "eno1" },
                             { "name": "patch-br-ex_worker-0-to-br-int" }],
                }},
                { "name": "patch-br-ex_worker-0-to-br-int", "type": "ovs-interface", "state": "up",
                  "patch": { "peer": "patch-br-int-to-br-ex_worker-0" } },
                { "name": "br-ex", "type": "ovs-interface", "state": "up", "mtu": 1500,
                  "mac-address": "52:54:00:00:00:01",
                  "ipv4": { "enabled": true, "dhcp": false, "address": [
                      { "ip": "192.0.2.20", "prefix-length": 24 },
                      { "ip": "169.254.0.2", "prefix-length": 17 },
                  ]},
                  "ipv6": { "enabled": false } },
            ],
            "routes": { "config": [&route], "running": [&route] },
        }},
    })
}

fn configs(name: &str, document: &str) -> Vec<MachineConfig> {
    let mut config = MachineConfig::new("10-br-ex-worker".parse().unwrap(), Role::worker());
    let path = format!("{BR_EX_FOLDER}/{name}.yml").parse().unwrap();
    config.files.push(File::new(path, document.as_bytes(), Encoding::Plain));
    // As returned by a server.
    let object = serde_json::from_str(&config.to_json()).unwrap();
    vec![documents(&object).unwrap().unwrap()]
}

fn node(labels: &[(&str, &str)]) -> Node {
    let pairs = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Node::of(&ObjectMeta {
        name: Some("worker-0.example.com".into()),
        labels: Some(pairs.collect()),
        ..ObjectMeta::default()
    })
}

fn worker() -> Node {
    node(&[(HOSTNAME, "worker-0"), ("node-role.kubernetes.io/worker", "")])
}

fn refused(judgement: Judgement) -> String {
    match judgement {
        Judgement::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_that_matches_its_document_gets_a_policy_that_names_the_document() {
    let judged = judge(&worker(), &report(1500), &configs("worker-0", DOCUMENT));
    let Judgement::Adopt(policy) = judged else { panic!("{judged:?}") };
    assert_eq!(policy.metadata.name.as_deref(), Some("worker-0-br-ex"));
    assert_eq!(policy.metadata.labels.unwrap()[ADOPTED], "br-ex");
    assert_eq!(
        policy.metadata.annotations.unwrap()[ADOPTED_FROM],
        "/etc/nmstate/openshift/worker-0.yml of 10-br-ex-worker"
    );
    // By the label, which need not be the name of the node.
    assert_eq!(policy.spec.node_selector[HOSTNAME], "worker-0");
    let desired = policy.spec.desired_state.to_value().to_string();
    assert!(desired.contains("192.0.2.20") && desired.contains("169.254.0.2"), "{desired}");
}

#[test]
fn a_node_that_is_something_else_is_named_with_what_differs() {
    let other =
        DOCUMENT.replace("name: eno1, type: ethernet,", "name: eno1, type: ethernet, mtu: 9000,");
    let why = refused(judge(&worker(), &report(1500), &configs("worker-0", &other)));
    assert_eq!(
        why,
        "it differs from /etc/nmstate/openshift/worker-0.yml of 10-br-ex-worker: eno1 (mtu) \
         differ"
    );
}

#[test]
fn a_document_for_all_nodes_is_found_by_the_role() {
    let all = configs("cluster", DOCUMENT);
    for (labels, found) in [
        (&["node-role.kubernetes.io/worker"][..], true),
        (&["node-role.kubernetes.io/worker", "node-role.kubernetes.io/gpu"], true),
        (&["node-role.kubernetes.io/master", "node-role.kubernetes.io/worker"], false),
    ] {
        let mut pairs: Vec<(&str, &str)> = labels.iter().map(|label| (*label, "")).collect();
        pairs.push((HOSTNAME, "worker-0"));
        let judged = judge(&node(&pairs), &report(1500), &all);
        match found {
            true => assert!(matches!(judged, Judgement::Adopt(_)), "{labels:?}: {judged:?}"),
            false => assert_eq!(judged, Judgement::NoDocument, "{labels:?}"),
        }
    }
}

#[test]
fn a_node_without_a_document_or_a_label_gets_no_policy() {
    assert_eq!(judge(&worker(), &report(1500), &[]), Judgement::NoDocument);
    let bare = node(&[("node-role.kubernetes.io/worker", "")]);
    let why = refused(judge(&bare, &report(1500), &configs("worker-0", DOCUMENT)));
    assert_eq!(why, "it has no label kubernetes.io/hostname to select it by");
    let why = refused(judge(&worker(), &json!({}), &configs("worker-0", DOCUMENT)));
    assert!(!why.is_empty());
}

#[test]
fn unrelated_machine_configs_are_not_read() {
    // This one cannot be parsed.
    let strange = json!({ "kind": "MachineConfig", "spec": { "config": 7 } });
    assert_eq!(documents(&strange), Ok(None));
    let broken = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": { "name": "x" },
        "spec": { "config": BR_EX_FOLDER },
    });
    assert!(documents(&broken).unwrap_err().starts_with("the MachineConfig x cannot be read: "));
}

#[test]
fn the_condition_names_nodes_and_reasons_and_is_not_long() {
    let refused = (0..500).map(|number| (format!("worker-{number:03}"), "x".repeat(9000)));
    let progress = Progress {
        adopted: 1,
        without_document: 2,
        waiting: 3,
        refused: refused.collect(),
        trouble: None,
    };
    let condition = progress.condition();
    let message = condition.message.unwrap();
    assert_eq!(condition.reason.as_deref(), Some("NodesDiffer"));
    assert!(
        message.starts_with(
            "Policies were made for 1 node; 3 nodes did not report yet; 2 nodes came from no \
             document; not for worker-000: xxx"
        ),
        "{message}"
    );
    assert!(message.ends_with("nor for 495 nodes more"), "{message}");
    assert!(message.len() < 2000);
    let done = Progress { adopted: 3, ..Progress::default() }.condition();
    assert_eq!(done.status, ConditionStatus::True);
}
