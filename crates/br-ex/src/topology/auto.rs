//! Policies that find the uplink on the node: the bridge that configure-ovs would make.
//!
//! One policy for each shape of the uplink and each source of its address. A policy
//! for one shape finds nothing on a node of another, and then changes nothing.

use std::fmt;
use std::fmt::Write as _;

use nmstate::{Interface, InterfaceType, NetworkState};

use super::Families;
use super::write::{METRIC, dhcp, interface};
use crate::BRIDGE;
use crate::current_address::{DefaultRoute, default_routes};
use crate::layout::Family;

/// What the node's default route goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Nic,
    Bond,
    Vlan,
    VlanOnBond,
    LinuxBridge,
}

/// Where the uplink has its address from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Dhcp,
    Static,
}

/// A policy to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub shape: Shape,
    pub source: Source,
    pub families: Families,
}

impl Shape {
    pub const ALL: [Self; 5] =
        [Self::Nic, Self::Bond, Self::Vlan, Self::VlanOnBond, Self::LinuxBridge];

    pub fn name(self) -> &'static str {
        match self {
            Self::Nic => "nic",
            Self::Bond => "bond",
            Self::Vlan => "vlan",
            Self::VlanOnBond => "vlan-on-bond",
            Self::LinuxBridge => "linux-bridge",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Nic => "ethernet",
            Self::Bond => "bond",
            Self::Vlan | Self::VlanOnBond => "vlan",
            Self::LinuxBridge => "linux-bridge",
        }
    }
}

/// Why no policy can be made for a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AutoError {
    #[error(
        "the node has no default route; name the uplink, for example `topology nic --uplink eno1`"
    )]
    NoDefaultRoute,
    #[error(
        "the node has {} default routes: {}. A policy takes the first it meets, whatever its metric; \
         name the uplink, for example `topology nic --uplink {}`",
        .0.len(),
        listed(.0),
        .0.first().map_or("eno1", |route| &route.interface)
    )]
    SeveralDefaultRoutes(Vec<DefaultRoute>),
    #[error("the node's default route goes through br-ex already, so there is nothing to find")]
    HasBridge,
    #[error("the default route goes through `{0}`, which the state does not describe")]
    NotDescribed(String),
    #[error(
        "the default route goes through `{name}` of type {kind}, which cannot be an uplink of br-ex"
    )]
    Kind { name: String, kind: String },
}

