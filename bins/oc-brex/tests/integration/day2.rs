//! Changes of br-ex on nodes that run: plan, adopt, migrate.

use crate::support;

use lab::data_tier;
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use nmstate::NetworkState;
use support::{WorkDir, cluster, host};

/// What a node reports whose br-ex came from `host`, with what ovnkube added.
fn node_state(name: &str, address: &str) -> String {
    format!(
        "\
apiVersion: nmstate.io/v1beta1
kind: NodeNetworkState
metadata:
  name: {name}
status:
  currentState:
    dns-resolver:
      config:
        search: []
        server: [192.0.2.1]
      running:
        server: [192.0.2.1]
    interfaces:
    - name: eno1
      type: ethernet
      state: up
      mac-address: 52:54:00:00:00:01
      permanent-mac-address: 52:54:00:00:00:01
      mtu: 1500
      min-mtu: 68
      max-mtu: 9000
      ipv4: {{enabled: false, dhcp: false}}
      ipv6: {{enabled: false, dhcp: false, autoconf: false}}
    - name: eno2
      type: ethernet
      state: up
      mac-address: 52:54:00:00:00:02
      mtu: 1500
      ipv4: {{enabled: false}}
      ipv6: {{enabled: false}}
    - name: br-ex
      type: ovs-bridge
      state: up
      ipv4: {{enabled: false}}
      ipv6: {{enabled: false}}
      bridge:
        options:
          fail-mode: ''
          mcast-snooping-enable: true
          rstp: false
          stp: {{enabled: false}}
        port:
        - name: br-ex
        - name: eno1
        - name: patch-br-ex_{name}-to-br-int
    - name: patch-br-ex_{name}-to-br-int
      type: ovs-interface
      state: up
      patch:
        peer: patch-br-int-to-br-ex_{name}
    - name: br-ex
      type: ovs-interface
      state: up
      mac-address: 52:54:00:00:00:01
      mtu: 1500
      ipv4:
        enabled: true
        dhcp: false
        address:
        - {{ip: {address}, prefix-length: 24}}
        - {{ip: 169.254.0.2, prefix-length: 17}}
        - {{ip: 192.0.2.200, prefix-length: 32}}
      ipv6:
        enabled: false
    routes:
      config:
      - destination: 0.0.0.0/0
        next-hop-address: 192.0.2.1
        next-hop-interface: br-ex
        metric: 48
        table-id: 254
      running:
      - destination: 0.0.0.0/0
        next-hop-address: 192.0.2.1
        next-hop-interface: br-ex
        metric: 48
        table-id: 254
"
    )
}

fn desired(yaml: &str) -> NetworkState {
    let document = br_ex::Document::parse(yaml.as_bytes());
    let layout = document.layout().expect("a desired state");
    NetworkState::new_from_json(&layout.node.to_json().to_string()).expect("a state")
}

#[test]
fn a_plan_has_class_reason_order_and_outage() {
    let work_dir = WorkDir::new();
    work_dir.put("old.yml", host("192.0.2.20")).put(
        "new.yml",
        host("192.0.2.20").replace("    - 192.0.2.1\nroutes", "    - 192.0.2.53\nroutes"),
    );
    let ended = work_dir.done(&[
        "plan",
        "--from",
        "old.yml",
        "--to",
        "new.yml",
        "--node",
        "worker-0.example.com",
        "--out",
        "p",
    ]);
    for part in [
        "Class: hitless\nExpected outage: none\n",
        "  name servers: server: [\"192.0.2.1\"] → [\"192.0.2.53\"]\n    hitless: name servers are \
         changed at once\n",
        "     oc apply --server-side -f p/policy.yaml\n     oc wait nncp/worker-0-br-ex --for=condition=Available",
    ] {
        assert!(ended.out.contains(part), "{}", ended.out);
    }
    let policy = work_dir.text("p/policy.yaml");
    assert!(policy.contains("kubernetes.io/hostname: worker-0.example.com\n"), "{policy}");
    assert!(policy.contains("169.254.0.2"), "{policy}");
    assert!(
        work_dir.text("p/way-back.yaml").contains("192.0.2.1\n")
            || work_dir.text("p/way-back.yaml").contains("\"192.0.2.1\"")
    );
}

