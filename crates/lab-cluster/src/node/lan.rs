//! The other end of the wires: a bridge with a router's address on it and a DHCP server, and
//! everything that can go wrong there.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::cell::{Cell, Plan};
use super::disk::Disk;
use super::{needs, wait};
use test_tools::tree::Tree;

/// The bridge that nodes are connected to.
pub(super) const BRIDGE: &str = "br0";
/// A bridge that is down: it receives packets and sends none. A link that is only removed from the
/// other one would still get responses from the router, which accepts its address on any link.
pub(super) const VOID: &str = "void";
/// The router keeps its MAC address: a bridge without its own takes that of one of its ports,
/// another one each time a port is added or removed, and nodes would use the old one for minutes.
const INIT: &str = r#"read -r _
ip link set lo up && ip link add void type bridge &&
  ip link add br0 address 52:54:00:00:ff:01 type bridge &&
  ip link set br0 up && echo ready
while read -r _; do :; done"#;
const DNSMASQ_PID: &str = "/run/dnsmasq.pid";
const LEASES: &str = "/run/leases";

/// An IPv4 network of 256 addresses. The router has the first one, DHCP gives .100 to .150.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subnet(u8, u8, u8);

impl Subnet {
    pub const fn new(a: u8, b: u8, c: u8) -> Self {
        Self(a, b, c)
    }

    /// The address with this last number.
    pub const fn host(self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(self.0, self.1, self.2, last)
    }

    pub const fn router(self) -> Ipv4Addr {
        self.host(1)
    }

    pub const fn contains(self, address: Ipv4Addr) -> bool {
        let [a, b, c, _] = address.octets();
        a == self.0 && b == self.1 && c == self.2
    }
}

/// As in documents: `198.51.100.0/24`.
impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/24", self.host(0))
    }
}

/// What the router advertises for IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ipv6 {
    /// Hosts choose their addresses in this prefix of 64 bits.
    Autoconfiguration(Ipv6Addr),
    /// Hosts get an address in this prefix of 64 bits by DHCPv6; the router is the default route.
    Dhcp(Ipv6Addr),
}

/// How a LAN is at first. All of it can be changed while it runs.
#[derive(Debug, Clone)]
pub struct LanOptions {
    pub subnet: Subnet,
    pub dhcp: bool,
    /// How long DHCP waits before it offers an address, in whole seconds.
    pub dhcp_delay: Duration,
    pub ipv6: Option<Ipv6>,
}

impl Default for LanOptions {
    fn default() -> Self {
        Self {
            subnet: Subnet::new(198, 51, 100),
            dhcp: true,
            dhcp_delay: Duration::ZERO,
            ipv6: None,
        }
    }
}

/// A running LAN. Nodes are connected by [`Node::start_on`](super::Node::start_on).
#[derive(Debug)]
pub struct Lan {
    options: Mutex<LanOptions>,
    cell: Cell,
    nodes: AtomicU8,
    folder: TempDir,
    _disk: Disk,
}

impl Lan {
    /// Starts a LAN without nodes.
    pub fn start(options: &LanOptions) -> Result<Self> {
        needs::check()?;
        let tree = Tree::of_user()?;
        let folder = TempDir::new().context("making a folder for a LAN")?;
        let disk = Disk::new()?;
        let mut cell = Cell::make(&Plan {
            hostname: "lan",
            tree: &tree,
            disk: &disk,
            share: folder.path(),
            log: folder.path(),
            binds: &[],
            init: INIT,
        })?;
        cell.go()?;
        let lan = Self {
            options: Mutex::new(options.clone()),
            cell,
            nodes: AtomicU8::new(0),
            folder,
            _disk: disk,
        };
        lan.add_router(options)?;
        lan.serve(options)?;
        Ok(lan)
    }

    /// The subnet it has now.
    pub fn subnet(&self) -> Subnet {
        self.options().subnet
    }

    /// The router's IPv4 address.
    pub fn router(&self) -> Ipv4Addr {
        self.subnet().router()
    }

    /// A command that will run beside the router, for instance a server that nodes talk to.
    pub fn command(&self, program: &str) -> Command {
        self.cell.command(program)
    }

    /// Runs a command beside the router to its end, whichever way it ends.
    pub fn run(&self, words: &[&str]) -> Result<Output> {
        self.cell.run(words)
    }

