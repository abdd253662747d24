//! The uplink of br-ex: which port leads to which NICs.

use std::collections::{BTreeMap, BTreeSet};

use located_yaml::Located;

use crate::layout::{BridgePort, Interface, Layout, PortKind};

/// Ports of br-ex that may be the uplink, and the interfaces behind the one that is.
#[derive(Debug, Clone, Default)]
pub struct UplinkPorts<'a> {
    /// Ports of br-ex that lead out of Open vSwitch.
    pub system: Vec<BridgePort<'a>>,
    /// Ports of br-ex that lead to another bridge.
    pub patches: Vec<BridgePort<'a>>,
    /// The value of the external id `bridge-uplink`.
    pub named: Option<Located<&'a str>>,
    /// Names of the interfaces that carry br-ex's traffic out of Open vSwitch.
    pub members: Vec<Located<&'a str>>,
}

impl<'a> UplinkPorts<'a> {
    pub fn of(bridge: &Interface<'a>, layout: &Layout<'a>) -> Self {
        let mut uplink = Self { named: bridge.external_id("bridge-uplink"), ..Self::default() };
        for port in bridge.bridge_ports() {
            match port.kind(layout) {
                PortKind::System | PortKind::OvsBond => uplink.system.push(port),
                PortKind::Patch => uplink.patches.push(port),
                PortKind::Internal => {}
            }
        }
        let named = uplink.named.and_then(|named| {
            let mut all = uplink.system.iter().chain(&uplink.patches);
            all.find(|port| port.name.value == named.value)
        });
        // ovnkube does not use a patch port that `bridge-uplink` does not name. That is reported,
        // and the rest is checked as if it were named.
        let chosen = named.or(match (uplink.system.as_slice(), uplink.patches.as_slice()) {
            ([port], _) | ([], [port]) => Some(port),
            _ => None,
        });
        if let Some(port) = chosen {
            let mut seen = BTreeSet::from([bridge.name.value]);
            uplink.members = behind(port, layout, &mut seen);
        }
        uplink
    }

    pub fn is_member(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.value == name)
    }
}

/// The interfaces behind a port, through patch ports to other bridges.
fn behind<'a>(
    port: &BridgePort<'a>,
    layout: &Layout<'a>,
    seen: &mut BTreeSet<&'a str>,
) -> Vec<Located<&'a str>> {
    let mut members = Vec::new();
    for member in port.members() {
        let peer = layout.kernel_interface(member.value).and_then(Interface::patch_peer);
        let Some(peer) = peer else {
            members.push(member);
            continue;
        };
        let Some(bridge) = owner(peer.value, layout) else { continue };
        if seen.insert(bridge.name.value) {
            for port in bridge.bridge_ports() {
                let leads_out = matches!(port.kind(layout), PortKind::System | PortKind::OvsBond);
                if leads_out && port.name.value != peer.value {
                    members.extend(behind(&port, layout, seen));
                }
            }
        }
    }
    members
}

/// The bridge that has an interface among its ports.
pub(crate) fn owner<'l, 'a>(name: &str, layout: &'l Layout<'a>) -> Option<&'l Interface<'a>> {
    layout.bridges().find(|bridge| {
        let ports = bridge.bridge_ports();
        ports.iter().flat_map(BridgePort::members).any(|member| member.value == name)
    })
}

/// Interfaces below one: ports of a bond, the base of a VLAN, ports of a Linux bridge.
pub fn below<'a>(iface: &Interface<'a>) -> Vec<Located<&'a str>> {
    let mut names = iface.bond_ports();
    names.extend(iface.vlan_base());
    if iface.kind == nmstate::InterfaceType::LinuxBridge {
        names.extend(iface.bridge_ports().iter().map(|port| port.name));
    }
    names
}

/// Which interfaces belong together: a bond and its ports, a VLAN and its base, a bridge, its ports
/// and its internal port. The same number for all of one stack.
pub(crate) fn stacks<'a>(layout: &Layout<'a>) -> BTreeMap<&'a str, usize> {
    let mut stacks: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, iface) in layout.interfaces.iter().enumerate() {
        let mut names: Vec<&str> = vec![iface.name.value];
        names.extend(below(iface).iter().map(|name| name.value));
        if iface.kind == nmstate::InterfaceType::OvsBridge {
            let ports = iface.bridge_ports();
            names.extend(ports.iter().flat_map(BridgePort::members).map(|member| member.value));
        }
        names.extend(iface.patch_peer().map(|peer| peer.value));
        // Stacks with a common interface are one from now on.
        let met: BTreeSet<usize> =
            names.iter().filter_map(|name| stacks.get(name).copied()).collect();
        let one = met.first().copied().unwrap_or(number);
        stacks.values_mut().filter(|stack| met.contains(stack)).for_each(|stack| *stack = one);
        stacks.extend(names.into_iter().map(|name| (name, one)));
    }
    stacks
}
