//! Kills and power cuts: the old network or the new one, never half of one.

use std::time::Duration;

use lab_cluster::node::Node;

use crate::nodes::bench::{
    ATTEMPT, DOCUMENT, FLAG, assert_on_br_ex, assert_on_nic0, dhcp, node, succeed,
};

/// Starts `apply` and kills it after so long.
fn kill_after(node: &Node, delay: Duration) {
    let mut apply = node.command("/usr/bin/brex-firstboot");
    let mut child = apply.args(["apply", "--patience", "5"]).spawn().unwrap();
    std::thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
    // Its program in the node ends a moment later.
    node.wait_until("the program is gone", |node| {
        Ok(!node.run(&["pgrep", "-f", "brex-firstboot apply"])?.status.success())
    })
    .unwrap();
}

/// Wherever it was killed, the next run completes the attempt.
#[test]
fn a_killed_apply_is_finished_by_the_next_one() {
    let node = node(&dhcp());
    for milliseconds in [50, 300, 700, 1200, 2000, 3000] {
        kill_after(&node, Duration::from_millis(milliseconds));
        if node.exists(FLAG).unwrap() {
            break;
        }
    }
    succeed(&node, &["apply", "--patience", "120", "--tries", "9"]);
    assert_on_br_ex(&node);
    assert_eq!(node.read(FLAG).unwrap(), node.read(DOCUMENT).unwrap());
    assert!(!node.exists(ATTEMPT).unwrap());
}

/// It is not run again: NetworkManager rolls the change back when the checkpoint expires.
#[test]
fn a_killed_apply_leaves_a_working_network() {
    let node = node(&dhcp());
    kill_after(&node, Duration::from_millis(1500));
    let router = node.lan().router().into();
    node.wait_until("the node has a network", |node| {
        let checkpoints = node.succeed(&[
            "busctl",
            "get-property",
            "org.freedesktop.NetworkManager",
            "/org/freedesktop/NetworkManager",
            "org.freedesktop.NetworkManager",
            "Checkpoints",
        ])?;
        Ok(checkpoints.trim() == "ao 0" && node.reaches(router)?)
    })
    .unwrap();
}

/// Power fails while the profiles are half written; `recover` runs before NetworkManager.
#[test]
fn after_a_power_cut_the_former_profiles_are_there_before_networkmanager() {
    let mut node = node(&dhcp());
    let before = node.read("/etc/NetworkManager/system-connections/nic0.nmconnection").unwrap();
    succeed(&node, &["stage"]);
    node.write("/etc/NetworkManager/system-connections/br-ex-br.nmconnection", "half", 0o600)
        .unwrap();
    node.write("/etc/NetworkManager/system-connections/nic0.nmconnection", "half", 0o600).unwrap();
    // What systemd does before it starts NetworkManager, done by hand on a node that has it
    // running: the boot id identifies another boot.
    node.succeed(&["sh", "-c", "sed -i 's/\"bootId\": \"[^\"]*\"/\"bootId\": \"earlier\"/' /var/lib/brex-firstboot/attempt/attempt.json"]).unwrap();
    succeed(&node, &["recover"]);
    assert_eq!(
        node.read("/etc/NetworkManager/system-connections/nic0.nmconnection").unwrap(),
        before
    );
    assert!(!node.exists("/etc/NetworkManager/system-connections/br-ex-br.nmconnection").unwrap());
    assert!(!node.exists(ATTEMPT).unwrap());
    node.reboot().unwrap();
    node.wait_for_ipv4("nic0").unwrap();
    assert_on_nic0(&node);
    succeed(&node, &["apply", "--patience", "120"]);
    assert_on_br_ex(&node);
}
