//! The network that a new machine needs before it has br-ex: enough to fetch its Ignition.
//!
//! It is the one of the document without Open vSwitch: the addresses, routes and name servers of
//! br-ex, on the interface that will carry it.

use br_ex::layout::Layout;
use br_ex::uplink::{UplinkPorts, below};
use br_ex::{Document, Form};
use nmstate::{InterfaceType, NetworkState};
use serde_json::{Map, Value, json};

#[derive(Debug, thiserror::Error)]
pub enum FirstNetworkError {
    #[error(
        "the document has captures, so the network for the installation cannot be derived from \
         it; write that network and give it with --network"
    )]
    Policy,
    #[error("the document has no br-ex with one uplink")]
    NoUplink,
    #[error("nmstate rejects the network without br-ex: {0}")]
    Refused(String),
}

/// The network, as a document for nmstate.
pub fn first_network(document: &Document) -> Result<NetworkState, FirstNetworkError> {
    if document.form() == Form::Policy {
        return Err(FirstNetworkError::Policy);
    }
    let layout = document.layout().ok_or(FirstNetworkError::NoUplink)?;
    let (Some(bridge), Some(port)) = (layout.bridge(), layout.internal_port()) else {
        return Err(FirstNetworkError::NoUplink);
    };
    // Of several NICs in a bond of Open vSwitch one is enough for a start.
    let uplink = UplinkPorts::of(bridge, &layout);
    let carrier = uplink.members.first().ok_or(FirstNetworkError::NoUplink)?.value;
    let port = port.node.to_json();
    let interfaces: Vec<Value> = chain(carrier, &layout)
        .into_iter()
        .map(|name| interface(name, (name == carrier).then_some(&port), &layout))
        .collect();
    let mut state = json!({ "interfaces": interfaces });
    let whole = layout.node.to_json();
    if let Some(dns) = whole.get("dns-resolver") {
        state["dns-resolver"] = dns.clone();
    }
    let routes = routes(&whole, carrier);
    if !routes.is_empty() {
        state["routes"] = json!({ "config": routes });
    }
    NetworkState::new_from_json(&state.to_string())
        .map_err(|error| FirstNetworkError::Refused(error.msg().to_owned()))
}

/// An interface and all interfaces below it, from the top.
fn chain<'a>(top: &'a str, layout: &Layout<'a>) -> Vec<&'a str> {
    let mut names = vec![top];
    let mut next = 0;
    while let Some(name) = names.get(next) {
        let lower = layout.kernel_interface(name).map(below).unwrap_or_default();
        for name in lower {
            if !names.contains(&name.value) {
                names.push(name.value);
            }
        }
        next += 1;
    }
    names
}

/// An interface as the document has it; the carrier with the addresses of br-ex.
fn interface(name: &str, port: Option<&Value>, layout: &Layout<'_>) -> Value {
    let described = layout.kernel_interface(name).map(|interface| interface.node.to_json());
    let mut interface = described
        .unwrap_or_else(|| json!({ "name": name, "type": InterfaceType::Ethernet, "state": "up" }));
    let Some(port) = port else { return interface };
    for family in ["ipv4", "ipv6"] {
        if let Some(section) = port.get(family) {
            let mut section = section.clone();
            // There is no other default route that it would have to win over.
            if let Some(section) = section.as_object_mut() {
                section.remove("auto-route-metric");
            }
            interface[family] = section;
        }
    }
    interface
}