fn listed(routes: &[DefaultRoute]) -> String {
    let one = |route: &DefaultRoute| {
        let DefaultRoute { interface, gateway, metric } = route;
        format!("through {interface} via {gateway}, metric {metric}")
    };
    routes.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl Policy {
    /// The policy that fits a node in this state.
    pub fn of_node(current: &NetworkState) -> Result<Self, AutoError> {
        let mut used = Vec::new();
        for family in Family::BOTH {
            let routes = default_routes(current, family);
            match routes.as_slice() {
                [] => {}
                [route] => used.push((family, route.clone())),
                _ => return Err(AutoError::SeveralDefaultRoutes(routes)),
            }
        }
        let (families, route) = match used.as_slice() {
            [] => return Err(AutoError::NoDefaultRoute),
            [(Family::V4, route)] => (Families::V4, route),
            [(Family::V6, route)] => (Families::V6, route),
            [(_, first), (_, second), ..] if first.interface == second.interface => {
                (Families::Both, first)
            }
            [(_, first), (_, second), ..] => {
                let both = vec![first.clone(), second.clone()];
                return Err(AutoError::SeveralDefaultRoutes(both));
            }
        };
        if route.interface == BRIDGE {
            return Err(AutoError::HasBridge);
        }
        let iface = find(current, &route.interface)
            .ok_or_else(|| AutoError::NotDescribed(route.interface.clone()))?;
        let source = if is_automatic(iface) { Source::Dhcp } else { Source::Static };
        Ok(Self { shape: shape(current, iface)?, source, families })
    }

    /// The document, for `cluster.yml` of a role whose nodes are of this shape.
    pub fn document(&self) -> String {
        let mut text = String::new();
        self.captures(&mut text);
        text.push_str("desiredState:\n");
        let mut state = String::from("interfaces:\n");
        let name = "\"{{ capture.uplink.interfaces.0.name }}\"";
        let mtu = "  mtu: \"{{ capture.uplink.interfaces.0.mtu }}\"\n";
        interface(&mut state, name, self.shape.kind(), None);
        state.push_str(mtu);
        let _ = write!(
            state,
            "- name: br-ex\n  type: ovs-bridge\n  state: up\n  bridge:\n    allow-extra-patch-ports: \
             true\n    options:\n      mcast-snooping-enable: true\n    port:\n    - name: {name}\n    - \
             name: br-ex\n- name: br-ex\n  type: ovs-interface\n  state: up\n  copy-mac-from: \
             {name}\n{mtu}"
        );
        match self.source {
            Source::Dhcp => {
                for family in Family::BOTH {
                    dhcp(&mut state, family, self.families.has(family));
                }
            }
            Source::Static => {
                for family in Family::BOTH {
                    let key = family.key();
                    let _ =
                        writeln!(state, "  {key}: \"{{{{ capture.uplink.interfaces.0.{key} }}}}\"");
                }
                state.push_str(
                    "routes:\n  config: \"{{ capture.routes.routes.config }}\"\n\
                     dns-resolver:\n  config: \"{{ capture.names.dns-resolver.config }}\"\n",
                );
            }
        }
        for line in state.lines() {
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    fn captures(&self, text: &mut String) {
        let (family, kind) = match self.families {
            Families::V4 | Families::Both => (Family::V4, self.shape.kind()),
            Families::V6 => (Family::V6, self.shape.kind()),
        };
        let _ = write!(
            text,
            "# For nodes whose default route goes through {}, with {}.\n\
             capture:\n  \
             default-route: routes.running.destination==\"{}\"\n  \
             way-out: interfaces.name==capture.default-route.routes.running.0.next-hop-interface\n",
            Words(self.shape),
            match self.source {
                Source::Dhcp => "an address by DHCP",
                Source::Static => "static addresses",
            },
            family.default_route()
        );
        // The second step fails on a node of another shape, before anything is changed.
        let found = if self.shape == Shape::VlanOnBond { "vlan" } else { "uplink" };
        let _ = writeln!(text, "  {found}: capture.way-out | interfaces.type==\"{kind}\"");
        if self.shape == Shape::VlanOnBond {
            text.push_str(
                "  base: interfaces.name==capture.vlan.interfaces.0.vlan.base-iface\n  \
                 bond: capture.base | interfaces.type==\"bond\"\n  \
                 vlans: interfaces.vlan.base-iface==capture.bond.interfaces.0.name\n  \
                 uplink: capture.vlans | interfaces.name==capture.vlan.interfaces.0.name\n",
            );
        }
        if self.source == Source::Static {
            let _ = write!(
                text,
                "  own-routes: routes.config.next-hop-interface==capture.uplink.interfaces.0.name\n  \
                 moved-routes: capture.own-routes | routes.config.next-hop-interface:=\"br-ex\"\n  \
                 routes: capture.moved-routes | routes.config.metric:=\"{METRIC}\"\n  \
                 names: dns-resolver.config\n"
            );
        }
    }
}

/// A shape in a sentence.
struct Words(Shape);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Shape::Nic => "a NIC",
            Shape::Bond => "a bond",
            Shape::Vlan => "a VLAN",
            Shape::VlanOnBond => "a VLAN on a bond",
            Shape::LinuxBridge => "a Linux bridge",
        })
    }
}

fn find<'s>(current: &'s NetworkState, name: &str) -> Option<&'s Interface> {
    let is_it = |it: &&Interface| it.name() == name && it.iface_type() != InterfaceType::OvsBridge;
    current.interfaces.to_vec().into_iter().find(is_it)
}

fn is_automatic(iface: &Interface) -> bool {
    let base = iface.base_iface();
    let v4 = base.ipv4.as_ref().is_some_and(|ip| ip.enabled && ip.dhcp == Some(true));
    let v6 = base
        .ipv6
        .as_ref()
        .is_some_and(|ip| ip.enabled && (ip.dhcp == Some(true) || ip.autoconf == Some(true)));
    let has_fixed_v4 = base.ipv4.as_ref().is_some_and(|ip| {
        ip.enabled
            && ip.dhcp != Some(true)
            && ip.addresses.as_ref().is_some_and(|it| !it.is_empty())
    });
    v4 || (v6 && !has_fixed_v4)
}

fn shape(current: &NetworkState, iface: &Interface) -> Result<Shape, AutoError> {
    match iface {
        Interface::Ethernet(_) => Ok(Shape::Nic),
        Interface::Bond(_) => Ok(Shape::Bond),
        Interface::LinuxBridge(_) => Ok(Shape::LinuxBridge),
        Interface::Vlan(vlan) => {
            let base = vlan.vlan.as_ref().and_then(|vlan| vlan.base_iface.as_deref());
            let base = base.and_then(|base| find(current, base));
            let is_bond = base.is_some_and(|base| base.iface_type() == InterfaceType::Bond);
            Ok(if is_bond { Shape::VlanOnBond } else { Shape::Vlan })
        }
        other => Err(AutoError::Kind {
            name: other.name().to_owned(),
            kind: other.iface_type().to_string(),
        }),
    }
}
