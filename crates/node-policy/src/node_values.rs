//! One policy for many nodes with an address each: placeholders in its desired state that are
//! replaced by values of the node.
//!
//! A placeholder is written `{{ values.NAME }}`. A text that is one placeholder becomes the value,
//! with its type; in a longer text the value is inserted as text. The result is never parsed again.
//!
//! All nodes of a policy are checked together, before any of them is changed: each must have a
//! value for each placeholder, and no two nodes may get the same address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nmstate_api::node_values::is_name;
use nmstate_api::{NetworkDocument, NodeValues, PolicySpec};
use serde_json::{Map, Value};

/// Why a policy cannot be completed for a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    #[error("{path}: value {name} not found for this node")]
    Missing { path: String, name: String },
    #[error(
        "{path}: `{{{{ values.{name} }}}}` is not a valid placeholder: a name consists of letters, digits, - and _"
    )]
    Place { path: String, name: String },
}

/// An error in the values of the nodes of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("{node}: there are no values for this node")]
    NoValues { node: String },
    #[error("{node}: {why}")]
    Unusable { node: String, why: String },
    #[error("{node}: {error}")]
    Fill { node: String, error: FillError },
    #[error("{path}: {first} and {second} would both have the address {address}")]
    Duplicate { path: String, address: IpAddr, first: String, second: String },
}

/// The values of a node, or why they cannot be used; none if there are none for it.
pub type Found = Option<Result<NodeValues, String>>;

/// Completes a policy for a node.
pub fn fill(spec: &PolicySpec, values: &NodeValues) -> Result<PolicySpec, FillError> {
    let desired = map(&spec.desired_state.0, "desiredState", values)?;
    Ok(PolicySpec { desired_state: NetworkDocument(desired), ..spec.clone() })
}

