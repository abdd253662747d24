//! Reading MachineConfigs: what is understood, what is kept, what is refused.

use machine_config::{FileMode, MachineConfig, ReadError, Role, parse, parse_all};

fn config(ignition: &str) -> String {
    format!(
        "apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 10-br-ex-worker
  labels:
    machineconfiguration.openshift.io/role: worker
spec:
  config:
{ignition}
"
    )
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

#[test]
fn modes_are_read_in_octal_and_decimal_and_written_in_decimal() {
    for (mode, expected) in [("0644", 0o644), ("420", 0o644), ("0o755", 0o755), ("493", 0o755)] {
        let text = config(&format!(
            "    ignition: {{version: 3.2.0}}
    storage:
      files:
      - path: /etc/x
        mode: {mode}
        contents: {{source: 'data:,x'}}"
        ));
        let read = parse(&text).unwrap();
        assert_eq!(read.files[0].mode, Some(FileMode::new(expected).unwrap()), "{mode}");
        assert!(read.to_yaml().unwrap().contains(&format!("mode: {expected}\n")));
    }
}

#[test]
fn every_version_of_ignition_that_a_cluster_takes_is_read() {
    for (version, extra) in [
        ("2.2.0", "filesystem: root, "),
        ("3.0.0", ""),
        ("3.1.0", ""),
        ("3.3.0", ""),
        ("3.4.0", ""),
        ("3.5.0", ""),
    ] {
        let text = config(&format!(
            "    ignition: {{version: {version}}}
    storage:
      files:
      - {{path: /etc/x, {extra}contents: {{source: 'data:;base64,eA=='}}}}"
        ));
        let read = parse(&text).unwrap();
        assert_eq!(read.files[0].contents.bytes(), b"x");
        assert_eq!(read.ignition.to_string(), version);
        assert_eq!(parse(&read.to_yaml().unwrap()).unwrap(), read);
    }
}

#[test]
fn what_has_no_meaning_here_survives_a_round() {
    let text = config(
        "    ignition:
      version: 3.4.0
      timeouts: {httpTotal: 30}
    passwd:
      users:
      - {name: core, sshAuthorizedKeys: [ssh-ed25519 AAAA]}
    storage:
      links:
      - {path: /etc/localtime, target: ../usr/share/zoneinfo/Europe/Zurich}
    systemd:
      units:
      - {name: a.service, mask: true}
  kernelArguments: [nosmt]
  fips: false
  osImageURL: quay.io/x/y@sha256:0
  somethingNew: {a: 1}",
    );
    let read = parse(&text).unwrap();
    assert_eq!(read.role, Some(Role::worker()));
    let written = read.to_yaml().unwrap();
    for kept in ["httpTotal: 30", "ssh-ed25519", "Zurich", "nosmt", "somethingNew", "fips: false"] {
        assert!(written.contains(kept), "{kept}: {written}");
    }
    assert_eq!(parse(&written).unwrap(), read);
    assert_eq!(parse(&written).unwrap().to_yaml().unwrap(), written);
}

#[test]
fn the_output_of_oc_get_is_read() {
    let one = config("    ignition: {version: 3.2.0}").replace('\n', "\n  ");
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {one}\n- kind: Secret\n  metadata: {{name: s}}\n"
    );
    let read = parse_all(&list).unwrap();
    assert_eq!(read.machine_configs.len(), 1);
    assert_eq!(read.skipped[0].kind, "Secret");
    let two = format!("{0}---\n{0}", config("    ignition: {version: 3.2.0}"));
    assert_eq!(parse_all(&two).unwrap().machine_configs.len(), 2);
    assert!(matches!(parse(&two), Err(ReadError::Several(2))));
}

#[test]
fn json_is_read_as_yaml_is() {
    let read = parse(&config("    ignition: {version: 3.2.0}")).unwrap();
    assert_eq!(parse(&read.to_json()).unwrap(), read);
}

#[test]
fn what_cannot_be_read_is_refused_with_place_and_reason() {
    for (ignition, expected) in [
        (
            "    ignition: {version: 4.0.0}",
            "MachineConfig 10-br-ex-worker: Ignition \"4.0.0\" is not supported; supported are 2.x \
             and 3.0.0 to 3.5.0",
        ),
        (
            "    variant: fcos",
            "MachineConfig 10-br-ex-worker: `spec.config` has no `ignition.version`; is it the \
             configuration of another tool?",
        ),
        (
            "    ignition: {version: 3.2.0}\n    storage: {files: [{path: /etc/x, mode: 644}]}",
            "MachineConfig 10-br-ex-worker: file 1: /etc/x: mode 644 is octal 1204, and \
             set-user-id, set-group-id and sticky bits are rejected by the machine config operator; \
             if octal 644 was meant, write 420",
        ),
        (
            "    ignition: {version: 3.2.0}\n    storage: {files: [{path: /a, contents: {source: \
             'data:;base64,!'}}]}",
            "MachineConfig 10-br-ex-worker: file 1: /a: the base64 of a data URL is broken: ",
        ),
        (
            "    ignition: {version: 3.2.0}\n    systemd: {units: [{enabled: true}]}",
            "MachineConfig 10-br-ex-worker: unit 1: missing field `name`",
        ),
    ] {
        let error = chain(&parse(&config(ignition)).unwrap_err());
        assert!(error.starts_with(expected), "{error}");
    }
    for (text, expected) in [
        ("", "expected a MachineConfig, found none; it is empty"),
        (
            "interfaces: []\n",
            "expected a MachineConfig, found none; its document has no `kind`; it may be an NMState document",
        ),
        (
            "kind: Secret\n",
            "expected a MachineConfig, found none; the first document is of kind Secret",
        ),
        ("a: [\n", "it is not YAML: "),
    ] {
        let error = chain(&parse(text).unwrap_err());
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn many_small_bombs_are_stopped_like_a_large_one() {
    let part = vec![0; 16 << 20];
    let mut bomb =
        MachineConfig::new("10-br-ex-worker".parse().unwrap(), machine_config::Role::worker());
    for number in 0..5 {
        let path = format!("/etc/x{number}").parse().unwrap();
        bomb.files.push(machine_config::File::new(path, &part, machine_config::Encoding::Gzip));
    }
    let text = bomb.to_yaml().unwrap();
    assert!(text.len() < 500_000);
    assert!(matches!(parse(&text), Err(ReadError::Expanded)));
}

#[test]
fn aliases_without_end_are_stopped() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", [below.as_str(); 10].join(", ")));
    }
    assert!(matches!(parse(&text), Err(ReadError::Yaml(_))));
    assert!(matches!(parse(&"[".repeat(100_000)), Err(ReadError::Yaml(_))));
}
