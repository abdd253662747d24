//! `oc-brex check` from outside: files in, text and exit code out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lab::data_tier;
use serde_json::Value;
use tempfile::TempDir;

const GOOD: &str = "\
interfaces:
- {name: eno1, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge:
    allow-extra-patch-ports: true
    options: {mcast-snooping-enable: true}
    port: [{name: eno1}, {name: br-ex}]
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: eno1
  ipv4: {enabled: true, dhcp: true, auto-route-metric: 48}
  ipv6: {enabled: false}
";

fn check(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oc-brex"))
        .arg("check")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn with_address(address: &str) -> String {
    let fixed = format!("{{enabled: true, address: [{{ip: {address}, prefix-length: 24}}]}}");
    let text = GOOD.replace("{enabled: true, dhcp: true, auto-route-metric: 48}", &fixed);
    format!(
        "{text}routes: {{config: [{{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, \
         next-hop-interface: br-ex, metric: 48}}]}}\ndns-resolver: {{config: {{server: [192.0.2.1]}}}}\n"
    )
}

#[test]
fn a_good_document_has_no_findings() {
    let folder = folder(&[("a.yml", GOOD)]);
    let done = check(folder.path(), &["a.yml"]);
    assert_eq!((out(&done), done.status.code()), (String::new(), Some(0)));
    assert_eq!(err(&done), "1 document checked: 0 errors, 0 warnings, 0 remarks\n");
}

#[test]
fn an_error_has_location_reason_and_remedy_and_exit_code_1() {
    let folder = folder(&[("a.yml", &GOOD.replace(", {name: br-ex}]", "]"))]);
    let done = check(folder.path(), &["a.yml"]);
    assert_eq!(done.status.code(), Some(1));
    let lines: Vec<String> = out(&done).lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "a.yml:6:3: error: `br-ex` is not among the ports of the bridge [B3]");
    assert!(lines[1].starts_with("    why: ") && lines[2].starts_with("    do:  "), "{lines:?}");
}

#[test]
fn a_rule_is_explained_once_however_often_it_is_broken() {
    let bad = GOOD.replace(", {name: br-ex}]", "]");
    let folder = folder(&[("a.yml", &bad), ("b.yml", &bad)]);
    let message = out(&check(folder.path(), &["a.yml", "b.yml"]));
    assert_eq!(message.matches("[B3]").count(), 2, "{message}");
    assert_eq!(message.matches("    why: ").count(), 1, "{message}");
}

#[test]
fn warnings_end_with_0_unless_they_are_denied() {
    let folder = folder(&[("a.yml", &GOOD.replace("  copy-mac-from: eno1\n", ""))]);
    let done = check(folder.path(), &["a.yml"]);
    assert_eq!(done.status.code(), Some(0), "{}", out(&done));
    assert!(out(&done).contains(" warning: ") && out(&done).contains("[B8]"));
    assert_eq!(check(folder.path(), &["a.yml", "--deny-warnings"]).status.code(), Some(1));
}

#[test]
fn a_file_that_cannot_be_read_has_exit_code_2_and_a_remedy() {
    let folder = folder(&[("empty/x.txt", "")]);
    for (arguments, message) in [
        (&["missing.yml"][..], "reading missing.yml"),
        (&["empty"], "expected br-ex documents in empty, found none; name NMState documents"),
        (&["x.yml", "--platform", "metal"], "known are none, external, baremetal"),
        (&["x.yml", "--cluster-mtu", "big"], "invalid value 'big'"),
    ] {
        let done = check(folder.path(), arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}");
        assert!(err(&done).contains(message), "{arguments:?}: {}", err(&done));
    }
}

#[test]
fn an_install_config_without_documents_leaves_br_ex_to_configure_ovs() {
    let plain = "baseDomain: example.com\nnetworking: {}\n";
    let folder = folder(&[("install-config.yaml", plain)]);
    let done = check(folder.path(), &["install-config.yaml"]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    let note = "note: install-config.yaml: there is no `networking.hostConfig`, so configure-ovs \
                creates br-ex on the interface with the default route\n";
    assert!(err(&done).starts_with(note), "{}", err(&done));
}

#[test]
fn hosts_are_checked_against_each_other_in_both_layouts() {
    let (first, second) = (with_address("192.0.2.10"), with_address("192.0.2.11"));
    for layout in [["master/m0.yml", "worker/w0.yaml"], ["master-0.yml", "worker-0.yaml"]] {
        let good = folder(&[(layout[0], &first), (layout[1], &second)]);
        let done = check(good.path(), &["."]);
        assert_eq!(done.status.code(), Some(0), "{}", out(&done));
        assert!(err(&done).starts_with("2 documents checked"), "{}", err(&done));
        let same = folder(&[(layout[0], &first), (layout[1], &first)]);
        let done = check(same.path(), &["."]);
        assert_eq!(done.status.code(), Some(1));
        assert!(out(&done).contains("has address 192.0.2.10, too [B22]"), "{}", out(&done));
    }
}

#[test]
fn file_names_that_nodes_do_not_read_are_reported() {
    let folder =
        folder(&[("worker-0.example.com.yml", GOOD), ("cluster.yml", GOOD), ("notes.md", "")]);
    let done = check(folder.path(), &["."]);
    let message = out(&done);
    assert!(message.contains("\"worker-0.example.com\" is not a short host name"), "{message}");
    assert!(message.contains("[B30]"), "{message}");
    // A single file may be called anything.
    assert_eq!(out(&check(folder.path(), &["worker-0.example.com.yml"])), "");
}

#[test]
fn documents_inside_of_an_install_config_are_checked_in_its_networks() {
    let indent =
        |text: &str| text.lines().map(|line| format!("      {line}\n")).collect::<String>();
    let config = format!(
        "networking:\n  machineNetwork: [{{cidr: 198.51.100.0/24}}]\n  hostConfig:\n  - name: worker-0\n    \
         role: worker\n    networkConfig:\n{}platform: {{baremetal: {{}}}}\n",
        indent(&with_address("192.0.2.10"))
    );
    let folder = folder(&[("install-config.yaml", &config)]);
    let done = check(folder.path(), &["install-config.yaml"]);
    assert_eq!(done.status.code(), Some(0), "{}", out(&done));
    assert!(
        out(&done).contains("install-config.yaml:20:")
            && out(&done).contains("192.0.2.10 is outside of the machine network"),
        "{}",
        out(&done)
    );
}

#[test]
fn machines_that_documents_name_are_compared_by_check_and_render() {
    let with =
        |mac: &str, address: &str| format!("# brex-match: mac={mac}\n{}", with_address(address));
    let same = "52:54:00:00:00:01";
    let folder = folder(&[
        ("hosts/worker-0.yml", &with(same, "192.0.2.10")),
        ("hosts/worker-1.yml", &with(same, "192.0.2.11")),
    ]);
    let message =
        "worker-1.yml:1:1: error: the document of worker-0 names MAC 52:54:00:00:00:01, too";
    let done = check(folder.path(), &["hosts"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(out(&done).contains(message), "{}", out(&done));
    let done = Command::new(env!("CARGO_BIN_EXE_oc-brex"))
        .args(["render", "--hosts", "hosts", "--out", "manifests"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(err(&done).contains(message), "{}", err(&done));
    assert!(!folder.path().join("manifests").exists());
}

#[test]
fn several_policies_of_a_file_and_hosts_of_an_agent_config_are_checked() {
    let policy = "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {name: a}\nspec:\n  desiredState:\n    ovs-db:\n      \
                  external_ids: {ovn-bridge-mappings: a:b}\n";
    let agent = "apiVersion: v1beta1\nkind: AgentConfig\nhosts:\n- hostname: m0\n  role: master\n  \
                 networkConfig:\n    interfaces:\n    - {name: eno1, type: ethernet, state: up, ipv4: \
                 {enabled: true, dhcp: true}}\n    - {name: eno1, type: ethernet, state: up}\n";
    let folder = folder(&[("p.yaml", &format!("{policy}---\n{policy}")), ("agent.yaml", agent)]);
    let done = check(folder.path(), &["p.yaml"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(err(&done).starts_with("2 documents checked: 2 errors"), "{}", err(&done));
    assert!(out(&done).contains("p.yaml:15:22: error: `ovn-bridge-mappings`"), "{}", out(&done));
    let done = check(folder.path(), &["agent.yaml"]);
    assert!(
        err(&done).contains("so configure-ovs creates it on the interface with"),
        "{}",
        err(&done)
    );
    assert!(
        out(&done).contains("agent.yaml:9:14: error: ethernet `eno1` is given twice"),
        "{}",
        out(&done)
    );
    assert!(!out(&done).contains("[B1]"), "{}", out(&done));
}

#[test]
fn json_and_sarif_contain_the_same_findings() {
    let folder = folder(&[("a.yml", &GOOD.replace(", {name: br-ex}]", "]"))]);
    let json: Value =
        serde_json::from_str(&out(&check(folder.path(), &["a.yml", "-o", "json"]))).unwrap();
    assert_eq!((&json["schema"], &json["version"]), (&"oc-brex/findings".into(), &1.into()));
    let finding = &json["documents"][0]["findings"][0];
    assert_eq!((&finding["rule"], &finding["line"]), (&"B3".into(), &6.into()));
    assert!(finding["reason"].is_string() && finding["remedy"].is_string());
    let sarif: Value =
        serde_json::from_str(&out(&check(folder.path(), &["a.yml", "-o", "sarif"]))).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&"B3".into(), &"error".into()));
    let index = result["ruleIndex"].as_u64().unwrap() as usize;
    assert_eq!(sarif["runs"][0]["tool"]["driver"]["rules"][index]["id"], "B3");
}

/// Data tier: the MachineConfigs are not part of this repository.
#[test]
fn documents_inside_of_published_machine_configs_are_checked() {
    let Some(path) = data_tier("nmstate-br-ex/machineconfig") else { return };
    // The files end in .yaml, and the MAC address is copied to the bridge.
    let done = check(&path, &["openshift-enhancements__worker-per-node.yaml"]);
    assert_eq!(done.status.code(), Some(0), "{}", out(&done));
    let inner = ":/etc/nmstate/openshift/worker-1.yaml:";
    let message = out(&done);
    for rule in ["[B7]", "[B30]", "[B8]"] {
        assert!(
            message.lines().any(|line| line.contains(inner) && line.ends_with(rule)),
            "{message}"
        );
    }
    // A bond, with warnings only.
    let done = check(&path, &["openshift-metal3__00-nmstate-brex-bond-master.yaml"]);
    assert_eq!(done.status.code(), Some(0), "{}", out(&done));
}

#[test]
fn every_example_of_this_repository_keeps_every_rule() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/br-ex");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 6, "{files:?}");
    for file in files {
        let done = check(&examples, &[file.to_str().unwrap(), "--deny-warnings"]);
        assert_eq!(
            (out(&done), done.status.code()),
            (String::new(), Some(0)),
            "{}",
            file.display()
        );
    }
}
