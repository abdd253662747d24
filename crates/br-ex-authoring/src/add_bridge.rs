//! From the network that a host is installed with to a document with br-ex: the interface with the
//! default route becomes the uplink, and its addresses, routes and MTU go to br-ex.
//!
//! The opposite of [`crate::first_network`].

use std::collections::{BTreeMap, BTreeSet};

use br_ex::layout::{Family, Interface, Layout};
use br_ex::{BRIDGE, Document};
use machine_config::yaml;
use serde_json::{Map, Value, json};

/// What br-ex wins with.
const METRIC: u64 = 48;

#[derive(Debug, thiserror::Error)]
pub enum AddBridgeError {
    #[error("nmstate does not read the network; `oc-brex check` reports why")]
    Unread,
    #[error("no interface has a default route; give --uplink with the one that br-ex is to use")]
    NoUplink,
    #[error("{} have a default route; give --uplink with the one that br-ex is to use", .0.join(", "))]
    Several(Vec<String>),
    #[error("the network has no interface `{0}`; it has {list}", list = .1.join(", "))]
    Unknown(String, Vec<String>),
    #[error("`{0}` is a port of another interface and cannot be the uplink of br-ex")]
    Port(String),
    #[error("writing the document as YAML")]
    Write(#[from] yaml::WriteError),
}

/// The document. `macs` are the MAC addresses by which NICs are found, whatever their names.
pub fn add_bridge(
    network: &Document,
    uplink: Option<&str>,
    macs: &BTreeMap<String, String>,
) -> Result<String, AddBridgeError> {
    let layout = network.layout().ok_or(AddBridgeError::Unread)?;
    if network.state().is_none() {
        return Err(AddBridgeError::Unread);
    }
    let mut state = layout.node.to_json();
    if !layout.mentions_br_ex() {
        let uplink = find_uplink(&layout, uplink)?;
        move_to_br_ex(&mut state, &layout, uplink);
    }
    find_by_mac(&mut state, macs);
    Ok(yaml::document(&state)?)
}

fn find_uplink<'a>(layout: &Layout<'a>, given: Option<&str>) -> Result<&'a str, AddBridgeError> {
    let names = || -> Vec<String> {
        layout.interfaces.iter().map(|iface| iface.name.value.to_owned()).collect()
    };
    if let Some(given) = given {
        let found = layout.kernel_interface(given).map(|iface| iface.name.value);
        let found = found.ok_or_else(|| AddBridgeError::Unknown(given.to_owned(), names()))?;
        let is_port = |iface: &Interface<'_>| iface.bond_ports().iter().any(|it| it.value == given);
        return match layout.interfaces.iter().any(is_port) {
            true => Err(AddBridgeError::Port(given.to_owned())),
            false => Ok(found),
        };
    }
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for route in &layout.routes {
        if Family::BOTH.iter().any(|family| route.is_default(*family)) {
            found.extend(route.interface.map(|it| it.value));
        }
    }
    if found.is_empty() {
        let automatic = |iface: &&Interface<'_>| {
            iface.is_up() && iface.ips().any(|ip| ip.has_automatic_gateway())
        };
        found.extend(layout.interfaces.iter().filter(automatic).map(|iface| iface.name.value));
    }
    let listed: Vec<&str> = found.into_iter().collect();
    match listed.as_slice() {
        [] => Err(AddBridgeError::NoUplink),
        [one] => {
            let iface = layout.kernel_interface(one).map(|iface| iface.name.value);
            iface.ok_or_else(|| AddBridgeError::Unknown((*one).to_owned(), names()))
        }
        several => {
            Err(AddBridgeError::Several(several.iter().map(|it| (*it).to_owned()).collect()))
        }
    }
}

fn move_to_br_ex(state: &mut Value, layout: &Layout<'_>, uplink: &str) {
    let mut port = json!({"name": BRIDGE, "type": "ovs-interface", "state": "up"});
    port["copy-mac-from"] = json!(nic_below(layout, uplink));
    let interfaces = state["interfaces"].as_array_mut();
    for iface in interfaces.into_iter().flatten() {
        if iface["name"] == json!(uplink) {
            let Some(iface) = iface.as_object_mut() else { continue };
            if let Some(mtu) = iface.get("mtu") {
                port["mtu"] = mtu.clone();
            }
            for family in Family::BOTH {
                let section = iface.insert(family.key().to_owned(), json!({"enabled": false}));
                port[family.key()] = with_metric(section);
            }
        }
    }
    let bridge = json!({
        "name": BRIDGE,
        "type": "ovs-bridge",
        "state": "up",
        "bridge": {
            "allow-extra-patch-ports": true,
            "options": {"mcast-snooping-enable": true},
            "port": [{"name": uplink}, {"name": BRIDGE}],
        },
    });
    if let Some(interfaces) = state["interfaces"].as_array_mut() {
        interfaces.extend([bridge, port]);
    }
    let routes = state.pointer_mut("/routes/config").and_then(Value::as_array_mut);
    for route in routes.into_iter().flatten().filter_map(Value::as_object_mut) {
        if route.get("next-hop-interface") == Some(&json!(uplink)) {
            route.insert("next-hop-interface".to_owned(), json!(BRIDGE));
            if is_default(route) {
                route.insert("metric".to_owned(), json!(METRIC));
            }
        }
    }
}

fn is_default(route: &Map<String, Value>) -> bool {
    let destination = route.get("destination").and_then(Value::as_str);
    destination.and_then(Family::of_default_route).is_some()
}

