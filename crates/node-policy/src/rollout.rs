//! Who may change its network now: slots with named holders that expire.
//!
//! A slot is leave for one node to make one generation of a policy true. A node that failed keeps
//! counting against the limit, so that a bad policy stops by itself. A node that took a slot and
//! was never heard of again counts as failed while it is away, and may try again once it is back.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use nmstate_api::annotations::Canary;

use crate::limit::MaxUnavailable;
use crate::phase::Phase;

/// How long a holder may say nothing. Longer than any change and its way back take.
pub const SLOT_LIFE: SignedDuration = SignedDuration::from_mins(15);

/// Leave for one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub node: String,
    pub generation: i64,
    pub expires: Timestamp,
}

/// A node that matches the policy and has a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeView {
    pub is_ready: bool,
    /// Whether it has taken note of the policy at all.
    pub has_enactment: bool,
    /// What it said last about this policy, and about which generation.
    pub phase: Phase,
    pub generation: Option<i64>,
    pub said: Option<Timestamp>,
    /// Whether policies that come before this one are done with it.
    pub is_free: bool,
}

/// All that slots are decided by.
#[derive(Debug)]
pub struct Scene<'a> {
    pub generation: i64,
    pub limit: MaxUnavailable,
    pub canary: Option<&'a Canary>,
    pub nodes: &'a BTreeMap<String, NodeView>,
    /// Slots given so far.
    pub held: &'a [Slot],
    /// Whether this generation was stopped already. It stays so.
    pub was_aborted: bool,
    pub now: Timestamp,
}

/// Who may go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rollout {
    /// By node.
    pub slots: Vec<Slot>,
    /// No further node is changed: too many failed.
    pub is_aborted: bool,
    /// Canaries that all others wait for and that are not among the matching nodes.
    pub missing_canaries: Vec<String>,
    /// How many nodes are being changed or failed.
    pub unavailable: usize,
}

