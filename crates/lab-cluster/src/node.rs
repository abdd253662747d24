//! Nodes to test on: real NetworkManager with its Open vSwitch plugin, Open vSwitch, D-Bus and
//! DHCP, on their own network.
//!
//! A [`Node`] runs in namespaces of this machine's kernel and starts within a second. That kernel
//! need not have Open vSwitch: bridges run in user space, so documents set `datapath: netdev` in
//! a bridge's options. Needs root and /dev/net/tun; without them starting a node fails.
//!
//! A machine of [`uml`] has its own kernel, with that datapath, bonds and VLANs. It takes ten
//! seconds to start, and no privilege unless it must reach servers of the host. A [`machine`] is a
//! complete computer with systemd and udev; it takes minutes.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use lab_cluster::node::{Node, NodeOptions};
//!
//! let node = Node::start(&NodeOptions::default())?;
//! node.wait_for_ipv4("nic0")?;
//! node.succeed(&["nmcli", "device"])?;
//! node.lan().stop_dhcp()?;
//! # Ok(())
//! # }
//! ```

mod cell;
mod disk;
mod lan;
pub mod machine;
mod needs;
mod options;
mod relay;
mod run;
mod state;
pub mod uml;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use cell::{Cell, Plan};
use disk::Disk;
use test_tools::tree::Tree;

pub use lan::{Ipv6, Lan, LanOptions, Subnet};
pub use options::{NodeFile, NodeOptions, Profile};
pub use relay::Relay;
pub use run::{End, Run};
pub use state::{DefaultRoute, Interface, State};

/// Starts what a node runs.
const DAEMONS: &str = include_str!("node/daemons.sh");
const INIT: &str = r#"read -r _
ip link set lo up
start_daemons
echo ready
while read -r _; do :; done"#;
/// Where NetworkManager keeps profiles: those that stay, and those that end with the boot.
const PROFILE_FOLDERS: [&str; 2] =
    ["/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections"];
const VSWITCHD_PID: &str = "/run/openvswitch/ovs-vswitchd.pid";

/// A node in namespaces. Everything of it is removed when it is dropped.
#[derive(Debug)]
pub struct Node {
    options: NodeOptions,
    number: u8,
    cell: Cell,
    disk: Disk,
    tree: Tree,
    folder: TempDir,
    share: PathBuf,
    lan: Arc<Lan>,
}

impl Node {
    /// Starts a node with its own LAN, and returns when NetworkManager runs. DHCP may not
    /// have given an address yet.
    pub fn start(options: &NodeOptions) -> Result<Self> {
        Self::start_on(&Arc::new(Lan::start(&options.lan)?), options)
    }

    /// Starts a node on a LAN that others may be on as well.
    pub fn start_on(lan: &Arc<Lan>, options: &NodeOptions) -> Result<Self> {
        needs::check()?;
        let tree = Tree::of_user()?;
        let folder = TempDir::new().context("making a folder for a node")?;
        for name in ["share", "log"] {
            std::fs::create_dir(folder.path().join(name)).context("making a folder for a node")?;
        }
        let disk = Disk::new()?;
        let profiles = options.profiles.iter().map(Profile::file);
        let fixed = [
            options::network_manager(options.automatic_profiles),
            // The one in the tree is the host's.
            NodeFile { path: "/etc/resolv.conf".into(), content: Vec::new(), mode: 0o644 },
        ];
        for file in fixed.into_iter().chain(profiles).chain(options.files.iter().cloned()) {
            disk.put(&file)?;
        }
        let number = lan.next_node();
        let cell =
            boot(&Boot { options, number, tree: &tree, disk: &disk, folder: folder.path(), lan })?;
        Ok(Self {
            options: options.clone(),
            number,
            cell,
            disk,
            tree,
            share: folder.path().join("share"),
            folder,
            lan: Arc::clone(lan),
        })
    }

    /// Cuts the power and starts again from the same disk: /run and /tmp are empty then, everything
    /// else is as it was.
    pub fn reboot(&mut self) -> Result<()> {
        self.cell.kill();
        self.cell = boot(&Boot {
            options: &self.options,
            number: self.number,
            tree: &self.tree,
            disk: &self.disk,
            folder: self.folder.path(),
            lan: &self.lan,
        })?;
        Ok(())
    }

    /// The LAN it is connected to.
    pub fn lan(&self) -> &Lan {
        &self.lan
    }

    /// A folder of the host that the node sees as `/host`.
    pub fn shared(&self) -> &Path {
        &self.share
    }

