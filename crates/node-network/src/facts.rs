//! What must be true of a bridge that connects a node, read from a network state alone.

use std::net::IpAddr;

use nmstate::{Interface, InterfaceType, NetworkState, OvsBridgeInterface};
use serde::{Deserialize, Serialize};

use crate::demand::{Demand, StaticRoute};
use crate::message::Message;
use crate::view::{
    DefaultRoute, Family, MAIN_TABLE, addresses, default_routes, global_addresses, kernel_interface,
};

/// The expected bridge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expectation {
    /// The name of the bridge and of its internal port.
    pub bridge: String,
    /// The addresses that nodeip-configuration selected, one per family. A node on which no
    /// interface has one of them waits for it forever.
    pub node_addresses: Vec<IpAddr>,
    /// What the document demands. Without it, one address and one default route are enough.
    pub demand: Option<Demand>,
}

/// A condition that must be true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub name: FactName,
    pub holds: bool,
    /// The observed value.
    pub detail: Message,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactName {
    /// The bridge exists and is up.
    Bridge,
    /// It has an uplink: a port that is a real interface.
    Uplink,
    /// Its internal port is up and among its ports.
    InternalPort,
    /// The internal port has an address that others can reach.
    Address,
    /// The preferred default route is through it, in every family that the document demands.
    DefaultRoute,
    /// It has the static addresses of the document.
    DocumentAddresses,
    /// The static routes of the document are configured.
    DocumentRoutes,
    /// An interface has each address that nodeip-configuration selected.
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
        if let Some(demand) = &self.demand {
            facts.extend(self.has_addresses_of_document(state, demand));
            facts.extend(self.has_routes_of_document(state, demand));
        }
        let selected = self.node_addresses.iter();
        facts.extend(selected.map(|address| holds_node_address(state, *address)));
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
        let families = self.demand.as_ref().map(|it| it.families.as_slice()).unwrap_or_default();
        let has = |family: &Family| addresses.iter().any(|it| Family::of(it) == *family);
        let missing: Vec<&Family> = families.iter().filter(|family| !has(family)).collect();
        let any_is_enough = self.demand.as_ref().is_none_or(|demand| demand.any_family);
        if let Some(family) = missing.first().filter(|_| !any_is_enough) {
            return fails(
                FactName::Address,
                format!(
                    "{} has no {} address, which the document demands",
                    self.bridge,
                    family.name()
                ),
            );
        }
        holds(
            FactName::Address,
            list(&addresses.iter().map(ToString::to_string).collect::<Vec<_>>()),
        )
    }

    /// In each family in which the bridge has a default route, no other may be preferred: a route
    /// left on the previous interface would take the traffic. Each family that the document demands
    /// must have one.
    fn carries_the_default_route(&self, state: &NetworkState) -> Fact {
        let routes = default_routes(state);
        let demanded = self.demand.as_ref().map(|it| it.default_routes.as_slice());
        let any_is_enough = self.demand.as_ref().is_none_or(|demand| demand.any_family);
        let mut seen = Vec::new();
        for family in [Family::V4, Family::V6] {
            let of_family =
                || routes.iter().filter(move |route: &&DefaultRoute| route.family == family);
            let Some(own) = of_family().find(|route| route.interface == self.bridge) else {
                if !any_is_enough && demanded.is_some_and(|families| families.contains(&family)) {
                    return fails(FactName::DefaultRoute, self.no_default_route(family, &routes));
                }
                continue;
            };
            let rival = of_family()
                .find(|route| route.interface != self.bridge && route.metric <= own.metric);
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
            let gateway = own.gateway.map(|address| format!(" to {address}")).unwrap_or_default();
            seen.push(format!("{}{gateway} with metric {}", family.name(), own.metric));
        }
        match (seen.is_empty(), demanded) {
            (true, Some([])) => holds(FactName::DefaultRoute, "the document demands none"),
            (true, _) => {
                let others: Vec<String> =
                    routes.iter().map(|route| route.interface.clone()).collect();
                let detail = match others.as_slice() {
                    [] => "there is no default route".to_owned(),
                    _ => format!("no default route by {}, only by {}", self.bridge, list(&others)),
                };
                fails(FactName::DefaultRoute, detail)
            }
            (false, _) => holds(FactName::DefaultRoute, list(&seen)),
        }
    }

    fn no_default_route(&self, family: Family, routes: &[DefaultRoute]) -> String {
        let others: Vec<String> = routes
            .iter()
            .filter(|route| route.family == family)
            .map(|route| route.interface.clone())
            .collect();
        let others = match others.as_slice() {
            [] => String::new(),
            _ => format!(", only by {}", list(&others)),
        };
        format!(
            "no {} default route by {}{others}; the document demands one",
            family.name(),
            self.bridge
        )
    }

    fn has_addresses_of_document(&self, state: &NetworkState, demand: &Demand) -> Option<Fact> {
        if demand.addresses.is_empty() {
            return None;
        }
        let held = self.internal_port(state).map(addresses).unwrap_or_default();
        let text = |list: Vec<&(IpAddr, u8)>| {
            list.iter().map(|(ip, prefix)| format!("{ip}/{prefix}")).collect::<Vec<_>>()
        };
        let missing: Vec<_> = demand.addresses.iter().filter(|it| !held.contains(it)).collect();
        Some(match missing.as_slice() {
            [] => {
                holds(FactName::DocumentAddresses, list(&text(demand.addresses.iter().collect())))
            }
            _ => fails(
                FactName::DocumentAddresses,
                format!("{} lacks {} of the document", self.bridge, list(&text(missing))),
            ),
        })
    }

    fn has_routes_of_document(&self, state: &NetworkState, demand: &Demand) -> Option<Fact> {
        if demand.routes.is_empty() {
            return None;
        }
        let running: Vec<_> = state.routes.running.iter().flatten().collect();
        let is_there = |wanted: &&StaticRoute| {
            running.iter().any(|route| {
                let gateway: Option<IpAddr> =
                    route.next_hop_addr.as_deref().and_then(|text| text.parse().ok());
                let table = route.table_id.filter(|table| *table != 0).unwrap_or(MAIN_TABLE);
                route.next_hop_iface.as_deref() == Some(self.bridge.as_str())
                    && same_network(route.destination.as_deref(), &wanted.destination)
                    && table == wanted.table
                    && wanted.gateway.is_none_or(|wanted| gateway == Some(wanted))
                    && wanted.metric.is_none_or(|wanted| route.metric == Some(wanted))
            })
        };
        let text = |routes: Vec<&StaticRoute>| {
            routes.iter().map(|route| route.destination.clone()).collect::<Vec<_>>()
        };
        let missing: Vec<_> = demand.routes.iter().filter(|route| !is_there(route)).collect();
        Some(match missing.as_slice() {
            [] => holds(FactName::DocumentRoutes, list(&text(demand.routes.iter().collect()))),
            _ => fails(
                FactName::DocumentRoutes,
                format!(
                    "no route by {} to {}, as in the document",
                    self.bridge,
                    list(&text(missing))
                ),
            ),
        })
    }
}

/// Whether two texts are the same network: nmstate writes them in the kernel's form.
fn same_network(found: Option<&str>, wanted: &str) -> bool {
    let parse = |text: &str| -> Option<(IpAddr, u8)> {
        let (address, prefix) = text.split_once('/')?;
        Some((address.parse().ok()?, prefix.parse().ok()?))
    };
    let Some(found) = found else { return false };
    found == wanted || parse(found).is_some_and(|found| Some(found) == parse(wanted))
}

/// Whether all facts are true.
pub fn all_hold(facts: &[Fact]) -> bool {
    facts.iter().all(|fact| fact.holds)
}

/// The facts that are not true, in one line.
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
                "no interface has {address}, which nodeip-configuration chose for this node; the node would wait for it forever"
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

/// Interfaces of the machine through which traffic of the bridge leaves it, if necessary through a
/// patch port into another bridge. For a name without a device Open vSwitch creates an internal
/// port, which does not leave the machine.
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
