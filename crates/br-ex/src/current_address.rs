//! The address by which a node is known before br-ex exists.

use std::net::IpAddr;

use ipnet::IpNet;
use nmstate::NetworkState;

use crate::layout::Family;

/// An address and the interface it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    pub interface: String,
    pub address: IpAddr,
}

/// A default route of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultRoute {
    pub interface: String,
    pub gateway: String,
    pub metric: i64,
}

/// The default routes of a family that a node uses, the one with the lowest metric first.
pub fn default_routes(current: &NetworkState, family: Family) -> Vec<DefaultRoute> {
    let running = current.routes.running.as_deref().unwrap_or_default();
    let mut routes: Vec<DefaultRoute> = running
        .iter()
        .filter(|route| {
            let destination = route.destination.as_deref().unwrap_or_default();
            Family::of_default_route(destination) == Some(family)
                && matches!(route.table_id, None | Some(0 | 254))
        })
        .filter_map(|route| {
            Some(DefaultRoute {
                interface: route.next_hop_iface.clone()?,
                gateway: route.next_hop_addr.clone().unwrap_or_default(),
                metric: route.metric.unwrap_or_default(),
            })
        })
        .collect();
    routes.sort_by_key(|route| route.metric);
    routes
}

/// The address on the interface of the default route, of the gateway's subnet if any is.
pub(crate) fn of_default_route(current: &NetworkState, family: Family) -> Option<NodeAddress> {
    let route = default_routes(current, family).into_iter().next()?;
    let gateway: Option<IpAddr> = route.gateway.parse().ok();
    let iface = current.interfaces.iter().find(|it| {
        it.name() == route.interface && it.iface_type() != nmstate::InterfaceType::OvsBridge
    })?;
    let base = iface.base_iface();
    let addresses = match family {
        Family::V4 => base.ipv4.as_ref()?.addresses.as_deref()?,
        Family::V6 => base.ipv6.as_ref()?.addresses.as_deref()?,
    };
    let nets: Vec<IpNet> = addresses
        .iter()
        .filter_map(|address| IpNet::new(address.ip, address.prefix_length).ok())
        .filter(|net| !is_link_local(net.addr()))
        .collect();
    let of_gateway = |net: &&IpNet| gateway.is_some_and(|gateway| net.contains(&gateway));
    let net = nets.iter().find(of_gateway).or(nets.first())?;
    Some(NodeAddress { interface: route.interface, address: net.addr() })
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
