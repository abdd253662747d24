//! Addresses of an interface, as differences and policies compare them.

use std::net::IpAddr;

use br_ex::layout::Family;
use ipnet::IpNet;
use serde_json::{Map, Value, json};

/// An address in a list, whatever else is noted of it.
pub(super) fn net_of(address: &Value) -> Option<IpNet> {
    let ip: IpAddr = address.get("ip")?.as_str()?.parse().ok()?;
    let prefix = u8::try_from(address.get("prefix-length")?.as_u64()?).ok()?;
    IpNet::new(ip, prefix).ok()
}

/// The static and leased addresses of a family, without those that every interface has.
pub(super) fn nets(interface: &Map<String, Value>, family: Family) -> Vec<IpNet> {
    let list = interface.get(family.key()).and_then(|section| section.get("address"));
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(net_of).filter(|net| !is_link_local(*net)).collect()
}

pub(super) fn is_link_local(net: IpNet) -> bool {
    match net.addr() {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// An address that ovnkube adds to br-ex by itself: from 169.254.0.0/16, or fd69::/112 and what
/// older releases took of it.
pub(super) fn is_masquerade(net: IpNet) -> bool {
    match net.addr() {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            let segments = address.segments();
            segments[0] == 0xfd69 && segments[1..7] == [0; 6]
        }
    }
}

pub(super) fn to_json(net: IpNet) -> Value {
    json!({ "ip": net.addr().to_string(), "prefix-length": net.prefix_len() })
}
