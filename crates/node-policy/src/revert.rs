//! How a policy is reverted: the state before it, and which nodes may revert it now.
//!
//! A policy that is reverted on some of its nodes still exists: its slots are in its status, and
//! [`crate::rollout`] decides about them. A policy that was deleted has no status any more. Then
//! [`RevertInput`] decides, with the limit that each report contains.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nmstate::{NetworkState, NmstateError};
use nmstate_api::{NetworkDocument, REVERT_GENERATION};
use serde_json::{Map, Value};

use crate::limit::MaxUnavailable;
use crate::phase::Phase;
use crate::rollout::{self, Slot};

/// The slots of all deleted policies together. They are in one object, whose size is limited.
pub const MOST_REVERTS: usize = 500;

/// A node that has a report about a deleted policy. A report is deleted when the policy is reverted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftNode {
    pub is_ready: bool,
    /// The UID of its report.
    pub enactment: String,
    pub phase: Phase,
    /// The time in the slot that it used last.
    pub used: Option<Timestamp>,
    /// How many nodes may be reverted at the same time; none if nothing is reverted here.
    pub limit: Option<MaxUnavailable>,
}

/// The input for the decision about a deleted policy. All of it must have been read after the policy
/// was found to be deleted, first the slots and then the reports.
#[derive(Debug)]
pub struct RevertInput<'a> {
    /// Whether the policy does not exist. If a policy of this name exists, no node is reverted.
    pub is_deleted: bool,
    /// Nodes that have a report about it.
    pub left: &'a BTreeMap<String, LeftNode>,
    /// Slots given so far.
    pub held: &'a [Slot],
    /// The number of further slots that can be stored.
    pub room: usize,
    pub now: Timestamp,
}

impl RevertInput<'_> {
    /// Decides which nodes have slots, by node.
    ///
    /// # Guarantees
    ///
    /// - The number of nodes that have a slot, or are still being changed by the policy, exceeds no
    ///   limit of the reports.
    /// - A slot ends with the report it was given to, or if the report contains that it was used.
    pub fn decide(&self) -> Vec<Slot> {
        let mut slots: BTreeMap<&str, Slot> = BTreeMap::new();
        for slot in self.held.iter().filter(|slot| self.may_use(slot)) {
            slots.insert(&slot.node, slot.clone());
        }
        let is_changing = |(name, node): &(&String, &LeftNode)| {
            node.phase.is_under_way() && !slots.contains_key(name.as_str())
        };
        let mut busy = slots.len() + self.left.iter().filter(is_changing).count();
        let limits = self.left.values().filter_map(|node| node.limit);
        let Some(limit) = limits.map(|limit| limit.of(self.left.len())).min() else {
            return slots.into_values().collect();
        };
        let mut room = self.room;
        for (name, node) in self.left {
            let waits = node.limit.is_some() && node.is_ready && !slots.contains_key(name.as_str());
            // A node that is being changed counts already.
            let adds = usize::from(!node.phase.is_under_way());
            if self.is_deleted && waits && room > 0 && busy + adds <= limit {
                busy += adds;
                room -= 1;
                slots.insert(name, self.slot(name, node));
            }
        }
        slots.into_values().collect()
    }

    fn may_use(&self, slot: &Slot) -> bool {
        self.left.get(&slot.node).is_some_and(|node| {
            let is_bound = slot.enactment.as_ref() == Some(&node.enactment);
            is_bound && node.used.is_none_or(|used| used < slot.expires)
        })
    }

    fn slot(&self, name: &str, node: &LeftNode) -> Slot {
        let held = self.held.iter().filter(|slot| slot.node == name).map(|slot| slot.expires);
        let expires = rollout::later_than(held.chain(node.used).max(), self.now);
        let enactment = Some(node.enactment.clone());
        Slot { node: name.to_owned(), generation: REVERT_GENERATION, expires, enactment }
    }
}

