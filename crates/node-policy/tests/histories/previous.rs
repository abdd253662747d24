//! The coordinator of the previous version, as far as it decides about slots. It ends slots after a
//! time, knows neither the reports that slots are bound to nor slots that were used, and does not
//! read anything again before it decides.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use node_policy::Phase;
use node_policy::rollout::{NodeView, Slot};

const SLOT_LIFE: SignedDuration = SignedDuration::from_mins(15);

/// The input of its decision.
pub(crate) struct Scene<'a> {
    pub(crate) generation: i64,
    pub(crate) limit: usize,
    pub(crate) nodes: &'a BTreeMap<String, NodeView>,
    pub(crate) held: &'a [Slot],
    pub(crate) was_aborted: bool,
    pub(crate) now: Timestamp,
}

impl Scene<'_> {
    /// The slots, and whether the policy is aborted.
    pub(crate) fn decide(&self) -> (Vec<Slot>, bool) {
        let mut slots = self.kept();
        let lost = slots.values().filter(|slot| slot.expires <= self.now).count();
        let failed = self.nodes.values().filter(|it| self.phase(it) == Phase::Failed).count();
        let waiting = self.waiting(&slots);
        let is_stopped = failed + lost >= self.limit;
        let is_aborted = self.was_aborted || (is_stopped && !waiting.is_empty());
        if !is_aborted {
            let room = self.limit.saturating_sub(slots.len() + failed);
            for name in waiting.into_iter().take(room) {
                slots.insert(name, self.slot(name));
            }
        }
        (slots.into_values().collect(), is_aborted)
    }

    fn slot(&self, node: &str) -> Slot {
        let expires = self.now.saturating_add(SLOT_LIFE).unwrap();
        Slot { node: node.to_owned(), generation: self.generation, expires, enactment: None }
    }

    fn phase(&self, node: &NodeView) -> Phase {
        if node.generation == Some(self.generation) { node.phase } else { Phase::Unknown }
    }

    fn kept(&self) -> BTreeMap<&str, Slot> {
        let mut kept = BTreeMap::new();
        for (name, node) in self.nodes {
            let held = self.held.iter().find(|slot| slot.node == *name);
            let phase = self.phase(node);
            if phase.is_settled() {
                continue;
            }
            let slot = match held {
                Some(slot) if slot.generation == self.generation => {
                    let alive =
                        node.reported_at.and_then(|reported| reported.checked_add(SLOT_LIFE).ok());
                    let alive = alive.filter(|_| phase.is_under_way());
                    let expires = slot.expires.max(alive.unwrap_or(slot.expires));
                    let is_void = expires <= self.now;
                    if is_void && (node.is_ready || phase == Phase::Unknown) {
                        continue;
                    }
                    Slot { expires, enactment: None, ..slot.clone() }
                }
                Some(_) if node.phase.is_under_way() => self.slot(name),
                Some(_) => continue,
                None if phase.is_under_way() => self.slot(name),
                None => continue,
            };
            kept.insert(name.as_str(), slot);
        }
        kept
    }

    fn waiting(&self, slots: &BTreeMap<&str, Slot>) -> Vec<&str> {
        let had_one = |name: &str| self.held.iter().any(|slot| slot.node == name);
        let waits = |(name, node): &(&String, &NodeView)| {
            node.enactment.is_some()
                && node.generation.is_none_or(|it| it == self.generation)
                && matches!(self.phase(node), Phase::Unknown | Phase::Pending)
                && node.is_ready
                && !slots.contains_key(name.as_str())
        };
        let waiting = self.nodes.iter().filter(waits);
        let mut waiting: Vec<&str> = waiting.map(|(name, _)| name.as_str()).collect();
        waiting.sort_by_key(|name| had_one(name));
        waiting
    }
}
