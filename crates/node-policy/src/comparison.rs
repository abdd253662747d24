//! Whether nmstate's comparison found a real difference. Its result repeats much of what it
//! compares, so each part is searched in the current state.

use std::collections::BTreeSet;

use br_ex_day2::is_same_value;
use serde_json::{Map, Value};

/// Whether something in `wanted`, a difference that nmstate found, is not in `current`.
pub(crate) fn is_left(wanted: &Value, current: &Value) -> bool {
    value_differs("", wanted, current)
}

fn value_differs(key: &str, wanted: &Value, has: &Value) -> bool {
    match (wanted, has) {
        // Of a port of a bridge: without VLANs, not with any.
        (Value::Object(wanted), Value::Object(has)) if key == "vlan" && wanted.is_empty() => {
            !has.is_empty()
        }
        (Value::Object(wanted), Value::Object(has)) => map_differs(wanted, has),
        (Value::Object(wanted), Value::Null) => map_differs(wanted, &Map::new()),
        (Value::Array(wanted), Value::Array(has)) => list_differs(key, wanted, has),
        (Value::Array(wanted), Value::Null) => list_differs(key, wanted, &[]),
        (wanted, has) if key == "type" => !is_same_kind(wanted, has),
        (wanted, has) => !is_same_value(wanted, has),
    }
}

fn map_differs(wanted: &Map<String, Value>, has: &Map<String, Value>) -> bool {
    wanted.iter().any(|(key, value)| match key.as_str() {
        "address" => addresses_differ(value, has),
        // Which ports of others to keep is an instruction, which no node reports.
        "allow-extra-patch-ports" => false,
        _ => value_differs(key, value, has.get(key).unwrap_or(&Value::Null)),
    })
}

fn list_differs(key: &str, wanted: &[Value], has: &[Value]) -> bool {
    match key {
        // Ranges are written out by nmstate's comparison, and read as ranges from the node.
        "trunk-tags" => tags(wanted) != tags(has),
        // These contain what changes, not everything.
        "interfaces" => wanted.iter().any(|interface| interface_differs(interface, has)),
        "config" | "bridge-mappings" => {
            wanted.iter().any(|item| has.iter().all(|other| value_differs("", item, other)))
        }
        // All others are complete, so entries that are missing in them are removed.
        _ if wanted.len() != has.len() => true,
        _ => wanted.iter().zip(has).any(|(item, at_same_place)| match item.get("name") {
            // Ports have no order.
            Some(name) => match has.iter().find(|other| other.get("name") == Some(name)) {
                Some(other) => value_differs("", item, other),
                None => true,
            },
            None => value_differs("", item, at_same_place),
        }),
    }
}

/// All VLANs that a list of tags and ranges names.
fn tags(list: &[Value]) -> BTreeSet<u64> {
    const LAST: u64 = 4095;
    let range = |it: &Value| {
        let end = |key: &str| it.get("id-range")?.get(key)?.as_u64();
        let single = it.get("id").and_then(Value::as_u64);
        Some(end("min").or(single)?..=end("max").or(single)?.min(LAST))
    };
    list.iter().filter_map(range).flatten().collect()
}

fn interface_differs(wanted: &Value, has: &[Value]) -> bool {
    let text = |interface: &Value, key: &str, is: &str| {
        interface.get(key).and_then(Value::as_str) == Some(is)
    };
    let kind = |interface: &Value| interface.get("type").cloned().unwrap_or_default();
    let mut named = has.iter().filter(|other| other.get("name") == wanted.get("name"));
    if text(wanted, "state", "absent") {
        // An interface that is to be absent and does not exist needs no change.
        return named.any(|other| !text(other, "state", "absent"));
    }
    let same = named.find(|other| is_same_kind(&kind(wanted), &kind(other)));
    same.is_none_or(|same| value_differs("", wanted, same))
}

/// Policies call the ends of veth pairs NICs, and without a type the existing one is meant.
fn is_same_kind(wanted: &Value, has: &Value) -> bool {
    let is_nic = |kind: &Value| matches!(kind.as_str(), Some("ethernet" | "veth"));
    let is_open = matches!(wanted.as_str(), None | Some("unknown"));
    is_open || wanted == has || (is_nic(wanted) && is_nic(has))
}

/// Leases, link-local addresses, and single addresses that move between nodes are not compared with
/// a list of addresses.
fn addresses_differ(wanted: &Value, has: &Map<String, Value>) -> bool {
    let (requested, there) =
        (addresses(wanted), has.get("address").map(addresses).unwrap_or_default());
    let on = |key: &str| has.get(key).and_then(Value::as_bool) == Some(true);
    let is_leased = on("dhcp") || on("autoconf");
    let stays = |(ip, prefix): &&(String, u64)| {
        let is_single = *prefix == if ip.contains(':') { 128 } else { 32 };
        !is_leased && !is_single && !ip.starts_with("fe80:")
    };
    !requested.is_subset(&there) || there.difference(&requested).any(|address| stays(&address))
}

