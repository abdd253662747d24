//! Which nodes may change their network now.
//!
//! A slot is the permission of one node to apply one generation of a policy. It is bound to the
//! node's report about the policy, and a node uses it once. It is released by its
//! holder only: a node that holds one may start the change at any moment, however long it was
//! silent, so nothing else than its report frees the slot. Times in slots identify them and tell
//! how long a node has not reported by the coordinator's clock; handlers do not compare them with
//! theirs.
//!
//! Coordinators of the previous version give slots that are bound to no report, and end slots that
//! may still be used. Handlers of this version do not accept such slots. A coordinator of this
//! version replaces them ([`RolloutInput::decide`]), after it has read all reports again: those that
//! it has observed may be older than the end of a slot.
//!
//! A slot is free again when
//! - its holder reports the end of the change (available, failed or aborted),
//! - its holder reports that it used the slot, or has seen a later generation of the policy,
//! - the node does not match any more and has removed its report, or
//! - the node is deleted from the cluster.
//!
//! A node that failed counts against the limit, so that a bad policy stops by itself.
//!
//! Before the first slot of a generation every ready node compares it with its network. If it
//! cannot be applied to one of them, no node is changed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use nmstate_api::annotations::Canary;

use crate::limit::MaxUnavailable;
use crate::phase::Phase;

/// How long a holder may not report before the policy's status contains that. Longer than a change
/// and its rollback take.
pub const SLOT_LIFE: SignedDuration = SignedDuration::from_mins(15);
/// The precision of times in the API.
const TICK: SignedDuration = SignedDuration::from_secs(1);

/// The permission of one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub node: String,
    pub generation: i64,
    /// Identifies the slot among those of its node: each one has a later time.
    pub expires: Timestamp,
    /// The UID of the report it was given to; older coordinators do not write it.
    pub enactment: Option<String>,
}

/// A node and what it reported about the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    pub is_ready: bool,
    /// The UID of its report: it has observed the policy.
    pub enactment: Option<String>,
    /// Its last report about this policy, and about which generation.
    pub phase: Phase,
    pub generation: Option<i64>,
    /// When it reported last.
    pub reported_at: Option<Timestamp>,
    /// The time in the slot that it used last. Older handlers do not report it.
    pub used: Option<Timestamp>,
    /// Whether the policies before this one have finished on it.
    pub is_free: bool,
    /// Why the policy cannot be applied to it, if it reported so without a change.
    pub refusal: Option<String>,
    /// Whether the policy is to be reverted on it, and it has the state for that.
    pub is_reverted: bool,
}

/// The input for the decision about slots.
#[derive(Debug)]
pub struct RolloutInput<'a> {
    pub generation: i64,
    pub limit: MaxUnavailable,
    pub canary: Option<&'a Canary>,
    /// Nodes that match the policy and have a handler.
    pub nodes: &'a BTreeMap<String, NodeView>,
    /// Nodes of the cluster that do not match, or not any more, and have a report about it.
    pub leaving: &'a BTreeMap<String, NodeView>,
    /// Slots given so far.
    pub held: &'a [Slot],
    /// Whether this generation was stopped already. That is permanent.
    pub was_aborted: bool,
    /// Whether the slots are of a coordinator of the previous version. All reports must have been read
    /// after them.
    pub is_taken_over: bool,
    /// Whether a slot was given for this generation already.
    pub has_begun: bool,
    /// Whether the first slot waits for nodes that have not reported about this generation.
    pub awaits_reports: bool,
    /// Whether no further node is changed: a user requests it, or something has to be corrected.
    pub is_paused: bool,
    /// Whether no further node is reverted either.
    pub are_reverts_paused: bool,
    pub now: Timestamp,
}

/// Which nodes may change now.
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
    /// Holders that have been silent for longer than a change takes.
    pub silent: Vec<String>,
    /// Whether a slot was given for this generation, now or before.
    pub has_begun: bool,
    /// Nodes to which the policy cannot be applied, with the reasons; all others wait.
    pub refusals: Vec<(String, String)>,
    /// Whether the first slot waits for reports of nodes.
    pub is_checking: bool,
}

