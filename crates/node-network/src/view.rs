//! The routes, name servers and addresses of a network state.

use std::net::IpAddr;

use nmstate::{Interface, InterfaceType, NetworkState};
use serde::{Deserialize, Serialize};

/// The kernel's main routing table.
pub(crate) const MAIN_TABLE: u32 = 254;

/// A default route in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultRoute {
    pub interface: String,
    /// None for a route directly to the link.
    pub gateway: Option<IpAddr>,
    pub metric: i64,
    pub family: Family,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Family {
    #[serde(rename = "ipv4")]
    V4,
    #[serde(rename = "ipv6")]
    V6,
}

impl Family {
    pub fn of(address: &IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// Default routes of the main table, the one that the kernel prefers first.
pub fn default_routes(state: &NetworkState) -> Vec<DefaultRoute> {
    let mut routes: Vec<DefaultRoute> = state
        .routes
        .running
        .iter()
        .flatten()
        .filter(|route| matches!(route.table_id, None | Some(0 | MAIN_TABLE)))
        .filter_map(|route| {
            let family = match route.destination.as_deref()? {
                "0.0.0.0/0" => Family::V4,
                "::/0" => Family::V6,
                _ => return None,
            };
            let gateway = route.next_hop_addr.as_deref().and_then(|text| text.parse().ok());
            let gateway = gateway.filter(|address: &IpAddr| !address.is_unspecified());
            Some(DefaultRoute {
                interface: route.next_hop_iface.clone()?,
                gateway,
                metric: route.metric.unwrap_or(0).max(0),
                family,
            })
        })
        .collect();
    routes.sort_by(|a, b| {
        (a.family, a.metric, &a.interface).cmp(&(b.family, b.metric, &b.interface))
    });
    routes
}

/// A name server in use, with the interface of a link-local one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameServer {
    pub address: IpAddr,
    pub interface: Option<String>,
}

/// The name servers in use, in the resolver's order.
pub fn name_servers(state: &NetworkState) -> Vec<NameServer> {
    let running = state.dns.as_ref().and_then(|dns| dns.running.as_ref());
    let servers = running.and_then(|running| running.server.as_ref());
    let parse = |text: &String| {
        let (address, interface) = match text.split_once('%') {
            Some((address, interface)) => (address, Some(interface.to_owned())),
            None => (text.as_str(), None),
        };
        Some(NameServer { address: address.parse().ok()?, interface })
    };
    servers.into_iter().flatten().filter_map(parse).collect()
}

/// The kernel interface of this name: one that can have addresses.
pub fn kernel_interface<'a>(state: &'a NetworkState, name: &str) -> Option<&'a Interface> {
    let in_kernel = |interface: &Interface| {
        !matches!(
            interface.iface_type(),
            InterfaceType::OvsBridge | InterfaceType::Ipsec | InterfaceType::Other(_)
        )
    };
    state.interfaces.iter().find(|interface| interface.name() == name && in_kernel(interface))
}

/// Addresses of an interface that can reach other machines.
pub fn global_addresses(interface: &Interface) -> Vec<IpAddr> {
    let all = addresses(interface).into_iter().map(|(address, _)| address);
    all.filter(|address| !is_link_local(address)).collect()
}