impl Scene<'_> {
    /// Decides. The same scene gives the same slots.
    pub fn decide(&self) -> Rollout {
        let limit = self.limit.of(self.nodes.len());
        let mut slots = self.kept();
        let lost = slots.values().filter(|slot| slot.expires <= self.now).count();
        let failed = self.in_phase(Phase::Failed).count() + lost;
        let available = self.in_phase(Phase::Available).count();
        let stage = self.stage(available);
        let is_stopped = match stage {
            Stage::All => failed >= limit,
            Stage::First(_) | Stage::Only(_) => failed > 0,
        };
        let waiting = self.waiting(&slots);
        let is_aborted = self.was_aborted || (is_stopped && !waiting.is_empty());
        if !is_aborted {
            let busy = slots.len() + self.in_phase(Phase::Failed).count();
            let room = match &stage {
                Stage::All | Stage::Only(_) => limit.saturating_sub(busy),
                Stage::First(count) => limit.min(*count).saturating_sub(busy + available),
            };
            let is_due = |node: &&str| match &stage {
                Stage::Only(nodes) => nodes.contains(*node),
                Stage::All | Stage::First(_) => true,
            };
            let granted: Vec<&str> = waiting.into_iter().filter(is_due).take(room).collect();
            for node in granted {
                slots.insert(node, self.slot(node));
            }
        }
        let missing_canaries = match stage {
            Stage::Only(nodes) => nodes
                .into_iter()
                .filter(|node| !self.nodes.contains_key(*node))
                .map(str::to_owned)
                .collect(),
            Stage::All | Stage::First(_) => Vec::new(),
        };
        Rollout {
            unavailable: slots.len() + self.in_phase(Phase::Failed).count(),
            slots: slots.into_values().collect(),
            is_aborted,
            missing_canaries,
        }
    }

    fn slot(&self, node: &str) -> Slot {
        let expires = self.now.saturating_add(SLOT_LIFE).unwrap_or(Timestamp::MAX);
        Slot { node: node.to_owned(), generation: self.generation, expires }
    }

    /// The phase of a node for this generation.
    fn phase(&self, node: &NodeView) -> Phase {
        if node.generation == Some(self.generation) { node.phase } else { Phase::Unknown }
    }

    fn in_phase(&self, phase: Phase) -> impl Iterator<Item = &str> {
        let is_in = move |(_, node): &(&String, &NodeView)| self.phase(node) == phase;
        self.nodes.iter().filter(is_in).map(|(name, _)| name.as_str())
    }

    /// Slots that still stand. Those of nodes that are gone, done or failed do not.
    fn kept(&self) -> BTreeMap<&str, Slot> {
        let mut kept = BTreeMap::new();
        let canaries_first = self.canary.is_some();
        for (name, node) in self.nodes {
            let held = self.held.iter().find(|slot| slot.node == *name);
            let phase = self.phase(node);
            if phase.is_settled() {
                continue;
            }
            let slot = match held {
                Some(slot) if slot.generation == self.generation => {
                    // Whoever reports is alive.
                    let alive = node.said.and_then(|said| said.checked_add(SLOT_LIFE).ok());
                    let alive = alive.filter(|_| phase.is_under_way());
                    let expires = slot.expires.max(alive.unwrap_or(slot.expires));
                    let is_void = expires <= self.now;
                    // A node that is away with a slot is lost; it must not make room for others.
                    if is_void && (node.is_ready || phase == Phase::Unknown) {
                        continue;
                    }
                    Slot { expires, ..slot.clone() }
                }
                // It is being changed already, so the new generation may go there first.
                Some(_) if node.phase.is_under_way() && !canaries_first => self.slot(name),
                Some(_) => continue,
                // Somebody else gave it leave, or what we knew was lost.
                None if phase.is_under_way() => self.slot(name),
                None => continue,
            };
            kept.insert(name.as_str(), slot);
        }
        kept
    }

    /// Nodes that may be given a slot, those first that had none yet: a node whose handler is gone
    /// must not stand in the way of the others for ever.
    fn waiting(&self, slots: &BTreeMap<&str, Slot>) -> Vec<&str> {
        let had_one = |name: &str| self.held.iter().any(|slot| slot.node == name);
        let mut waiting: Vec<&str> = Vec::new();
        for (name, node) in self.nodes {
            let has_accepted =
                node.has_enactment && node.generation.is_none_or(|it| it == self.generation);
            let waits = matches!(self.phase(node), Phase::Unknown | Phase::Pending);
            if has_accepted
                && waits
                && node.is_ready
                && node.is_free
                && !slots.contains_key(name.as_str())
            {
                waiting.push(name);
            }
        }
        waiting.sort_by_key(|name| had_one(name));
        waiting
    }

    fn stage(&self, available: usize) -> Stage<'_> {
        match self.canary {
            None => Stage::All,
            Some(Canary::Count(count)) => {
                let count = usize::try_from(count.get()).unwrap_or(usize::MAX);
                match available >= count.min(self.nodes.len()) {
                    true => Stage::All,
                    false => Stage::First(count),
                }
            }
            Some(Canary::Nodes(nodes)) => {
                let is_done = |name: &str| {
                    let node = self.nodes.get(name);
                    node.is_some_and(|node| self.phase(node) == Phase::Available)
                };
                match nodes.iter().all(|node| is_done(node.as_str())) {
                    true => Stage::All,
                    false => Stage::Only(nodes.iter().map(|node| node.as_str()).collect()),
                }
            }
        }
    }
}

enum Stage<'a> {
    /// Every node may go.
    All,
    /// So many nodes, whichever.
    First(usize),
    /// These nodes.
    Only(BTreeSet<&'a str>),
}

/// When slots must be looked at again although nobody said anything.
pub fn next_expiry(slots: &[Slot], now: Timestamp) -> Option<Timestamp> {
    slots.iter().map(|slot| slot.expires).filter(|expires| *expires > now).min()
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
