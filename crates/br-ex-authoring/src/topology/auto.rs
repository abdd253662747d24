//! Policies that find the uplink on the node: the bridge that configure-ovs would create.
//!
//! One policy for each shape of the uplink and each source of its address. A policy
//! for one shape finds nothing on a node of another, and then changes nothing.

use std::fmt;

use br_ex::BRIDGE;
use br_ex::current_address::{DefaultRoute, default_routes};
use br_ex::layout::Family;
use machine_config::yaml;
use nmstate::{InterfaceType, NetworkState};

use super::Families;
use super::desired::{
    self, Bridge, Captures, Config, Desired, Interface, Kind, Port, Value, captured,
};
use super::write::{METRIC, dhcp, interface};

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

/// A policy to write.
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

    fn kind(self) -> Kind {
        match self {
            Self::Nic => Kind::Ethernet,
            Self::Bond => Kind::Bond,
            Self::Vlan | Self::VlanOnBond => Kind::Vlan,
            Self::LinuxBridge => Kind::LinuxBridge,
        }
    }
}

/// Why no policy can be written for a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AutoError {
    #[error(
        "the node has no default route; name the uplink, for example `topology nic --uplink eno1`"
    )]
    NoDefaultRoute,
    #[error(
        "the node has {} default routes: {}. A policy uses the first one that it finds, whatever its metric; \
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
    ///
    /// # Errors
    /// If it cannot be written as YAML.
    pub fn document(&self) -> Result<String, yaml::WriteError> {
        let policy = desired::Policy { capture: self.captures(), desired: self.desired() };
        let source = match self.source {
            Source::Dhcp => "an address by DHCP",
            Source::Static => "static addresses",
        };
        let head = format!(
            "# For nodes whose default route goes through {}, with {source}.\n",
            Words(self.shape)
        );
        Ok(head + &yaml::document(&policy)?)
    }

    fn desired(&self) -> Desired {
        let name = captured("uplink.interfaces.0.name");
        let mtu = || Some(Value::captured("uplink.interfaces.0.mtu"));
        let uplink = Interface { mtu: mtu(), ..interface(&name, self.shape.kind(), None) };
        let bridge = Bridge::new(vec![Port::new(&name), Port::new(BRIDGE)]).with_snooping();
        let bridge = Interface { bridge: Some(bridge), ..Interface::new(BRIDGE, Kind::OvsBridge) };
        let ip = |family: Family| match self.source {
            Source::Dhcp => dhcp(family, self.families.has(family)),
            Source::Static => Value::captured(&format!("uplink.interfaces.0.{}", family.key())),
        };
        let port = Interface {
            copy_mac_from: Some(name),
            mtu: mtu(),
            ..Interface::new(BRIDGE, Kind::OvsInterface).with_ip(ip)
        };
        let is_static = self.source == Source::Static;
        Desired {
            interfaces: vec![uplink, bridge, port],
            routes: is_static.then(|| Config { config: Value::captured("routes.routes.config") }),
            dns_resolver: is_static
                .then(|| Config { config: Value::captured("names.dns-resolver.config") }),
        }
    }

    fn captures(&self) -> Captures {
        let family = match self.families {
            Families::V4 | Families::Both => Family::V4,
            Families::V6 => Family::V6,
        };
        let kind = self.shape.kind().name();
        let mut captures = Captures::default();
        captures.add(
            "default-route",
            format!("routes.running.destination==\"{}\"", family.default_route()),
        );
        captures.add(
            "way-out",
            "interfaces.name==capture.default-route.routes.running.0.next-hop-interface",
        );
        // The second step fails on a node of another shape, before anything is changed.
        let found = if self.shape == Shape::VlanOnBond { "vlan" } else { "uplink" };
        captures.add(found, format!("capture.way-out | interfaces.type==\"{kind}\""));
        if self.shape == Shape::VlanOnBond {
            captures.add("base", "interfaces.name==capture.vlan.interfaces.0.vlan.base-iface");
            captures.add("bond", "capture.base | interfaces.type==\"bond\"");
            captures.add("vlans", "interfaces.vlan.base-iface==capture.bond.interfaces.0.name");
            captures
                .add("uplink", "capture.vlans | interfaces.name==capture.vlan.interfaces.0.name");
        }
        if self.source == Source::Static {
            captures.add(
                "own-routes",
                "routes.config.next-hop-interface==capture.uplink.interfaces.0.name",
            );
            captures.add(
                "moved-routes",
                "capture.own-routes | routes.config.next-hop-interface:=\"br-ex\"",
            );
            captures.add(
                "routes",
                format!("capture.moved-routes | routes.config.metric:=\"{METRIC}\""),
            );
            captures.add("names", "dns-resolver.config");
        }
        captures
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

fn find<'s>(current: &'s NetworkState, name: &str) -> Option<&'s nmstate::Interface> {
    let is_it =
        |it: &&nmstate::Interface| it.name() == name && it.iface_type() != InterfaceType::OvsBridge;
    current.interfaces.to_vec().into_iter().find(is_it)
}

fn is_automatic(iface: &nmstate::Interface) -> bool {
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

fn shape(current: &NetworkState, iface: &nmstate::Interface) -> Result<Shape, AutoError> {
    match iface {
        nmstate::Interface::Ethernet(_) => Ok(Shape::Nic),
        nmstate::Interface::Bond(_) => Ok(Shape::Bond),
        nmstate::Interface::LinuxBridge(_) => Ok(Shape::LinuxBridge),
        nmstate::Interface::Vlan(vlan) => {
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