/// All addresses of an interface, with their prefix lengths.
pub fn addresses(interface: &Interface) -> Vec<(IpAddr, u8)> {
    let base = interface.base_iface();
    let v4 = base.ipv4.as_ref().filter(|ip| ip.enabled).and_then(|ip| ip.addresses.as_ref());
    let v6 = base.ipv6.as_ref().filter(|ip| ip.enabled).and_then(|ip| ip.addresses.as_ref());
    let all = v4.into_iter().chain(v6).flatten();
    all.map(|address| (address.ip, address.prefix_length)).collect()
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        // OVN-Kubernetes keeps its masquerade address on br-ex in this range.
        IpAddr::V4(address) => address.is_link_local(),
        // fd69::/112 is the masquerade range of IPv6.
        IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.segments()[..7] == [0xfd69, 0, 0, 0, 0, 0, 0]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(yaml: &str) -> NetworkState {
        NetworkState::new_from_yaml(yaml).unwrap()
    }

    #[test]
    fn only_default_routes_of_the_main_table_count_and_the_lowest_metric_is_first() {
        let state = state(
            "routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: nic1, next-hop-address: 192.0.2.1, metric: 100, table-id: 254}
  - {destination: 0.0.0.0/0, next-hop-interface: nic2, next-hop-address: 192.0.2.2, metric: 1, table-id: 200}
  - {destination: 192.0.2.0/24, next-hop-interface: nic1, metric: 1}
  - {destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 198.51.100.1, metric: 48}
  - {destination: '::/0', next-hop-interface: br-ex, next-hop-address: 'fe80::1', metric: 48}
",
        );
        let routes = default_routes(&state);
        let seen: Vec<_> = routes.iter().map(|r| (r.family, r.interface.as_str())).collect();
        assert_eq!(seen, [(Family::V4, "br-ex"), (Family::V4, "nic1"), (Family::V6, "br-ex")]);
    }

    /// Gateways as kubernetes-nmstate finds them in the same routes.
    #[test]
    fn gateways_are_those_of_the_main_table_in_both_families() {
        let other = ("172.16.0.0/12", "eth0", "192.0.2.254", 254);
        let v4 = |table| ("0.0.0.0/0", "eth1", "198.51.100.254", table);
        let v6 = |table| ("::/0", "eth2", "fe80::beef", table);
        let (gateway_4, gateway_6) = (("eth1", "198.51.100.254"), ("eth2", "fe80::beef"));
        let table = [
            (vec![other, v4(254)], vec![gateway_4]),
            (vec![other, ("0.0.0.0/0", "eth0", "192.0.2.254", 56), v4(254)], vec![gateway_4]),
            (vec![other], vec![]),
            (vec![v6(254)], vec![gateway_6]),
            (vec![v6(254), ("::/0", "eth1", "fe80::cafe", 56)], vec![gateway_6]),
            (vec![v4(254), v6(254)], vec![gateway_4, gateway_6]),
            (vec![other, v6(254)], vec![gateway_6]),
        ];
        for (routes, expected) in table {
            let lines = routes.iter().map(|(to, interface, via, table)| {
                format!("  - {{destination: '{to}', next-hop-interface: {interface}, next-hop-address: '{via}', table-id: {table}}}\n")
            });
            let state = state(&format!("routes:\n  running:\n{}", lines.collect::<String>()));
            let found = default_routes(&state);
            let found: Vec<(&str, String)> = found
                .iter()
                .filter_map(|route| Some((route.interface.as_str(), route.gateway?.to_string())))
                .collect();
            let expected: Vec<(&str, String)> =
                expected.into_iter().map(|(interface, via)| (interface, via.to_owned())).collect();
            assert_eq!(found, expected, "{routes:?}");
        }
    }

    #[test]
    fn a_link_local_name_server_keeps_its_interface() {
        let state = state("dns-resolver: {running: {server: ['192.0.2.53', 'fe80::53%br-ex']}}");
        let servers = name_servers(&state);
        assert_eq!(
            servers[0],
            NameServer { address: "192.0.2.53".parse().unwrap(), interface: None }
        );
        assert_eq!(servers[1].interface.as_deref(), Some("br-ex"));
    }

    #[test]
    fn masquerade_and_link_local_addresses_are_not_global() {
        let state = state(
            "interfaces:
- name: br-ex
  type: ovs-interface
  state: up
  ipv4: {enabled: true, address: [{ip: 169.254.0.2, prefix-length: 17}, {ip: 198.51.100.10, prefix-length: 24}]}
  ipv6: {enabled: true, address: [{ip: 'fd69::2', prefix-length: 112}, {ip: 'fe80::1', prefix-length: 64}, {ip: '2001:db8::10', prefix-length: 64}]}
",
        );
        let interface = kernel_interface(&state, "br-ex").unwrap();
        let expected: Vec<IpAddr> =
            vec!["198.51.100.10".parse().unwrap(), "2001:db8::10".parse().unwrap()];
        assert_eq!(global_addresses(interface), expected);
    }
}
