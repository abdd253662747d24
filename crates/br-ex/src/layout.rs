//! A document as what it describes: interfaces, routes and name servers, each
//! with its location in the text.
//!
//! Unlike nmstate's own types, this view keeps duplicates and locations, and can
//! represent a policy whose values are captured on the node.

mod family;
mod port;
mod route;

use ipnet::IpNet;
use located_yaml::{Located, Node, Position};
use nmstate::InterfaceType;

pub use family::{Address, Family, Ip};
pub use port::{BridgePort, PortKind};
pub use route::Route;

/// What a document describes.
#[derive(Debug, Clone)]
pub struct Layout<'a> {
    pub interfaces: Vec<Interface<'a>>,
    pub routes: Vec<Route<'a>>,
    /// Whether routes are taken from the node, so that they are not known here.
    pub has_captured_routes: bool,
    /// Name servers as they are written.
    pub servers: Vec<Located<&'a str>>,
    pub has_captured_servers: bool,
    pub node: &'a Node,
}

/// An interface as it is described.
#[derive(Debug, Clone)]
pub struct Interface<'a> {
    pub name: Located<&'a str>,
    pub kind: InterfaceType,
    pub ipv4: Option<Ip<'a>>,
    pub ipv6: Option<Ip<'a>>,
    pub node: &'a Node,
}

/// The names that nmstate accepts for a list of ports.
const PORT_KEYS: [&str; 4] = ["port", "ports", "slaves", "ports-config"];

/// Whether a value is filled in on the node by a capture.
pub fn is_captured(node: &Node) -> bool {
    node.text().is_some_and(|text| text.contains("{{"))
}

impl<'a> Layout<'a> {
    /// Reads the map that holds `interfaces`, `routes` and `dns-resolver`. What has
    /// another shape than it should is left out: nmstate's own reader reports it.
    pub fn read(node: &'a Node) -> Self {
        let interfaces = node.get("interfaces").map(Node::items).unwrap_or_default();
        let routes = node.get("routes").and_then(|routes| routes.get("config"));
        let dns = node.get("dns-resolver").and_then(|dns| dns.get("config"));
        let servers = dns.and_then(|dns| dns.get("server"));
        let captured = |section: Option<&Node>, inner: Option<&Node>| {
            section.is_some_and(is_captured) || inner.is_some_and(is_captured)
        };
        Self {
            interfaces: interfaces.iter().filter_map(Interface::read).collect(),
            routes: routes.map(Node::items).unwrap_or_default().iter().map(Route::read).collect(),
            has_captured_routes: captured(node.get("routes"), routes),
            servers: servers
                .map(Node::items)
                .unwrap_or_default()
                .iter()
                .filter_map(|server| Some(Located { at: server.at, value: server.text()? }))
                .collect(),
            has_captured_servers: captured(node.get("dns-resolver"), dns)
                || servers.is_some_and(is_captured),
            node,
        }
    }

    /// The interface that nmstate would use: the last one of this name and type.
    pub fn find(&self, name: &str, kind: &InterfaceType) -> Option<&Interface<'a>> {
        self.interfaces.iter().rev().find(|iface| iface.name.value == name && iface.kind == *kind)
    }

    /// The interface of this name that is not an ovs-bridge; those have names of their own.
    pub fn kernel_interface(&self, name: &str) -> Option<&Interface<'a>> {
        let is_it = |iface: &&Interface<'a>| {
            iface.name.value == name && iface.kind != InterfaceType::OvsBridge
        };
        self.interfaces.iter().rev().find(is_it)
    }

    /// The ovs-bridge `br-ex`.
    pub fn bridge(&self) -> Option<&Interface<'a>> {
        self.find(crate::BRIDGE, &InterfaceType::OvsBridge)
    }

    /// The ovs-interface `br-ex`.
    pub fn internal_port(&self) -> Option<&Interface<'a>> {
        self.find(crate::BRIDGE, &InterfaceType::OvsInterface)
    }

    /// Whether the bridge or its port is mentioned at all.
    pub fn mentions_br_ex(&self) -> bool {
        self.interfaces.iter().any(|iface| iface.name.value == crate::BRIDGE)
    }

    pub fn bridges(&self) -> impl Iterator<Item = &Interface<'a>> {
        self.interfaces.iter().filter(|iface| iface.kind == InterfaceType::OvsBridge)
    }
}

