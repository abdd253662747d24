//! The units beside stubs of those that OpenShift nodes have, verified by systemd itself.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd")
}

/// Names and dependencies as the Machine Config Operator writes them.
const OTHERS: [(&str, &str); 12] = [
    (
        "NetworkManager.service",
        "[Unit]\nAfter=network-pre.target\nBefore=network.target\nWants=network.target",
    ),
    (
        "NetworkManager-wait-online.service",
        "[Unit]\nRequires=NetworkManager.service\nAfter=NetworkManager.service\nBefore=network-online.target",
    ),
    (
        "openvswitch.service",
        "[Unit]\nBefore=network.target network.service\nAfter=network-pre.target",
    ),
    (
        "nodeip-configuration.service",
        "[Unit]\nWants=NetworkManager-wait-online.service\nAfter=NetworkManager-wait-online.service firstboot-osupdate.target\nBefore=kubelet-dependencies.target ovs-configuration.service",
    ),
    (
        "nmstate.service",
        "[Unit]\nAfter=NetworkManager.service NetworkManager-wait-online.service\nWants=NetworkManager-wait-online.service\nRequires=NetworkManager.service\nBefore=network-online.target",
    ),
    (
        "ovs-configuration.service",
        "[Unit]\nRequires=openvswitch.service\nWants=NetworkManager-wait-online.service\nAfter=firstboot-osupdate.target NetworkManager-wait-online.service openvswitch.service network.service nodeip-configuration.service nmstate.service\nBefore=kubelet-dependencies.target node-valid-hostname.service",
    ),
    (
        "wait-for-node-ip.service",
        "[Unit]\nRequires=nmstate.service\nAfter=nmstate.service\nBefore=kubelet-dependencies.target",
    ),
    (
        "node-valid-hostname.service",
        "[Unit]\nAfter=NetworkManager-wait-online.service\nBefore=kubelet-dependencies.target",
    ),
    (
        "mtu-migration.service",
        "[Unit]\nRequires=openvswitch.service\nAfter=ovs-configuration.service\nBefore=kubelet-dependencies.target",
    ),
    (
        "kubelet.service",
        "[Unit]\nRequires=kubelet-dependencies.target\nAfter=kubelet-dependencies.target",
    ),
    ("firstboot-osupdate.target", "[Unit]"),
    (
        "kubelet-dependencies.target",
        "[Unit]\nAfter=basic.target network-online.target\nWants=network-online.target ovs-configuration.service\nRequires=ovs-configuration.service nodeip-configuration.service",
    ),
];

/// A tree with all units, ours enabled as `systemctl enable` would.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let system = tree.path().join("etc/systemd/system");
    fs::create_dir_all(&system).unwrap();
    let put = |path: &Path, text: &str, mode: u32| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for program in ["usr/bin/brex-firstboot", "usr/bin/brex-report", "bin/sh", "bin/rm", "bin/true"]
    {
        put(&tree.path().join(program), "#!/bin/true\n", 0o755);
    }
    for (name, text) in OTHERS {
        let service = "\n[Service]\nType=oneshot\nExecStart=/bin/true\n";
        let text = format!("{text}\n{}", if name.ends_with(".service") { service } else { "" });
        put(&system.join(name), &text, 0o644);
    }
    // Of systemd itself.
    let targets =
        ["sysinit", "basic", "shutdown", "network-pre", "network", "network-online", "multi-user"];
    for name in targets {
        put(&system.join(format!("{name}.target")), "[Unit]\nDefaultDependencies=no\n", 0o644);
    }
    let enable = |name: &str, target: &str| {
        let wants = system.join(format!("{target}.wants"));
        fs::create_dir_all(&wants).unwrap();
        symlink(system.join(name), wants.join(name)).unwrap();
    };
    enable("nmstate.service", "NetworkManager.service");
    for name in names() {
        let text = fs::read_to_string(units().join(&name)).unwrap();
        put(&system.join(&name), &text, 0o644);
        // The other way to do what stage and confirm do; never enabled beside them.
        if name != "brex-firstboot-apply.service" {
            let target = text.lines().find_map(|line| line.strip_prefix("WantedBy=")).unwrap();
            enable(&name, target);
        }
    }
    tree
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(units()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units_and_no_cycle_among_all() {
    let tree = tree();
    let all = names().into_iter().chain(["kubelet.service".to_owned()]);
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--root"])
        .arg(tree.path())
        .args(all)
        .output()
        .expect("systemd-analyze is of the package systemd");
    let message = String::from_utf8_lossy(&output.stderr);
    let ours: Vec<&str> =
        message.lines().filter(|line| line.contains("brex-") || line.contains("cycle")).collect();
    assert!(output.status.success() && ours.is_empty(), "{message}");
}

/// Direct orderings that the boot depends on. Each is written in one of our units.
#[test]
fn our_units_stand_where_they_must() {
    let has = |unit: &str, key: &str, other: &str| {
        let text =
            fs::read_to_string(units().join(format!("brex-firstboot-{unit}.service"))).unwrap();
        let values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        values.flat_map(str::split_whitespace).any(|value| value == other)
    };
    assert!(has("recover", "Before", "NetworkManager.service"));
    // An attempt that was confirmed just before a power failure must end as well.
    assert!(!has("recover", "ConditionPathExists", "!/etc/nmstate/openshift/applied"));
    for unit in ["stage", "apply"] {
        assert!(has(unit, "After", "nodeip-configuration.service"));
        assert!(has(unit, "After", "NetworkManager-wait-online.service"));
        assert!(has(unit, "Before", "ovs-configuration.service"));
    }
    assert!(has("stage", "Before", "nmstate.service"));
    assert!(has("confirm", "After", "nmstate.service"));
    assert!(has("confirm", "After", "brex-firstboot-stage.service"));
    assert!(has("confirm", "Before", "ovs-configuration.service"));
    for unit in ["stage", "confirm", "apply"] {
        assert!(has(unit, "WantedBy", "kubelet-dependencies.target"));
        assert!(!has(unit, "RequiredBy", "kubelet-dependencies.target"));
        assert!(has(unit, "ConditionPathExists", "!/etc/nmstate/openshift/applied"));
    }
}
