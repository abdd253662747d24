//! How a node is before it starts for the first time.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::lan::LanOptions;

/// How a node is before it starts for the first time.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    pub hostname: String,
    /// NICs: `nic0`, `nic1`, …, all connected to the same LAN.
    pub nics: u8,
    /// Profiles of NetworkManager. By default `nic0` uses DHCP and the others have none.
    pub profiles: Vec<Profile>,
    /// Whether NetworkManager creates its own profiles, in /run, for NICs that have none.
    pub automatic_profiles: bool,
    /// Other files on its disk.
    pub files: Vec<NodeFile>,
    /// Files and folders of the host, and where the node sees them, read-only.
    pub binds: Vec<(PathBuf, PathBuf)>,
    /// The LAN that [`Node::start`](super::Node::start) makes for it.
    pub lan: LanOptions,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            hostname: "node".into(),
            nics: 2,
            profiles: vec![Profile::dhcp("nic0")],
            automatic_profiles: false,
            files: Vec::new(),
            binds: Vec::new(),
            lan: LanOptions::default(),
        }
    }
}

/// A file on a node's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFile {
    /// Absolute, as the node sees it.
    pub path: String,
    pub content: Vec<u8>,
    pub mode: u32,
}

impl NodeFile {
    /// Writes it below a folder of the host that represents the node's root.
    pub(super) fn put_below(&self, root: &Path) -> Result<()> {
        let target = root.join(self.path.trim_start_matches('/'));
        let writing = || format!("writing {} for a node", self.path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).with_context(writing)?;
        }
        fs::write(&target, &self.content).with_context(writing)?;
        fs::set_permissions(&target, Permissions::from_mode(self.mode)).with_context(writing)
    }
}

/// A profile of NetworkManager in its keyfile format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The file is called `<name>.nmconnection`.
    pub name: String,
    pub text: String,
}

impl Profile {
    /// A NIC that uses DHCP, and router advertisements for IPv6.
    pub fn dhcp(nic: &str) -> Self {
        Self::ethernet(nic, "[ipv4]\nmethod=auto\n")
    }

    /// A NIC with a static IPv4 address, as in `198.51.100.10/24`, and a default route.
    pub fn fixed(nic: &str, address: &str, gateway: &str) -> Self {
        let ipv4 = format!("[ipv4]\nmethod=manual\naddress1={address},{gateway}\n");
        Self::ethernet(nic, &ipv4)
    }

    fn ethernet(nic: &str, ipv4: &str) -> Self {
        let text = format!(
            "[connection]\nid={nic}\ntype=ethernet\ninterface-name={nic}\n\n{ipv4}\n[ipv6]\nmethod=auto\n"
        );
        Self { name: nic.to_owned(), text }
    }

    pub(super) fn file(&self) -> NodeFile {
        NodeFile {
            path: format!("/etc/NetworkManager/system-connections/{}.nmconnection", self.name),
            content: self.text.clone().into_bytes(),
            mode: 0o600,
        }
    }
}

/// NetworkManager's configuration.
pub(super) fn network_manager(automatic_profiles: bool) -> NodeFile {
    let none = if automatic_profiles { "" } else { "no-auto-default=*\n" };
    // Bridges of Open vSwitch are taps here, as the host's kernel has no datapath.
    // NetworkManager would manage each a second time, as a device of another program.
    let text = format!(
        "[main]
plugins=keyfile
auth-polkit=root-only
dhcp=internal
rc-manager=file
hostname-mode=none
{none}
[keyfile]
unmanaged-devices=type:tun

[logging]
level=DEBUG
"
    );
    NodeFile {
        path: "/etc/NetworkManager/NetworkManager.conf".into(),
        content: text.into_bytes(),
        mode: 0o644,
    }
}