#[test]
fn what_may_not_be_done_is_refused_and_not_written() {
    let work_dir = WorkDir::new();
    work_dir.put("old.yml", host("192.0.2.20")).put("new.yml", host("192.0.2.21"));
    let ended = work_dir
        .run(&["plan", "--from", "old.yml", "--to", "new.yml", "--role", "worker", "--out", "p"]);
    assert_eq!(ended.code, 1);
    assert!(ended.out.starts_with("Class: forbidden\n"), "{}", ended.out);
    assert!(ended.out.contains("it may be the address that the cluster uses for the node"));
    assert!(!work_dir.path("p").exists());
    let ended = work_dir.run(&["plan", "--from", "old.yml", "--to", "new.yml"]);
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (2, "error: which nodes? Give --node or --role\n")
    );
}

#[test]
fn dhcp_that_is_off_in_both_documents_is_not_a_change() {
    let work_dir = WorkDir::new();
    let unmentioned = host("192.0.2.20").replace("    dhcp: false\n", "");
    work_dir.put("old.yml", &unmentioned).put("new.yml", host("192.0.2.20"));
    for (old, new) in [("old.yml", "new.yml"), ("new.yml", "old.yml")] {
        let ended = work_dir.done(&["plan", "--from", old, "--to", new, "--node", "w"]);
        assert!(ended.out.starts_with("Nothing changes: "), "{}", ended.out);
    }
}

#[test]
fn from_a_nodes_state_the_policy_keeps_its_own_masquerade_address() {
    let work_dir = WorkDir::new();
    let state = node_state("worker-0", "192.0.2.20")
        .replace("{ip: 169.254.0.2, prefix-length: 17}", "{ip: 169.254.169.2, prefix-length: 29}");
    work_dir.put("nns.yaml", state).put(
        "new.yml",
        host("192.0.2.20").replace("  type: ethernet\n", "  type: ethernet\n  mtu: 9000\n"),
    );
    let ended = work_dir.done(&["plan", "--from", "nns.yaml", "--to", "new.yml", "--out", "p"]);
    assert!(ended.out.contains("Class: short interruption\n"), "{}", ended.out);
    assert!(ended.out.contains("ethernet eno1: mtu: 1500 → 9000"), "{}", ended.out);
    let policy = work_dir.text("p/policy.yaml");
    assert!(policy.contains("169.254.169.2") && !policy.contains("169.254.0.2"), "{policy}");
    let back = work_dir.text("p/way-back.yaml");
    assert!(back.contains("mtu: 1500\n"), "{back}");
}

