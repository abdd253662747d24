//! `oc-brex init` at a terminal and without one.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::support::WorkDir;

/// A node with a bond, as `nmstatectl show` prints it.
const NODE: &str = "interfaces:
- {name: eno1, type: ethernet, state: up, mac-address: '52:54:00:00:00:01', mtu: 1500}
- {name: eno2, type: ethernet, state: up, mac-address: '52:54:00:00:00:02', mtu: 1500}
- name: bond7
  type: bond
  state: up
  mtu: 1500
  mac-address: '52:54:00:00:00:01'
  link-aggregation: {mode: active-backup, port: [eno1, eno2]}
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 24}]}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: bond7, next-hop-address: 192.0.2.1, metric: 300, table-id: 254}
dns-resolver: {running: {server: [192.0.2.53]}}
";

/// Runs the program at a terminal, which `script` provides, with these lines as input.
fn at_a_terminal(work_dir: &WorkDir, words: &str, typed: &str) -> (Option<i32>, String) {
    let line = format!("{} {words}", env!("CARGO_BIN_EXE_oc-brex"));
    let mut child = Command::new("script")
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .current_dir(work_dir.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn values_are_entered_at_a_terminal_and_invalid_ones_are_prompted_for_again() {
    let work_dir = WorkDir::new();
    work_dir.put("node.yaml", NODE);
    let words = "init --nns node.yaml --out hosts/worker/w0.yml";
    // Uplinks as they are, a VLAN that cannot be and one that can, and all else as proposed.
    let (code, printed) = at_a_terminal(&work_dir, words, "\n9999\n100\n\n\n\n\n\n");
    assert_eq!(code, Some(0), "{printed}");
    for expected in [
        "NICs below br-ex, by name or MAC address, with commas [eno1,eno2]: ",
        "VLAN of br-ex, 0 for none [0]: ",
        "expected a number from 0 to 4094, found \"9999\"",
        "Mode of the bond",
        "Addresses with their prefixes, with commas [192.0.2.10/24]: ",
        "hosts/worker/w0.yml",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    let document = work_dir.text("hosts/worker/w0.yml");
    for expected in ["name: bond7.100", "base-iface: bond7", "192.0.2.10"] {
        assert!(document.contains(expected), "{expected}: {document}");
    }
    work_dir.done(&["check", "hosts", "--deny-warnings"]);
}

#[test]
fn input_that_ends_early_leaves_no_file() {
    let work_dir = WorkDir::new();
    work_dir.put("node.yaml", NODE);
    let (code, printed) =
        at_a_terminal(&work_dir, "init --nns node.yaml --out w0.yml", "eno1\n\u{4}");
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("nothing was written"), "{printed}");
    assert!(!work_dir.path("w0.yml").exists());
}

#[test]
fn without_a_terminal_flags_decide_and_files_are_kept() {
    let work_dir = WorkDir::new();
    work_dir.put("node.yaml", NODE);
    let ended = work_dir.run(&["init", "--nns", "node.yaml"]);
    assert_eq!((ended.code, ended.out.as_str()), (2, ""));
    assert!(ended.err.contains("--uplink is not given; give it, or --yes"), "{}", ended.err);
    let yes = ["init", "--nns", "node.yaml", "--by-mac", "--yes", "--out", "w0.yml"];
    work_dir.done(&yes);
    let document = work_dir.text("w0.yml");
    assert_eq!(document.matches("identifier: mac-address").count(), 2, "{document}");
    let ended = work_dir.run(&yes);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("w0.yml exists; give --force"), "{}", ended.err);
    let ended = work_dir.run(&["init", "--uplink", "eno1", "--dhcp", "--vlan-id", "4095", "--yes"]);
    assert_eq!((ended.code, ended.out.as_str()), (2, ""));
    assert!(ended.err.contains("--vlan-id: expected a number from 0 to 4094"), "{}", ended.err);
}
