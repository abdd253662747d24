//! What a document demands of the bridge: families, addresses and routes, to compare a node with.

use std::net::IpAddr;

use nmstate::{Interface, InterfaceType, NetworkState, WaitIp};
use serde::{Deserialize, Serialize};

use crate::view::{Family, MAIN_TABLE};

/// What a document demands of a bridge and its internal port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// Families in which the internal port must have an address.
    pub families: Vec<Family>,
    /// Families in which the bridge must have the preferred default route.
    pub default_routes: Vec<Family>,
    /// Whether one of the families is enough, as `wait-ip: any` states.
    pub any_family: bool,
    /// Static addresses of the internal port.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Static routes through the bridge.
    pub routes: Vec<StaticRoute>,
}

/// A static route through the bridge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticRoute {
    pub destination: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gateway: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub metric: Option<i64>,
    pub table: u32,
}

/// One family of the internal port, as the document has it.
struct Section {
    family: Family,
    is_automatic: bool,
    has_automatic_gateway: bool,
    addresses: Vec<(IpAddr, u8)>,
}

impl Demand {
    /// What `desired` demands of the bridge of this name. Every family that it enables must have
    /// an address, unless `wait-ip` states otherwise.
    pub fn of(desired: &NetworkState, bridge: &str) -> Self {
        let is_port = |interface: &&Interface| {
            interface.name() == bridge && interface.iface_type() == InterfaceType::OvsInterface
        };
        let port = desired.interfaces.iter().find(is_port);
        let routes = static_routes(desired, bridge);
        let Some(port) = port else { return Self { routes, ..Self::default() } };
        let sections = sections(port);
        let wait_ip = port.base_iface().wait_ip.as_ref();
        let is_awaited = |family: Family| match wait_ip {
            None | Some(WaitIp::Any | WaitIp::Ipv4AndIpv6) => true,
            Some(WaitIp::Ipv4) => family == Family::V4,
            Some(WaitIp::Ipv6) => family == Family::V6,
            // A value of a later nmstate.
            Some(_) => true,
        };
        let has_static_default =
            |family: Family| routes.iter().any(|route| route.is_default() == Some(family));
        let is_demanded = |section: &&Section| {
            !section.addresses.is_empty() || (section.is_automatic && is_awaited(section.family))
        };
        let demanded = || sections.iter().filter(is_demanded);
        Self {
            families: demanded().map(|section| section.family).collect(),
            default_routes: demanded()
                .filter(|section| {
                    section.has_automatic_gateway || has_static_default(section.family)
                })
                .map(|section| section.family)
                .collect(),
            any_family: matches!(wait_ip, Some(WaitIp::Any)),
            addresses: sections.iter().flat_map(|section| section.addresses.clone()).collect(),
            routes,
        }
    }
}

impl StaticRoute {
    /// The family of a default route of the main table.
    pub fn is_default(&self) -> Option<Family> {
        match self.destination.as_str() {
            _ if self.table != MAIN_TABLE => None,
            "0.0.0.0/0" => Some(Family::V4),
            "::/0" => Some(Family::V6),
            _ => None,
        }
    }
}

fn sections(port: &Interface) -> Vec<Section> {
    let base = port.base_iface();
    let addresses = |list: &Option<Vec<nmstate::InterfaceIpAddr>>| {
        let list = list.iter().flatten();
        list.map(|address| (address.ip, address.prefix_length)).collect::<Vec<_>>()
    };
    let is_on = |switch: Option<bool>| switch == Some(true);
    let is_not_off = |switch: Option<bool>| switch != Some(false);
    let v4 = base.ipv4.as_ref().filter(|ip| ip.enabled).map(|ip| Section {
        family: Family::V4,
        is_automatic: is_on(ip.dhcp),
        has_automatic_gateway: is_on(ip.dhcp)
            && is_not_off(ip.auto_gateway)
            && is_not_off(ip.auto_routes),
        addresses: addresses(&ip.addresses),
    });
    let v6 = base.ipv6.as_ref().filter(|ip| ip.enabled).map(|ip| Section {
        family: Family::V6,
        is_automatic: is_on(ip.dhcp) || is_on(ip.autoconf),
        // DHCPv6 has no default gateway; router advertisements have.
        has_automatic_gateway: is_on(ip.autoconf)
            && is_not_off(ip.auto_gateway)
            && is_not_off(ip.auto_routes),
        addresses: addresses(&ip.addresses),
    });
    v4.into_iter().chain(v6).collect()
}

