//! A network state with everything under the key by which it is compared.

use std::collections::BTreeMap;
use std::fmt;

use br_ex::layout::Family;
use nmstate::NetworkState;
use serde_json::{Map, Value};

/// The routing table that routes are in when they name none.
pub(super) const MAIN_TABLE: u64 = 254;

/// What a state was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// A document: what it does not mention is not known.
    Document,
    /// The state of a node: complete.
    Node,
}

/// A network state by keys.
#[derive(Debug, Clone)]
pub struct State {
    pub(super) basis: Basis,
    pub(super) network: NetworkState,
    /// By name and type.
    pub(super) interfaces: BTreeMap<(String, String), Map<String, Value>>,
    pub(super) routes: BTreeMap<RouteKey, Map<String, Value>>,
    /// `dns-resolver.config`.
    pub(super) dns: Map<String, Value>,
    /// All other sections.
    pub(super) rest: Map<String, Value>,
}

/// What makes a route the same route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteKey {
    pub destination: String,
    pub table: u64,
    pub interface: String,
    pub next_hop: String,
}

#[derive(Debug, thiserror::Error)]
#[error("nmstate cannot write the state it has read")]
pub struct StateError(#[from] serde_json::Error);

impl State {
    pub fn new(network: &NetworkState, basis: Basis) -> Result<Self, StateError> {
        let mut sections = match serde_json::to_value(network)? {
            Value::Object(sections) => sections,
            _ => Map::new(),
        };
        let taken = |section: Option<Value>, key: &str| match section {
            Some(Value::Object(mut section)) => section.remove(key),
            _ => None,
        };
        let listed = |list: Option<Value>| match list {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        let objects = |list: Vec<Value>| {
            list.into_iter().filter_map(|item| match item {
                Value::Object(item) => Some(item),
                _ => None,
            })
        };
        let interfaces = objects(listed(sections.remove("interfaces")))
            .map(with_members)
            .map(with_known_type)
            .map(|it| ((text(&it, "name").to_owned(), text(&it, "type").to_owned()), it))
            .collect();
        let routes = objects(listed(taken(sections.remove("routes"), "config")))
            .filter(|route| text(route, "state") != "absent")
            .map(|route| (RouteKey::of(&route), route))
            .collect();
        let dns = match taken(sections.remove("dns-resolver"), "config") {
            Some(Value::Object(dns)) => dns,
            _ => Map::new(),
        };
        Ok(Self { basis, network: network.clone(), interfaces, routes, dns, rest: sections })
    }

    /// Whether there is such a route already, by its destination.
    pub(super) fn has_route(&self, route: &Value) -> bool {
        route.as_object().is_some_and(|route| self.routes.contains_key(&RouteKey::of(route)))
    }

    pub(super) fn interface(&self, name: &str, kind: &str) -> Option<&Map<String, Value>> {
        self.interfaces.get(&(name.to_owned(), kind.to_owned()))
    }

    /// The port of br-ex with the node's address.
    pub(super) fn internal_port(&self) -> Option<&Map<String, Value>> {
        self.interface(br_ex::BRIDGE, "ovs-interface")
    }

    /// The interface of this name that is not an ovs-bridge.
    pub(super) fn kernel_interface(&self, name: &str) -> Option<&Map<String, Value>> {
        let mut named = self.interfaces.iter().filter(|((of, _), _)| of == name);
        named.find(|((_, kind), _)| kind != "ovs-bridge").map(|(_, interface)| interface)
    }
}

/// A bond with the list of its members by name, also where only `ports-config` has them.
fn with_members(mut interface: Map<String, Value>) -> Map<String, Value> {
    let Some(bond) = interface.get_mut("link-aggregation") else { return interface };
    let names = members(bond);
    if let Some(bond) = bond.as_object_mut().filter(|_| !names.is_empty()) {
        bond.entry("port").or_insert_with(|| names.into());
    }
    interface
}

/// One end of a veth pair is configured like a NIC, and documents call it that.
fn with_known_type(mut interface: Map<String, Value>) -> Map<String, Value> {
    if text(&interface, "type") == "veth" {
        interface.insert("type".to_owned(), "ethernet".into());
    }
    interface
}

impl RouteKey {
    fn of(route: &Map<String, Value>) -> Self {
        Self {
            destination: text(route, "destination").to_owned(),
            table: match route.get("table-id").and_then(Value::as_u64) {
                None | Some(0) => MAIN_TABLE,
                Some(table) => table,
            },
            interface: text(route, "next-hop-interface").to_owned(),
            next_hop: text(route, "next-hop-address").to_owned(),
        }
    }

    pub(super) fn is_default(&self) -> bool {
        Family::of_default_route(&self.destination).is_some() && self.table == MAIN_TABLE
    }

    /// Whether the other one has the same destination by another gateway on the same interface.
    pub(super) fn is_replaced_by(&self, other: &Self) -> bool {
        let place =
            |route: &Self| (route.destination.clone(), route.table, route.interface.clone());
        place(self) == place(other) && self.next_hop != other.next_hop
    }

    /// The route in a document, as far as needed to distinguish it from others.
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let mut route = Map::new();
        route.insert("destination".to_owned(), self.destination.as_str().into());
        for (key, value) in
            [("next-hop-address", &self.next_hop), ("next-hop-interface", &self.interface)]
        {
            if !value.is_empty() {
                route.insert(key.to_owned(), value.as_str().into());
            }
        }
        if self.table != MAIN_TABLE {
            route.insert("table-id".to_owned(), self.table.into());
        }
        route
    }

    /// The default route and the uplink of br-ex.
    pub(super) fn is_way_out(&self) -> bool {
        self.is_default() && self.interface == br_ex::BRIDGE
    }
}

impl fmt::Display for RouteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route to {}", self.destination)?;
        if !self.next_hop.is_empty() {
            write!(f, " via {}", self.next_hop)?;
        }
        if !self.interface.is_empty() {
            write!(f, " on {}", self.interface)?;
        }
        if self.table != MAIN_TABLE {
            write!(f, " in table {}", self.table)?;
        }
        Ok(())
    }
}

/// The text of a key, or none.
pub(super) fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A switch in a section of an interface.
pub(super) fn switch(map: &Map<String, Value>, section: &str, key: &str) -> Option<bool> {
    map.get(section)?.get(key)?.as_bool()
}

/// The members of a bond, by whichever of its lists there is.
pub(super) fn members(section: &Value) -> Vec<String> {
    let list =
        ["port", "ports", "ports-config"].iter().find_map(|key| section.get(key)?.as_array());
    let name =
        |port: &Value| Some(port.as_str().or_else(|| port.get("name")?.as_str())?.to_owned());
    list.into_iter().flatten().filter_map(name).collect()
}