/// A section for IP; routes from the network get the metric of br-ex.
fn with_metric(section: Option<Value>) -> Value {
    let mut section = section.unwrap_or_else(|| json!({"enabled": false}));
    let is_on = |key: &str| section.get(key) == Some(&json!(true));
    if is_on("enabled") && (is_on("dhcp") || is_on("autoconf")) && !is_on("auto-gateway") {
        let has_gateway = section.get("auto-gateway") != Some(&json!(false));
        if has_gateway {
            section["auto-route-metric"] = json!(METRIC);
        }
    }
    section
}

/// The first NIC below an interface; it is there before the document is applied.
fn nic_below<'a>(layout: &Layout<'a>, name: &'a str) -> &'a str {
    let mut name = name;
    let mut seen = BTreeSet::new();
    while seen.insert(name) {
        let lower = layout.kernel_interface(name).map(br_ex::uplink::below).unwrap_or_default();
        match lower.first() {
            Some(lower) => name = lower.value,
            None => break,
        }
    }
    name
}

/// Names of NICs in lists are arbitrary; nmstate finds the NICs by the MAC addresses.
fn find_by_mac(state: &mut Value, macs: &BTreeMap<String, String>) {
    let interfaces = state["interfaces"].as_array_mut();
    for iface in interfaces.into_iter().flatten().filter_map(Value::as_object_mut) {
        let is_nic = iface.get("type").and_then(Value::as_str).is_none_or(|it| it == "ethernet");
        let mac = iface.get("name").and_then(Value::as_str).and_then(|name| macs.get(name));
        if let (true, Some(mac), false) = (is_nic, mac, iface.contains_key("identifier")) {
            iface.insert("identifier".to_owned(), json!("mac-address"));
            iface.insert("mac-address".to_owned(), json!(mac));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::first_network::first_network;
    use crate::topology::{
        Addressing, Bond, BondMode, Families, StaticAddresses, Topology, Uplink,
    };
    use br_ex::ClusterFacts;
    use br_ex::Severity;
    use br_ex_day2::{Basis, State, differences};
    use nmstate::NetworkState;

    fn with_bridge(text: &str) -> Result<String, String> {
        add_bridge(&Document::parse(text.as_bytes()), None, &BTreeMap::new())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_the_opposite_of_the_first_network() {
        let name = |text: &str| text.parse().unwrap();
        let ports = vec![name("eno1"), name("eno2")];
        let bond =
            Bond { name: name("bond0"), mode: BondMode::Lacp, ports, options: BTreeMap::new() };
        let id = "7".parse().unwrap();
        let fixed = StaticAddresses::new(
            vec!["192.0.2.10/24".parse().unwrap(), "2001:db8::10/64".parse().unwrap()],
            vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
            vec!["192.0.2.53".parse().unwrap()],
        );
        let addressing = [Addressing::Dhcp(Families::Both), Addressing::Static(fixed.unwrap())];
        for uplink in [
            Uplink::Nic(name("eno1")),
            Uplink::Vlan { base: name("eno1"), id },
            Uplink::Bond(bond.clone()),
            Uplink::VlanOnBond { bond, id },
        ] {
            for addressing in addressing.clone() {
                let topology =
                    Topology { mtu: Some(9000), ..Topology::new(uplink.clone(), addressing) };
                let text = topology.document().unwrap();
                let first = first_network(&Document::parse(text.as_bytes())).unwrap();
                let first = serde_json::to_string(&first).unwrap();
                let again = with_bridge(&first).unwrap();
                let state = |text: &str| {
                    State::new(&NetworkState::new_from_yaml(text).unwrap(), Basis::Document)
                        .unwrap()
                };
                let found = differences(&state(&text), &state(&again));
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                assert_eq!(found, Vec::<String>::new(), "{text}\n{again}");
            }
        }
    }

    #[test]
    fn what_is_lifted_keeps_the_rules() {
        let text = "\
interfaces:
- name: eth0
  type: ethernet
  state: up
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 24}]}
dns-resolver: {config: {server: [192.0.2.1]}}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0, table-id: 254}
";
        let macs = BTreeMap::from([("eth0".to_owned(), "52:54:00:00:00:01".to_owned())]);
        let network = Document::parse(text.as_bytes());
        let text = add_bridge(&network, None, &macs).unwrap();
        let findings = br_ex::check(&Document::parse(text.as_bytes()), &ClusterFacts::default());
        let bad = findings.iter().any(|finding| finding.severity != Severity::Info);
        assert!(!bad, "{findings:?}\n{text}");
        assert!(text.contains("identifier: mac-address"), "{text}");
    }

    #[test]
    fn an_uplink_that_cannot_be_determined_is_requested() {
        let nic = |name: &str| {
            format!(
                "- {{name: {name}, type: ethernet, state: up, ipv4: {{enabled: true, dhcp: true}}}}\n"
            )
        };
        let two = format!("interfaces:\n{}{}", nic("eth0"), nic("eth1"));
        assert!(with_bridge(&two).unwrap_err().starts_with("eth0, eth1 have a default route"));
        assert!(
            with_bridge("interfaces: []\n").unwrap_err().starts_with("no interface has a default")
        );
        let document = Document::parse(two.as_bytes());
        let text = add_bridge(&document, Some("eth1"), &BTreeMap::new()).unwrap();
        assert!(text.contains("copy-mac-from: eth1"), "{text}");
        let error = add_bridge(&document, Some("eth7"), &BTreeMap::new()).unwrap_err().to_string();
        assert!(error.contains("has no interface `eth7`; it has eth0, eth1"), "{error}");
    }
}
