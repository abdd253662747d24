//! How a policy is reverted: the state before it, and which nodes are first.

use std::collections::BTreeSet;
use std::time::Duration;

use nmstate::{NetworkState, NmstateError};
use nmstate_api::NetworkDocument;
use serde_json::{Map, Value};

use crate::limit::MaxUnavailable;

/// The delay before the remaining reports are read again, for each group of nodes that comes first.
const TURN: Duration = Duration::from_secs(5);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a node that is down may block the others.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// When a node may revert a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Now,
    /// To be checked again after this time.
    In(Duration),
}

/// Whether the node may revert now: of the nodes that are `left`, by their names, as many as the
/// policy allowed at a time. A node is left until it has reverted the policy and deleted its
/// report, so no more than that are reverted at the same time.
pub fn turn(node: &str, left: &BTreeSet<String>, limit: MaxUnavailable, waited: Duration) -> Turn {
    let before = left.iter().take_while(|it| it.as_str() < node).count();
    let at_a_time = limit.of(left.len());
    if before < at_a_time || waited >= PATIENCE {
        return Turn::Now;
    }
    let turns = u32::try_from(before / at_a_time).unwrap_or(u32::MAX);
    Turn::In(TURN.saturating_mul(turns).min(LONGEST_WAIT))
}

#[derive(Debug, thiserror::Error)]
pub enum RevertError {
    #[error("nmstate cannot generate the state that reverts it: {}", .0.msg())]
    Revert(NmstateError),
    #[error("serializing the state that reverts it")]
    Write(#[from] serde_json::Error),
}

/// The state that reverts `desired` on a node with the state `before`. `earlier` reverts earlier
/// generations of the same policy. It takes precedence, as it describes the node before the policy
/// existed.
pub fn way_back(
    desired: &NetworkState,
    before: &NetworkState,
    earlier: &NetworkDocument,
) -> Result<NetworkDocument, RevertError> {
    let revert = network_revert::revert(desired, before).map_err(RevertError::Revert)?;
    let mut sections = match serde_json::to_value(revert)? {
        Value::Object(sections) => sections,
        _ => Map::new(),
    };
    sections.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    for (section, earlier) in &earlier.0 {
        match (section.as_str(), sections.get_mut(section)) {
            ("interfaces", Some(later)) => interfaces(later, earlier),
            // Sections that exist once per node, and routes: the earliest one counts.
            _ => drop(sections.insert(section.clone(), earlier.clone())),
        }
    }
    Ok(NetworkDocument(sections))
}

fn interfaces(later: &mut Value, earlier: &Value) {
    let (Some(later), Some(earlier)) = (later.as_array_mut(), earlier.as_array()) else { return };
    let key = |interface: &Value| (interface.get("name").cloned(), interface.get("type").cloned());
    later.retain(|interface| !earlier.iter().any(|it| key(it) == key(interface)));
    later.extend(earlier.iter().cloned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(yaml: &str) -> NetworkState {
        NetworkState::new_from_yaml(yaml).unwrap()
    }

    #[test]
    fn nodes_are_reverted_in_turn() {
        let left = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let all: BTreeSet<String> = left(&["a", "b", "c", "d"]);
        let now = |nodes: &BTreeSet<String>, limit| -> Vec<String> {
            let is_now = |node: &&String| turn(node, nodes, limit, Duration::ZERO) == Turn::Now;
            nodes.iter().filter(is_now).cloned().collect()
        };
        let one = MaxUnavailable::Nodes(1);
        assert_eq!(now(&all, one), ["a"]);
        assert_eq!(now(&left(&["b", "c", "d"]), one), ["b"], "a is done");
        assert_eq!(now(&all, MaxUnavailable::default()), ["a", "b"], "half of them");
        assert_eq!(now(&all, MaxUnavailable::Nodes(9)), ["a", "b", "c", "d"]);
        assert_eq!(turn("d", &all, one, Duration::ZERO), Turn::In(TURN * 3));
        assert_eq!(turn("d", &all, one, PATIENCE), Turn::Now, "a may be down");
    }

    /// In any order of turns, no more nodes are reverted at a time than the limit allows.
    #[test]
    fn turns_never_exceed_the_limit() {
        for limit in 1..4 {
            let mut left: BTreeSet<String> = (0..9).map(|number| format!("n{number}")).collect();
            let mut under_way = BTreeSet::new();
            while !left.is_empty() {
                for node in &left {
                    let limit = MaxUnavailable::Nodes(limit);
                    if turn(node, &left, limit, Duration::ZERO) == Turn::Now {
                        under_way.insert(node.clone());
                    }
                }
                assert!(under_way.len() <= limit, "{under_way:?}");
                // The last of them finishes first.
                let done = under_way.pop_last().unwrap();
                left.remove(&done);
            }
        }
    }

    #[test]
    fn an_address_is_restored_when_a_policy_that_disabled_it_is_reverted() {
        let before = state(
            "interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: 192.0.2.1, prefix-length: 24}]}}]",
        );
        let desired =
            state("interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: false}}]");
        let back = way_back(&desired, &before, &NetworkDocument::default()).unwrap().to_value();
        assert_eq!(back["interfaces"][0]["ipv4"]["address"][0]["ip"], "192.0.2.1");
    }

    #[test]
    fn after_several_edits_the_way_back_leads_to_before_the_first() {
        let start = state("interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1500}]");
        let first = state("interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1400}]");
        let back = way_back(&first, &start, &NetworkDocument::default()).unwrap();
        assert_eq!(back.to_value()["interfaces"][0]["mtu"], 1500);
        let second = state(
            "interfaces:
- {name: eth1, type: ethernet, state: up, mtu: 1300}
- {name: d0, type: dummy, state: up}",
        );
        let back = way_back(&second, &first, &back).unwrap().to_value();
        let of = |name: &str| {
            let list = back["interfaces"].as_array().unwrap();
            list.iter().find(|it| it["name"] == name).cloned().unwrap()
        };
        assert_eq!(of("eth1")["mtu"], 1500);
        assert_eq!(of("d0")["state"], "absent");
    }
}
