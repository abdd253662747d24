//! The IP section of an interface.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use located_yaml::{Node, Position};

use super::is_captured;

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The key of the section.
    pub fn key(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    /// The family whose default route has this destination.
    pub fn of_default_route(destination: &str) -> Option<Self> {
        let net: IpNet = destination.parse().ok()?;
        (net.prefix_len() == 0).then(|| Self::of(net.addr()))
    }

    pub fn default_route(self) -> &'static str {
        match self {
            Self::V4 => "0.0.0.0/0",
            Self::V6 => "::/0",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A section `ipv4` or `ipv6`.
#[derive(Debug, Clone)]
pub struct Ip<'a> {
    pub family: Family,
    pub at: Position,
    /// Whether the whole section, or its addresses, are filled in on the node.
    pub is_captured: bool,
    pub addresses: Vec<Address>,
    /// Whether an address is written in a way that cannot be read.
    pub has_unread_address: bool,
    node: &'a Node,
}

/// A static address, with its prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub at: Position,
    pub net: IpNet,
}

impl<'a> Ip<'a> {
    pub(super) fn read(interface: &'a Node, family: Family) -> Option<Self> {
        let entry = interface.entry(family.key())?;
        let node = &entry.value;
        let list = node.get("address");
        let addresses = list.map(Node::items).unwrap_or_default();
        let read: Vec<Address> = addresses.iter().filter_map(Address::read).collect();
        Some(Self {
            family,
            at: entry.at,
            is_captured: is_captured(node)
                || list.is_some_and(is_captured)
                || addresses.iter().any(|address| address.get("ip").is_some_and(is_captured)),
            has_unread_address: read.len() < addresses.len(),
            addresses: read,
            node,
        })
    }

    pub fn switch(&self, key: &str) -> Option<bool> {
        self.node.get(key)?.boolean()
    }

    pub fn has(&self, key: &str) -> bool {
        self.node.get(key).is_some()
    }

    /// The location of a key, or of the section.
    pub fn place(&self, key: &str) -> Position {
        self.node.entry(key).map_or(self.at, |entry| entry.at)
    }

    pub fn is_enabled(&self) -> bool {
        self.is_captured || self.switch("enabled") == Some(true)
    }

    /// Whether addresses come from the network, by DHCP or router advertisements.
    pub fn is_automatic(&self) -> bool {
        self.is_enabled() && ["dhcp", "autoconf"].iter().any(|key| self.switch(key) == Some(true))
    }

    /// Whether the network provides a default route.
    pub fn has_automatic_gateway(&self) -> bool {
        self.is_automatic() && self.switch("auto-gateway") != Some(false)
    }

    pub fn metric(&self) -> Option<i128> {
        self.node.get("auto-route-metric")?.integer()
    }

    /// Whether the metric is filled in on the node.
    pub fn has_captured_metric(&self) -> bool {
        self.is_captured || self.node.get("auto-route-metric").is_some_and(is_captured)
    }
}

impl Address {
    fn read(node: &Node) -> Option<Self> {
        let ip = node.get("ip")?;
        let prefix: u8 = node.get("prefix-length")?.integer()?.try_into().ok()?;
        let net = IpNet::new(ip.text()?.parse().ok()?, prefix).ok()?;
        Some(Self { at: ip.at, net })
    }
}