#[test]
fn nodes_are_adopted_when_a_policy_changes_nothing_and_only_then() {
    let work_dir = WorkDir::new();
    work_dir
        .put("hosts/worker/worker-0.yml", host("192.0.2.20"))
        .put("hosts/worker/worker-1.yml", host("192.0.2.21"));
    work_dir.done(&["render", "--hosts", "hosts", "--out", "m"]);
    // The virtual address moved to the other node in the meantime.
    let state = node_state("worker-0.example.com", "192.0.2.20")
        .replace("        - {ip: 192.0.2.200, prefix-length: 32}\n", "");
    work_dir.put("nns.yaml", &state);
    let adopt = ["adopt", "--mc", "m/10-br-ex-worker.yaml", "--nns", "nns.yaml", "--out", "p"];
    let ended = work_dir.done(&adopt);
    assert_eq!(ended.out, "p/worker-0-br-ex.yaml\n");
    let policy = work_dir.text("p/worker-0-br-ex.yaml");
    assert!(policy.contains("169.254.0.2") && policy.contains("maxUnavailable: 1"), "{policy}");
    // nmstate itself finds nothing to do, except for what no node reports: that ports of others
    // are kept.
    let current = br_ex::node_state::parse(&state).unwrap().remove(0).state;
    let difference = desired(&policy).gen_diff(&current).unwrap();
    let instruction = serde_json::json!({"interfaces": [{
        "name": "br-ex", "type": "ovs-bridge", "state": "up",
        "bridge": {"allow-extra-patch-ports": true},
    }]});
    assert_eq!(serde_json::to_value(&difference).unwrap(), instruction);

    // A node whose MTU was changed by hand is not adopted.
    work_dir.put(
        "hosts/worker/worker-0.yml",
        host("192.0.2.20").replace("state: up\n  ipv4:", "state: up\n  mtu: 9000\n  ipv4:"),
    );
    work_dir.done(&["render", "--hosts", "hosts", "--out", "m"]);
    let ended = work_dir.run(&adopt);
    assert_eq!(ended.code, 1);
    assert!(
        ended.err.contains("differs from /etc/nmstate/openshift/worker-0.yml of 10-br-ex-worker"),
        "{}",
        ended.err
    );
    assert!(ended.err.contains("\"mtu\":9000"), "{}", ended.err);
}

#[test]
fn a_node_without_a_document_of_its_own_needs_its_role_when_there_are_several() {
    let work_dir = WorkDir::new();
    work_dir.put("hosts/cluster.yml", cluster());
    work_dir.done(&["render", "--hosts", "hosts", "--out", "m"]);
    let state = node_state("db-0", "192.0.2.20")
        .replace("dhcp: false\n        address", "dhcp: true\n        address");
    work_dir.put("nns.yaml", state);
    let adopt = [
        "adopt",
        "--mc",
        "m/10-br-ex-worker.yaml",
        "--mc",
        "m/10-br-ex-master.yaml",
        "--nns",
        "nns.yaml",
    ];
    let ended = work_dir.run(&adopt);
    assert_eq!(ended.code, 1);
    assert!(
        ended.err.contains("several roles have one for all their nodes (master, worker)"),
        "{}",
        ended.err
    );
}

#[test]
fn a_node_of_configure_ovs_gets_a_document_of_what_it_has() {
    let work_dir = WorkDir::new();
    work_dir.put("nns.yaml", node_state("worker-0.example.com", "192.0.2.20"));
    let ended = work_dir.done(&["migrate", "--nns", "nns.yaml", "--role", "worker", "--out", "m"]);
    assert!(
        ended.err.contains("192.0.2.200 is left out: an address for one host alone"),
        "{}",
        ended.err
    );
    let document = work_dir.text("m/hosts/worker/worker-0.yml");
    for part in ["copy-mac-from: eno1\n", "192.0.2.20", "metric: 48\n", "next-hop-address"] {
        assert!(document.contains(part), "{part}: {document}");
    }
    for part in ["169.254", "192.0.2.200", "patch-br-ex", "eno2"] {
        assert!(!document.contains(part), "{part}: {document}");
    }
    // It describes the current state of the node, so that only its owner changes.
    let planned =
        work_dir.done(&["plan", "--from", "nns.yaml", "--to", "m/hosts/worker/worker-0.yml"]);
    assert!(!planned.out.contains("forbidden"), "{}", planned.out);
    work_dir.text("m/way-back/worker-0.yml");
    let order: Vec<_> = ended.out.lines().filter(|line| line.starts_with("oc apply")).collect();
    assert_eq!(
        order,
        [
            "oc apply --server-side --force-conflicts -f m/manifests/10-br-ex-worker.yaml",
            "oc apply --server-side --force-conflicts -f \
             m/manifests/99-br-ex-force-reboot-worker.yaml",
        ],
    );
    let reboot =
        machine_config::parse(&work_dir.text("m/manifests/99-br-ex-force-reboot-worker.yaml"))
            .unwrap();
    let empty =
        machine_config::MachineConfig::new(reboot.name.clone(), reboot.role.clone().unwrap());
    let changes = machine_config::difference(&empty, &reboot);
    let outcome = machine_config::DisruptionPolicy::default().disruption(&changes).outcome();
    assert_eq!(outcome, machine_config::Outcome::Reboot);
}