fn static_routes(desired: &NetworkState, bridge: &str) -> Vec<StaticRoute> {
    let routes = desired.routes.config.iter().flatten();
    let through_bridge = routes
        .filter(|route| route.state.is_none() && route.next_hop_iface.as_deref() == Some(bridge));
    let read = |route: &nmstate::RouteEntry| {
        let gateway = route.next_hop_addr.as_deref().and_then(|text| text.parse().ok());
        Some(StaticRoute {
            destination: route.destination.clone()?,
            gateway: gateway.filter(|address: &IpAddr| !address.is_unspecified()),
            metric: route.metric.filter(|metric| *metric >= 0),
            table: route.table_id.filter(|table| *table != 0).unwrap_or(MAIN_TABLE),
        })
    };
    through_bridge.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(port: &str, rest: &str) -> Demand {
        let yaml = format!(
            "interfaces:\n- {{name: br-ex, type: ovs-bridge, state: up}}\n- {{name: br-ex, type: ovs-interface, state: up, {port}}}\n{rest}"
        );
        Demand::of(&NetworkState::new_from_yaml(&yaml).unwrap(), "br-ex")
    }

    const DUAL: &str =
        "ipv4: {enabled: true, dhcp: true}, ipv6: {enabled: true, dhcp: true, autoconf: true}";

    #[test]
    fn every_enabled_family_is_demanded_unless_wait_ip_states_otherwise() {
        use Family::{V4, V6};
        let families = |port: &str| {
            let found = demand(port, "");
            (found.families, found.default_routes, found.any_family)
        };
        assert_eq!(families(DUAL), (vec![V4, V6], vec![V4, V6], false));
        assert_eq!(families(&format!("{DUAL}, wait-ip: ipv4")), (vec![V4], vec![V4], false));
        let any = families(&format!("{DUAL}, wait-ip: any"));
        assert_eq!(any, (vec![V4, V6], vec![V4, V6], true));
        let only_4 = "ipv4: {enabled: true, dhcp: true}, ipv6: {enabled: false}";
        assert_eq!(families(only_4), (vec![V4], vec![V4], false));
        let no_gateway = "ipv4: {enabled: true, dhcp: true, auto-gateway: false}";
        assert_eq!(families(no_gateway), (vec![V4], vec![], false));
    }

    #[test]
    fn static_addresses_and_routes_through_the_bridge_are_demanded() {
        let found = demand(
            "ipv6: {enabled: true, address: [{ip: '2001:db8::10', prefix-length: 64}]}",
            "routes:
  config:
  - {destination: '::/0', next-hop-address: 'fe80::1', next-hop-interface: br-ex, metric: 48}
  - {destination: 192.0.2.0/24, next-hop-address: 198.51.100.9, next-hop-interface: br-ex, table-id: 100}
  - {destination: 203.0.113.0/24, next-hop-address: 198.51.100.9, next-hop-interface: nic1}
  - {state: absent, next-hop-interface: br-ex}
",
        );
        assert_eq!(found.families, [Family::V6]);
        assert_eq!(found.default_routes, [Family::V6]);
        assert_eq!(found.addresses, [("2001:db8::10".parse().unwrap(), 64)]);
        let routes: Vec<_> =
            found.routes.iter().map(|r| (r.destination.as_str(), r.table)).collect();
        assert_eq!(routes, [("::/0", 254), ("192.0.2.0/24", 100)]);
    }
}
