//! What must be true of a bridge that carries a node: read off a network
//! state, without asking anybody.

use std::net::IpAddr;

use nmstate::{Interface, InterfaceType, NetworkState, OvsBridgeInterface};
use serde::{Deserialize, Serialize};

use crate::message::Message;
use crate::view::{Family, default_routes, global_addresses, kernel_interface};

/// The bridge that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The name of the bridge and of its internal port.
    pub bridge: String,
    /// The address that the rest of the node was told to use, when it was told one. A
    /// node on which nothing holds this address waits for it for ever.
    pub node_address: Option<IpAddr>,
}

/// One thing that must be true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub name: FactName,
    pub holds: bool,
    /// What was seen.
    pub detail: Message,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactName {
    /// The bridge exists and is up.
    Bridge,
    /// It has a way out: a port that is a real interface.
    Uplink,
    /// Its internal port is up and among its ports.
    InternalPort,
    /// The internal port has an address that others can reach.
    Address,
    /// The node leaves through it.
    DefaultRoute,
    /// Some interface holds the address the node was told to use.
    NodeAddress,
}

impl Expectation {
    /// All facts, in a fixed order. The state must be one that was read from a node.
    pub fn check(&self, state: &NetworkState) -> Vec<Fact> {
        let mut facts = vec![
            self.bridge_is_up(state),
            self.has_uplink(state),
            self.internal_port_is_up(state),
            self.has_address(state),
            self.carries_the_default_route(state),
        ];
        facts.extend(self.node_address.map(|address| holds_node_address(state, address)));
        facts
    }

    fn bridge<'a>(&self, state: &'a NetworkState) -> Option<&'a OvsBridgeInterface> {
        ovs_bridges(state).find(|bridge| bridge.base.name == self.bridge)
    }

    fn internal_port<'a>(&self, state: &'a NetworkState) -> Option<&'a Interface> {
        kernel_interface(state, &self.bridge)
            .filter(|interface| interface.iface_type() == InterfaceType::OvsInterface)
    }

    fn bridge_is_up(&self, state: &NetworkState) -> Fact {
        let name = &self.bridge;
        match self.bridge(state) {
            Some(bridge) if bridge.base.state == nmstate::InterfaceState::Up => {
                holds(FactName::Bridge, format!("{name} has ports {}", list(&ports(bridge))))
            }
            Some(_) => fails(FactName::Bridge, format!("{name} is not up")),
            None => fails(FactName::Bridge, format!("there is no Open vSwitch bridge {name}")),
        }
    }

    fn has_uplink(&self, state: &NetworkState) -> Fact {
        let Some(bridge) = self.bridge(state) else {
            return fails(FactName::Uplink, "there is no bridge to have one");
        };
        let uplinks = uplinks(state, bridge);
        if uplinks.is_empty() {
            let ports: Vec<String> =
                ports(bridge).into_iter().filter(|port| *port != self.bridge).collect();
            return fails(
                FactName::Uplink,
                match ports.as_slice() {
                    [] => format!("{} has no port but its own", self.bridge),
                    _ => format!(
                        "no port of {} is an interface of this machine that is up: {}",
                        self.bridge,
                        list(&ports)
                    ),
                },
            );
        }
        holds(FactName::Uplink, format!("{} leaves by {}", self.bridge, list(&uplinks)))
    }

    fn internal_port_is_up(&self, state: &NetworkState) -> Fact {
        let name = &self.bridge;
        let Some(port) = self.internal_port(state) else {
            return fails(FactName::InternalPort, format!("there is no ovs-interface {name}"));
        };
        let in_list = self.bridge(state).is_some_and(|bridge| ports(bridge).contains(name));
        match (port.is_up(), in_list) {
            (true, true) => holds(FactName::InternalPort, format!("{name} is up")),
            (false, _) => fails(FactName::InternalPort, format!("ovs-interface {name} is not up")),
            (true, false) => {
                fails(FactName::InternalPort, format!("{name} is not a port of its bridge"))
            }
        }
    }

    fn has_address(&self, state: &NetworkState) -> Fact {
        let addresses = self.internal_port(state).map(global_addresses).unwrap_or_default();
        if addresses.is_empty() {
            return fails(
                FactName::Address,
                format!("{} has no address that others could reach", self.bridge),
            );
        }
        holds(
            FactName::Address,
            list(&addresses.iter().map(ToString::to_string).collect::<Vec<_>>()),
        )
    }

    /// For each family in which the bridge has a default route, none may be preferred to
    /// it. A route left behind on the old interface would take the traffic.
    fn carries_the_default_route(&self, state: &NetworkState) -> Fact {
        let routes = default_routes(state);
        let mut said = Vec::new();
        for family in [Family::V4, Family::V6] {
            let mut of_family = routes.iter().filter(|route| route.family == family);
            let Some(first) = of_family.clone().next() else { continue };
            let Some(own) = of_family.find(|route| route.interface == self.bridge) else {
                continue;
            };
            let rival = routes.iter().find(|route| {
                route.family == family
                    && route.interface != self.bridge
                    && route.metric <= own.metric
            });
            if let Some(rival) = rival {
                return fails(
                    FactName::DefaultRoute,
                    format!(
                        "the {} default route by {} (metric {}) is taken before the one by {} (metric {})",
                        family.name(),
                        rival.interface,
                        rival.metric,
                        self.bridge,
                        own.metric
                    ),
                );
            }
            let gateway = first.gateway.map(|address| format!(" to {address}"));
            said.push(format!(
                "{}{} with metric {}",
                family.name(),
                gateway.unwrap_or_default(),
                own.metric
            ));
        }
        if said.is_empty() {
            let others: Vec<String> = routes.iter().map(|route| route.interface.clone()).collect();
            return fails(
                FactName::DefaultRoute,
                match others.as_slice() {
                    [] => "there is no default route".to_owned(),
                    _ => format!("no default route by {}, only by {}", self.bridge, list(&others)),
                },
            );
        }
        holds(FactName::DefaultRoute, list(&said))
    }
}

