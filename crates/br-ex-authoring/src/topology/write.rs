//! The document of a topology.

use std::collections::BTreeMap;
use std::net::IpAddr;

use br_ex::layout::Family;
use machine_config::yaml;

use super::desired::{
    Bridge, Config, Desired, Interface, Ip, Kind, LinkAggregation, OvsDb, Patch, Port, Resolver,
    Route, Value, Vlan,
};
use super::{
    Addressing, Bond, InterfaceName, SecondAddresses, SecondBridge, Topology, Uplink, VlanId,
};

/// The metric that br-ex wins with.
pub(super) const METRIC: u32 = 48;
/// The second bridge, and its metric in configure-ovs.
const SECOND: &str = "br-ex1";
const SECOND_METRIC: u32 = 49;
/// What configure-ovs calls the profiles of br-ex and of its uplink.
const PORT_PROFILE: &str = "ovs-if-br-ex";
const UPLINK_PROFILE: &str = "ovs-if-phys0";
/// Ports between br-ex and the bridge that has the bond.
const PATCH_EX: &str = "patch-ex-to-phy";
const PATCH_PHY: &str = "patch-phy-to-ex";

pub(super) fn document(topology: &Topology) -> Result<String, yaml::WriteError> {
    yaml::document(&desired(topology))
}

fn desired(topology: &Topology) -> Desired {
    let mut interfaces = Vec::new();
    let uplink = uplink(&mut interfaces, topology);
    if let Some(other) = &topology.node_ip_interface {
        interfaces.push(node_ip_interface(other, topology));
    }
    interfaces.push(bridge(br_ex::BRIDGE, &uplink));
    interfaces.push(internal_port(&uplink.mac_source, topology));
    if let Some(second) = &topology.second {
        second_bridge(&mut interfaces, second, topology);
    }
    Desired { interfaces, routes: routes(topology), dns_resolver: resolver(topology) }
}

/// What the bridge needs to know of its uplink.
struct UplinkPort {
    name: String,
    mac_source: String,
    is_patch: bool,
}

fn uplink(interfaces: &mut Vec<Interface>, topology: &Topology) -> UplinkPort {
    let mac_source = topology.uplink.ports()[0].to_string();
    match &topology.uplink {
        Uplink::Nic(name) => interfaces.push(nic(name, topology)),
        Uplink::Bond(bond) => self::bond(interfaces, bond, topology),
        Uplink::Vlan { base, id } => {
            interfaces.push(nic(base, topology));
            interfaces.push(vlan(base, *id, topology));
        }
        Uplink::VlanOnBond { bond, id } => {
            self::bond(interfaces, bond, topology);
            interfaces.push(vlan(&bond.name, *id, topology));
        }
        Uplink::Slb { ports } => {
            interfaces.extend(ports.iter().map(|port| nic(port, topology)));
            slb(interfaces, ports);
            return UplinkPort { name: PATCH_EX.to_owned(), mac_source, is_patch: true };
        }
    }
    // The device that is the port of the bridge has the profile that scripts use.
    let port = interfaces.last_mut().map(|port| {
        port.profile_name = topology.profile_names.then_some(UPLINK_PROFILE);
        port.name.clone()
    });
    UplinkPort { name: port.unwrap_or_default(), mac_source, is_patch: false }
}

/// An interface without addresses.
pub(super) fn interface(name: &str, kind: Kind, mtu: Option<u32>) -> Interface {
    let mut interface = Interface::new(name, kind).without_ip();
    interface.mtu = mtu.map(Value::Given);
    interface
}

/// A NIC without addresses, found by its MAC address where that is given.
fn nic(name: &InterfaceName, topology: &Topology) -> Interface {
    identified(interface(name.as_str(), Kind::Ethernet, topology.mtu), name, topology)
}

fn identified(mut interface: Interface, name: &InterfaceName, topology: &Topology) -> Interface {
    if let Some(mac) = topology.macs.get(name) {
        interface.found_by(mac.to_string());
    }
    interface
}

fn bond(interfaces: &mut Vec<Interface>, bond: &Bond, topology: &Topology) {
    interfaces.extend(bond.ports.iter().map(|port| nic(port, topology)));
    let mut options = bond.options.clone();
    // Links are watched by one of the two.
    if !["miimon", "arp_interval"].iter().any(|key| options.contains_key(*key)) {
        options.insert("miimon".to_owned(), "100".to_owned());
    }
    let port = bond.ports.iter().map(ToString::to_string).collect();
    let link_aggregation = Some(LinkAggregation { mode: bond.mode.name(), options, port });
    let own = interface(bond.name.as_str(), Kind::Bond, topology.mtu);
    interfaces.push(Interface { link_aggregation, ..own });
}

/// A VLAN with the name of its base and the number behind it or, where that is too long for the
/// kernel, `vlan` with the number.
fn vlan(base: &InterfaceName, id: VlanId, topology: &Topology) -> Interface {
    let made = format!("{base}.{id}").parse::<InterfaceName>().ok();
    let name = topology.vlan_name.clone().or(made);
    let name = name.map_or_else(|| format!("vlan{id}"), |name| name.to_string());
    let vlan = Some(Vlan { base_iface: base.to_string(), id: id.number() });
    Interface { vlan, ..interface(&name, Kind::Vlan, topology.mtu) }
}

