//! The network of a node as it is reported: all of it, without what changes by itself.

use std::collections::BTreeSet;

use nmstate::NetworkState;
use nmstate_api::NetworkDocument;
use serde_json::{Map, Value};

#[derive(Debug, thiserror::Error)]
#[error("nmstate cannot write the network state it has read")]
pub struct NotWritable(#[from] serde_json::Error);

/// Timers of a bridge that count all the time.
const BRIDGE_TIMERS: [&str; 2] = ["gc-timer", "hello-timer"];
/// Parts of an address that count down.
const LIFE_TIMES: [&str; 2] = ["preferred-life-time", "valid-life-time"];

/// What is reported of a state that was read from a node. The ends of pods' wires that nobody
/// manages are left out, and routes through them.
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
                // Blackholes lead nowhere, and are routes all the same.
                None => true,
            });
        }
    }
    Ok(NetworkDocument(sections))
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
