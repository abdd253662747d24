//! What a change does to a running node. The rules are those of the machine config operator.

use machine_config::{
    Action, Change, DisruptionPolicy, FileChange, MachineConfig, Outcome, Setting, difference,
    parse,
};

fn config(ignition: &str, spec: &str) -> MachineConfig {
    parse(&format!(
        "apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {{name: c, labels: {{machineconfiguration.openshift.io/role: worker}}}}
spec: {{config: {{ignition: {{version: 3.2.0}}, {ignition}}}, {spec}}}
"
    ))
    .expect("a MachineConfig")
}

fn files(files: &str) -> MachineConfig {
    config(&format!("storage: {{files: [{files}]}}"), "")
}

fn outcome(old: &MachineConfig, new: &MachineConfig) -> Outcome {
    DisruptionPolicy::default().disruption(&difference(old, new)).outcome()
}

const HOST: &str = "{path: /etc/nmstate/openshift/worker-0.yml, contents: {source: 'data:,a'}}";

#[test]
fn files_for_br_ex_are_added_changed_and_removed_without_a_reboot() {
    let changed = HOST.replace("data:,a", "data:,b");
    for (old, new) in [("", HOST), (HOST, ""), (HOST, changed.as_str()), (HOST, HOST)] {
        assert_eq!(outcome(&files(old), &files(new)), Outcome::Nothing, "{old} → {new}");
    }
}

#[test]
fn any_other_file_reboots_and_makes_everything_reboot() {
    let other = "{path: /etc/nmstate/worker-0.yml, contents: {source: 'data:,a'}}";
    assert_eq!(outcome(&files(""), &files(other)), Outcome::Reboot);
    assert_eq!(outcome(&files(""), &files(&format!("{HOST}, {other}"))), Outcome::Reboot);
    // A name that only has the same prefix is another folder.
    let alike = "{path: /etc/nmstate/openshift2/a.yml}";
    assert_eq!(outcome(&files(""), &files(alike)), Outcome::Reboot);
}

#[test]
fn the_longest_path_decides() {
    let text = "apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
spec:
  nodeDisruptionPolicy:
    files:
    - {path: /etc, actions: [{type: Drain}]}
    - {path: /etc/nmstate/openshift/cluster.yml, actions: [{type: Reboot}]}
";
    let policy = machine_config::parse_disruption_policy(text).unwrap();
    for (path, expected) in [
        ("/etc/motd", Outcome::Actions(vec![Action::Drain])),
        ("/etc/nmstate/openshift/worker-0.yml", Outcome::Nothing),
        ("/etc/nmstate/openshift/cluster.yml", Outcome::Reboot),
        ("/opt/x", Outcome::Reboot),
    ] {
        let path = path.parse().unwrap();
        let changes = [Change::File { path, what: FileChange::Added }];
        assert_eq!(policy.disruption(&changes).outcome(), expected, "{changes:?}");
    }
}

#[test]
fn registry_settings_reload_the_runtime() {
    let policy = files("{path: /etc/containers/policy.json, contents: {source: 'data:,a'}}");
    let crio = "crio.service".to_owned();
    assert_eq!(outcome(&files(""), &policy), Outcome::Actions(vec![Action::Reload(crio)]));
}

#[test]
fn units_and_settings_of_the_system_reboot() {
    let nothing = config("", "");
    let unit = config("systemd: {units: [{name: a.service, enabled: true}]}", "");
    assert_eq!(outcome(&nothing, &unit), Outcome::Reboot);
    for (spec, expected) in [
        ("kernelArguments: [nosmt]", Setting::KernelArguments),
        ("osImageURL: quay.io/x/y", Setting::Image),
        ("kernelType: realtime", Setting::KernelType),
        ("extensions: [usbguard]", Setting::Extensions),
        ("fips: true", Setting::Fips),
        ("somethingNew: 1", Setting::Other("somethingNew".to_owned())),
    ] {
        let new = config("", spec);
        assert_eq!(difference(&nothing, &new), [Change::System(expected)], "{spec}");
        assert_eq!(outcome(&nothing, &new), Outcome::Reboot, "{spec}");
    }
    assert_eq!(outcome(&nothing, &config("", "fips: false")), Outcome::Nothing);
}

#[test]
fn keys_and_passwords_are_changed_in_place_and_other_users_are_refused() {
    let nothing = config("", "");
    for (passwd, expected) in [
        ("{name: core, sshAuthorizedKeys: [a]}", Outcome::Nothing),
        ("{name: core, passwordHash: a}", Outcome::Nothing),
        ("{name: other, shell: /bin/sh}", Outcome::Refused),
    ] {
        let new = config(&format!("passwd: {{users: [{passwd}]}}"), "");
        assert_eq!(outcome(&nothing, &new), expected, "{passwd}");
    }
}

#[test]
fn what_only_an_installation_does_is_refused() {
    let links = config("storage: {links: [{path: /a, target: /b}]}", "");
    assert_eq!(outcome(&config("", ""), &links), Outcome::Refused);
}

#[test]
fn the_same_bytes_in_another_encoding_are_distinguished_from_other_contents() {
    let path = "/etc/nmstate/openshift/worker-0.yml";
    let old = files(HOST);
    for (new, what) in [
        (HOST.replace("data:,a", "data:;base64,YQ=="), FileChange::Encoding),
        (HOST.replace("data:,a", "data:,b"), FileChange::Contents),
        (HOST.replace("path:", "mode: 384, path:"), FileChange::Attributes),
    ] {
        let path = path.parse().unwrap();
        assert_eq!(difference(&old, &files(&new)), [Change::File { path, what }], "{new}");
    }
}

#[test]
fn each_effect_is_reported_with_its_reason() {
    let old = files("");
    let new = config(
        "storage: {files: [{path: /etc/nmstate/openshift/a.yml}, {path: /etc/motd}], links: [{path: /a, target: /b}]}",
        "fips: true",
    );
    let disruption = DisruptionPolicy::default().disruption(&difference(&old, &new));
    let output: Vec<_> = disruption.effects.iter().map(ToString::to_string).collect();
    assert_eq!(
        output,
        [
            "file /etc/motd: added: reboot (no disruption policy covers it)",
            "file /etc/nmstate/openshift/a.yml: added: nothing (by the disruption policy for \
             /etc/nmstate/openshift)",
            "FIPS mode changed: reboot (it takes effect at boot only)",
            "Ignition's section `storage` changed: refused (the machine config operator applies it \
             at installation only)",
        ],
    );
}
