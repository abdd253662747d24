//! Documents for many hosts: from a table and from lists of installers, and what is rendered from them.

use serde_json::Value;

use crate::support::{WorkDir, host};

/// The document of `host` with a placeholder for its address.
fn template() -> String {
    format!("# brex-match: mac=${{mac}}\n{}", host("'${address}'"))
}

const TABLE: &str = "host,role,address,mac\nw0,worker,192.0.2.20,52:54:00:00:00:20\nm0,master,192.0.2.10,52:54:00:00:00:10\n";

#[test]
fn a_table_and_a_template_become_documents_that_render_takes() {
    let work_dir = WorkDir::new();
    work_dir.put("hosts.csv", TABLE).put("bond.yml", template());
    let arguments = ["hosts", "--table", "hosts.csv", "--template", "bond.yml", "--out", "hosts"];
    let ended = work_dir.done(&arguments);
    assert_eq!(ended.out, "hosts/worker/w0.yml\nhosts/master/m0.yml\n");
    assert!(work_dir.text("hosts/worker/w0.yml").contains("- ip: '192.0.2.20'\n"));
    work_dir.done(&["check", "hosts", "--deny-warnings"]);
    work_dir.done(&["render", "--hosts", "hosts", "--out", "manifests"]);
    // Files are kept unless they may be replaced.
    work_dir.put("hosts/worker/w0.yml", "mine");
    let ended = work_dir.run(&arguments);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("hosts/worker/w0.yml, hosts/master/m0.yml exist; give --force"));
    assert_eq!(work_dir.text("hosts/worker/w0.yml"), "mine");
    work_dir.done(&[&arguments[..], &["--force"]].concat());
    assert!(work_dir.text("hosts/worker/w0.yml").contains("192.0.2.20"));
}

#[test]
fn a_table_with_problems_leaves_no_files() {
    let work_dir = WorkDir::new();
    work_dir.put("bond.yml", template());
    let same = TABLE.replace("192.0.2.10", "192.0.2.20");
    let same_mac = TABLE.replace("52:54:00:00:00:10", "52-54-00-00-00-20");
    let no_mac = TABLE.replace("52:54:00:00:00:10", "52:54:00:00:00");
    for (table, expected) in [
        (
            same_mac.as_str(),
            "hosts.csv: row 3, column mac: template line 1: the document of w0 names MAC \
             52:54:00:00:00:20, too",
        ),
        (no_mac.as_str(), "hosts.csv: row 3, column mac: template line 1: `brex-match`: "),
        ("host,address,mac\n", "hosts.csv: the table has no hosts; expected a row for each host"),
        (same.as_str(), "hosts.csv: row 3, column address: 192.0.2.20 is in row 2, too"),
        ("host,address\nw0,192.0.2.20\n", "hosts.csv: row 1: column `mac` is missing"),
        ("host,address,mac\nw0,,52:54:00:00:00:20\n", "hosts.csv: row 2, column address: expected"),
    ] {
        work_dir.put("hosts.csv", table);
        let ended = work_dir.run(&[
            "hosts",
            "--table",
            "hosts.csv",
            "--template",
            "bond.yml",
            "--out",
            "hosts",
        ]);
        assert_eq!(ended.code, 1, "{table}");
        assert!(ended.err.contains(expected), "{table}: {}", ended.err);
        assert!(!work_dir.path("hosts").exists(), "{table}");
    }
}

const AGENT: &str = "\
apiVersion: v1beta1
kind: AgentConfig
rendezvousIP: 192.0.2.10
hosts:
- hostname: m0.example.com
  role: master
  interfaces:
  - {name: eno1, macAddress: 52:54:00:00:00:01}
  - {name: eno2, macAddress: 52:54:00:00:00:02}
  networkConfig:
    interfaces:
    - {name: eno1, type: ethernet, state: up}
    - {name: eno2, type: ethernet, state: up}
    - name: bond0
      type: bond
      state: up
      ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 24}]}
      ipv6: {enabled: false}
      link-aggregation: {mode: active-backup, options: {miimon: '100'}, port: [eno1, eno2]}
    dns-resolver: {config: {server: [192.0.2.53]}}
    routes:
      config:
      - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond0, table-id: 254}
- hostname: w0
";

