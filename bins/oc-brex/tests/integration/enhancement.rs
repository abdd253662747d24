//! The samples of the enhancement `configure-ovs-alternative` in both of its revisions, byte for
//! byte: MachineConfigs with `.yaml` files, and an install-config with `networking.hostConfig`.

use serde_json::Value;

use crate::support::WorkDir;

const WORKERS: &str = include_str!("../fixtures/enhancement/10-br-ex-worker.yaml");
const MASTERS: &str = include_str!("../fixtures/enhancement/10-br-ex-master.yaml");
const HOSTS: &str = include_str!("../fixtures/enhancement/install-config-hosts.yaml");
const ANCHORS: &str = include_str!("../fixtures/enhancement/install-config-anchors.yaml");

/// The install-config without the line that stands for its other settings.
fn hosts() -> String {
    let text = HOSTS.replace("  [...]\n", "");
    assert_ne!(text, HOSTS);
    text
}

/// The install-config with anchors, its `...etc...` written out from the other sample.
fn anchors() -> String {
    let start = HOSTS.find("      - name: enp2s0\n").expect("the interfaces");
    let shared = "      - name: br-ex\n        ...etc...\n";
    assert!(ANCHORS.contains(shared), "{ANCHORS}");
    ANCHORS.replace("  [...]\n", "").replace(shared, &HOSTS[start..])
}

/// Rules and severities that `check` reports, without repetitions.
fn found(work_dir: &WorkDir, arguments: &[&str]) -> (i32, Vec<String>) {
    let ended = work_dir.run(&[&["check", "-o", "json"], arguments].concat());
    let log: Value = serde_json::from_str(&ended.out)
        .unwrap_or_else(|error| panic!("{error}: {}{}", ended.out, ended.err));
    let documents = log["documents"].as_array().expect("documents").iter();
    let findings = documents.flat_map(|document| document["findings"].as_array().expect("a list"));
    let mut rules: Vec<String> = findings
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().expect("text").to_owned();
            format!("{} {}", text("severity"), text("rule"))
        })
        .collect();
    rules.sort();
    rules.dedup();
    (ended.code, rules)
}

#[test]
fn the_machine_configs_are_checked_without_errors() {
    let work_dir = WorkDir::new();
    work_dir.put("worker.yaml", WORKERS).put("master.yaml", MASTERS);
    for file in ["worker.yaml", "master.yaml"] {
        let (code, rules) = found(&work_dir, &[file]);
        // `copy-mac-from` is on the bridge, the files end in .yaml, no metric is given.
        let expected =
            ["info B23", "info B24", "warning B13", "warning B30", "warning B7", "warning B8"];
        assert_eq!((code, rules), (0, expected.map(str::to_owned).to_vec()), "{file}");
    }
}