fn slb(interfaces: &mut Vec<Interface>, ports: &[InterfaceName]) {
    let members = ports.iter().map(ToString::to_string);
    let bridge = Bridge::new(vec![Port::new(PATCH_PHY), Port::slb("ovs-bond", members)]);
    let own = Interface::new("br-phy", Kind::OvsBridge);
    interfaces.push(Interface { bridge: Some(bridge), ..own });
    for (name, peer) in [(PATCH_EX, PATCH_PHY), (PATCH_PHY, PATCH_EX)] {
        let patch = Some(Patch { peer });
        interfaces.push(Interface { patch, ..Interface::new(name, Kind::OvsInterface) });
    }
}

/// The interface keeps the address the node is known by, in the families of br-ex, and leaves the
/// default route to br-ex.
fn node_ip_interface(name: &InterfaceName, topology: &Topology) -> Interface {
    let used = topology.families();
    let ip = |family| match used.contains(&family) {
        true => Value::Given(Ip::without_gateway(family)),
        false => Value::Given(Ip::disabled()),
    };
    let own = Interface::new(name.as_str(), Kind::Ethernet).with_ip(ip);
    identified(own, name, topology)
}

/// br-ex1 on its NIC, with the metric below that of br-ex.
fn second_bridge(interfaces: &mut Vec<Interface>, second: &SecondBridge, topology: &Topology) {
    interfaces.push(nic(&second.nic, topology));
    let mac_source = second.nic.to_string();
    let name = mac_source.clone();
    let port = UplinkPort { name, mac_source: mac_source.clone(), is_patch: false };
    interfaces.push(bridge(SECOND, &port));
    let ip = |family| {
        Value::Given(match &second.addresses {
            SecondAddresses::Dhcp(families) => match families.has(family) {
                true => Ip::automatic(family, SECOND_METRIC),
                false => Ip::disabled(),
            },
            SecondAddresses::Static { addresses, .. } => Ip::fixed(family, addresses),
        })
    };
    let own = Interface::new(SECOND, Kind::OvsInterface).with_ip(ip);
    let mtu = topology.mtu.map(Value::Given);
    interfaces.push(Interface { copy_mac_from: Some(mac_source), mtu, ..own });
}

fn bridge(name: &'static str, uplink: &UplinkPort) -> Interface {
    let ports = vec![Port::new(&uplink.name), Port::new(name)];
    let bridge = Some(Bridge::new(ports).with_snooping());
    let external_ids = BTreeMap::from([("bridge-uplink", uplink.name.clone())]);
    let ovs_db = uplink.is_patch.then_some(OvsDb { external_ids });
    Interface { bridge, ovs_db, ..Interface::new(name, Kind::OvsBridge) }
}

fn internal_port(mac_source: &str, topology: &Topology) -> Interface {
    let ip = |family| match &topology.addressing {
        Addressing::Dhcp(families) => dhcp(family, families.has(family)),
        Addressing::Static(addresses) => Value::Given(Ip::fixed(family, &addresses.addresses)),
    };
    Interface {
        profile_name: topology.profile_names.then_some(PORT_PROFILE),
        copy_mac_from: Some(mac_source.to_owned()),
        mtu: topology.mtu.map(Value::Given),
        ..Interface::new(br_ex::BRIDGE, Kind::OvsInterface).with_ip(ip)
    }
}

/// Addresses of br-ex from the network.
pub(super) fn dhcp(family: Family, is_used: bool) -> Value<Ip> {
    Value::Given(if is_used { Ip::automatic(family, METRIC) } else { Ip::disabled() })
}

fn routes(topology: &Topology) -> Option<Config<Vec<Route>>> {
    let default = |gateway: &IpAddr, bridge, metric| Route {
        destination: Family::of(*gateway).default_route().to_owned(),
        next_hop_address: *gateway,
        next_hop_interface: bridge,
        metric: Some(metric),
    };
    let mut routes = Vec::new();
    if let Addressing::Static(addresses) = &topology.addressing {
        let own = addresses.gateways.iter();
        routes.extend(own.map(|gateway| default(gateway, br_ex::BRIDGE, METRIC)));
    }
    if let Some(SecondAddresses::Static { gateways, .. }) =
        topology.second.as_ref().map(|second| &second.addresses)
    {
        routes.extend(gateways.iter().map(|gateway| default(gateway, SECOND, SECOND_METRIC)));
    }
    routes.extend(topology.routes.iter().map(|route| Route {
        destination: route.destination.to_string(),
        next_hop_address: route.gateway,
        next_hop_interface: br_ex::BRIDGE,
        metric: None,
    }));
    (!routes.is_empty()).then_some(Config { config: Value::Given(routes) })
}

fn resolver(topology: &Topology) -> Option<Config<Resolver>> {
    let server = match &topology.addressing {
        Addressing::Static(addresses) => addresses.servers.clone(),
        Addressing::Dhcp(_) => Vec::new(),
    };
    let resolver = Resolver { search: topology.search.clone(), server };
    let is_empty = resolver.server.is_empty() && resolver.search.is_empty();
    (!is_empty).then_some(Config { config: Value::Given(resolver) })
}