/// The slot by which a node may revert a policy, whichever generation it was given for.
pub fn own_slot<'a>(
    slots: impl IntoIterator<Item = &'a Slot>,
    node: &str,
    enactment: &str,
    used: Option<Timestamp>,
) -> Option<&'a Slot> {
    slots.into_iter().find(|slot| {
        let is_bound = slot.enactment.as_deref() == Some(enactment);
        slot.node == node && is_bound && used.is_none_or(|used| used < slot.expires)
    })
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

    fn left(limit: usize) -> LeftNode {
        LeftNode {
            is_ready: true,
            enactment: "uid".into(),
            phase: Phase::Available,
            used: None,
            limit: Some(MaxUnavailable::Nodes(limit)),
        }
    }

    fn slots(nodes: &[(&str, LeftNode)], held: &[Slot]) -> Vec<Slot> {
        let left = nodes.iter().map(|(name, node)| ((*name).to_owned(), node.clone())).collect();
        let now = Timestamp::from_second(1_000_000).unwrap();
        RevertInput { is_deleted: true, left: &left, held, room: 9, now }.decide()
    }

    fn holders(slots: &[Slot]) -> Vec<&str> {
        slots.iter().map(|slot| slot.node.as_str()).collect()
    }

    #[test]
    fn nodes_are_reverted_as_many_at_a_time_as_the_policy_allowed() {
        let all = [("a", left(2)), ("b", left(2)), ("c", left(2))];
        let first = slots(&all, &[]);
        assert_eq!(holders(&first), ["a", "b"]);
        assert_eq!(slots(&all, &first), first, "a decision taken again changes nothing");
        assert_eq!(holders(&slots(&all[1..], &first)), ["b", "c"], "the report of a is gone");
        let unlimited = LeftNode { limit: None, ..left(1) };
        assert_eq!(holders(&slots(&[("a", unlimited), ("b", left(1))], &[])), ["b"]);
        let stricter = [("a", left(2)), ("b", left(1)), ("c", left(2))];
        assert_eq!(holders(&slots(&stricter, &[])), ["a"], "the lowest limit counts");
    }

    #[test]
    fn a_node_that_is_down_holds_up_no_other_unless_it_has_a_slot() {
        let down = LeftNode { is_ready: false, ..left(1) };
        assert_eq!(holders(&slots(&[("a", down.clone()), ("b", left(1))], &[])), ["b"]);
        let held = slots(&[("a", left(1))], &[]);
        assert_eq!(holders(&slots(&[("a", down), ("b", left(1))], &held)), ["a"]);
    }

    #[test]
    fn nodes_that_the_policy_is_still_changing_count() {
        let changing = LeftNode { phase: Phase::Progressing, limit: None, ..left(1) };
        assert_eq!(holders(&slots(&[("a", changing), ("b", left(1))], &[])), [""; 0]);
        let changing = LeftNode { phase: Phase::Progressing, ..left(1) };
        assert_eq!(holders(&slots(&[("a", left(1)), ("b", changing)], &[])), ["b"]);
    }

    #[test]
    fn a_slot_ends_with_its_report_or_when_it_was_used() {
        let held = slots(&[("a", left(1))], &[]);
        let again = LeftNode { enactment: "another".into(), ..left(1) };
        let next = slots(&[("a", again)], &held);
        assert_eq!(next[0].enactment.as_deref(), Some("another"));
        let returned = LeftNode { used: Some(held[0].expires), ..left(1) };
        let next = slots(&[("a", returned)], &held);
        assert!(next[0].expires > held[0].expires, "a slot is never given twice");
    }

    #[test]
    fn no_node_is_reverted_when_there_is_a_policy_of_the_same_name_or_no_room() {
        let nodes: BTreeMap<_, _> = [("a".to_owned(), left(1)), ("b".to_owned(), left(1))].into();
        let held = slots(&[("a", left(1))], &[]);
        let now = Timestamp::from_second(1_000_000).unwrap();
        let mut input = RevertInput { is_deleted: false, left: &nodes, held: &held, room: 9, now };
        assert_eq!(holders(&input.decide()), ["a"], "it may be in progress");
        input.held = &[];
        assert_eq!(holders(&input.decide()), [""; 0]);
        input.is_deleted = true;
        input.room = 0;
        assert_eq!(holders(&input.decide()), [""; 0]);
    }

    #[test]
    fn a_node_reverts_with_a_slot_that_is_bound_to_its_report() {
        let [slot] = &slots(&[("a", left(1))], &[])[..] else { panic!("one slot") };
        assert!(own_slot([slot], "a", "uid", None).is_some());
        assert!(own_slot([slot], "b", "uid", None).is_none());
        assert!(own_slot([slot], "a", "another", None).is_none());
        assert!(own_slot([slot], "a", "uid", Some(slot.expires)).is_none());
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
