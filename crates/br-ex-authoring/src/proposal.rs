//! What a node's current network proposes for its br-ex: uplinks, VLAN, addresses, name servers and
//! MTU. The values that `oc-brex init` offers.

use std::net::IpAddr;

use br_ex::current_address::default_routes;
use br_ex::layout::Family;
use ipnet::IpNet;
use machine_identity::Mac;
use nmstate::{Interface, InterfaceType, NetworkState};

/// A NIC of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    pub name: String,
    pub mac: Option<Mac>,
    pub is_up: bool,
    pub mtu: Option<u64>,
}

/// What the node has now. All of it may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proposal {
    pub nics: Vec<Nic>,
    /// The NICs below the interface with the default route.
    pub uplinks: Vec<String>,
    pub vlan: Option<u16>,
    pub vlan_name: Option<String>,
    pub bond_name: Option<String>,
    pub bond_mode: Option<String>,
    /// Whether addresses come from the network, per family.
    pub automatic: Vec<Family>,
    pub addresses: Vec<IpNet>,
    pub gateways: Vec<IpAddr>,
    pub servers: Vec<IpAddr>,
    pub mtu: Option<u64>,
}

impl Proposal {
    /// Reads the state of a node, with or without br-ex.
    pub fn of(state: &NetworkState) -> Self {
        let mut proposal = Self { nics: nics(state), ..Self::default() };
        let dns = state.dns.as_ref().and_then(|dns| dns.running.as_ref());
        let servers = dns.and_then(|dns| dns.server.as_ref()).into_iter().flatten();
        proposal.servers = servers.filter_map(|text| text.parse().ok()).collect();
        let Some(holder) = default_interface(state) else { return proposal };
        proposal.gateways = gateways(state, holder.name());
        proposal.mtu = holder.base_iface().mtu;
        addresses(holder, &mut proposal);
        below(state, holder.name(), &mut proposal, 0);
        proposal
    }
}

fn nics(state: &NetworkState) -> Vec<Nic> {
    let is_nic = |it: &&Interface| {
        matches!(
            it.iface_type(),
            InterfaceType::Ethernet | InterfaceType::Veth | InterfaceType::InfiniBand
        )
    };
    let nic = |it: &Interface| Nic {
        name: it.name().to_owned(),
        mac: {
            let base = it.base_iface();
            let mac = base.permanent_mac_address.as_ref().or(base.mac_address.as_ref());
            mac.and_then(|mac| mac.parse().ok())
        },
        is_up: it.is_up(),
        mtu: it.base_iface().mtu,
    };
    let mut nics: Vec<Nic> = state.interfaces.iter().filter(is_nic).map(nic).collect();
    nics.sort_by(|a, b| a.name.cmp(&b.name));
    nics
}

/// The interface of the preferred default route.
fn default_interface(state: &NetworkState) -> Option<&Interface> {
    let defaults = Family::BOTH.into_iter().flat_map(|family| default_routes(state, family));
    let name = defaults.min_by_key(|route| route.metric)?.interface;
    kernel_interface(state, &name)
}

fn kernel_interface<'a>(state: &'a NetworkState, name: &str) -> Option<&'a Interface> {
    let is_it = |it: &&Interface| it.name() == name && it.iface_type() != InterfaceType::OvsBridge;
    state.interfaces.iter().find(is_it)
}

fn gateways(state: &NetworkState, interface: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for route in Family::BOTH.into_iter().flat_map(|family| default_routes(state, family)) {
        if let Ok(gateway) = route.gateway.parse::<IpAddr>()
            && route.interface == interface
            && !found.contains(&gateway)
        {
            found.push(gateway);
        }
    }
    found
}

fn addresses(holder: &Interface, proposal: &mut Proposal) {
    let base = holder.base_iface();
    let mut add = |family, is_automatic: bool, list: Option<&Vec<nmstate::InterfaceIpAddr>>| {
        if is_automatic {
            proposal.automatic.push(family);
            return;
        }
        let nets =
            list.into_iter().flatten().filter_map(|it| IpNet::new(it.ip, it.prefix_length).ok());
        proposal.addresses.extend(nets.filter(|net| !is_internal(net.addr())));
    };
    if let Some(ip) = base.ipv4.as_ref().filter(|ip| ip.enabled) {
        add(Family::V4, ip.dhcp == Some(true), ip.addresses.as_ref());
    }
    if let Some(ip) = base.ipv6.as_ref().filter(|ip| ip.enabled) {
        let is_automatic = ip.dhcp == Some(true) || ip.autoconf == Some(true);
        let has_global = ip.addresses.iter().flatten().any(|it| !is_internal(it.ip));
        // Every interface has IPv6 by default; it is in use where there is an address.
        if has_global {
            add(Family::V6, is_automatic, ip.addresses.as_ref());
        }
    }
}

