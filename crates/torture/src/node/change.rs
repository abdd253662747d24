//! Changes of the network by which a node reaches its API server: good ones, and ones that cut it
//! off.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::random::Random;

/// The NIC by which the node reaches its API server, and what it may become a port of.
pub(crate) const UPLINK: &str = "mgmt0";
const BOND: &str = "bond1";
/// The node's address, and its router, behind which the API server is.
pub(crate) const ADDRESS: &str = "198.51.100.10";
pub(crate) const GATEWAY: &str = "198.51.100.1";
const USUAL_MTU: u64 = 1500;
const SMALL_MTU: u64 = 1400;
/// Nothing responds on it.
const UNUSED_VLAN: u64 = 77;

/// A network by which the node reaches its API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The NIC has the address.
    Nic { mtu: u64 },
    /// The NIC is the port of a bond, which has the address.
    Bond,
}

/// What the network is before the first change.
pub(crate) const FIRST: Shape = Shape::Nic { mtu: USUAL_MTU };

/// What the kernel has of one interface: its controller, MTU and IPv4 addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    controller: Option<String>,
    mtu: u64,
    addresses: Vec<String>,
}

/// The interfaces that changes are about.
pub(crate) type Links = BTreeMap<String, Link>;

/// A change of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// For messages.
    pub(crate) about: &'static str,
    /// The network afterwards; none for a change that cuts the node off.
    pub(crate) result: Option<Shape>,
    pub(crate) desired: Value,
}

impl Shape {
    /// What the kernel has when the network is this one.
    pub(crate) fn links(self) -> Links {
        let own = || vec![ADDRESS.to_owned()];
        let link = |name: &str, controller: Option<&str>, mtu, addresses| {
            let controller = controller.map(str::to_owned);
            (name.to_owned(), Link { controller, mtu, addresses })
        };
        match self {
            Self::Nic { mtu } => Links::from([link(UPLINK, None, mtu, own())]),
            Self::Bond => Links::from([
                link(UPLINK, Some(BOND), USUAL_MTU, Vec::new()),
                link(BOND, None, USUAL_MTU, own()),
            ]),
        }
    }

    /// The interface that has the address, and its type.
    fn top(self) -> (&'static str, &'static str) {
        match self {
            Self::Nic { .. } => (UPLINK, "ethernet"),
            Self::Bond => (BOND, "bond"),
        }
    }

    /// A change to another network that works.
    pub(crate) fn good_change(self, random: &mut Random) -> Change {
        let (about, result, interfaces) = match self {
            Self::Bond => {
                let absent = json!({"name": BOND, "type": "bond", "state": "absent"});
                let next = Self::Nic { mtu: USUAL_MTU };
                ("the bond is removed", next, vec![absent, nic(USUAL_MTU, &address())])
            }
            Self::Nic { mtu } if random.is_heads() => {
                let next = if mtu == USUAL_MTU { SMALL_MTU } else { USUAL_MTU };
                ("another MTU", Self::Nic { mtu: next }, vec![nic(next, &address())])
            }
            Self::Nic { .. } => {
                let interfaces = vec![nic(USUAL_MTU, &none()), bond(&address())];
                ("the NIC becomes the port of a bond", Self::Bond, interfaces)
            }
        };
        let (top, _) = result.top();
        let desired = json!({"interfaces": interfaces, "routes": {"config": [route(top)]}});
        Change { about, result: Some(result), desired }
    }