/// The node's br-ex on a bond, with all that the kernel reports of one.
fn bonded_state(mode: &str, options: &str) -> String {
    let bond = format!(
        "    - name: bond0
      type: bond
      state: up
      mtu: 1500
      mac-address: 52:54:00:00:00:01
      ipv4: {{enabled: false}}
      ipv6: {{enabled: false}}
      link-aggregation:
        mode: {mode}
        options: {{{options}}}
        port: [eno1, eno2]
    - name: br-ex
      type: ovs-bridge
"
    );
    node_state("worker-0.example.com", "192.0.2.20")
        .replace("    - name: br-ex\n      type: ovs-bridge\n", &bond)
        .replace("        - name: eno1\n", "        - name: bond0\n")
}

#[test]
fn documents_of_migrate_have_no_errors_for_any_mode_of_a_bond() {
    let options = "miimon: 100, updelay: 0, downdelay: 0, lacp_rate: slow, xmit_hash_policy: layer2, \
                   primary: eno1, fail_over_mac: none";
    let has = |text: &str, key: &str| text.contains(&format!("{key}:"));
    for (mode, with, without) in [
        ("active-backup", &["miimon", "primary"][..], &["lacp_rate", "xmit_hash_policy"][..]),
        ("802.3ad", &["miimon", "lacp_rate", "xmit_hash_policy"], &["primary"]),
        ("balance-xor", &["miimon", "xmit_hash_policy"], &["lacp_rate", "primary"]),
        ("balance-rr", &["miimon"], &["lacp_rate", "xmit_hash_policy", "primary"]),
    ] {
        let work_dir = WorkDir::new();
        work_dir.put("nns.yaml", bonded_state(mode, options));
        work_dir.done(&["migrate", "--nns", "nns.yaml", "--role", "worker", "--out", "m"]);
        work_dir.done(&["check", "m/hosts"]);
        let text = work_dir.text("m/hosts/worker/worker-0.yml");
        assert!(with.iter().all(|key| has(&text, key)), "{mode}: {text}");
        assert!(!without.iter().any(|key| has(&text, key)), "{mode}: {text}");
    }
    // A bond that is monitored by ARP stays monitored.
    let work_dir = WorkDir::new();
    let options = "miimon: 0, arp_interval: 1000, arp_ip_target: 192.0.2.1";
    work_dir.put("nns.yaml", bonded_state("active-backup", options));
    work_dir.done(&["migrate", "--nns", "nns.yaml", "--role", "worker", "--out", "m"]);
    let text = work_dir.text("m/hosts/worker/worker-0.yml");
    assert!(text.contains("arp_interval: 1000\n") && text.contains("arp_ip_target"), "{text}");
}

#[test]
fn migrate_keeps_tables_of_routes_and_runs_dhcp_beside_router_advertisements() {
    let work_dir = WorkDir::new();
    let state = node_state("worker-0.example.com", "192.0.2.20")
        .replace(
            "      running:\n      - destination",
            "      - destination: 203.0.113.0/24\n        next-hop-address: 192.0.2.9\n        \
             next-hop-interface: br-ex\n        metric: 100\n        table-id: 100\n      \
             running:\n      - destination",
        )
        .replace(
            "      ipv6:\n        enabled: false\n    routes",
            "      ipv6:\n        enabled: true\n        dhcp: false\n        autoconf: true\n        \
             address:\n        - {ip: '2001:db8::5', prefix-length: 64}\n    routes",
        );
    work_dir.put("nns.yaml", state);
    work_dir.done(&["migrate", "--nns", "nns.yaml", "--role", "worker", "--out", "m"]);
    work_dir.done(&["check", "m/hosts"]);
    let document = desired(&work_dir.text("m/hosts/worker/worker-0.yml"));
    let document = serde_json::to_value(&document).unwrap();
    let routes = document.pointer("/routes/config").and_then(|it| it.as_array()).unwrap();
    assert!(routes.iter().any(|it| it["table-id"] == 100 && it["metric"] == 100), "{routes:?}");
    let text = work_dir.text("m/hosts/worker/worker-0.yml");
    assert!(
        text.contains("autoconf: true\n") && !text.contains("dhcp: false\n    autoconf"),
        "{text}"
    );
}

