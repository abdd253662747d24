//! The state of a node's network, as the kernel and Open vSwitch report it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result};
use serde::Deserialize;

/// A snapshot. Two of them are equal when a user of the network would notice no difference:
/// lifetimes, indexes and counters are not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub interfaces: BTreeMap<String, Interface>,
    pub default_routes: BTreeSet<DefaultRoute>,
    /// Bridges of Open vSwitch and their ports, without the one that has the bridge's name.
    pub bridges: BTreeMap<String, BTreeSet<String>>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Administratively up; a cable may be missing nevertheless.
    pub up: bool,
    pub mac: Option<String>,
    pub mtu: u32,
    /// Addresses with their prefix lengths, without those of the link itself (`fe80::`).
    pub addresses: BTreeSet<(IpAddr, u8)>,
}

/// A default route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefaultRoute {
    pub interface: String,
    pub gateway: Option<IpAddr>,
    pub metric: u32,
}

impl State {
    /// The first IPv4 address of an interface.
    pub fn ipv4(&self, interface: &str) -> Option<Ipv4Addr> {
        let addresses = &self.interfaces.get(interface)?.addresses;
        addresses.iter().find_map(|(address, _)| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        })
    }

    /// Whether a default route of the family of `like` leaves through an interface.
    pub fn has_default_route(&self, interface: &str, like: IpAddr) -> bool {
        self.default_routes.iter().any(|route| {
            let family = route.gateway.is_none_or(|gateway| gateway.is_ipv4() == like.is_ipv4());
            route.interface == interface && family
        })
    }
}

#[derive(Deserialize)]
struct Link {
    ifname: String,
    #[serde(default)]
    flags: Vec<String>,
    address: Option<String>,
    mtu: u32,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    local: Option<IpAddr>,
    prefixlen: u8,
    scope: String,
}

#[derive(Deserialize)]
struct Route {
    dst: String,
    gateway: Option<IpAddr>,
    dev: Option<String>,
    #[serde(default)]
    metric: u32,
}

/// From `ip -json address`.
pub(super) fn interfaces(json: &str) -> Result<BTreeMap<String, Interface>> {
    let links: Vec<Link> = parse(json).context("reading the output of `ip -json address`")?;
    let interface = |link: Link| {
        let addresses = link
            .addr_info
            .iter()
            .filter(|address| address.scope != "link")
            .filter_map(|address| Some((address.local?, address.prefixlen)))
            .collect();
        let up = link.flags.iter().any(|flag| flag == "UP");
        (link.ifname, Interface { up, mac: link.address, mtu: link.mtu, addresses })
    };
    Ok(links.into_iter().map(interface).collect())
}

/// From `ip -json route`, for one family.
pub(super) fn default_routes(json: &str) -> Result<BTreeSet<DefaultRoute>> {
    let routes: Vec<Route> = parse(json).context("reading the output of `ip -json route`")?;
    Ok(routes
        .into_iter()
        .filter(|route| route.dst == "default")
        .map(|Route { gateway, dev, metric, .. }| DefaultRoute {
            interface: dev.unwrap_or_default(),
            gateway,
            metric,
        })
        .collect())
}

/// `ip` prints nothing at all where it has nothing to report.
fn parse<'a, T: Deserialize<'a> + Default>(json: &'a str) -> serde_json::Result<T> {
    if json.trim().is_empty() { Ok(T::default()) } else { serde_json::from_str(json) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_link_itself_are_left_out() {
        let json = r#"[{"ifindex":2,"ifname":"nic0","flags":["BROADCAST","UP","LOWER_UP"],"mtu":1500,
            "address":"52:54:00:00:00:01","addr_info":[
            {"family":"inet","local":"198.51.100.101","prefixlen":24,"scope":"global","dynamic":true},
            {"family":"inet6","local":"fe80::1","prefixlen":64,"scope":"link"}]}]"#;
        let interfaces = interfaces(json).unwrap();
        let nic = &interfaces["nic0"];
        assert!(nic.up);
        assert_eq!(nic.mtu, 1500);
        let address = (IpAddr::from([198, 51, 100, 101]), 24);
        assert_eq!(nic.addresses, BTreeSet::from([address]));
    }

    #[test]
    fn only_default_routes_are_kept() {
        let json = r#"[{"dst":"default","gateway":"198.51.100.1","dev":"br-ex","metric":48,"flags":[]},
            {"dst":"198.51.100.0/24","dev":"br-ex","scope":"link","flags":[]}]"#;
        let expected = DefaultRoute {
            interface: "br-ex".into(),
            gateway: Some(IpAddr::from([198, 51, 100, 1])),
            metric: 48,
        };
        assert_eq!(default_routes(json).unwrap(), BTreeSet::from([expected]));
    }

    #[test]
    fn nothing_printed_means_no_routes() {
        assert_eq!(default_routes("\n").unwrap(), BTreeSet::new());
    }
}
