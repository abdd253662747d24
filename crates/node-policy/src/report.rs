//! The network of a node as it is reported: all of it, except what changes by itself.

use std::collections::BTreeSet;

use nmstate::NetworkState;
use nmstate_api::NetworkDocument;
use serde_json::{Map, Value};

use crate::bounds;

#[derive(Debug, thiserror::Error)]
#[error("nmstate cannot write the network state it has read")]
pub struct NotWritable(#[from] serde_json::Error);

/// Timers of a bridge that count all the time.
const BRIDGE_TIMERS: [&str; 2] = ["gc-timer", "hello-timer"];
/// Parts of an address that count down.
const LIFE_TIMES: [&str; 2] = ["preferred-life-time", "valid-life-time"];

/// What is reported of a state that was read from a node. Unmanaged veth
/// interfaces of pods are omitted, and routes through them.
pub fn report(state: &NetworkState) -> Result<NetworkDocument, NotWritable> {
    let mut sections = match serde_json::to_value(state)? {
        Value::Object(sections) => sections,
        _ => Map::new(),
    };
    let mut kept = BTreeSet::new();
    if let Some(Value::Array(interfaces)) = sections.get_mut("interfaces") {
        interfaces.retain(|interface| !is_wire_of_a_pod(interface));
        for interface in interfaces.iter_mut().filter_map(Value::as_object_mut) {
            quieten(interface);
            kept.extend(interface.get("name").and_then(Value::as_str).map(str::to_owned));
        }
    }
    if let Some(Value::Object(routes)) = sections.get_mut("routes") {
        for list in routes.values_mut().filter_map(Value::as_array_mut) {
            list.retain(|route| match route.get("next-hop-interface").and_then(Value::as_str) {
                Some(interface) => kept.contains(interface),
                // Blackhole routes have no interface, and are routes nevertheless.
                None => true,
            });
        }
    }
    Ok(NetworkDocument(sections))
}

/// A report that the API server's store accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounded {
    pub document: NetworkDocument,
    /// Whether settings of interfaces were left out that few clients read.
    pub is_compact: bool,
    /// Sections that still do not fit.
    pub left_out: Vec<String>,
}

/// Settings of an interface that take most of its size and describe its driver rather than the
/// network.
const DRIVER_SETTINGS: [&str; 4] = ["ethtool", "statistics", "min-mtu", "max-mtu"];

/// Makes a report fit: first, interfaces lose settings of their drivers and those that are not set,
/// then the largest sections are removed, as few as possible.
pub fn bounded(report: NetworkDocument) -> Bounded {
    let mut report = report;
    let mut left_out = Vec::new();
    let is_compact = bounds::size(&report) > bounds::REPORT_LIMIT;
    if is_compact && let Some(Value::Array(interfaces)) = report.0.get_mut("interfaces") {
        interfaces.iter_mut().filter_map(Value::as_object_mut).for_each(compact);
    }
    while bounds::size(&report) > bounds::REPORT_LIMIT {
        let sizes = report.0.iter().map(|(section, value)| (bounds::size(value), section.clone()));
        let Some((_, largest)) = sizes.max() else { break };
        // Configured routes are few, and more informative than all routes.
        let routes = report.0.get_mut(&largest).and_then(Value::as_object_mut);
        let part = match routes.and_then(|routes| routes.remove("running")) {
            Some(_) => format!("{largest}.running"),
            None => {
                report.0.remove(&largest);
                largest
            }
        };
        left_out.push(part);
    }
    Bounded { document: report, is_compact, left_out }
}