/// Whether all facts hold.
pub fn all_hold(facts: &[Fact]) -> bool {
    facts.iter().all(|fact| fact.holds)
}

/// What does not hold, in one line.
pub fn failures(facts: &[Fact]) -> String {
    let failed = facts.iter().filter(|fact| !fact.holds).map(|fact| fact.detail.to_string());
    failed.collect::<Vec<_>>().join("; ")
}

fn holds_node_address(state: &NetworkState, address: IpAddr) -> Fact {
    let holder = state
        .interfaces
        .iter()
        .find(|interface| interface.is_up() && global_addresses(interface).contains(&address));
    match holder {
        Some(holder) => holds(FactName::NodeAddress, format!("{address} is on {}", holder.name())),
        None => fails(
            FactName::NodeAddress,
            format!(
                "no interface has {address}, which nodeip-configuration chose for this node; the node would wait for it for ever"
            ),
        ),
    }
}

fn ovs_bridges(state: &NetworkState) -> impl Iterator<Item = &OvsBridgeInterface> {
    state.interfaces.iter().filter_map(|interface| match interface {
        Interface::OvsBridge(bridge) => Some(bridge.as_ref()),
        _ => None,
    })
}

/// Names of the ports; of a bond, those of its members.
fn ports(bridge: &OvsBridgeInterface) -> Vec<String> {
    let ports = bridge.bridge.as_ref().and_then(|config| config.ports.as_ref());
    let members = ports.into_iter().flatten().flat_map(|port| {
        match port.bond.as_ref().and_then(|bond| bond.ports.as_ref()) {
            Some(members) => members.iter().map(|member| member.name.clone()).collect(),
            None => vec![port.name.clone()],
        }
    });
    members.collect()
}

/// Interfaces of the machine by which the bridge leaves it, through a patch into another
/// bridge if need be. A name that belongs to no device is made an internal port by Open
/// vSwitch, which is no way out.
fn uplinks(state: &NetworkState, bridge: &OvsBridgeInterface) -> Vec<String> {
    let direct: Vec<String> = system_ports(state, bridge);
    if !direct.is_empty() {
        return direct;
    }
    let own = ports(bridge);
    let peers: Vec<&str> = patches(state)
        .filter(|(name, _)| own.iter().any(|port| port == name))
        .map(|(_, peer)| peer)
        .collect();
    ovs_bridges(state)
        .filter(|other| ports(other).iter().any(|port| peers.contains(&port.as_str())))
        .flat_map(|other| system_ports(state, other))
        .collect()
}

fn system_ports(state: &NetworkState, bridge: &OvsBridgeInterface) -> Vec<String> {
    let is_system = |name: &String| {
        kernel_interface(state, name).is_some_and(|interface| {
            interface.iface_type() != InterfaceType::OvsInterface && interface.is_up()
        })
    };
    ports(bridge).into_iter().filter(is_system).collect()
}

/// Patch ports and their peers.
fn patches(state: &NetworkState) -> impl Iterator<Item = (&str, &str)> {
    state.interfaces.iter().filter_map(|interface| match interface {
        Interface::OvsInterface(port) => {
            port.patch.as_ref().map(|patch| (port.base.name.as_str(), patch.peer.as_str()))
        }
        _ => None,
    })
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn holds(name: FactName, detail: impl Into<Message>) -> Fact {
    Fact { name, holds: true, detail: detail.into() }
}

fn fails(name: FactName, detail: impl Into<Message>) -> Fact {
    Fact { name, holds: false, detail: detail.into() }
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
