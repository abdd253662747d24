//! Running the program as its users do.
#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A temporary directory in which the program runs.
pub(crate) struct WorkDir {
    folder: TempDir,
}

/// The result of the program.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl WorkDir {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("making a folder");
        fs::write(path, text).expect("writing a file");
        self
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs `oc-brex` in this folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_oc-brex"))
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .expect("running oc-brex");
        Ended {
            code: status.code().expect("an exit code"),
            out: String::from_utf8(stdout).expect("UTF-8"),
            err: String::from_utf8(stderr).expect("UTF-8"),
        }
    }

    /// Runs it and expects exit code 0.
    pub(crate) fn done(&self, arguments: &[&str]) -> Ended {
        let ended = self.run(arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {}{}", ended.out, ended.err);
        ended
    }
}

/// A document that breaks no rule: a NIC, static address.
pub(crate) fn host(address: &str) -> String {
    format!(
        "\
# eno1 carries br-ex
interfaces:
- name: eno1
  type: ethernet
  state: up
  ipv4:
    enabled: false
  ipv6:
    enabled: false
- name: br-ex
  type: ovs-bridge
  state: up
  bridge:
    allow-extra-patch-ports: true
    options:
      mcast-snooping-enable: true
    port:
    - name: eno1
    - name: br-ex
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: eno1
  ipv4:
    enabled: true
    dhcp: false
    address:
    - ip: {address}
      prefix-length: 24
  ipv6:
    enabled: false
dns-resolver:
  config:
    server:
    - 192.0.2.1
routes:
  config:
  - destination: 0.0.0.0/0
    next-hop-address: 192.0.2.1
    next-hop-interface: br-ex
    metric: 48
"
    )
}

/// A document for all hosts: addresses by DHCP.
pub(crate) fn cluster() -> String {
    let text = host("192.0.2.9");
    let static_address = "    dhcp: false
    address:
    - ip: 192.0.2.9
      prefix-length: 24
";
    let automatic = "    dhcp: true\n    auto-route-metric: 48\n";
    let text = text.replace(static_address, automatic);
    let end = text.find("dns-resolver:").expect("a resolver");
    text[..end].to_owned()
}