fn routes(whole: &Value, carrier: &str) -> Vec<Value> {
    let listed = whole.pointer("/routes/config").and_then(Value::as_array);
    let via_br_ex = |route: &&Map<String, Value>| {
        let out = route.get("next-hop-interface").and_then(Value::as_str);
        out == Some(br_ex::BRIDGE) && route.get("state").and_then(Value::as_str) != Some("absent")
    };
    let routes = listed.into_iter().flatten().filter_map(Value::as_object).filter(via_br_ex);
    routes
        .map(|route| {
            let mut route = route.clone();
            route.remove("metric");
            route.insert("next-hop-interface".to_owned(), json!(carrier));
            Value::Object(route)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Value {
        let state = first_network(&Document::parse(text.as_bytes())).unwrap();
        serde_json::to_value(state).unwrap()
    }

    const BRIDGE: &str = "
- name: br-ex
  type: ovs-bridge
  state: up
  bridge:
    port:
    - name: UPLINK
    - name: br-ex
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: eno1
  ipv4:
    enabled: true
    address:
    - ip: 192.0.2.20
      prefix-length: 24
  ipv6:
    enabled: false
dns-resolver:
  config:
    server: [192.0.2.1]
routes:
  config:
  - destination: 0.0.0.0/0
    next-hop-address: 192.0.2.1
    next-hop-interface: br-ex
    metric: 48
";

    fn names(network: &Value) -> Vec<&str> {
        let interfaces = network["interfaces"].as_array().unwrap();
        let mut names: Vec<_> =
            interfaces.iter().map(|interface| interface["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_vlan_on_a_bond_keeps_all_below_it_and_takes_the_address() {
        let text = format!(
            "interfaces:
- {{name: bond0, type: bond, state: up, link-aggregation: {{mode: active-backup, port: [eno1, eno2]}}}}
- {{name: bond0.100, type: vlan, state: up, vlan: {{base-iface: bond0, id: 100}}}}{}",
            BRIDGE.replace("UPLINK", "bond0.100"),
        );
        let network = network(&text);
        assert_eq!(names(&network), ["bond0", "bond0.100", "eno1", "eno2"]);
        let interfaces = network["interfaces"].as_array().unwrap();
        let vlan = interfaces.iter().find(|it| it["name"] == "bond0.100").unwrap();
        assert_eq!(vlan["ipv4"]["address"][0]["ip"], "192.0.2.20");
        let route = &network["routes"]["config"][0];
        assert_eq!(route["next-hop-interface"], "bond0.100");
        assert!(route.get("metric").is_none());
        assert_eq!(network["dns-resolver"]["config"]["server"][0], "192.0.2.1");
        assert!(!text.contains("ovs-bond") && !network.to_string().contains("ovs-"));
    }

    #[test]
    fn of_a_bond_of_open_vswitch_behind_a_patch_one_nic_is_taken() {
        let text = "interfaces:
- name: br-ex
  type: ovs-bridge
  state: up
  bridge: {port: [{name: br-ex}, {name: patch-ex}]}
  ovs-db: {external_ids: {bridge-uplink: patch-ex}}
- {name: br-ex, type: ovs-interface, state: up, ipv4: {enabled: true, dhcp: true, auto-route-metric: 48}}
- name: br-phy
  type: ovs-bridge
  state: up
  bridge:
    port:
    - {name: patch-phy}
    - {name: bond, link-aggregation: {mode: balance-slb, port: [{name: eno1}, {name: eno2}]}}
- {name: patch-ex, type: ovs-interface, state: up, patch: {peer: patch-phy}}
- {name: patch-phy, type: ovs-interface, state: up, patch: {peer: patch-ex}}
";
        let network = network(text);
        assert_eq!(names(&network), ["eno1"]);
        assert_eq!(network["interfaces"][0]["ipv4"]["dhcp"], true);
        assert!(network["interfaces"][0]["ipv4"].get("auto-route-metric").is_none());
    }

    #[test]
    fn a_policy_or_a_document_without_br_ex_has_no_first_network() {
        let policy = "capture: {a: interfaces.name==\"x\"}\ndesiredState: {interfaces: []}\n";
        let error = first_network(&Document::parse(policy.as_bytes())).unwrap_err();
        assert!(matches!(error, FirstNetworkError::Policy));
        let error = first_network(&Document::parse(b"interfaces: []\n")).unwrap_err();
        assert!(matches!(error, FirstNetworkError::NoUplink));
    }
}
