//! A change of a node that runs, by a state that describes parts of its network only, as policies
//! do.

use std::collections::BTreeSet;

use br_ex::{ClusterFacts, Document, RuleId, Severity};
use nmstate::NetworkState;
use serde_json::{Map, Value};

use crate::class::{Class, Classified, Context};
use crate::difference::{Difference, Subject, differences};
use crate::state::{Basis, State, StateError, text};

/// A part of a change that must not be made on a node that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The rule of a br-ex document that the node would break from then on, where there is one.
    pub rule: Option<RuleId>,
    /// The interface it is about.
    pub interface: Option<String>,
    pub why: String,
}

/// What must not be done of `desired` on a node that is as `current`. Nodes without br-ex are
/// not judged.
pub fn refusals(
    current: &NetworkState,
    desired: &NetworkState,
    cluster_mtu: Option<u32>,
) -> Result<Vec<Refusal>, StateError> {
    let old = State::new(current, Basis::Node)?;
    if old.internal_port().is_none() {
        return Ok(Vec::new());
    }
    let after = afterwards(current, desired)?;
    let network: NetworkState = serde_json::from_value(after.clone())?;
    let new = State::new(&network, Basis::Document)?;
    let context = Context::new(&old, &new, cluster_mtu);
    let mut changes = differences(&old, &new);
    // A complete state omits nothing, so routes that are not in it are removed.
    for (key, route) in old.routes.iter().filter(|(key, _)| !new.routes.contains_key(key)) {
        changes.push(Difference {
            subject: Subject::Route(key.clone()),
            field: Vec::new(),
            old: Some(Value::Object(route.clone())),
            new: None,
        });
    }
    let forbidden: Vec<Classified> = changes
        .into_iter()
        .map(|change| context.classify(change))
        .filter(|change| change.class == Class::Forbidden)
        .collect();
    if forbidden.is_empty() {
        return Ok(Vec::new());
    }
    let broken = newly_broken(&serde_json::to_value(current)?, &after);
    let refusal = |change: Classified| {
        let interface = match &change.difference.subject {
            Subject::Interface { name, .. } => Some(name.clone()),
            Subject::Route(route) => Some(route.interface.clone()),
            Subject::Dns | Subject::Section(_) => None,
        };
        let why = format!("{}: {}", change.difference.path(), change.why);
        Refusal { rule: broken.first().copied(), interface, why }
    };
    Ok(forbidden.into_iter().map(refusal).collect())
}

/// Rules that the node keeps now and would not keep then.
fn newly_broken(before: &Value, after: &Value) -> Vec<RuleId> {
    let broken = |state: &Value| -> BTreeSet<RuleId> {
        let document = Document::parse(state.to_string().as_bytes());
        let findings = br_ex::check(&document, &ClusterFacts::default()).into_iter();
        let errors = findings.filter(|finding| finding.severity == Severity::Error);
        // Whether nmstate accepts a whole node as a document is unrelated to the change.
        errors.map(|finding| finding.rule).filter(|rule| *rule != RuleId::N1).collect()
    };
    let before = broken(before);
    broken(after).into_iter().filter(|rule| !before.contains(rule)).collect()
}

/// The state of the node once the change is made, as far as it can be determined beforehand.
fn afterwards(current: &NetworkState, desired: &NetworkState) -> Result<Value, StateError> {
    let mut after = serde_json::to_value(current)?;
    let Value::Object(desired) = serde_json::to_value(desired)? else { return Ok(after) };
    for (section, value) in desired {
        match section.as_str() {
            "interfaces" => interfaces(&mut after, value),
            "routes" => routes(&mut after, &value),
            _ => merge(&mut after[section], value),
        }
    }
    Ok(after)
}

fn interfaces(after: &mut Value, desired: Value) {
    let Value::Array(desired) = desired else { return };
    if !after["interfaces"].is_array() {
        after["interfaces"] = Value::Array(Vec::new());
    }
    let Some(list) = after["interfaces"].as_array_mut() else { return };
    for wanted in desired {
        let Some(map) = wanted.as_object() else { continue };
        let (name, kind) = (text(map, "name").to_owned(), text(map, "type").to_owned());
        let mut found = false;
        for interface in list.iter_mut() {
            let is_same = interface.as_object().is_some_and(|it| {
                text(it, "name") == name && is_same_kind(text(it, "type"), &kind)
            });
            if is_same {
                found = true;
                let mut wanted = map.clone();
                // The node's types of interfaces are more reliable than a policy's.
                wanted.remove("type");
                merge(interface, Value::Object(wanted));
            }
        }
        if !found {
            list.push(wanted);
        }
    }
}