/// Whether a desired state has placeholders for values.
pub fn has_places(desired: &NetworkDocument) -> bool {
    fn any(value: &Value) -> bool {
        match value {
            Value::String(text) => next_place(text).is_some(),
            Value::Array(list) => list.iter().any(any),
            Value::Object(map) => map.values().any(any),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    desired.0.values().any(any)
}

/// All errors, by node.
pub fn problems(desired: &NetworkDocument, nodes: &BTreeMap<&str, Found>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut holders: BTreeMap<IpAddr, &str> = BTreeMap::new();
    for (node, values) in nodes {
        let owned = || (*node).to_owned();
        let values = match values {
            None => {
                problems.push(Problem::NoValues { node: owned() });
                continue;
            }
            Some(Err(why)) => {
                problems.push(Problem::Unusable { node: owned(), why: why.clone() });
                continue;
            }
            Some(Ok(values)) => values,
        };
        let filled = match map(&desired.0, "desiredState", values) {
            Ok(filled) => filled,
            Err(error) => {
                problems.push(Problem::Fill { node: owned(), error });
                continue;
            }
        };
        for (path, address) in addresses(&desired.0, &filled) {
            match holders.get(&address) {
                Some(first) if first != node => problems.push(Problem::Duplicate {
                    path,
                    address,
                    first: (*first).to_owned(),
                    second: owned(),
                }),
                _ => drop(holders.insert(address, node)),
            }
        }
    }
    problems
}

/// Addresses of interfaces that come from values. The same link-local address may be used by all
/// nodes, as may one that is written into the policy itself.
fn addresses(desired: &Map<String, Value>, filled: &Map<String, Value>) -> Vec<(String, IpAddr)> {
    fn list(value: Option<&Value>) -> impl Iterator<Item = (usize, &Value)> {
        value.and_then(Value::as_array).into_iter().flatten().enumerate()
    }
    let mut found = Vec::new();
    for (index, interface) in list(filled.get("interfaces")) {
        for family in ["ipv4", "ipv6"] {
            for (number, address) in list(interface.pointer(&format!("/{family}/address"))) {
                let path = format!("interfaces[{index}].{family}.address[{number}].ip");
                let place = format!("/{index}/{family}/address/{number}/ip");
                let place = desired.get("interfaces").and_then(|it| it.pointer(&place));
                let is_value = place.and_then(Value::as_str).is_some_and(has_place);
                let ip = address.get("ip").and_then(Value::as_str);
                let ip: Option<IpAddr> = ip.and_then(|ip| ip.parse().ok());
                if let Some(ip) = ip.filter(|ip| is_value && !is_link_local(*ip)) {
                    found.push((format!("desiredState.{path}"), ip));
                }
            }
        }
    }
    found
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn map(
    from: &Map<String, Value>,
    path: &str,
    values: &NodeValues,
) -> Result<Map<String, Value>, FillError> {
    let filled = from.iter().map(|(key, it)| {
        let filled = value(it, &format!("{path}.{key}"), values)?;
        Ok((key.clone(), filled))
    });
    filled.collect()
}

fn value(from: &Value, path: &str, values: &NodeValues) -> Result<Value, FillError> {
    match from {
        Value::String(text) => fill_text(text, path, values),
        Value::Array(list) => {
            let item = |(index, it)| value(it, &format!("{path}[{index}]"), values);
            list.iter().enumerate().map(item).collect::<Result<_, _>>().map(Value::Array)
        }
        Value::Object(from) => map(from, path, values).map(Value::Object),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(from.clone()),
    }
}

fn fill_text(text: &str, path: &str, values: &NodeValues) -> Result<Value, FillError> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(place) = next_place(rest) {
        let name = place.name.to_owned();
        let path = || path.to_owned();
        if !is_name(place.name) {
            return Err(FillError::Place { path: path(), name: name.chars().take(63).collect() });
        }
        let Some(value) = values.get(place.name) else {
            return Err(FillError::Missing { path: path(), name });
        };
        if place.before.is_empty() && place.after.is_empty() && filled.is_empty() {
            return Ok(value.clone());
        }
        filled.push_str(place.before);
        match value {
            Value::String(text) => filled.push_str(text),
            other => filled.push_str(&other.to_string()),
        }
        rest = place.after;
    }
    filled.push_str(rest);
    Ok(Value::String(filled))
}

/// A placeholder in a text.
struct Placeholder<'a> {
    before: &'a str,
    name: &'a str,
    after: &'a str,
}

/// The first placeholder for a value; those of captures are ignored.
fn next_place(text: &str) -> Option<Placeholder<'_>> {
    let mut from = 0;
    loop {
        let begin = from + text.get(from..)?.find("{{")?;
        let end = begin + text.get(begin..)?.find("}}")?;
        let inside = text.get(begin + 2..end)?.trim();
        if let Some(name) = inside.strip_prefix("values.") {
            let after = text.get(end + 2..)?;
            return Some(Placeholder { before: text.get(..begin)?, name: name.trim(), after });
        }
        from = end + 2;
    }
}