#[test]
fn files_that_end_in_yaml_are_an_error_where_the_operators_own_script_reads_them() {
    let work_dir = WorkDir::new();
    work_dir.put("worker.yaml", WORKERS);
    let unit = "\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 00-worker, labels: {machineconfiguration.openshift.io/role: worker}}
spec:
  config:
    ignition: {version: 3.2.0}
    systemd: {units: [{name: NAME, enabled: true, contents: \"[Unit]\\n\"}]}
";
    work_dir.put("mco.yaml", unit.replace("NAME", "nmstate-configuration.service"));
    work_dir.put("ours.yaml", unit.replace("NAME", "brex-firstboot-stage.service"));
    for (arguments, code, is_found) in [
        (&["worker.yaml", "--first-boot", "mco"][..], 1, true),
        (&["worker.yaml", "mco.yaml"], 1, true),
        (&["worker.yaml", "--first-boot", "brex-firstboot"], 0, false),
        (&["ours.yaml", "worker.yaml"], 0, false),
    ] {
        let (ended, rules) = found(&work_dir, arguments);
        assert_eq!(ended, code, "{arguments:?}");
        assert_eq!(rules.contains(&"error B30".to_owned()), is_found, "{arguments:?}: {rules:?}");
        assert!(!rules.contains(&"warning B30".to_owned()), "{arguments:?}: {rules:?}");
    }
}

#[test]
fn the_install_configs_are_checked_without_errors() {
    let work_dir = WorkDir::new();
    work_dir.put("hosts.yaml", hosts()).put("anchors.yaml", anchors());
    for file in ["hosts.yaml", "anchors.yaml"] {
        let (code, rules) = found(&work_dir, &[file]);
        assert_eq!(code, 0, "{file}: {rules:?}");
        assert!(rules.contains(&"warning B7".to_owned()), "{file}: {rules:?}");
    }
    let ended = work_dir.done(&["check", "anchors.yaml"]);
    assert!(ended.err.contains("3 documents checked: 0 errors"), "{}", ended.err);
}

#[test]
fn a_host_of_no_known_role_is_in_the_machine_configs_of_both_roles() {
    let work_dir = WorkDir::new();
    work_dir.put("install-config.yaml", hosts());
    let ended =
        work_dir.done(&["render", "--install-config", "install-config.yaml", "--out", "manifests"]);
    assert!(ended.err.contains("note: install-config.yaml: the role of master-0 is not known"));
    for role in ["master", "worker"] {
        let text = work_dir.text(&format!("manifests/10-br-ex-{role}.yaml"));
        assert!(text.contains("/etc/nmstate/openshift/master-0.yml"), "{text}");
    }
    let work_dir = WorkDir::new();
    work_dir.put("install-config.yaml", hosts());
    let arguments = [
        "render",
        "--install-config",
        "install-config.yaml",
        "--role",
        "master",
        "--out",
        "manifests",
    ];
    let ended = work_dir.done(&arguments);
    assert!(!ended.err.contains("not known"), "{}", ended.err);
    assert!(work_dir.path("manifests/10-br-ex-master.yaml").exists());
    assert!(!work_dir.path("manifests/10-br-ex-worker.yaml").exists());
}

#[test]
fn check_and_render_place_the_files_of_a_folder_alike() {
    let work_dir = WorkDir::new();
    let host = crate::support::host;
    work_dir
        .put("hosts/worker-0.yml", host("192.0.2.10"))
        .put("hosts/db1.yml", host("192.0.2.11"))
        .put("hosts/infra/i0.yaml", host("192.0.2.12"));
    let note = "note: hosts/db1.yml: the role is not known";
    let checked = work_dir.done(&["check", "hosts"]);
    let rendered = work_dir.done(&["render", "--hosts", "hosts", "--out", "manifests"]);
    assert!(checked.err.contains(note) && rendered.err.contains(note), "{}", checked.err);
    let names: Vec<&str> = rendered.out.lines().collect();
    let expected =
        ["infra", "master", "worker"].map(|role| format!("manifests/10-br-ex-{role}.yaml"));
    assert_eq!(names, expected);
    // What one refuses the other reports as an error.
    for (file, output) in [
        ("hosts/a/b/c.yml", "a/b/c.yml: too deep"),
        ("hosts/worker/worker-0.yml", "worker-0.yml and worker/worker-0.yml: a host has one"),
        ("hosts/My Role/x.yml", "expected a folder named after a role"),
        ("hosts/w.example.com.yml", "w.example.com"),
    ] {
        work_dir.put(file, host("192.0.2.13"));
        let checked = work_dir.run(&["check", "hosts"]);
        assert_eq!(checked.code, 1, "{file}: {}", checked.out);
        assert!(checked.out.contains(output), "{file}: {}", checked.out);
        let rendered = work_dir.run(&["render", "--hosts", "hosts", "--out", "again"]);
        assert_eq!(rendered.code, 2, "{file}");
        assert!(rendered.err.contains(output), "{file}: {}", rendered.err);
        std::fs::remove_file(work_dir.path(file)).expect("removing the file");
    }
}