    /// Its network namespace, for servers that run on the host's files.
    pub fn network_namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.cell.pid())
    }

    /// From now on no leases are given. Existing leases stay valid.
    pub fn stop_dhcp(&self) -> Result<()> {
        let mut options = self.options();
        options.dhcp = false;
        self.serve(&options)
    }

    /// Leases are given again.
    pub fn start_dhcp(&self) -> Result<()> {
        let mut options = self.options();
        options.dhcp = true;
        self.serve(&options)
    }

    /// From now on, addresses are offered this late, in whole seconds.
    pub fn delay_dhcp(&self, delay: Duration) -> Result<()> {
        let mut options = self.options();
        options.dhcp_delay = delay;
        self.serve(&options)
    }

    /// Gives the LAN another subnet: router and DHCP are only there.
    pub fn move_to(&self, subnet: Subnet) -> Result<()> {
        let mut options = self.options();
        let old = format!("{}/24", options.subnet.router());
        self.cell.succeed(&["ip", "address", "del", &old, "dev", BRIDGE])?;
        options.subnet = subnet;
        let new = format!("{}/24", subnet.router());
        self.cell.succeed(&["ip", "address", "add", &new, "dev", BRIDGE])?;
        self.serve(&options)
    }

    /// Another address beside the router's, such as of a second subnet: `192.0.2.1/24`.
    pub fn add_address(&self, address: &str) -> Result<()> {
        self.cell.succeed(&["ip", "address", "add", address, "dev", BRIDGE, "nodad"]).map(drop)
    }

    /// The router responds to ARP, and not to pings.
    pub fn ignore_pings(&self) -> Result<()> {
        self.cell.succeed(&["sysctl", "-w", "net.ipv4.icmp_echo_ignore_all=1"]).map(drop)
    }

    /// The leases: MAC to IPv4 address.
    pub fn leases(&self) -> Result<BTreeMap<String, Ipv4Addr>> {
        let output = self.cell.run(&["cat", LEASES])?;
        Ok(parse_leases(&String::from_utf8_lossy(&output.stdout)))
    }

    /// The log of the DHCP server.
    pub fn dhcp_log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// The number of the next node to be connected.
    pub(super) fn next_node(&self) -> u8 {
        self.nodes.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds the LAN's end of a link to a bridge, with a carrier.
    pub(super) fn attach(&self, port: &str, bridge: &str) -> Result<()> {
        self.cell.succeed(&["ip", "link", "set", port, "master", bridge, "up"]).map(drop)
    }

    pub(super) fn pid(&self) -> u32 {
        self.cell.pid()
    }

    pub(super) fn succeed(&self, words: &[&str]) -> Result<String> {
        self.cell.succeed(words)
    }

    fn options(&self) -> MutexGuard<'_, LanOptions> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_file(&self) -> std::path::PathBuf {
        self.folder.path().join("dnsmasq.log")
    }

    fn add_router(&self, options: &LanOptions) -> Result<()> {
        self.add_address(&format!("{}/24", options.subnet.router()))?;
        if let Some(Ipv6::Autoconfiguration(prefix) | Ipv6::Dhcp(prefix)) = options.ipv6 {
            self.add_address(&format!("{}/64", in_prefix(prefix, 1)))?;
        }
        Ok(())
    }

    /// Replaces the DHCP server by one with these options, or by none.
    fn serve(&self, options: &LanOptions) -> Result<()> {
        let stop = format!(r#"[ ! -e {DNSMASQ_PID} ] || kill "$(cat {DNSMASQ_PID})""#);
        self.cell.succeed(&["sh", "-c", &stop])?;
        let gone = format!(r#"[ ! -e {DNSMASQ_PID} ] || ! kill -0 "$(cat {DNSMASQ_PID})""#);
        wait::until("the DHCP server ends", || {
            Ok(self.cell.run(&["sh", "-c", &gone])?.status.success())
        })?;
        self.cell.succeed(&["rm", "-f", DNSMASQ_PID])?;
        let Some(arguments) = arguments(options, Path::new("/log/dnsmasq.log"))? else {
            return Ok(());
        };
        let words: Vec<&str> =
            std::iter::once("dnsmasq").chain(arguments.iter().map(String::as_str)).collect();
        // It returns when it is up.
        self.cell.succeed(&words).map(drop)
    }
}

/// How dnsmasq is called; not at all when there is nothing to serve.
fn arguments(options: &LanOptions, log: &Path) -> Result<Option<Vec<String>>> {
    let LanOptions { subnet, dhcp, dhcp_delay, ipv6 } = options;
    if !dhcp && ipv6.is_none() {
        return Ok(None);
    }
    ensure!(dhcp_delay.subsec_nanos() == 0, "a delay of DHCP has whole seconds: {dhcp_delay:?}");
    let mut arguments: Vec<String> = [
        "--conf-file=/dev/null",
        "--user=root",
        "--port=0",
        "--bind-interfaces",
        "--log-dhcp",
        // Requested addresses are leased without a check whether they are in use:
        // that would take three seconds.
        "--no-ping",
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.push(format!("--interface={BRIDGE}"));
    arguments.push(format!("--pid-file={DNSMASQ_PID}"));
    arguments.push(format!("--dhcp-leasefile={LEASES}"));
    arguments.push(format!("--log-facility={}", log.display()));
    if *dhcp {
        arguments.push(format!("--dhcp-range={},{},1h", subnet.host(100), subnet.host(150)));
        arguments.push(format!("--dhcp-option=option:router,{}", subnet.router()));
        arguments.push(format!("--dhcp-option=option:dns-server,{}", subnet.router()));
        arguments.push("--dhcp-authoritative".to_owned());
        if !dhcp_delay.is_zero() {
            arguments.push(format!("--dhcp-reply-delay={}", dhcp_delay.as_secs()));
        }
    }
    match ipv6 {
        None => {}
        Some(Ipv6::Autoconfiguration(prefix)) => {
            arguments.push("--enable-ra".to_owned());
            arguments.push(format!("--dhcp-range={prefix},ra-only,64,1h"));
        }
        Some(Ipv6::Dhcp(prefix)) => {
            arguments.push("--enable-ra".to_owned());
            let (first, last) = (in_prefix(*prefix, 0x100), in_prefix(*prefix, 0x1ff));
            arguments.push(format!("--dhcp-range={first},{last},64,1h"));
        }
    }
    Ok(Some(arguments))
}

/// The address with this last number in a prefix of 64 bits.
fn in_prefix(prefix: Ipv6Addr, last: u16) -> Ipv6Addr {
    let [a, b, c, d, ..] = prefix.segments();
    Ipv6Addr::new(a, b, c, d, 0, 0, 0, last)
}

/// Lines of `expiry mac address name client-id`; those of DHCPv6 have no MAC.
fn parse_leases(text: &str) -> BTreeMap<String, Ipv4Addr> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_contains_its_addresses() {
        let subnet = Subnet::new(192, 0, 2);
        assert_eq!(subnet.to_string(), "192.0.2.0/24");
        assert_eq!(subnet.router(), Ipv4Addr::new(192, 0, 2, 1));
        assert!(subnet.contains(Ipv4Addr::new(192, 0, 2, 77)));
        assert!(!subnet.contains(Ipv4Addr::new(192, 0, 3, 77)));
    }

    #[test]
    fn leases_are_read_with_ipv6_ones_among_them() {
        let text = "1794790000 52:54:00:00:00:01 198.51.100.101 node 01:52:54:00:00:00:01\n\
                    duid 00:01:00:01:32\n\
                    1794790000 5505024 2001:db8::1a4 node 00:04:aa\n";
        let expected = [("52:54:00:00:00:01".to_owned(), Ipv4Addr::new(198, 51, 100, 101))];
        assert_eq!(parse_leases(text), BTreeMap::from(expected));
    }

    #[test]
    fn a_delay_that_dhcp_cannot_keep_is_refused() {
        let options =
            LanOptions { dhcp_delay: Duration::from_millis(1500), ..LanOptions::default() };
        let error = arguments(&options, Path::new("/log")).unwrap_err().to_string();
        assert_eq!(error, "a delay of DHCP has whole seconds: 1.5s");
    }

    #[test]
    fn without_dhcp_and_ipv6_nothing_is_served() {
        let options = LanOptions { dhcp: false, ..LanOptions::default() };
        assert_eq!(arguments(&options, Path::new("/log")).unwrap(), None);
    }
}
