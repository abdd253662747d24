//! The ports of an ovs-bridge.

use located_yaml::{Located, Node, Position};
use nmstate::InterfaceType;

use super::{Layout, ports};

/// A port as the bridge lists it.
#[derive(Debug, Clone)]
pub struct BridgePort<'a> {
    pub name: Located<&'a str>,
    /// The members, when the port is a bond of Open vSwitch.
    pub bond: Option<Vec<Located<&'a str>>>,
    pub node: &'a Node,
}

/// What a port leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// Out of Open vSwitch: a NIC, Linux bond, VLAN or Linux bridge.
    System,
    /// Several of them, as a bond of Open vSwitch.
    OvsBond,
    /// To another bridge.
    Patch,
    /// To the node itself.
    Internal,
}

impl<'a> BridgePort<'a> {
    pub(super) fn read(node: &'a Node) -> Option<Self> {
        let name = node.get("name").unwrap_or(node);
        let bond = node.get("link-aggregation").map(ports);
        Some(Self { name: Located { at: name.at, value: name.text()? }, bond, node })
    }

    pub fn at(&self) -> Position {
        self.name.at
    }

    pub fn kind(&self, layout: &Layout<'_>) -> PortKind {
        if self.bond.is_some() {
            return PortKind::OvsBond;
        }
        // The port that is named like the bridge is its own, described or not.
        if self.name.value == crate::BRIDGE {
            return PortKind::Internal;
        }
        match layout.find(self.name.value, &InterfaceType::OvsInterface) {
            Some(iface) if iface.patch_peer().is_some() => PortKind::Patch,
            Some(_) => PortKind::Internal,
            None => PortKind::System,
        }
    }

    /// Names of the interfaces behind a port that leads out: itself, or its members.
    pub fn members(&self) -> Vec<Located<&'a str>> {
        self.bond.clone().unwrap_or_else(|| vec![self.name])
    }
}