    /// A change that cuts the node off from the API server.
    pub(crate) fn bad_change(self, random: &mut Random) -> Change {
        let (top, kind) = self.top();
        let with = |ipv4: &Value| json!({"name": top, "type": kind, "state": "up", "ipv4": ipv4, "ipv6": none()});
        let (about, desired) = match random.pick(4) {
            0 => {
                let other = json!({"ip": "203.0.113.7", "prefix-length": 24});
                let other = json!({"enabled": true, "dhcp": false, "address": [other]});
                ("an address of another network", json!({"interfaces": [with(&other)]}))
            }
            1 => ("no address", json!({"interfaces": [with(&none())]})),
            2 => {
                let name = format!("{top}.{UNUSED_VLAN}");
                let vlan = json!({
                    "name": name, "type": "vlan", "state": "up", "ipv4": address(), "ipv6": none(),
                    "vlan": {"base-iface": top, "id": UNUSED_VLAN},
                });
                let routes = json!({"config": [route(&name)]});
                let interfaces = json!([with(&none()), vlan]);
                ("a VLAN that is not there", json!({"interfaces": interfaces, "routes": routes}))
            }
            _ if self != Self::Bond => {
                let interfaces = [nic(USUAL_MTU, &none()), bond(&none())];
                ("a bond without an address", json!({"interfaces": interfaces}))
            }
            _ => {
                let down = json!({"name": top, "type": kind, "state": "down"});
                ("the bond is down", json!({"interfaces": [down]}))
            }
        };
        Change { about, result: None, desired }
    }
}

/// What `ip -json address` prints, about the interfaces of changes. Others have no IPv4 address and
/// are of no concern.
pub(crate) fn links(printed: &Value) -> Links {
    let is_ours = |name: &str| {
        [UPLINK, BOND].iter().any(|own| name.strip_prefix(own).is_some_and(is_empty_or_vlan))
    };
    let link = |it: &Value| {
        let name = it["ifname"].as_str()?;
        let all = it["addr_info"].as_array()?.iter();
        let addresses = all
            .filter(|it| it["family"] == "inet")
            .filter_map(|it| it["local"].as_str().map(str::to_owned))
            .collect();
        let controller = it["master"].as_str().map(str::to_owned);
        let link = Link { controller, mtu: it["mtu"].as_u64()?, addresses };
        is_ours(name).then(|| (name.to_owned(), link))
    };
    printed.as_array().into_iter().flatten().filter_map(link).collect()
}

fn is_empty_or_vlan(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}

fn none() -> Value {
    json!({"enabled": false})
}

fn address() -> Value {
    let address = json!({"ip": ADDRESS, "prefix-length": 24});
    json!({"enabled": true, "dhcp": false, "address": [address]})
}

fn nic(mtu: u64, ipv4: &Value) -> Value {
    json!({
        "name": UPLINK, "type": "ethernet", "state": "up", "mtu": mtu, "ipv4": ipv4, "ipv6": none(),
    })
}

fn bond(ipv4: &Value) -> Value {
    json!({
        "name": BOND, "type": "bond", "state": "up", "mtu": USUAL_MTU, "ipv4": ipv4, "ipv6": none(),
        "link-aggregation": {"mode": "active-backup", "options": {"miimon": 100}, "port": [UPLINK]},
    })
}

fn route(interface: &str) -> Value {
    json!({
        "destination": "0.0.0.0/0", "next-hop-address": GATEWAY, "next-hop-interface": interface,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_from_what_the_kernel_prints() {
        let printed = json!([
            {"ifname": "lo", "mtu": 65536, "addr_info": [{"family": "inet", "local": "127.0.0.1"}]},
            {"ifname": "mgmt0", "mtu": 1500, "master": "bond1", "addr_info": []},
            {"ifname": "bond1", "mtu": 1500, "addr_info": [
                {"family": "inet", "local": "198.51.100.10"}, {"family": "inet6", "local": "fe80::1"},
            ]},
        ]);
        assert_eq!(links(&printed), Shape::Bond.links());
        let vlan = json!([{"ifname": "mgmt0.77", "mtu": 1500, "addr_info": []}]);
        assert!(links(&vlan).contains_key("mgmt0.77"), "a leftover of a bad change is seen");
    }

    #[test]
    fn a_good_change_leads_to_another_network_and_a_bad_one_to_none() {
        let mut random = Random::new(1);
        for shape in [FIRST, Shape::Nic { mtu: SMALL_MTU }, Shape::Bond] {
            for _ in 0..50 {
                let good = shape.good_change(&mut random);
                assert!(good.result.is_some_and(|result| result != shape), "{good:?}");
                assert!(good.desired.to_string().contains(ADDRESS));
                assert_eq!(shape.bad_change(&mut random).result, None);
            }
        }
    }
}
