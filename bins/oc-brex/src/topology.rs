//! `oc-brex topology`.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use br_ex::{ClusterFacts, Document, Finding, Severity};
use br_ex_authoring::topology::auto::{Policy, Shape, Source};
use br_ex_authoring::topology::{
    Addressing, Bond, BondMode, Families, InterfaceName, SecondAddresses, SecondBridge,
    StaticAddresses, StaticRoute, Topology, Uplink, VlanId,
};
use clap::{Args, Subcommand, ValueEnum};
use command_line::{Ending, print, print_message};
use ipnet::IpNet;
use machine_identity::{Mac, MacError};
use nmstate::NetworkState;

use crate::cluster::ClusterArguments;
use crate::findings::{self, Checked};
use crate::reading;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    shape: ShapeArguments,
}

#[derive(Debug, Subcommand)]
enum ShapeArguments {
    /// br-ex on a NIC
    Nic {
        /// The NIC
        #[arg(long, value_name = "NIC")]
        uplink: InterfaceName,
        #[command(flatten)]
        settings: Settings,
    },
    /// br-ex on a Linux bond
    Bond {
        #[command(flatten)]
        bond: BondArguments,
        #[command(flatten)]
        settings: Settings,
    },
    /// br-ex on a VLAN of a NIC
    Vlan {
        /// The NIC
        #[arg(long, value_name = "NIC")]
        uplink: InterfaceName,
        /// The number of the VLAN
        #[arg(long, value_name = "ID")]
        vlan_id: VlanId,
        #[command(flatten)]
        settings: Settings,
    },
    /// br-ex on a VLAN of a Linux bond
    VlanOnBond {
        #[command(flatten)]
        bond: BondArguments,
        /// The number of the VLAN
        #[arg(long, value_name = "ID")]
        vlan_id: VlanId,
        #[command(flatten)]
        settings: Settings,
    },
    /// br-ex on a balance-slb bond of Open vSwitch, which needs no configuration of the switch
    Slb {
        /// A NIC; two or more, repeated or with commas
        #[arg(long, value_name = "NIC", required = true, value_delimiter = ',')]
        uplink: Vec<InterfaceName>,
        #[command(flatten)]
        settings: Settings,
    },
    /// br-ex on the interface of the default route: a policy that nodes evaluate themselves
    Auto(AutoArguments),
}

#[derive(Debug, Args)]
struct BondArguments {
    /// A NIC; two or more, repeated or with commas
    #[arg(long, value_name = "NIC", required = true, value_delimiter = ',')]
    uplink: Vec<InterfaceName>,
    /// The name of the bond
    #[arg(long, value_name = "NAME", default_value = "bond0")]
    bond: InterfaceName,
    /// Mode of the bond: active-backup, 802.3ad or balance-xor
    #[arg(long, value_name = "MODE", default_value = "active-backup", hide_possible_values = true)]
    mode: BondModeArgument,
    /// An option of the bond, lacp_rate=fast; may be repeated [default: miimon=100]
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    bond_option: Vec<(String, String)>,
}

#[derive(Debug, Args)]
struct Settings {
    /// Take the address from DHCP, and for IPv6 from router advertisements, too
    #[arg(long, required_unless_present = "addresses", conflicts_with = "addresses")]
    dhcp: bool,
    /// A static address with its prefix, 192.0.2.10/24; may be repeated
    #[arg(long = "static", value_name = "ADDRESS", value_parser = address, value_delimiter = ',')]
    addresses: Vec<IpNet>,
    /// With --static: the gateway, one for each family; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "addresses", value_delimiter = ',')]
    gateway: Vec<IpAddr>,
    /// With --static: a name server; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "addresses", value_delimiter = ',')]
    dns: Vec<IpAddr>,
    /// With --dhcp: ipv4, ipv6 or dual
    #[arg(long, value_name = "FAMILY", default_value = "ipv4", hide_possible_values = true)]
    ip_family: IpFamily,
    /// The MTU of br-ex and all below it
    #[arg(long, value_name = "MTU")]
    mtu: Option<u32>,
    /// Another interface with the address of the node
    #[arg(long, value_name = "NIC")]
    node_ip_interface: Option<InterfaceName>,
    /// A search domain for short names; may be repeated
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',')]
    dns_search: Vec<String>,
    /// A route through br-ex, 198.51.100.0/24=192.0.2.254; may be repeated
    #[arg(long, value_name = "NETWORK=GATEWAY", value_parser = route)]
    route: Vec<StaticRoute>,
    /// Name the NetworkManager profiles as configure-ovs does (ovs-if-br-ex, ovs-if-phys0); an MTU
    /// migration of the cluster needs these names
    #[arg(long)]
    profile_names: bool,
    /// Find a NIC by its MAC address, eno1=52:54:00:12:34:56; may be repeated
    #[arg(long, value_name = "NIC=MAC", value_parser = nic_mac)]
    nic_mac: Vec<(InterfaceName, Mac)>,
    /// A NIC for a second bridge, br-ex1; it takes its address from DHCP unless --br-ex1-static is given
    #[arg(long, value_name = "NIC")]
    br_ex1: Option<InterfaceName>,
    /// A static address of br-ex1 with its prefix; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "br_ex1", value_parser = address, value_delimiter = ',')]
    br_ex1_static: Vec<IpNet>,
    /// A gateway of br-ex1; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "br_ex1_static", value_delimiter = ',')]
    br_ex1_gateway: Vec<IpAddr>,
}