    /// Its process 1, as the host counts: `/proc/<pid>/ns/net` is its network.
    pub fn pid(&self) -> u32 {
        self.cell.pid()
    }

    /// A command that will run in the node as root, with an environment like a service's. When
    /// it is killed, the program in the node is killed a moment later.
    pub fn command(&self, program: &str) -> Command {
        self.cell.command(program)
    }

    /// Runs a command in the node to its end, whichever way it ends.
    pub fn run(&self, words: &[&str]) -> Result<Output> {
        self.cell.run(words)
    }

    /// Runs a command in the node that must succeed, and returns what it printed.
    pub fn succeed(&self, words: &[&str]) -> Result<String> {
        self.cell.succeed(words)
    }

    /// Reads a file of the node.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        self.cell
            .files()?
            .open(path)
            .and_then(|mut file| file.read_to_end(&mut content))
            .with_context(|| format!("reading {path} of the node"))?;
        Ok(content)
    }

    /// Whether the node has a file or folder of this name.
    pub fn exists(&self, path: &str) -> Result<bool> {
        match self.cell.files()?.open(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("looking for {path} in the node")),
        }
    }

    /// Writes a file of the node, and makes its folders. An existing file is replaced.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>, mode: u32) -> Result<()> {
        if let Some(parent) = Path::new(path).parent().and_then(Path::to_str) {
            self.succeed(&["mkdir", "-p", parent])?;
        }
        self.cell
            .files()?
            .write(path, content.as_ref(), mode)
            .with_context(|| format!("writing {path} of the node"))
    }

    /// Copies a file of the host into the node. Large programs are better given as
    /// [`NodeOptions::binds`].
    pub fn copy_in(&self, from: &Path, to: &str, mode: u32) -> Result<()> {
        let content = std::fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        self.write(to, content, mode)
    }

    /// All profiles of NetworkManager in /etc and /run: path to content.
    pub fn nm_profiles(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let files = self.cell.files()?;
        let mut profiles = BTreeMap::new();
        for folder in PROFILE_FOLDERS {
            for name in files.names(folder).with_context(|| format!("listing {folder}"))? {
                let path = format!("{folder}/{name}");
                profiles.insert(path.clone(), self.read(&path)?);
            }
        }
        Ok(profiles)
    }

    /// The present state of its network.
    pub fn state(&self) -> Result<State> {
        let mut default_routes =
            state::default_routes(&self.succeed(&["ip", "-json", "route", "show", "default"])?)?;
        default_routes.extend(state::default_routes(
            &self.succeed(&["ip", "-6", "-json", "route", "show", "default"])?,
        )?);
        let vsctl = |words: &[&str]| -> Result<BTreeSet<String>> {
            let words = [&["ovs-vsctl", "--timeout=20", "--no-wait"], words].concat();
            Ok(self.succeed(&words)?.lines().map(str::to_owned).collect())
        };
        let mut bridges = BTreeMap::new();
        for bridge in vsctl(&["list-br"])? {
            match vsctl(&["list-ports", &bridge]) {
                Ok(ports) => drop(bridges.insert(bridge, ports)),
                // It may be removed while its ports are listed.
                Err(error) if vsctl(&["list-br"])?.contains(&bridge) => return Err(error),
                Err(_) => {}
            }
        }
        let interfaces = state::interfaces(&self.succeed(&["ip", "-json", "address"])?)?;
        Ok(State { interfaces, default_routes, bridges })
    }

    /// Whether an address responds to a ping within a second.
    pub fn reaches(&self, address: IpAddr) -> Result<bool> {
        let address = address.to_string();
        Ok(self.run(&["ping", "-q", "-c", "1", "-W", "1", &address])?.status.success())
    }

    /// Waits until a condition holds, three minutes at most; `what` is a short sentence for the error.
    pub fn wait_until(
        &self,
        what: &str,
        mut holds: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        wait::until(what, || holds(self)).with_context(|| self.logs())
    }

    /// The same with a deadline of the caller's.
    pub fn wait_within(
        &self,
        deadline: Duration,
        what: &str,
        mut holds: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        wait::within(deadline, what, || holds(self)).with_context(|| self.logs())
    }

    /// Waits until an interface has an IPv4 address.
    pub fn wait_for_ipv4(&self, interface: &str) -> Result<Ipv4Addr> {
        let mut found = None;
        self.wait_until(&format!("{interface} has an IPv4 address"), |node| {
            let json = node.succeed(&["ip", "-json", "address"])?;
            let interfaces = state::interfaces(&json)?;
            let state =
                State { interfaces, default_routes: BTreeSet::new(), bridges: BTreeMap::new() };
            found = state.ipv4(interface);
            Ok(found.is_some())
        })?;
        found.context("an address that was there a moment ago")
    }

    /// Suspends Open vSwitch's switch: its database still responds, and no change is
    /// applied. A process that waits for one waits forever.
    pub fn pause_ovs(&self) -> Result<()> {
        self.signal_vswitchd("STOP")
    }

    /// Resumes it.
    pub fn resume_ovs(&self) -> Result<()> {
        self.signal_vswitchd("CONT")
    }

    /// Another name, from now on and after the next start.
    pub fn set_hostname(&mut self, name: &str) -> Result<()> {
        ensure!(!name.is_empty(), "a host name has at least one letter");
        self.succeed(&["hostname", name])?;
        self.write("/etc/hostname", format!("{name}\n"), 0o644)?;
        name.clone_into(&mut self.options.hostname);
        Ok(())
    }

    /// Unplugs a NIC: it has no carrier.
    pub fn unplug(&self, nic: u8) -> Result<()> {
        self.lan.succeed(&["ip", "link", "set", &port(self.number, nic), "down"]).map(drop)
    }

    /// Drops what a NIC sends and what is sent to it; it keeps its carrier.
    pub fn drop_packets(&self, nic: u8) -> Result<()> {
        self.lan.attach(&port(self.number, nic), lan::VOID)
    }

    /// Ends what [`Self::unplug`] and [`Self::drop_packets`] did.
    pub fn plug_in(&self, nic: u8) -> Result<()> {
        self.lan.attach(&port(self.number, nic), lan::BRIDGE)
    }

    /// The MAC address of a NIC.
    pub fn mac(&self, nic: u8) -> String {
        mac(self.number, nic)
    }

    /// The ends of the logs of everything that runs in it.
    pub fn logs(&self) -> String {
        cell::last_words(&self.log_folder())
    }

    /// A folder of the host with the logs: `NetworkManager.log`, `ovs-vswitchd.log`, ….
    pub fn log_folder(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn signal_vswitchd(&self, signal: &str) -> Result<()> {
        let kill = format!(r#"kill -{signal} "$(cat {VSWITCHD_PID})""#);
        self.succeed(&["sh", "-c", &kill]).map(drop)
    }
}

struct Boot<'a> {
    options: &'a NodeOptions,
    number: u8,
    tree: &'a Tree,
    disk: &'a Disk,
    folder: &'a Path,
    lan: &'a Lan,
}