#[test]
fn hosts_of_an_agent_config_get_br_ex_on_the_interface_with_the_default_route() {
    let work_dir = WorkDir::new();
    work_dir.put("agent-config.yaml", AGENT);
    let ended = work_dir.done(&["import", "agent-config.yaml", "--out", "hosts"]);
    assert_eq!(ended.out, "hosts/master/m0.yml\n");
    assert!(ended.err.contains("host w0: it has no network"), "{}", ended.err);
    let text = work_dir.text("hosts/master/m0.yml");
    for part in ["copy-mac-from: eno1", "next-hop-interface: br-ex", "metric: 48", "name: bond0"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    work_dir.done(&["check", "hosts"]);
    let ended = work_dir.run(&["import", "agent-config.yaml", "--out", "hosts"]);
    assert_eq!(ended.code, 2, "{}", ended.out);
    assert!(ended.err.contains("give --force"), "{}", ended.err);
}

#[test]
fn hosts_of_a_list_with_one_address_or_one_mac_address_are_not_imported() {
    let work_dir = WorkDir::new();
    let second = AGENT.replace("- hostname: w0\n", "");
    let second = &second[second.find("- hostname: m0").unwrap()..];
    let same = |second: &str| format!("{}{second}", AGENT.replace("- hostname: w0\n", ""));
    let second = second.replace("m0.example.com", "m1.example.com");
    let own_address = second.replace("192.0.2.10", "192.0.2.11");
    let own_macs = |text: &str| text.replace("52:54:00:00:00:0", "52:54:00:00:00:1");
    work_dir.put("good.yaml", same(&own_macs(&own_address)));
    work_dir.done(&["import", "good.yaml", "--out", "good"]);
    for (list, expected) in [
        (same(&own_macs(&second)), "address 192.0.2.10, too [B22]"),
        (same(&own_address), "MAC address 52:54:00:00:00:01, too [B22]"),
    ] {
        work_dir.put("same.yaml", list);
        let ended = work_dir.run(&["import", "same.yaml", "--out", "hosts"]);
        assert_eq!(ended.code, 1, "{}", ended.err);
        assert!(ended.err.contains("master/m1.yml:"), "{}", ended.err);
        assert!(ended.err.contains(expected), "{}", ended.err);
        assert!(ended.err.contains("Nothing was written."), "{}", ended.err);
        assert!(!work_dir.path("hosts").exists());
    }
}

#[test]
fn files_that_hold_documents_are_named_with_the_command_that_reads_them() {
    let work_dir = WorkDir::new();
    let config = include_str!("../fixtures/enhancement/install-config-hosts.yaml");
    work_dir
        .put("mc.yaml", include_str!("../fixtures/enhancement/10-br-ex-worker.yaml"))
        .put("install-config.yaml", config.replace("  [...]\n", ""))
        .put("worker-0.yml", host("192.0.2.20"));
    for (arguments, expected) in [
        (&["show", "mc.yaml"][..], "found a MachineConfig; `oc-brex decode --out DIR`"),
        (&["show", "install-config.yaml"], "found an install-config; `oc-brex render"),
        (
            &["import", "install-config.yaml", "--out", "hosts"],
            "networking.hostConfig holds documents already; give the file to `oc-brex render",
        ),
        (&["doctor", "worker-0.yml"], "found a document; `oc-brex check` evaluates documents"),
    ] {
        let ended = work_dir.run(arguments);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(expected), "{arguments:?}: {}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn lists_without_hosts_and_unknown_uplinks_are_reported() {
    let work_dir = WorkDir::new();
    work_dir.put("x.yaml", "kind: Namespace\n");
    let ended = work_dir.run(&["import", "x.yaml", "--out", "hosts"]);
    assert!(ended.err.contains("expected one of AgentConfig, NMStateConfig"), "{}", ended.err);
    work_dir.put("agent.yaml", AGENT.replace("    routes:\n", "    other:\n"));
    let ended = work_dir.run(&["import", "agent.yaml", "--out", "hosts"]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("line 5: host m0.example.com"), "{}", ended.err);
    assert!(!work_dir.path("hosts").exists());
}

#[test]
fn manifests_are_written_for_the_agent_based_installer_and_for_ztp() {
    let work_dir = WorkDir::new();
    work_dir.put("hosts/worker-0.yml", host("192.0.2.20"));
    let ended = work_dir.done(&["render", "--hosts", "hosts", "--as", "agent", "--out", "install"]);
    assert_eq!(ended.out, "install/openshift/10-br-ex-worker.yaml\n");
    let ended = work_dir.run(&["render", "--hosts", "hosts", "--as", "ztp", "--out", "ztp"]);
    assert_eq!(ended.code, 2, "{}", ended.err);
    let ended = work_dir.done(&[
        "render",
        "--hosts",
        "hosts",
        "--as",
        "ztp",
        "--cluster",
        "sno-1",
        "--out",
        "ztp",
    ]);
    assert_eq!(ended.out, "ztp/br-ex-extra-manifests.yaml\n");
    assert!(ended.err.contains("spec.extraManifestsRefs of the ClusterInstance sno-1"));
    let text = work_dir.text("ztp/br-ex-extra-manifests.yaml");
    assert!(text.contains("10-br-ex-worker.yaml") && text.contains("namespace: sno-1"), "{text}");
}

#[test]
fn the_schema_is_json_and_names_the_fields_of_interfaces() {
    let ended = WorkDir::new().done(&["schema"]);
    let schema: Value = serde_json::from_str(&ended.out).expect("JSON");
    let fields = schema.pointer("/else/allOf/0/properties/interfaces/items/properties");
    for field in ["copy-mac-from", "link-aggregation", "ipv4", "vlan", "bridge", "profile-name"] {
        assert!(fields.and_then(|fields| fields.get(field)).is_some(), "{field}");
    }
}

#[test]
fn a_document_is_shown_as_a_tree_and_as_an_svg_and_a_plan_shows_both_sides() {
    let work_dir = WorkDir::new();
    let new = host("192.0.2.20").replace("  type: ethernet\n", "  type: ethernet\n  mtu: 9000\n");
    work_dir.put("worker-0.yml", host("192.0.2.20")).put("new.yml", new);
    let ended = work_dir.done(&["show", "worker-0.yml"]);
    let expected = "\
br-ex (ovs-interface), MAC of eno1
│ 192.0.2.20/24
│ route 0.0.0.0/0 via 192.0.2.1 metric 48
└─ br-ex (ovs-bridge)
   └─ eno1 (ethernet)
";
    assert_eq!(ended.out, expected);
    let svg = work_dir.done(&["show", "new.yml", "-o", "svg"]).out;
    assert!(svg.starts_with("<svg ") && svg.contains("MTU 9000"), "{svg}");
    let plan =
        work_dir.done(&["plan", "--from", "worker-0.yml", "--to", "new.yml", "--node", "w"]).out;
    let (before, after) = plan.split_once("\nAfter:\n").expect("both sides");
    assert!(
        before.contains("Before:\n") && before.ends_with("     └─ eno1 (ethernet)\n"),
        "{plan}"
    );
    assert!(after.contains("     └─ eno1 (ethernet), MTU 9000\n"), "{plan}");
}

#[test]
fn a_plan_that_keeps_every_layer_shows_them_once_and_lists_the_changed_fields() {
    let work_dir = WorkDir::new();
    let new = host("192.0.2.20").replace("    - 192.0.2.1\nroutes", "    - 192.0.2.53\nroutes");
    work_dir.put("worker-0.yml", host("192.0.2.20")).put("new.yml", new);
    let plan =
        work_dir.done(&["plan", "--from", "worker-0.yml", "--to", "new.yml", "--node", "w"]).out;
    assert!(
        plan.contains("  name servers: server: [\"192.0.2.1\"] → [\"192.0.2.53\"]\n"),
        "{plan}"
    );
    assert!(
        plan.ends_with(
            "\nThe layers of br-ex are unchanged:\n  br-ex (ovs-interface), MAC of eno1\n  \
             │ 192.0.2.20/24\n  │ route 0.0.0.0/0 via 192.0.2.1 metric 48\n  \
             └─ br-ex (ovs-bridge)\n     └─ eno1 (ethernet)\n"
        ),
        "{plan}"
    );
    assert_eq!(plan.matches("br-ex (ovs-bridge)").count(), 1, "{plan}");
}

#[test]
fn documents_of_unlisted_hosts_and_hosts_without_documents_are_reported() {
    let work_dir = WorkDir::new();
    work_dir
        .put("agent-config.yaml", AGENT)
        .put("hosts/master/mo.yml", host("192.0.2.30"))
        // A document that names its machine may be called anything.
        .put(
            "hosts/worker/rack-7.yml",
            format!("# brex-match: serial=CZ1\n{}", host("192.0.2.31")),
        );
    let ended = work_dir.run(&["check", "hosts", "agent-config.yaml"]);
    assert!(
        ended.out.contains(
            "mo.yml:1:1: warning: no installer lists a host mo, so no node uses it; is m0 meant? [B30]"
        ),
        "{}",
        ended.out
    );
    assert!(!ended.out.contains("a host rack-7"), "{}", ended.out);
    assert!(ended.err.contains("note: m0: it has no document"), "{}", ended.err);
    // With a document for all hosts, none is without one.
    let work_dir = WorkDir::new();
    work_dir
        .put("agent-config.yaml", AGENT)
        .put("hosts/master/cluster.yml", crate::support::cluster());
    let ended = work_dir.run(&["check", "hosts", "agent-config.yaml"]);
    assert!(!ended.err.contains("it has no document"), "{}", ended.err);
    assert!(!ended.out.contains("no installer lists"), "{}", ended.out);
}