impl<'a> Interface<'a> {
    /// `None` without a name, by which all else is found.
    fn read(node: &'a Node) -> Option<Self> {
        let name = node.get("name")?;
        let kind = match node.get("type").and_then(Node::text) {
            // nmstate's own spelling of its types.
            Some(kind) => serde_json::from_value(kind.into())
                .unwrap_or_else(|_| InterfaceType::Other(kind.to_owned())),
            None => InterfaceType::Unknown,
        };
        Some(Self {
            name: Located { at: name.at, value: name.text()? },
            kind,
            ipv4: Ip::read(node, Family::V4),
            ipv6: Ip::read(node, Family::V6),
            node,
        })
    }

    pub fn at(&self) -> Position {
        self.name.at
    }

    pub fn text(&self, key: &str) -> Option<Located<&'a str>> {
        let node = self.node.get(key)?;
        Some(Located { at: node.at, value: node.text()? })
    }

    /// The location of a key, or of the interface if it has no such key.
    pub fn place(&self, key: &str) -> Position {
        self.node.entry(key).map_or(self.at(), |entry| entry.at)
    }

    /// `up` is the default of nmstate.
    pub fn is_up(&self) -> bool {
        self.text("state").is_none_or(|state| state.value == "up")
    }

    pub fn is_absent(&self) -> bool {
        self.text("state").is_some_and(|state| state.value == "absent")
    }

    pub fn mtu(&self) -> Option<Located<u32>> {
        let node = self.node.get("mtu")?;
        Some(Located { at: node.at, value: node.integer()?.try_into().ok()? })
    }

    pub fn ip(&self, family: Family) -> Option<&Ip<'a>> {
        match family {
            Family::V4 => self.ipv4.as_ref(),
            Family::V6 => self.ipv6.as_ref(),
        }
    }

    /// The sections for IP that there are.
    pub fn ips(&self) -> impl Iterator<Item = &Ip<'a>> {
        self.ipv4.iter().chain(&self.ipv6)
    }

    /// The subnets of its static addresses.
    pub fn subnets(&self) -> impl Iterator<Item = IpNet> {
        self.ips().flat_map(|ip| ip.addresses.iter().map(|address| address.net.trunc()))
    }

    /// The ports of a Linux bond.
    pub fn bond_ports(&self) -> Vec<Located<&'a str>> {
        self.node.get("link-aggregation").map(ports).unwrap_or_default()
    }

    /// The ports of an ovs-bridge.
    pub fn bridge_ports(&self) -> Vec<BridgePort<'a>> {
        let list = self.node.get("bridge").and_then(port_list);
        list.map(Node::items).unwrap_or_default().iter().filter_map(BridgePort::read).collect()
    }

    /// The interface that a VLAN is on.
    pub fn vlan_base(&self) -> Option<Located<&'a str>> {
        let base = self.node.get("vlan")?.get("base-iface")?;
        Some(Located { at: base.at, value: base.text()? })
    }

    /// The other end of a patch port.
    pub fn patch_peer(&self) -> Option<Located<&'a str>> {
        let peer = self.node.get("patch")?.get("peer")?;
        Some(Located { at: peer.at, value: peer.text()? })
    }

    /// A value among the external ids of this interface.
    pub fn external_id(&self, key: &str) -> Option<Located<&'a str>> {
        let id = self.node.get("ovs-db")?.get("external_ids")?.get(key)?;
        Some(Located { at: id.at, value: id.text()? })
    }
}

fn port_list(node: &Node) -> Option<&Node> {
    PORT_KEYS.iter().find_map(|key| node.get(key))
}

/// The names of a list of ports: texts, or maps with a name.
fn ports(node: &Node) -> Vec<Located<&str>> {
    let list = port_list(node).map(Node::items).unwrap_or_default();
    list.iter()
        .filter_map(|port| {
            let name = port.get("name").unwrap_or(port);
            Some(Located { at: name.at, value: name.text()? })
        })
        .collect()
}
