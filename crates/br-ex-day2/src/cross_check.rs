//! nmstate's own opinion of what differs, beside ours.

use std::collections::BTreeSet;

use ipnet::IpNet;
use nmstate::NetworkState;
use serde_json::{Map, Value};

use crate::address::{is_link_local, net_of};
use crate::difference::{EXTRA_PORTS, is_same_value};
use crate::state::text;

/// What is left of nmstate's comparison once everything is taken out that the state has already:
/// nmstate repeats some fields of what it touches. `Null` when nothing is left.
pub(super) fn really_new(desired: &NetworkState, current: &NetworkState) -> Result<Value, String> {
    let difference = desired.gen_diff(current).map_err(|error| error.msg().to_owned())?;
    let value = |state: &NetworkState| serde_json::to_value(state).map_err(|it| it.to_string());
    Ok(remaining(&value(&difference)?, &value(current)?))
}

/// Names of the interfaces, and of the sections, that something is left of.
pub(super) fn names(left: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Some(sections) = left.as_object() else { return names };
    for (section, value) in sections {
        if section == "interfaces" {
            let list = value.as_array().into_iter().flatten().filter_map(Value::as_object);
            names.extend(list.map(|interface| text(interface, "name").to_owned()));
        } else {
            names.insert(section.clone());
        }
    }
    names
}

fn remaining(difference: &Value, current: &Value) -> Value {
    match (difference, current) {
        (Value::Object(difference), Value::Object(current)) => {
            let mut left = Map::new();
            // Which ports of others to allow is an instruction, which no node reports.
            for (key, value) in difference.iter().filter(|(key, _)| *key != EXTRA_PORTS) {
                let below = match key.as_str() {
                    "address" => addresses(value, current),
                    _ => remaining(value, current.get(key).unwrap_or(&Value::Null)),
                };
                if !below.is_null() {
                    left.insert(key.clone(), below);
                }
            }
            // What is left needs its name to be of any use.
            if !left.is_empty() {
                for key in ["name", "type"] {
                    if let Some(value) = difference.get(key) {
                        left.insert(key.to_owned(), value.clone());
                    }
                }
            }
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        (Value::Array(difference), Value::Array(current)) => {
            let left: Vec<Value> = difference
                .iter()
                .map(|item| remaining(item, same(item, current).unwrap_or(&Value::Null)))
                .filter(|left| !left.is_null())
                .collect();
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        (difference, current) if is_same_value(difference, current) => Value::Null,
        (Value::Object(map), Value::Null) if map.is_empty() => Value::Null,
        (Value::Array(list), Value::Null) if list.is_empty() => Value::Null,
        (difference, _) => difference.clone(),
    }
}

/// Addresses that are there already, by lease or otherwise, are nothing new. One that would go away
/// shows: a list is taken whole. Leases, and virtual addresses that move between nodes, do not count.
fn addresses(wanted: &Value, section: &Map<String, Value>) -> Value {
    let nets = |value: &Value| -> BTreeSet<IpNet> {
        value.as_array().into_iter().flatten().filter_map(net_of).collect()
    };
    let (requested, has) = (nets(wanted), section.get("address").map(nets).unwrap_or_default());
    let on = |key: &str| section.get(key).and_then(Value::as_bool) == Some(true);
    let is_leased = on("dhcp") || on("autoconf");
    let stays = |net: &&IpNet| {
        !is_leased && !is_link_local(**net) && net.prefix_len() != net.max_prefix_len()
    };
    let is_lost = has.difference(&requested).any(|net| stays(&net));
    if requested.is_subset(&has) && !is_lost { Value::Null } else { wanted.clone() }
}

fn same<'a>(item: &Value, list: &'a [Value]) -> Option<&'a Value> {
    let key = |value: &Value, key: &str| value.get(key).cloned();
    match item.get("name") {
        Some(_) => list.iter().find(|other| {
            key(other, "name") == key(item, "name") && key(other, "type") == key(item, "type")
        }),
        // A route of a node has more fields than a desired one, such as its table.
        None => list.iter().find(|other| match (item, other) {
            (Value::Object(item), Value::Object(other)) => item
                .iter()
                .all(|(key, value)| other.get(key).is_some_and(|has| is_same_value(value, has))),
            _ => is_same_value(item, other),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(desired: &str, current: &str) -> Value {
        let state = |text: &str| NetworkState::new_from_yaml(text).unwrap();
        really_new(&state(desired), &state(current)).unwrap()
    }

    const NIC: &str =
        "interfaces: [{name: eno1, type: ethernet, state: up, mtu: 1500, ipv4: {enabled: false}}]";

    #[test]
    fn an_address_that_would_go_away_is_left_and_a_lease_is_not() {
        let state = |dhcp: bool, addresses: &str| {
            format!(
                "interfaces: [{{name: eno1, type: ethernet, state: up, ipv4: {{enabled: true, dhcp: \
                 {dhcp}, address: [{addresses}]}}}}]"
            )
        };
        let one = "{ip: 192.0.2.1, prefix-length: 24}";
        let other = "{ip: 192.0.2.2, prefix-length: 24}";
        let virtual_one = "{ip: 192.0.2.3, prefix-length: 32}";
        for (dhcp, expected, has, is_left) in [
            (false, one.to_owned(), format!("{one}, {other}"), true),
            (false, one.to_owned(), format!("{one}, {virtual_one}"), false),
            (false, format!("{one}, {other}"), one.to_owned(), true),
            (true, one.to_owned(), format!("{one}, {other}"), false),
        ] {
            let left = left(&state(dhcp, &expected), &state(dhcp, &has));
            assert_eq!(!left.is_null(), is_left, "{expected} on {has}: {left}");
        }
    }

    #[test]
    fn the_same_state_leaves_nothing_and_another_one_its_difference() {
        assert_eq!(left(NIC, NIC), Value::Null);
        let left = left(&NIC.replace("1500", "9000"), NIC);
        assert_eq!(names(&left), ["eno1".to_owned()].into());
        assert_eq!(left["interfaces"][0]["mtu"], 9000);
    }
}
