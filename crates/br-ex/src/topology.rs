//! Shapes that br-ex comes in, and the document that makes each.
//!
//! What goes in is typed, so that what comes out keeps every rule by itself.

pub mod auto;
mod name;
mod write;

use std::net::IpAddr;

use ipnet::IpNet;

use crate::layout::Family;

pub use name::{InterfaceName, InterfaceNameError, VlanId, VlanIdError};

/// A bridge to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub uplink: Uplink,
    pub addressing: Addressing,
    /// For br-ex and everything below it; `None` leaves it as it is.
    pub mtu: Option<u32>,
    /// An interface beside br-ex that holds the address the node is known by.
    pub node_ip_interface: Option<InterfaceName>,
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

/// What cannot be made into a bridge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
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
            if !is_link_local && !addresses.iter().any(|address| address.contains(gateway)) {
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
        Ok(write::document(self))
    }

    /// What an administrator should know about a bridge beside the node's own address.
    pub fn remark(&self) -> Option<String> {
        let other = self.node_ip_interface.as_ref()?;
        Some(format!(
            "The node is known by its address on {other}, and pods leave through br-ex. The address \
             is chosen before br-ex exists, by the default route; br-ex takes that route over. To \
             be sure of the choice, put `KUBELET_NODEIP_HINT=<an address in the subnet of {other}>` \
             into /etc/default/nodeip-configuration. {other} itself gets no gateway: a second \
             default route would send answers the wrong way."
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

    fn is_bonded(&self) -> bool {
        matches!(self, Self::Bond(_) | Self::VlanOnBond { .. } | Self::Slb { .. })
    }
}