fn addresses(list: &Value) -> BTreeSet<(String, u64)> {
    let address = |it: &Value| {
        let ip = it.get("ip")?.as_str()?.to_ascii_lowercase();
        Some((ip, it.get("prefix-length")?.as_u64()?))
    };
    list.as_array().into_iter().flatten().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_instruction_about_ports_of_others_is_nothing_to_do() {
        let bridge = |value| json!({"interfaces": [{"name": "br-ex", "type": "ovs-bridge", "bridge": value}]});
        let has = bridge(json!({"port": [{"name": "eno1"}, {"name": "patch-br-ex"}]}));
        assert!(!is_left(&bridge(json!({"allow-extra-patch-ports": true})), &has));
        let more = json!({"allow-extra-patch-ports": true, "options": {"rstp": true}});
        assert!(is_left(&bridge(more), &has));
    }

    #[test]
    fn complete_lists_differ_when_an_item_is_removed_or_moved() {
        let servers = |list: &[&str]| json!({"dns-resolver": {"config": {"server": list}}});
        let has = servers(&["192.0.2.1", "192.0.2.2"]);
        assert!(!is_left(&servers(&["192.0.2.1", "192.0.2.2"]), &has));
        assert!(is_left(&servers(&["192.0.2.1"]), &has));
        assert!(is_left(&servers(&["192.0.2.2", "192.0.2.1"]), &has));
        assert!(is_left(&servers(&[]), &has));
        assert!(!is_left(&servers(&[]), &json!({})));
    }

    #[test]
    fn a_port_that_shall_have_no_vlans_differs_while_it_has_some() {
        let bridge = |port: Value| json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "bridge": {"port": [port]}}]});
        let none = bridge(json!({"name": "eth1", "vlan": {}}));
        let some = bridge(json!({"name": "eth1", "vlan": {"mode": "access", "tag": 100}}));
        assert!(is_left(&none, &some));
        assert!(!is_left(&none, &none));
        assert!(!is_left(&none, &bridge(json!({"name": "eth1"}))));
    }

    #[test]
    fn ports_are_compared_by_their_names() {
        let bridge = |ports: &[&str]| {
            let ports: Vec<Value> = ports.iter().map(|name| json!({"name": name})).collect();
            json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "bridge": {"port": ports}}]})
        };
        assert!(!is_left(&bridge(&["eth2", "eth1"]), &bridge(&["eth1", "eth2"])));
        assert!(is_left(&bridge(&["eth1"]), &bridge(&["eth1", "eth2"])));
        assert!(is_left(&bridge(&["eth1", "eth3"]), &bridge(&["eth1", "eth2"])));
    }

    #[test]
    fn a_range_of_vlans_is_the_vlans_in_it() {
        let port = |tags: Value| {
            let vlan = json!({"mode": "trunk", "trunk-tags": tags});
            let bridge = json!({"port": [{"name": "bond0", "vlan": vlan}]});
            json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "bridge": bridge}]})
        };
        let has = port(json!([{"id": 300}, {"id-range": {"min": 310, "max": 312}}]));
        let same = port(json!([{"id": 310}, {"id": 311}, {"id": 312}, {"id": 300}]));
        assert!(!is_left(&same, &has));
        assert!(!is_left(&has, &same));
        assert!(is_left(&port(json!([{"id": 300}, {"id": 310}, {"id": 312}])), &has));
        assert!(is_left(&port(json!([{"id-range": {"min": 300, "max": 312}}])), &has));
        assert!(is_left(&port(json!([])), &has));
    }

    #[test]
    fn routes_are_parts_of_what_there_is() {
        let routes = |list: Value| json!({"routes": {"config": list}});
        let one = json!({"destination": "0.0.0.0/0", "next-hop-interface": "eth1"});
        let has = routes(json!([
            {"destination": "0.0.0.0/0", "next-hop-interface": "eth1", "table-id": 254},
            {"destination": "10.0.0.0/8", "next-hop-interface": "eth1", "table-id": 254},
        ]));
        assert!(!is_left(&routes(json!([one])), &has));
        let mut gone = one;
        gone["state"] = json!("absent");
        assert!(is_left(&routes(json!([gone])), &has));
    }

    #[test]
    fn addresses_of_others_do_not_count_and_own_ones_do() {
        let ip = |addresses: &[(&str, u64)], dhcp: bool| {
            let list: Vec<Value> = addresses
                .iter()
                .map(|(ip, prefix)| json!({"ip": ip, "prefix-length": prefix}))
                .collect();
            json!({"interfaces": [{"name": "eth1", "ipv4": {"dhcp": dhcp, "address": list}}]})
        };
        let own = ("192.0.2.10", 24);
        assert!(!is_left(&ip(&[own], false), &ip(&[own, ("192.0.2.99", 32)], false)));
        assert!(is_left(&ip(&[own], false), &ip(&[own, ("192.0.2.11", 24)], false)));
        assert!(is_left(&ip(&[own, ("192.0.2.11", 24)], false), &ip(&[own], false)));
        assert!(is_left(&ip(&[own], false), &ip(&[own], true)), "no lease any more");
    }

    #[test]
    fn a_wire_is_a_nic_and_what_is_absent_already_needs_nothing() {
        let one = |kind: &str, state: &str| json!({"interfaces": [{"name": "eth1", "type": kind, "state": state}]});
        assert!(!is_left(&one("ethernet", "up"), &one("veth", "up")));
        assert!(is_left(&one("ethernet", "absent"), &one("veth", "up")));
        assert!(!is_left(&one("dummy", "absent"), &json!({"interfaces": []})));
        assert!(is_left(&one("dummy", "up"), &json!({"interfaces": []})));
    }
}
