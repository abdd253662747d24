//! The wire from a machine of User-Mode Linux to a LAN of the host.

use std::process::Command;
use std::sync::Arc;

use anyhow::Result;

use super::super::lan::{BRIDGE, Lan};
use super::super::{mac, port};

/// The number of the NIC; the machine's own LAN has the first two.
const NIC: u8 = 2;

/// A port of a LAN that a machine's `mgmt0` is connected to. It is removed when dropped.
#[derive(Debug)]
pub(super) struct Uplink {
    lan: Arc<Lan>,
    port: String,
    mac: String,
}

impl Uplink {
    pub(super) fn plug(lan: &Arc<Lan>) -> Result<Self> {
        let number = lan.next_node();
        let uplink = Self { lan: Arc::clone(lan), port: port(number, NIC), mac: mac(number, NIC) };
        lan.succeed(&["ip", "tuntap", "add", "dev", &uplink.port, "mode", "tap"])?;
        lan.attach(&uplink.port, BRIDGE)?;
        Ok(uplink)
    }

    /// The kernel parameter for the connection, and the NIC that the machine's first process creates.
    pub(super) fn arguments(&self) -> [String; 3] {
        [
            format!("vec0:transport=tap,ifname={}", self.port),
            "UMLUPLINK=mgmt0".to_owned(),
            format!("UMLUPLINKMAC={}", self.mac),
        ]
    }

    /// A program that runs in the LAN, where the other end of the wire is, with the files of the
    /// host.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.lan.network_namespace())).args(["--", program]);
        command
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        // The LAN may be on its way out, and all its ports with it.
        let _ = self.lan.run(&["ip", "link", "del", "dev", &self.port]);
    }
}