impl RolloutInput<'_> {
    /// Decides which nodes have slots. A pure function: it has no errors and does not panic.
    ///
    /// # Guarantees
    ///
    /// - The same input results in the same slots, so that a new leader continues where the last ended.
    /// - There are never more slots than the limit of the policy.
    /// - Only the report of a node, or its deletion, frees its slot.
    pub fn decide(&self) -> Rollout {
        let limit = self.limit.of(self.nodes.len());
        let refusals = if self.has_begun { Vec::new() } else { self.refusals() };
        let is_checking = !self.has_begun && self.awaits_reports && self.has_unheard();
        let may_begin = refusals.is_empty() && !is_checking && !self.is_paused;
        let mut slots = self.kept(may_begin);
        let silent: Vec<String> =
            slots.values().filter(|slot| self.is_silent(slot)).map(|it| it.node.clone()).collect();
        // A node that disappeared in the middle of the change counts as failed.
        let lost = silent.iter().filter(|node| self.is_lost(node)).count();
        // A refusal stops the policy as long as it is reported, and not permanently.
        let failed = self.in_phase(Phase::Failed).count() + lost - refusals.len();
        let available = self.in_phase(Phase::Available).count();
        let stage = self.stage(available);
        let is_stopped = match stage {
            Stage::All => failed >= limit,
            Stage::First(_) | Stage::Only(_) => failed > 0,
        };
        let without_slot = self.without_slot(&slots);
        let waiting = self.waiting(&slots);
        let is_aborted = self.was_aborted || (is_stopped && !waiting.is_empty());
        let mut unavailable =
            slots.len() + without_slot.len() + self.in_phase(Phase::Failed).count();
        // They count already, so they may have a slot to continue with.
        if matches!(stage, Stage::All) && unavailable <= limit && may_begin {
            for node in without_slot.iter().filter(|node| self.nodes.contains_key(**node)) {
                slots.insert(node, self.slot(node, &self.nodes[*node]));
            }
            // Slots of the previous version: handlers of this one need slots that are bound.
            for (node, slot) in slots.iter_mut().filter(|(_, slot)| slot.enactment.is_none()) {
                let view = self.nodes.get(*node).filter(|view| view.enactment.is_some());
                if let Some(view) = view.filter(|_| slot.generation == self.generation) {
                    *slot = self.slot(node, view);
                }
            }
        }
        if self.is_taken_over {
            // Later decisions are made with older reports, so each node that is being changed has to
            // have a slot.
            for node in without_slot {
                let view = self.nodes.get(node).or_else(|| self.leaving.get(node));
                let Some(view) = view.filter(|_| !slots.contains_key(node)) else { continue };
                let generation = view.generation.unwrap_or(self.generation);
                slots.insert(node, Slot { generation, ..self.slot(node, view) });
            }
        }
        if !is_aborted && may_begin {
            let busy = unavailable;
            let room = match &stage {
                Stage::All | Stage::Only(_) => limit.saturating_sub(busy),
                Stage::First(count) => limit.min(*count).saturating_sub(busy + available),
            };
            let is_due = |node: &&str| match &stage {
                Stage::Only(nodes) => nodes.contains(*node),
                Stage::All | Stage::First(_) => true,
            };
            let granted: Vec<&str> = waiting.into_iter().filter(is_due).take(room).collect();
            unavailable += granted.len();
            for node in granted {
                slots.insert(node, self.slot(node, &self.nodes[node]));
            }
        }
        unavailable += self.grant_reverts(&mut slots, limit);
        let missing_canaries = match stage {
            Stage::Only(nodes) => nodes
                .into_iter()
                .filter(|node| !self.nodes.contains_key(*node))
                .map(str::to_owned)
                .collect(),
            Stage::All | Stage::First(_) => Vec::new(),
        };
        let slots: Vec<Slot> = slots.into_values().collect();
        Rollout {
            unavailable,
            has_begun: self.has_begun || slots.iter().any(|it| it.generation == self.generation),
            slots,
            is_aborted,
            missing_canaries,
            silent,
            refusals,
            is_checking,
        }
    }

    /// Gives slots to nodes that revert the policy. Nodes that failed do not count: they are not being
    /// changed, and a revert may be the remedy. Returns how many nodes were added.
    fn grant_reverts<'b>(&'b self, slots: &mut BTreeMap<&'b str, Slot>, limit: usize) -> usize {
        let mut added = 0;
        if self.are_reverts_paused {
            return added;
        }
        for (name, node) in self.leaving.iter().filter(|(_, node)| node.is_reverted) {
            let busy = slots.len() + self.without_slot(slots).len();
            let waits = node.is_ready && !slots.contains_key(name.as_str());
            let adds = usize::from(!node.phase.is_under_way());
            // Handlers of the previous version need no slot for it, and would not return one.
            let is_new = node.enactment.is_some() && node.used.is_some();
            if waits && is_new && busy + adds <= limit {
                added += adds;
                slots.insert(name, self.slot(name, node));
            }
        }
        added
    }

    /// Slots that this decision ends because something was not observed, rather than because their
    /// holders reported so. The view of nodes and reports may be older than the slots, so the
    /// caller has to query the API server for [`Self::is_gone`] before it writes the decision.
    pub fn doubtful(&self) -> Vec<&Slot> {
        let is_doubtful = |slot: &&Slot| {
            let view = self.nodes.get(&slot.node).or_else(|| self.leaving.get(&slot.node));
            let Some(view) = view else { return true };
            let has_seen = view.generation.is_some_and(|it| it > slot.generation);
            let is_bound = slot.enactment.is_none() || slot.enactment == view.enactment;
            let is_used = view.used.is_some_and(|used| used >= slot.expires);
            view.enactment.is_none() || !is_bound || !(may_use(view, slot) || is_used || has_seen)
        };
        self.held.iter().filter(is_doubtful).collect()
    }

    /// Whether a slot has ended: `view` is its node as the API server currently reports it, none if
    /// the node was deleted.
    pub fn is_gone(slot: &Slot, view: Option<&NodeView>) -> bool {
        view.is_none_or(|view| !may_use(view, slot) && !view.phase.is_under_way())
    }

    /// A new slot, which is distinct from all earlier ones.
    fn slot(&self, node: &str, view: &NodeView) -> Slot {
        let held = self.held.iter().filter(|slot| slot.node == node).map(|slot| slot.expires);
        let expires = later_than(held.chain(view.used).max(), self.now);
        let enactment = view.enactment.clone();
        Slot { node: node.to_owned(), generation: self.generation, expires, enactment }
    }

    /// Whether the holder has not reported for too long, by the coordinator's clock.
    fn is_silent(&self, slot: &Slot) -> bool {
        let view = self.nodes.get(&slot.node).or_else(|| self.leaving.get(&slot.node));
        let silent_at = view.and_then(|view| view.reported_at?.checked_add(SLOT_LIFE).ok());
        // A clock that is ahead must not count as a recent report forever.
        let latest = self.now.saturating_add(SLOT_LIFE).unwrap_or(Timestamp::MAX);
        let silent_at = silent_at.filter(|silent_at| *silent_at <= latest);
        slot.expires <= self.now && silent_at.is_none_or(|silent_at| silent_at <= self.now)
    }

    fn is_lost(&self, node: &str) -> bool {
        let view = self.nodes.get(node);
        view.is_some_and(|view| !view.is_ready && self.phase(view).is_under_way())
    }

    /// The phase of a node for this generation.
    fn phase(&self, node: &NodeView) -> Phase {
        if node.generation == Some(self.generation) { node.phase } else { Phase::Unknown }
    }

    fn in_phase(&self, phase: Phase) -> impl Iterator<Item = &str> {
        let is_in = move |(_, node): &(&String, &NodeView)| self.phase(node) == phase;
        self.nodes.iter().filter(is_in).map(|(name, _)| name.as_str())
    }

    /// Nodes to which this generation cannot be applied.
    fn refusals(&self) -> Vec<(String, String)> {
        let failed = self.nodes.iter().filter(|(_, node)| self.phase(node) == Phase::Failed);
        failed.filter_map(|(name, node)| Some((name.clone(), node.refusal.clone()?))).collect()
    }

    /// Whether a ready node has not compared this generation with its network yet.
    fn has_unheard(&self) -> bool {
        let has_compared = |node: &NodeView| {
            let generation = node.generation;
            node.enactment.is_some() && generation.is_none_or(|it| it == self.generation)
        };
        self.nodes.values().any(|node| node.is_ready && !has_compared(node))
    }

    /// Slots that may still be used.
    fn kept(&self, may_begin: bool) -> BTreeMap<&str, Slot> {
        let held = |name: &str| self.held.iter().find(|slot| slot.node == name);
        let mut kept = BTreeMap::new();
        for (name, node) in self.nodes {
            let slot = held(name).and_then(|slot| self.kept_by(name, node, slot, may_begin));
            kept.extend(slot.map(|slot| (name.as_str(), slot)));
        }
        for (name, node) in self.leaving {
            let slot = held(name).filter(|slot| may_use(node, slot));
            kept.extend(slot.map(|slot| (name.as_str(), slot.clone())));
        }
        kept
    }

    fn kept_by(&self, name: &str, node: &NodeView, held: &Slot, may_begin: bool) -> Option<Slot> {
        if held.generation == self.generation {
            return may_use(node, held).then(|| held.clone());
        }
        // The node may be changed by the earlier generation, or about to be.
        let has_seen = node.generation.is_some_and(|it| it > held.generation);
        let is_open = node.phase.is_under_way() || (!has_seen && may_use(node, held));
        // So the new generation may be applied there first, unless others have to be first.
        is_open.then(|| match self.canary {
            None if may_begin => self.slot(name, node),
            _ => held.clone(),
        })
    }

    /// Nodes that are being changed without a slot: their slot was lost, or the view of them is
    /// outdated.
    fn without_slot(&self, slots: &BTreeMap<&str, Slot>) -> Vec<&str> {
        let all = self.nodes.iter().chain(self.leaving);
        let is_it = |(name, node): &(&String, &NodeView)| {
            node.phase.is_under_way() && !slots.contains_key(name.as_str())
        };
        all.filter(is_it).map(|(name, _)| name.as_str()).collect()
    }

    /// Nodes that may be given a slot, first those that had none yet.
    fn waiting(&self, slots: &BTreeMap<&str, Slot>) -> Vec<&str> {
        let had_one = |name: &str| self.held.iter().any(|slot| slot.node == name);
        let mut waiting: Vec<&str> = Vec::new();
        for (name, node) in self.nodes {
            let has_accepted =
                node.enactment.is_some() && node.generation.is_none_or(|it| it == self.generation);
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

/// The time of a new slot, which is distinct from all earlier ones of its node.
pub(crate) fn later_than(earlier: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let later = |time: Timestamp, by| time.saturating_add(by).unwrap_or(Timestamp::MAX);
    let earliest = earlier.map_or(Timestamp::MIN, |earlier| later(earlier, TICK));
    later(now, SLOT_LIFE).max(earliest)
}

/// Whether a node may start or continue a change with its slot.
fn may_use(node: &NodeView, slot: &Slot) -> bool {
    let Some(enactment) = &node.enactment else { return node.phase.is_under_way() };
    let is_usable = match &slot.enactment {
        Some(bound) => bound == enactment,
        // Handlers of this version, which report the slots that they used, do not accept it.
        None => node.used.is_none(),
    };
    if !is_usable {
        return node.phase.is_under_way();
    }
    match node.used {
        // It may not have observed the slot yet, whatever it reports.
        Some(used) => used < slot.expires,
        // An older handler releases the slot with its last report.
        None => !(node.generation == Some(slot.generation) && node.phase.is_settled()),
    }
}

/// The slot of a node that its handler may use: one that is bound to its report `enactment`. `used`
/// is the last slot that it used.
pub fn own_slot<'a>(
    slots: impl IntoIterator<Item = &'a Slot>,
    node: &str,
    generation: i64,
    enactment: &str,
    used: Option<Timestamp>,
) -> Option<&'a Slot> {
    slots.into_iter().find(|slot| {
        let is_bound = slot.enactment.as_deref() == Some(enactment);
        let is_unused = used.is_none_or(|used| used < slot.expires);
        slot.node == node && slot.generation == generation && is_bound && is_unused
    })
}

enum Stage<'a> {
    /// Every node may change.
    All,
    /// This many nodes, in any order.
    First(usize),
    /// These nodes.
    Only(BTreeSet<&'a str>),
}

/// When slots must be evaluated again although nothing was reported.
pub fn next_expiry(slots: &[Slot], now: Timestamp) -> Option<Timestamp> {
    slots.iter().map(|slot| slot.expires).filter(|expires| *expires > now).min()
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