#[test]
fn migrate_writes_nothing_for_a_node_whose_document_would_have_errors() {
    let good = node_state("worker-1.example.com", "192.0.2.21");
    let state = || node_state("worker-0.example.com", "192.0.2.20");
    let no_route = state();
    let no_route = &no_route[..no_route.find("    routes:\n").unwrap()];
    for (bad, output) in [
        (
            no_route.to_owned(),
            "error: worker-0.example.com: IPv4 on br-ex has no default route [B12]\n    do:  ",
        ),
        (
            state().replace("      mtu: 1500\n      ipv4:\n", "      mtu: 9000\n      ipv4:\n"),
            "error: worker-0.example.com: `eno1` has an MTU of 1500 and carries `br-ex`",
        ),
    ] {
        let work_dir = WorkDir::new();
        work_dir.put("good.yaml", &good).put("bad.yaml", bad);
        let nodes = ["migrate", "--nns", "good.yaml", "--nns", "bad.yaml", "--role", "worker"];
        let ended = work_dir.run(&[&nodes[..], &["--out", "m"]].concat());
        assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{}", ended.err);
        assert!(ended.err.contains(output), "{}", ended.err);
        assert!(ended.err.contains("Nothing was written. "), "{}", ended.err);
        assert!(!work_dir.path("m").exists());
    }
    // The document of all nodes is not that of one.
    let work_dir = WorkDir::new();
    work_dir.put("nns.yaml", node_state("cluster.example.com", "192.0.2.20"));
    let ended = work_dir.run(&["migrate", "--nns", "nns.yaml", "--role", "worker", "--out", "m"]);
    assert_eq!(ended.code, 2, "{}", ended.err);
    assert!(ended.err.contains("is for all nodes of the role"), "{}", ended.err);
    assert!(!work_dir.path("m").exists());
}

#[test]
fn migrate_names_commands_that_exist_and_refuses_a_wrong_role_before_it_writes() {
    let work_dir = WorkDir::new();
    work_dir.put("nns.yaml", node_state("worker-0.example.com", "192.0.2.20"));
    for (role, output) in [
        ("master", "node worker-0.example.com has the name of a worker, and --role is master"),
        ("wroker", "--role wroker: every cluster has a pool worker"),
    ] {
        let ended = work_dir.run(&["migrate", "--nns", "nns.yaml", "--role", role, "--out", "m"]);
        assert_eq!(ended.code, 2, "{role}");
        assert!(ended.err.contains(output), "{}", ended.err);
        assert!(!work_dir.path("m").exists(), "{role}");
    }
    let ended = work_dir.done(&["migrate", "--nns", "nns.yaml", "--role", "worker", "--out", "m"]);
    // `oc adm` has no `pause`; a pool is paused by its field.
    assert!(!ended.out.contains("oc adm pause"), "{}", ended.out);
    assert!(ended.out.contains("-p '{\"spec\":{\"paused\":true}}'"), "{}", ended.out);
}