fn boot(boot: &Boot<'_>) -> Result<Cell> {
    let mut cell = Cell::make(&Plan {
        hostname: &boot.options.hostname,
        tree: boot.tree,
        disk: boot.disk,
        share: &boot.folder.join("share"),
        log: &boot.folder.join("log"),
        binds: &boot.options.binds,
        init: &[DAEMONS, INIT].concat(),
    })?;
    for nic in 0..boot.options.nics {
        plug(boot, &cell, nic).with_context(|| format!("giving a node its nic{nic}"))?;
    }
    cell.go()?;
    Ok(cell)
}

/// Creates a NIC and connects it to the LAN.
fn plug(boot: &Boot<'_>, cell: &Cell, nic: u8) -> Result<()> {
    let (port, mac) = (port(boot.number, nic), mac(boot.number, nic));
    // The kernel removes the NICs of a node that lost power some time after its last process
    // ended, so the port may or may not still exist.
    let _ = boot.lan.succeed(&["ip", "link", "delete", &port]);
    let output = Command::new("ip")
        .args(["link", "add", "name", &format!("nic{nic}"), "address", &mac])
        .args(["netns", &cell.pid().to_string(), "type", "veth", "peer", "name", &port])
        .args(["netns", &boot.lan.pid().to_string()])
        .output()
        .context("running ip")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip link add` ended with {}: {errors}", output.status);
    // Without checksums of the sender, programs that read raw packets take them
    // for damaged. DHCP clients do.
    cell.succeed(&["ethtool", "-K", &format!("nic{nic}"), "tx", "off"])?;
    boot.lan.succeed(&["ethtool", "-K", &port, "tx", "off"])?;
    boot.lan.attach(&port, lan::BRIDGE)
}

fn port(node: u8, nic: u8) -> String {
    format!("node{node}-{nic}")
}

fn mac(node: u8, nic: u8) -> String {
    format!("52:54:00:00:{node:02x}:{nic:02x}")
}
