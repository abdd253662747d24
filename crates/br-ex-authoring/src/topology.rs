//! Topologies of br-ex, and the document that defines each.
//!
//! What goes in is typed, so that what comes out keeps every rule by itself.

pub mod auto;
mod desired;
mod name;
mod write;

use std::collections::BTreeMap;
use std::net::IpAddr;

use br_ex::layout::Family;
use ipnet::IpNet;
use machine_identity::Mac;

pub use name::{InterfaceName, InterfaceNameError, VlanId, VlanIdError};

/// A bridge to define.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub uplink: Uplink,
    pub addressing: Addressing,
    /// For br-ex and everything below it; `None` leaves it as it is.
    pub mtu: Option<u32>,
    /// Another interface than br-ex, with the address of the node.
    pub node_ip_interface: Option<InterfaceName>,
    /// Search domains for short names.
    pub search: Vec<String>,
    /// Routes through br-ex beside the default one.
    pub routes: Vec<StaticRoute>,
    /// Whether NetworkManager profiles get the names that configure-ovs gives them, which the
    /// operator's MTU migration needs.
    pub profile_names: bool,
    /// NICs that are found by their MAC address, whatever their name on the node.
    pub macs: BTreeMap<InterfaceName, Mac>,
    pub second: Option<SecondBridge>,
    /// The name of the VLAN, instead of one from its base and its number.
    pub vlan_name: Option<InterfaceName>,
}

/// A route to a network through a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticRoute {
    pub destination: IpNet,
    pub gateway: IpAddr,
}

/// The bridge `br-ex1`, a second uplink on another NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondBridge {
    pub nic: InterfaceName,
    pub addresses: SecondAddresses,
}

/// Where br-ex1 has its address from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecondAddresses {
    Dhcp(Families),
    /// Addresses, with or without gateways.
    Static {
        addresses: Vec<IpNet>,
        gateways: Vec<IpAddr>,
    },
}

/// What br-ex leads out through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uplink {
    Nic(InterfaceName),
    Bond(Bond),
    Vlan {
        base: InterfaceName,
        id: VlanId,
    },
    VlanOnBond {
        bond: Bond,
        id: VlanId,
    },
    /// A balance-slb bond of Open vSwitch, on a bridge of its own.
    Slb {
        ports: Vec<InterfaceName>,
    },
}

/// A Linux bond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bond {
    pub name: InterfaceName,
    pub mode: BondMode,
    pub ports: Vec<InterfaceName>,
    /// Options of the kernel's bonding driver; `miimon` is 100 unless given.
    pub options: BTreeMap<String, String>,
}

/// Modes of Linux bonds that switches and clusters get along with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BondMode {
    ActiveBackup,
    Lacp,
    BalanceXor,
}

impl BondMode {
    pub fn name(self) -> &'static str {
        match self {
            Self::ActiveBackup => "active-backup",
            Self::Lacp => "802.3ad",
            Self::BalanceXor => "balance-xor",
        }
    }
}

/// Where br-ex has its address from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addressing {
    /// DHCP, and for IPv6 router advertisements, too.
    Dhcp(Families),
    Static(StaticAddresses),
}

/// Families of addresses that are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Families {
    V4,
    V6,
    Both,
}

impl Families {
    pub fn has(self, family: Family) -> bool {
        match self {
            Self::V4 => family == Family::V4,
            Self::V6 => family == Family::V6,
            Self::Both => true,
        }
    }
}

/// Addresses, with a gateway for each family they are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticAddresses {
    addresses: Vec<IpNet>,
    gateways: Vec<IpAddr>,
    servers: Vec<IpAddr>,
}

/// Why a bridge cannot be defined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    #[error("writing the document: {0}")]
    Write(String),
    #[error("a bond needs two NICs or more, and {0} was given; add another --uplink")]
    OnePort(InterfaceName),
    #[error("{0} is given twice")]
    Twice(InterfaceName),
    #[error("{0} has no gateway; add one with --gateway")]
    NoGateway(IpNet),
    #[error("gateway {gateway} is in the subnet of no address; the addresses are {addresses}")]
    Gateway { gateway: IpAddr, addresses: String },
    #[error("{0} is the address of the network itself; give the host's, for example {1}")]
    Network(IpNet, IpAddr),
    #[error("static addresses need name servers; add one with --dns")]
    NoServer,
    #[error(
        "{0} is part of the uplink and cannot hold an address; name another --node-ip-interface, or none"
    )]
    NodeIpOnUplink(InterfaceName),
    #[error("{0} is part of the uplink of br-ex; name another NIC for br-ex1")]
    SecondOnUplink(InterfaceName),
    #[error("{0} has a MAC address and is not part of the document; expected one of its NICs")]
    MacOfOther(InterfaceName),
    #[error("gateway {gateway} of the route to {destination} is of another family")]
    RouteFamily { destination: IpNet, gateway: IpAddr },
    #[error("{0:?} is not a domain; expected letters, digits, `-` and `.`")]
    Domain(String),
    #[error("{0:?} is not an option of a bond; expected a name such as miimon, and a value")]
    BondOption(String),
}