#[test]
fn a_plan_lists_every_procedure_that_the_change_needs() {
    let work_dir = WorkDir::new();
    let old = host("192.0.2.20")
        .replace("  type: ethernet\n", "  type: ethernet\n  mtu: 9000\n")
        .replace("  copy-mac-from: eno1\n", "  copy-mac-from: eno1\n  mtu: 9000\n");
    let lower = old.replace("mtu: 9000", "mtu: 4000");
    // Another uplink at the same time, which is disruptive.
    let both = lower.replace("eno1", "eno2");
    work_dir.put("old.yml", old).put("lower.yml", lower).put("both.yml", both);
    let plan = |to: &str, more: &[&str]| {
        let arguments = ["plan", "--from", "old.yml", "--to", to, "--node", "worker-0"];
        work_dir.done(&[&arguments[..], more].concat()).out
    };
    let out = plan("lower.yml", &[]);
    let place = |part: &str| out.find(part).unwrap_or_else(|| panic!("{part}: {out}"));
    let order = [
        "`profile-name: ovs-if-br-ex`",
        "{.status.clusterNetworkMTU}",
        "\"migration\":{\"mtu\":{\"network\":{\"from\":<from>,\"to\":3900},\"machine\":{\"to\":4000}}}",
        "oc apply --server-side -f policy.yaml",
        "\"migration\":null,\"defaultNetwork\":{\"ovnKubernetesConfig\":{\"mtu\":3900}}",
        "Update the first-boot document",
    ];
    let places: Vec<usize> = order.iter().map(|part| place(part)).collect();
    assert!(places.is_sorted(), "{places:?}: {out}");
    let out = plan("both.yml", &[]);
    assert!(out.starts_with("Class: disruptive\n"), "{out}");
    assert!(out.contains("Also: cluster procedure: "), "{out}");
    for part in ["oc adm drain worker-0", "\"migration\":null", "oc adm uncordon worker-0"] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[test]
fn a_document_is_applied_again_at_a_reboot_only_by_the_operators_own_service() {
    let work_dir = WorkDir::new();
    work_dir.put("old.yml", host("192.0.2.20")).put(
        "new.yml",
        host("192.0.2.20").replace("    - 192.0.2.1\nroutes", "    - 192.0.2.53\nroutes"),
    );
    let plan = |program: &str| {
        let arguments = ["plan", "--from", "old.yml", "--to", "new.yml", "--node", "w"];
        work_dir.done(&[&arguments[..], &["--first-boot", program]].concat()).out
    };
    assert!(plan("mco").contains("At their next reboot"), "{}", plan("mco"));
    assert!(!plan("brex-firstboot").contains("next reboot"), "{}", plan("brex-firstboot"));
}

#[tokio::test]
async fn a_cluster_with_our_operator_accepts_every_policy() {
    let server = ApiServer::start().await.unwrap();
    for crd in nmstate_api::crd::all() {
        server.client().load_crd_text(&crd.to_string()).await.unwrap();
    }
    accepts_every_policy(&server).await;
}

/// Data tier: no Go module has the CRDs.
#[tokio::test]
async fn a_cluster_with_kubernetes_nmstate_accepts_every_policy() {
    let Some(api) = data_tier("kubernetes-nmstate-api") else { return };
    let server = ApiServer::start().await.unwrap();
    server.load_crds(&api.join("deploy/crds")).await.unwrap();
    accepts_every_policy(&server).await;
}

async fn accepts_every_policy(server: &ApiServer) {
    server.load_cluster_crds().await.unwrap();
    let work_dir = WorkDir::new();
    work_dir.put("nns.yaml", node_state("worker-0", "192.0.2.20")).put(
        "new.yml",
        host("192.0.2.20").replace("    - 192.0.2.1\nroutes", "    - 192.0.2.53\nroutes"),
    );
    work_dir.done(&["plan", "--from", "nns.yaml", "--to", "new.yml", "--out", "p"]);
    work_dir.done(&["migrate", "--nns", "nns.yaml", "--role", "worker", "--out", "m"]);
    for name in [
        "p/policy.yaml",
        "p/way-back.yaml",
        "m/manifests/10-br-ex-worker.yaml",
        "m/manifests/99-br-ex-force-reboot-worker.yaml",
    ] {
        let text = work_dir.text(name);
        server.apply(&text, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    }
}