/// Removes settings of the driver from an interface, and those that are not set.
fn compact(interface: &mut Map<String, Value>) {
    interface.retain(|key, value| !DRIVER_SETTINGS.contains(&key.as_str()) && !is_unset(value));
    let is_off = |value: &Value| value.get("enabled") == Some(&Value::Bool(false));
    for part in interface.values_mut().filter(|it| it.is_object()) {
        let is_off = is_off(part);
        let Some(part) = part.as_object_mut() else { continue };
        part.retain(|key, value| if is_off { key == "enabled" } else { !is_unset(value) });
    }
    let is_noise = |key: &str, value: &Value| match key {
        "lldp" | "mptcp" => is_off(value),
        "wait-ip" => value == "any",
        _ => false,
    };
    interface.retain(|key, value| !is_noise(key, value));
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn is_wire_of_a_pod(interface: &Value) -> bool {
    let is = |key: &str, value: &str| interface.get(key).and_then(Value::as_str) == Some(value);
    is("type", "veth") && is("state", "ignore")
}

fn quieten(interface: &mut Map<String, Value>) {
    let options = interface.get_mut("bridge").and_then(|bridge| bridge.get_mut("options"));
    if let Some(options) = options.and_then(Value::as_object_mut) {
        BRIDGE_TIMERS.iter().for_each(|timer| drop(options.remove(*timer)));
    }
    for family in ["ipv4", "ipv6"] {
        let addresses = interface.get_mut(family).and_then(|ip| ip.get_mut("address"));
        let addresses = addresses.and_then(Value::as_array_mut).into_iter().flatten();
        for address in addresses.filter_map(Value::as_object_mut) {
            LIFE_TIMES.iter().for_each(|time| drop(address.remove(*time)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reported(yaml: &str) -> Value {
        report(&NetworkState::new_from_yaml(yaml).unwrap()).unwrap().to_value()
    }

    fn names(report: &Value) -> Vec<&str> {
        let interfaces = report["interfaces"].as_array().unwrap();
        interfaces.iter().map(|it| it["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn wires_of_pods_are_left_out_and_managed_ones_stay() {
        let report = reported(
            "interfaces:
- {name: eth1, type: ethernet, state: up}
- {name: vethab6030bd, type: veth, state: ignore}
- {name: veth0, type: veth, state: up}
routes:
  running:
  - {destination: 10.0.0.0/24, next-hop-interface: eth1}
  - {destination: 10.0.1.0/24, next-hop-interface: vethab6030bd}
  config:
  - {destination: 10.0.0.0/24, next-hop-interface: eth1}
  - {destination: 10.0.1.0/24, next-hop-interface: vethab6030bd}
",
        );
        assert_eq!(names(&report), ["eth1", "veth0"]);
        for list in ["running", "config"] {
            let routes = report["routes"][list].as_array().unwrap();
            assert_eq!(routes.len(), 1, "{list}");
            assert_eq!(routes[0]["next-hop-interface"], "eth1");
        }
    }

    #[test]
    fn what_counts_by_itself_is_no_change() {
        let state = |timer: u32, life: &str| {
            reported(&format!(
                "interfaces:
- name: br1
  type: linux-bridge
  state: up
  bridge: {{options: {{gc-timer: {timer}, hello-timer: {timer}, group-addr: '01:80:C2:00:00:00'}}, port: []}}
  ipv6:
    enabled: true
    address: [{{ip: '2001:db8::1', prefix-length: 64, valid-life-time: {life}, preferred-life-time: {life}}}]
"
            ))
        };
        let (one, other) = (state(13715, "3600sec"), state(29042, "12sec"));
        assert_eq!(one, other);
        assert_eq!(one["interfaces"][0]["bridge"]["options"]["group-addr"], "01:80:C2:00:00:00");
        assert_eq!(one["interfaces"][0]["ipv6"]["address"][0]["ip"], "2001:db8::1");
    }

    #[test]
    fn a_report_that_is_too_large_loses_its_largest_parts_and_lists_them() {
        let routes = |count: usize| {
            let route = |number| json!({"destination": format!("10.{number}.0.0/16"), "next-hop-interface": "eth1"});
            (0..count).map(route).collect::<Vec<Value>>()
        };
        let report = |running: usize, interfaces: usize| {
            let interface = |number| json!({"name": format!("eth{number}"), "type": "ethernet"});
            let interfaces: Vec<Value> = (0..interfaces).map(interface).collect();
            let routes = json!({"running": routes(running), "config": routes(2)});
            let report = json!({"interfaces": interfaces, "routes": routes});
            bounded(serde_json::from_value(report).unwrap())
        };
        let small = report(10, 10);
        assert!(small.left_out.is_empty() && !small.is_compact);
        assert!(small.document.0["routes"]["running"].is_array());
        let large = report(30_000, 10);
        assert_eq!(large.left_out, ["routes.running"]);
        assert_eq!(large.document.0["routes"]["config"].as_array().unwrap().len(), 2);
        assert_eq!(large.document.0["interfaces"].as_array().unwrap().len(), 10);
        let huge = report(30_000, 50_000);
        assert_eq!(huge.left_out, ["interfaces", "routes.running"]);
        assert!(bounds::size(&huge.document) <= bounds::REPORT_LIMIT);
    }

    /// A VLAN as nmstate reports it on a node, with the features of its driver.
    fn vlan(number: usize) -> Value {
        let features: Map<String, Value> =
            (0..30).map(|feature| (format!("tx-feature-{feature}"), json!(false))).collect();
        json!({
            "name": format!("bond0.{number}"), "profile-name": format!("bond0.{number}"),
            "type": "vlan", "state": "up", "identifier": "name",
            "mac-address": "52:54:00:00:00:01", "mtu": 1500, "min-mtu": 0, "max-mtu": 65535,
            "wait-ip": "any", "accept-all-mac-addresses": false,
            "ipv4": {"enabled": true, "dhcp": false, "address": [
                {"ip": format!("10.{}.{}.2", number / 256, number % 256), "prefix-length": 24},
            ]},
            "ipv6": {"enabled": false, "autoconf": false, "dhcp": false, "address": []},
            "mptcp": {"enabled": false, "address-flags": []},
            "lldp": {"enabled": false},
            "ethtool": {"feature": features},
            "vlan": {"base-iface": "bond0", "id": number, "protocol": "802.1q",
                "registration-protocol": "none", "reorder-headers": true, "loose-binding": false},
        })
    }

    #[test]
    fn a_node_with_1500_vlans_is_reported_with_all_of_them() {
        let route = |number: usize| {
            json!({
                "destination": format!("10.{}.{}.0/24", number / 256, number % 256),
                "next-hop-interface": format!("bond0.{number}"), "next-hop-address": "0.0.0.0",
                "metric": 400, "table-id": 254,
            })
        };
        let interfaces: Vec<Value> = (0..1500).map(vlan).collect();
        let routes: Vec<Value> = (0..1500).map(route).collect();
        let report = json!({"interfaces": interfaces, "routes": {"running": routes}});
        assert!(bounds::size(&report) > bounds::REPORT_LIMIT, "otherwise this test is void");
        let bounded = bounded(serde_json::from_value(report).unwrap());
        assert_eq!((bounded.is_compact, bounded.left_out.len()), (true, 0));
        assert!(bounds::size(&bounded.document) <= bounds::REPORT_LIMIT);
        let report = bounded.document.to_value();
        assert_eq!(names(&report).len(), 1500);
        let expected = json!({
            "name": "bond0.300", "profile-name": "bond0.300", "type": "vlan", "state": "up",
            "identifier": "name", "mac-address": "52:54:00:00:00:01", "mtu": 1500,
            "ipv4": {"enabled": true, "address": [{"ip": "10.1.44.2", "prefix-length": 24}]},
            "ipv6": {"enabled": false},
            "vlan": {"base-iface": "bond0", "id": 300, "protocol": "802.1q",
                "registration-protocol": "none", "reorder-headers": true},
        });
        assert_eq!(report["interfaces"][300], expected);
        assert_eq!(report["routes"]["running"].as_array().unwrap().len(), 1500);
    }

    #[test]
    fn bridge_mappings_are_reported_as_they_are() {
        let mapping = |net: &str| format!("{{localnet: {net}, bridge: br-ex}}");
        for mappings in [vec![], vec!["blue"], vec!["blue", "red"]] {
            let list: Vec<String> = mappings.iter().map(|net| mapping(net)).collect();
            let report = reported(&format!(
                "interfaces: []\novn: {{bridge-mappings: [{}]}}",
                list.join(", ")
            ));
            let seen = report["ovn"]["bridge-mappings"].as_array().cloned().unwrap_or_default();
            let nets: Vec<&str> = seen.iter().filter_map(|it| it["localnet"].as_str()).collect();
            assert_eq!(nets, mappings);
        }
        assert!(reported("interfaces: []").get("ovn").is_none());
    }

    #[test]
    fn a_node_with_many_interfaces_reports_those_it_manages() {
        let wires =
            (0..100).map(|number| format!("- {{name: veth{number}, type: veth, state: ignore}}\n"));
        let nics =
            (0..100).map(|number| format!("- {{name: eth{number}, type: ethernet, state: up}}\n"));
        let yaml: String = wires.zip(nics).map(|(wire, nic)| wire + &nic).collect();
        let report = reported(&format!("interfaces:\n{yaml}"));
        assert_eq!(names(&report).len(), 100);
        assert!(names(&report).iter().all(|name| name.starts_with("eth")));
    }

    #[test]
    fn no_section_is_lost() {
        let report = reported(
            "hostname: {running: node01, config: node01}
dns-resolver: {config: {search: [example.com], server: [192.0.2.53]}, running: {options: [rotate], server: [192.0.2.53]}}
route-rules: {config: [{ip-from: 192.0.2.0/24, route-table: 200}]}
ovn: {bridge-mappings: [{localnet: net1, bridge: br1}]}
ovs-db: {external_ids: {hostname: node01}}
interfaces: []
",
        );
        assert_eq!(report["hostname"]["running"], "node01");
        assert_eq!(report["dns-resolver"]["running"]["options"], json!(["rotate"]));
        assert_eq!(report["route-rules"]["config"][0]["route-table"], 200);
        assert_eq!(report["ovn"]["bridge-mappings"][0]["bridge"], "br1");
        assert_eq!(report["ovs-db"]["external_ids"]["hostname"], "node01");
    }
}