fn has_place(text: &str) -> bool {
    next_place(text).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(yaml: &str) -> NetworkDocument {
        serde_saphyr::from_str(yaml).unwrap()
    }

    fn values(yaml: &str) -> NodeValues {
        NodeValues::parse(yaml).unwrap()
    }

    const STORAGE: &str = "
interfaces:
- name: eno2.300
  type: vlan
  vlan: {base-iface: eno2, id: '{{ values.vlan }}'}
  ipv4:
    enabled: '{{values.on}}'
    address:
    - {ip: '{{ values.ip }}', prefix-length: 24}
    - {ip: '198.51.100.{{ values.last }}', prefix-length: 24}
    - {ip: 203.0.113.1, prefix-length: 32}
routes:
  config: [{destination: 0.0.0.0/0, next-hop-address: '{{ values.gateway }}', next-hop-interface: eno2.300}]
";

    const NODE: &str = "{vlan: 300, on: true, ip: 192.0.2.10, last: 7, gateway: 192.0.2.1}";

    fn filled(desired: &str, node: &str) -> Result<Value, FillError> {
        let spec = PolicySpec { desired_state: document(desired), ..PolicySpec::default() };
        Ok(fill(&spec, &values(node))?.desired_state.to_value())
    }

    #[test]
    fn values_keep_their_types_and_become_text_within_a_text() {
        let state = filled(STORAGE, NODE).unwrap();
        let interface = &state["interfaces"][0];
        assert_eq!(interface["vlan"]["id"], json!(300));
        assert_eq!(interface["ipv4"]["enabled"], json!(true));
        assert_eq!(interface["ipv4"]["address"][0]["ip"], "192.0.2.10");
        assert_eq!(interface["ipv4"]["address"][1]["ip"], "198.51.100.7");
        assert_eq!(state["routes"]["config"][0]["next-hop-address"], "192.0.2.1");
    }

    #[test]
    fn a_value_cannot_add_anything_to_the_document() {
        let odd = "{ip: '1.2.3.4, prefix-length: 8}, {ip: {{ values.b }}', b: 2}";
        let state = filled("{hostname: {config: '{{ values.ip }}'}}", odd).unwrap();
        let text = "1.2.3.4, prefix-length: 8}, {ip: {{ values.b }}";
        assert_eq!(state, json!({"hostname": {"config": text}}));
    }

    #[test]
    fn captures_are_left_to_nmstate() {
        let text = "{{ capture.a.interfaces.0.name }}.{{ values.vlan }}";
        let state = filled(&format!("{{hostname: {{config: '{text}'}}}}"), NODE).unwrap();
        assert_eq!(state["hostname"]["config"], "{{ capture.a.interfaces.0.name }}.300");
        let capture = "{hostname: {config: '{{ capture.a }}'}}";
        assert!(!has_places(&document(capture)));
        assert!(has_places(&document(STORAGE)));
        for unfinished in ["{{ values.a", "{{", "}}", "{{}}", "{ {values.a}}"] {
            let state = json!({"hostname": {"config": unfinished}});
            assert!(!has_places(&serde_json::from_value(state).unwrap()), "{unfinished}");
        }
    }

    fn found(desired: &str, nodes: &[(&str, Option<&str>)]) -> Vec<String> {
        let nodes = nodes.iter().map(|(name, text)| {
            let values = text.map(|text| NodeValues::parse(text).map_err(|it| it.to_string()));
            (*name, values)
        });
        let problems = problems(&document(desired), &nodes.collect());
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_missing_is_named_with_node_and_place() {
        let without_ip = "{vlan: 300, on: true, last: 8, gateway: 192.0.2.1}";
        let nodes =
            [("a", Some(NODE)), ("b", None), ("c", Some(without_ip)), ("d", Some("ip: [1]"))];
        assert_eq!(
            found(STORAGE, &nodes),
            [
                "b: there are no values for this node",
                "c: desiredState.interfaces[0].ipv4.address[0].ip: value ip not found for this node",
                "d: the value of ip is a list; it must be a text, a number, or true or false",
            ]
        );
        let odd = found("{hostname: {config: '{{ values.a b }}'}}", &[("a", Some(NODE))]);
        assert!(odd[0].contains("`{{ values.a b }}` is not a valid placeholder"), "{odd:?}");
    }

    #[test]
    fn two_nodes_never_get_the_same_address() {
        let other = |ip: &str, last: u8| {
            format!("{{vlan: 300, on: true, ip: '{ip}', last: {last}, gateway: 192.0.2.1}}")
        };
        // The gateway and the policy's own addresses are the same on all nodes.
        assert!(
            found(STORAGE, &[("a", Some(NODE)), ("b", Some(&other("192.0.2.11", 8)))]).is_empty()
        );
        let same_ip = other("192.0.2.10", 8);
        assert_eq!(
            found(STORAGE, &[("a", Some(NODE)), ("b", Some(&same_ip))]),
            [
                "desiredState.interfaces[0].ipv4.address[0].ip: a and b would both have the address 192.0.2.10"
            ]
        );
        let same_last = other("192.0.2.11", 7);
        assert_eq!(found(STORAGE, &[("a", Some(NODE)), ("b", Some(&same_last))]).len(), 1);
        let ipv6 = "{interfaces: [{name: e, ipv6: {address: [{ip: '{{ values.ip }}'}]}}]}";
        let nodes = |ip: &str, same: &str| {
            let (first, second) = (format!("ip: '{ip}'"), format!("ip: '{same}'"));
            found(ipv6, &[("a", Some(&first)), ("b", Some(&second))]).len()
        };
        assert_eq!(nodes("2001:db8::1", "2001:DB8:0::1"), 1, "the same, written otherwise");
        assert_eq!(nodes("fe80::1", "fe80::1"), 0, "link-local");
    }
}