/// A veth may be called a NIC, and without a type, every interface of the name is meant.
fn is_same_kind(has: &str, wanted: &str) -> bool {
    let nic = |kind: &str| matches!(kind, "ethernet" | "veth");
    has == wanted || matches!(wanted, "" | "unknown") || (nic(has) && nic(wanted))
}

fn routes(after: &mut Value, desired: &Value) {
    let Some(wanted) = desired.get("config").and_then(Value::as_array) else { return };
    let config = &mut after["routes"]["config"];
    if !config.is_array() {
        *config = Value::Array(Vec::new());
    }
    let Some(list) = config.as_array_mut() else { return };
    let is_absent = |route: &Map<String, Value>| text(route, "state") == "absent";
    let maps = || wanted.iter().filter_map(Value::as_object);
    for gone in maps().filter(|route| is_absent(route)) {
        list.retain(|route| {
            let same = |(key, value): (&String, &Value)| {
                key == "state" || route.get(key).is_some_and(|has| has == value)
            };
            !gone.iter().all(same)
        });
    }
    list.extend(maps().filter(|route| !is_absent(route)).cloned().map(Value::Object));
}

/// Maps are merged, everything else is replaced.
fn merge(into: &mut Value, value: Value) {
    match (into, value) {
        (Value::Object(into), Value::Object(map)) => {
            for (key, value) in map {
                match into.get_mut(&key) {
                    Some(old) => merge(old, value),
                    None => drop(into.insert(key, value)),
                }
            }
        }
        (into, value) => *into = value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "
interfaces:
- {name: eth0, type: ethernet, state: up, mtu: 1500, ipv4: {enabled: false}, ipv6: {enabled: false}}
- {name: eth1, type: ethernet, state: up, mtu: 1500, ipv4: {enabled: false}, ipv6: {enabled: false}}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge: {port: [{name: eth0}, {name: br-ex}]}
- name: br-ex
  type: ovs-interface
  state: up
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 24}]}
  ipv6: {enabled: false}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 192.0.2.1, metric: 48, table-id: 254}
";

    fn refused(desired: &str) -> Vec<Refusal> {
        let state = |yaml: &str| NetworkState::new_from_yaml(yaml).unwrap();
        refusals(&state(NODE), &state(desired), None).unwrap()
    }

    #[test]
    fn what_takes_the_network_from_a_node_is_refused() {
        let table = [
            ("interfaces: [{name: br-ex, type: ovs-bridge, state: absent}]", "br-ex"),
            ("interfaces: [{name: br-ex, state: absent}]", "br-ex"),
            ("interfaces: [{name: br-ex, type: ovs-interface, state: down}]", "br-ex"),
            ("interfaces: [{name: eth0, type: ethernet, state: down}]", "eth0"),
            (
                "interfaces: [{name: br-ex, type: ovs-interface, state: up, ipv4: {enabled: false}}]",
                "br-ex",
            ),
            (
                "interfaces: [{name: br-ex, type: ovs-interface, state: up, ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.11, prefix-length: 24}]}}]",
                "br-ex",
            ),
            (
                "routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: br-ex, state: absent}]}",
                "br-ex",
            ),
        ];
        for (desired, interface) in table {
            let refused = refused(desired);
            assert!(!refused.is_empty(), "{desired}");
            assert_eq!(refused[0].interface.as_deref(), Some(interface), "{desired}");
        }
    }

    #[test]
    fn a_refusal_names_the_rule_that_would_be_broken() {
        let refused = refused("interfaces: [{name: br-ex, type: ovs-bridge, state: absent}]");
        assert_eq!(refused[0].rule, Some(RuleId::B1), "{refused:?}");
    }

    #[test]
    fn what_leaves_br_ex_alone_is_not_refused() {
        let allowed = [
            "interfaces: [{name: eth1, type: ethernet, state: up, mtu: 9000}]",
            "interfaces: [{name: eth1, type: ethernet, state: down}]",
            "interfaces: [{name: d0, type: dummy, state: up}]",
            "dns-resolver: {config: {server: [192.0.2.53]}}",
            "routes: {config: [{destination: 198.51.100.0/24, next-hop-interface: eth1, next-hop-address: 192.0.2.77}]}",
            "interfaces: [{name: br-ex, type: ovs-interface, state: up, mtu: 9000}]",
        ];
        for desired in allowed {
            assert_eq!(refused(desired), [], "{desired}");
        }
    }

    #[test]
    fn nodes_without_br_ex_are_not_judged() {
        let state = |yaml: &str| NetworkState::new_from_yaml(yaml).unwrap();
        let node = state("interfaces: [{name: eth0, type: ethernet, state: up}]");
        let desired = state("interfaces: [{name: eth0, type: ethernet, state: absent}]");
        assert_eq!(refusals(&node, &desired, None).unwrap(), []);
    }
}