impl StaticAddresses {
    /// Checks that every address has a gateway that it can reach, and that there is a
    /// name server.
    pub fn new(
        addresses: Vec<IpNet>,
        gateways: Vec<IpAddr>,
        servers: Vec<IpAddr>,
    ) -> Result<Self, TopologyError> {
        for address in &addresses {
            let is_host = address.prefix_len() >= address.max_prefix_len() - 1;
            if !is_host && address.addr() == address.network() {
                let first = address.hosts().next().unwrap_or(address.addr());
                return Err(TopologyError::Network(*address, first));
            }
            let family = Family::of(address.addr());
            if !gateways.iter().any(|gateway| Family::of(*gateway) == family) {
                return Err(TopologyError::NoGateway(*address));
            }
        }
        for gateway in &gateways {
            let is_link_local = matches!(gateway, IpAddr::V6(it) if it.is_unicast_link_local());
            // Beside an address without a subnet NetworkManager adds a route to the gateway.
            let reaches = |address: &IpNet| {
                let is_host = address.prefix_len() == address.max_prefix_len();
                let same_family = Family::of(address.addr()) == Family::of(*gateway);
                address.contains(gateway) || (is_host && same_family)
            };
            if !is_link_local && !addresses.iter().any(reaches) {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                let addresses = addresses.join(", ");
                return Err(TopologyError::Gateway { gateway: *gateway, addresses });
            }
        }
        if servers.is_empty() {
            return Err(TopologyError::NoServer);
        }
        Ok(Self { addresses, gateways, servers })
    }
}

impl Topology {
    /// A bridge without any of the further settings.
    pub fn new(uplink: Uplink, addressing: Addressing) -> Self {
        Self {
            uplink,
            addressing,
            mtu: None,
            node_ip_interface: None,
            search: Vec::new(),
            routes: Vec::new(),
            profile_names: false,
            macs: BTreeMap::new(),
            second: None,
            vlan_name: None,
        }
    }

    /// The families that br-ex has addresses of.
    fn families(&self) -> Vec<Family> {
        let has = |family: &Family| match &self.addressing {
            Addressing::Dhcp(families) => families.has(*family),
            Addressing::Static(fixed) => {
                fixed.addresses.iter().any(|it| Family::of(it.addr()) == *family)
            }
        };
        Family::BOTH.into_iter().filter(has).collect()
    }

    /// Values that are put into the text as they are.
    fn check_texts(&self) -> Result<(), TopologyError> {
        let is_domain = |it: &&String| {
            !it.is_empty() && it.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        };
        if let Some(domain) = self.search.iter().find(|it| !is_domain(it)) {
            return Err(TopologyError::Domain(domain.clone()));
        }
        let is_option = |(key, value): &(&String, &String)| {
            let is_word = |text: &str, more: &[u8]| {
                !text.is_empty()
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
            };
            is_word(key, b"_") && is_word(value, b"_+,.:-")
        };
        let options = self.uplink.bond().map(|bond| &bond.options);
        if let Some((key, value)) = options.into_iter().flatten().find(|it| !is_option(it)) {
            return Err(TopologyError::BondOption(format!("{key}={value}")));
        }
        Ok(())
    }

    fn check_second(&self, ports: &[InterfaceName]) -> Result<(), TopologyError> {
        let second = self.second.as_ref().map(|second| &second.nic);
        if let Some(nic) = second.filter(|nic| ports.contains(nic)) {
            return Err(TopologyError::SecondOnUplink(nic.clone()));
        }
        let is_known = |nic: &&InterfaceName| {
            ports.contains(nic)
                || second == Some(*nic)
                || self.node_ip_interface.as_ref() == Some(*nic)
        };
        if let Some(nic) = self.macs.keys().find(|nic| !is_known(nic)) {
            return Err(TopologyError::MacOfOther(nic.clone()));
        }
        for StaticRoute { destination, gateway } in &self.routes {
            if Family::of(destination.addr()) != Family::of(*gateway) {
                let (destination, gateway) = (*destination, *gateway);
                return Err(TopologyError::RouteFamily { destination, gateway });
            }
        }
        Ok(())
    }

    /// The document, ready to be a host's file.
    pub fn document(&self) -> Result<String, TopologyError> {
        let ports = self.uplink.ports();
        if let (true, [only]) = (self.uplink.is_bonded(), ports) {
            return Err(TopologyError::OnePort(only.clone()));
        }
        for (number, port) in ports.iter().enumerate() {
            if ports[..number].contains(port) {
                return Err(TopologyError::Twice(port.clone()));
            }
        }
        if let Some(other) = self.node_ip_interface.as_ref().filter(|it| ports.contains(it)) {
            return Err(TopologyError::NodeIpOnUplink(other.clone()));
        }
        self.check_second(ports)?;
        self.check_texts()?;
        write::document(self).map_err(|error| TopologyError::Write(error.to_string()))
    }

    /// What an administrator should know about a bridge beside the node's own address.
    pub fn remark(&self) -> Option<String> {
        let other = self.node_ip_interface.as_ref()?;
        Some(format!(
            "The address of the node is on {other}, and traffic of pods leaves through br-ex. The \
             address is selected before br-ex exists, by the default route, which br-ex takes over. \
             To make the selection explicit, set `KUBELET_NODEIP_HINT=<an address in the subnet of \
             {other}>` in /etc/default/nodeip-configuration. {other} itself gets no gateway: a \
             second default route would send responses through the wrong interface."
        ))
    }
}

impl Uplink {
    /// The NICs at the bottom.
    fn ports(&self) -> &[InterfaceName] {
        match self {
            Self::Nic(nic) | Self::Vlan { base: nic, .. } => std::slice::from_ref(nic),
            Self::Bond(bond) | Self::VlanOnBond { bond, .. } => &bond.ports,
            Self::Slb { ports } => ports,
        }
    }

    fn bond(&self) -> Option<&Bond> {
        match self {
            Self::Bond(bond) | Self::VlanOnBond { bond, .. } => Some(bond),
            Self::Nic(_) | Self::Vlan { .. } | Self::Slb { .. } => None,
        }
    }

    fn is_bonded(&self) -> bool {
        matches!(self, Self::Bond(_) | Self::VlanOnBond { .. } | Self::Slb { .. })
    }
}