/// Link-local addresses, and those that ovnkube adds.
fn is_internal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.segments()[0] == 0xfd69,
    }
}

/// Follows the stack down to the NICs.
fn below(state: &NetworkState, name: &str, proposal: &mut Proposal, depth: u8) {
    // No stack is deeper; a loop would be.
    if depth > 8 {
        return;
    }
    let Some(interface) = kernel_interface(state, name) else { return };
    match interface {
        Interface::OvsInterface(_) => {
            for port in bridge_ports(state, name) {
                below(state, &port, proposal, depth + 1);
            }
        }
        Interface::Vlan(vlan) => {
            if let Some(config) = &vlan.vlan {
                proposal.vlan = Some(config.id);
                proposal.vlan_name = Some(name.to_owned());
                if let Some(base) = &config.base_iface {
                    below(state, base, proposal, depth + 1);
                }
            }
        }
        Interface::Bond(bond) => {
            if let Some(config) = &bond.bond {
                proposal.bond_name = Some(name.to_owned());
                proposal.bond_mode = config.mode.as_ref().map(ToString::to_string);
                for port in config.port.iter().flatten() {
                    below(state, port, proposal, depth + 1);
                }
            }
        }
        _ => {
            if proposal.nics.iter().any(|nic| nic.name == name)
                && !proposal.uplinks.iter().any(|it| it == name)
            {
                proposal.uplinks.push(name.to_owned());
            }
        }
    }
}

/// The ports of the bridge that has this internal port, without it.
fn bridge_ports(state: &NetworkState, internal: &str) -> Vec<String> {
    let is_bridge = |it: &&Interface| it.iface_type() == InterfaceType::OvsBridge;
    let ports = |it: &Interface| {
        let ports = it.ports().unwrap_or_default();
        ports.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut bridges = state.interfaces.iter().filter(is_bridge).map(ports);
    let own = bridges.find(|ports| ports.iter().any(|port| port == internal));
    own.unwrap_or_default().into_iter().filter(|port| port != internal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(yaml: &str) -> Proposal {
        Proposal::of(&NetworkState::new_from_yaml(yaml).unwrap())
    }

    #[test]
    fn a_vlan_on_a_bond_with_a_static_address_is_proposed_as_it_is() {
        let found = proposal(
            "interfaces:
- {name: eno1, type: ethernet, state: up, mac-address: '52:54:00:00:00:01', mtu: 9000}
- {name: eno2, type: ethernet, state: up, mac-address: '52:54:00:00:00:01', permanent-mac-address: '52:54:00:00:00:02'}
- {name: eno3, type: ethernet, state: down}
- {name: bond0, type: bond, state: up, link-aggregation: {mode: 802.3ad, port: [eno1, eno2]}}
- name: bond0.100
  type: vlan
  state: up
  mtu: 8900
  vlan: {base-iface: bond0, id: 100}
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 24}, {ip: 169.254.0.2, prefix-length: 17}]}
  ipv6: {enabled: true, autoconf: true, address: [{ip: 'fe80::1', prefix-length: 64}]}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: eno3, next-hop-address: 203.0.113.1, metric: 400}
  - {destination: 0.0.0.0/0, next-hop-interface: bond0.100, next-hop-address: 192.0.2.1, metric: 100}
dns-resolver: {running: {server: [192.0.2.53]}}
",
        );
        assert_eq!(found.uplinks, ["eno1", "eno2"]);
        assert_eq!((found.vlan, found.bond_mode.as_deref()), (Some(100), Some("802.3ad")));
        assert_eq!(found.addresses, ["192.0.2.10/24".parse::<IpNet>().unwrap()]);
        assert_eq!(found.gateways, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        assert_eq!((found.mtu, found.automatic.len()), (Some(8900), 0));
        let macs: Vec<_> =
            found.nics.iter().filter_map(|nic| nic.mac).map(|mac| mac.to_string()).collect();
        assert_eq!(macs, ["52:54:00:00:00:01", "52:54:00:00:00:02"]);
    }

    #[test]
    fn below_an_existing_br_ex_its_uplink_is_found() {
        let found = proposal(
            "interfaces:
- {name: eno1, type: ethernet, state: up}
- {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: eno1}, {name: br-ex}]}}
- name: br-ex
  type: ovs-interface
  state: up
  ipv4: {enabled: true, dhcp: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}
routes: {running: [{destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 192.0.2.1, metric: 48}]}
",
        );
        assert_eq!(found.uplinks, ["eno1"]);
        assert_eq!((found.automatic.as_slice(), found.addresses.len()), (&[Family::V4][..], 0));
    }

    #[test]
    fn a_node_without_a_default_route_proposes_its_nics_only() {
        let found = proposal("interfaces: [{name: eno1, type: ethernet, state: up}]");
        assert_eq!((found.nics.len(), found.uplinks.len()), (1, 0));
    }
}