#[derive(Debug, Args)]
struct AutoArguments {
    /// Select the policy that fits this node, and validate it against the state of the node: a NodeNetworkState, or the output of `nmstatectl show`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["uplink_shape", "dhcp", "is_static"])]
    nns: Option<PathBuf>,
    /// The same for a node of the running cluster, which must report NodeNetworkStates
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["uplink_shape", "dhcp", "is_static", "nns"]
    )]
    node: Option<String>,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// What the default route goes through: nic, bond, vlan, vlan-on-bond or linux-bridge
    #[arg(
        id = "uplink_shape",
        long = "uplink",
        value_name = "SHAPE",
        required_unless_present_any = ["nns", "node"],
        hide_possible_values = true
    )]
    shape: Option<AutoShape>,
    /// Nodes have their addresses from DHCP
    #[arg(long, conflicts_with = "is_static", required_unless_present_any = ["nns", "node", "is_static"])]
    dhcp: bool,
    /// Nodes have static addresses
    #[arg(id = "is_static", long = "static")]
    is_static: bool,
    /// The families in use: ipv4, ipv6 or dual
    #[arg(long, value_name = "FAMILY", default_value = "ipv4", hide_possible_values = true)]
    ip_family: IpFamily,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BondModeArgument {
    ActiveBackup,
    #[value(name = "802.3ad", alias = "lacp")]
    Lacp,
    BalanceXor,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum IpFamily {
    Ipv4,
    Ipv6,
    Dual,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AutoShape {
    Nic,
    Bond,
    Vlan,
    VlanOnBond,
    LinuxBridge,
}

/// An address with the prefix length of its network.
fn address(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| "write the address with its prefix: 192.0.2.10/24".to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE: lacp_rate=fast")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn route(text: &str) -> Result<StaticRoute, String> {
    let wanted = "expected NETWORK=GATEWAY: 198.51.100.0/24=192.0.2.254";
    let (destination, gateway) = text.split_once('=').ok_or(wanted)?;
    let destination: IpNet = destination.parse().map_err(|_| wanted)?;
    let gateway = gateway.parse().map_err(|_| wanted)?;
    Ok(StaticRoute { destination: destination.trunc(), gateway })
}

fn nic_mac(text: &str) -> Result<(InterfaceName, Mac), String> {
    let (nic, mac) = text.split_once('=').ok_or("expected NIC=MAC: eno1=52:54:00:12:34:56")?;
    let nic: InterfaceName = nic.parse().map_err(|error| format!("{error}"))?;
    Ok((nic, mac.parse().map_err(|error: MacError| error.to_string())?))
}

/// Prints a document of the wanted shape, once it is known to keep every rule.
pub(crate) fn topology(arguments: &Arguments) -> Result<Ending> {
    let (uplink, settings) = match &arguments.shape {
        ShapeArguments::Auto(arguments) => return auto(arguments),
        ShapeArguments::Nic { uplink, settings } => (Uplink::Nic(uplink.clone()), settings),
        ShapeArguments::Bond { bond, settings } => (Uplink::Bond(bond.bond()), settings),
        ShapeArguments::Vlan { uplink, vlan_id, settings } => {
            (Uplink::Vlan { base: uplink.clone(), id: *vlan_id }, settings)
        }
        ShapeArguments::VlanOnBond { bond, vlan_id, settings } => {
            (Uplink::VlanOnBond { bond: bond.bond(), id: *vlan_id }, settings)
        }
        ShapeArguments::Slb { uplink, settings } => {
            (Uplink::Slb { ports: uplink.clone() }, settings)
        }
    };
    let topology = Topology {
        uplink,
        addressing: settings.addressing()?,
        mtu: settings.mtu,
        node_ip_interface: settings.node_ip_interface.clone(),
        search: settings.dns_search.clone(),
        routes: settings.route.clone(),
        profile_names: settings.profile_names,
        macs: settings.nic_mac.iter().cloned().collect(),
        second: settings.second(),
        vlan_name: None,
    };
    if let Some(remark) = topology.remark() {
        print_message(&format!("note: {remark}"));
    }
    deliver(&topology.document()?, &ClusterFacts::default())
}

impl BondArguments {
    fn bond(&self) -> Bond {
        let mode = match self.mode {
            BondModeArgument::ActiveBackup => BondMode::ActiveBackup,
            BondModeArgument::Lacp => BondMode::Lacp,
            BondModeArgument::BalanceXor => BondMode::BalanceXor,
        };
        Bond {
            name: self.bond.clone(),
            mode,
            ports: self.uplink.clone(),
            options: self.bond_option.iter().cloned().collect(),
        }
    }
}

impl Settings {
    fn second(&self) -> Option<SecondBridge> {
        let nic = self.br_ex1.clone()?;
        let addresses = match self.br_ex1_static.as_slice() {
            [] => SecondAddresses::Dhcp(self.ip_family.into()),
            addresses => SecondAddresses::Static {
                addresses: addresses.to_vec(),
                gateways: self.br_ex1_gateway.clone(),
            },
        };
        Some(SecondBridge { nic, addresses })
    }

    fn addressing(&self) -> Result<Addressing> {
        if self.dhcp {
            return Ok(Addressing::Dhcp(self.ip_family.into()));
        }
        let addresses = (self.addresses.clone(), self.gateway.clone(), self.dns.clone());
        Ok(Addressing::Static(StaticAddresses::new(addresses.0, addresses.1, addresses.2)?))
    }
}

impl From<IpFamily> for Families {
    fn from(family: IpFamily) -> Self {
        match family {
            IpFamily::Ipv4 => Self::V4,
            IpFamily::Ipv6 => Self::V6,
            IpFamily::Dual => Self::Both,
        }
    }
}

fn auto(arguments: &AutoArguments) -> Result<Ending> {
    let Some((current, origin)) = current(arguments)? else {
        let shape = match arguments.shape {
            Some(AutoShape::Nic) => Shape::Nic,
            Some(AutoShape::Bond) => Shape::Bond,
            Some(AutoShape::Vlan) => Shape::Vlan,
            Some(AutoShape::VlanOnBond) => Shape::VlanOnBond,
            Some(AutoShape::LinuxBridge) => Shape::LinuxBridge,
            None => bail!("which shape? Give --uplink, --nns or --node"),
        };
        let source = if arguments.is_static { Source::Static } else { Source::Dhcp };
        let policy = Policy { shape, source, families: arguments.ip_family.into() };
        return deliver(&policy.document()?, &ClusterFacts::default());
    };
    let policy = Policy::of_node(&current).with_context(|| format!("reading {origin}"))?;
    print_message(&format!(
        "note: the default route of this node goes through {}; the policy is for all nodes of that \
         shape",
        policy.shape.name()
    ));
    let around = ClusterFacts { current: Some(current), ..ClusterFacts::default() };
    deliver(&policy.document()?, &around)
}

/// The current network of the node that the policy is to fit, and where it is from.
fn current(arguments: &AutoArguments) -> Result<Option<(NetworkState, String)>> {
    if let Some(node) = &arguments.node {
        return Ok(Some((arguments.cluster.state_of(node)?.state, format!("node {node}"))));
    }
    let Some(path) = &arguments.nns else { return Ok(None) };
    let mut states = reading::states(path)?;
    ensure!(
        states.len() == 1,
        "reading {}: expected one node, found {}",
        path.display(),
        states.len()
    );
    Ok(Some((states.remove(0).state, path.display().to_string())))
}

/// Prints a document that keeps the rules; otherwise what it breaks.
fn deliver(text: &str, around: &ClusterFacts) -> Result<Ending> {
    let findings = br_ex::check(&Document::parse(text.as_bytes()), around);
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    let is_bad = findings.iter().any(is_error);
    if !findings.is_empty() {
        let path = PathBuf::from("document");
        print_message(
            findings::text(&[Checked { path, inner: None, host: None, findings }]).trim_end(),
        );
    }
    if is_bad {
        return Ok(Ending::Findings);
    }
    print(text)?;
    Ok(Ending::Good)
}
