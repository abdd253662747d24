//! A deleted policy is reverted, over random histories: never more nodes change at the same time than
//! the policy allowed, whether they revert it, still apply it, or apply another policy of its name.
//!
//! Each request to the API server is one event. Coordinators read the slots, the policy and the
//! reports one after the other, and write the slots if no other one did so meanwhile.

use std::collections::BTreeMap;

use jiff::Timestamp;
use node_policy::Phase;
use node_policy::limit::MaxUnavailable;
use node_policy::revert::{LeftNode, RevertInput, own_slot};
use node_policy::rollout::Slot;

use crate::Random;

const HISTORIES: u64 = 4_000;
const EVENTS: usize = 400;
const NODES: usize = 4;

#[derive(Debug, Clone)]
struct Report {
    uid: u64,
    phase: Phase,
    used: Option<Timestamp>,
}

/// What a coordinator has read so far.
#[derive(Debug, Clone, Default)]
enum Round {
    #[default]
    Nothing,
    Slots(usize, Vec<Slot>),
    Policy(usize, Vec<Slot>, bool),
    Reports(usize, Vec<Slot>, bool, BTreeMap<String, LeftNode>),
}

/// How far a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Idle,
    /// It has reported that it applies the policy, and has not read the policy again.
    Announced,
    Applying,
    /// It has read its slot, and has not read again whether the policy is deleted.
    Permitted,
    Reverting,
}

struct World {
    exists: bool,
    /// Whether a node was given a slot to apply it since it was created.
    has_begun: bool,
    /// Slots to apply the policy, in its status. They go with it.
    slots: Vec<String>,
    reverts: Vec<Slot>,
    version: usize,
    reports: BTreeMap<String, Report>,
    work: BTreeMap<String, Work>,
    coordinators: [Round; 2],
    limit: usize,
    uids: u64,
    reverted: usize,
}

impl World {
    fn new(random: &mut Random) -> Self {
        let names: Vec<String> = (0..NODES).map(|number| format!("node-{number}")).collect();
        let report = |uid: u64| Report { uid, phase: Phase::Available, used: None };
        Self {
            exists: true,
            has_begun: true,
            slots: Vec::new(),
            reverts: Vec::new(),
            version: 0,
            reports: names.iter().cloned().zip((1..).map(report)).collect(),
            work: names.iter().map(|name| (name.clone(), Work::Idle)).collect(),
            coordinators: Default::default(),
            limit: 1 + random.below(2),
            uids: 100,
            reverted: 0,
        }
    }

    fn changing(&self) -> usize {
        let is_changing = |work: &&Work| matches!(work, Work::Applying | Work::Reverting);
        self.work.values().filter(is_changing).count()
    }

    /// A coordinator sends its next request about the deleted policy.
    fn coordinate(&mut self, one: usize) {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let round = std::mem::take(&mut self.coordinators[one]);
        self.coordinators[one] = match round {
            Round::Nothing => Round::Slots(self.version, self.reverts.clone()),
            Round::Slots(version, held) => Round::Policy(version, held, !self.exists),
            Round::Policy(version, held, is_deleted) => {
                let left = |report: &Report| LeftNode {
                    is_ready: true,
                    enactment: report.uid.to_string(),
                    phase: report.phase,
                    used: report.used,
                    limit: Some(MaxUnavailable::Nodes(self.limit)),
                };
                let reports = self.reports.iter();
                let left = reports.map(|(name, report)| (name.clone(), left(report))).collect();
                Round::Reports(version, held, is_deleted, left)
            }
            Round::Reports(version, held, is_deleted, left) => {
                let input = RevertInput { is_deleted, left: &left, held: &held, room: 9, now };
                let wanted = input.decide();
                if version == self.version && wanted != held {
                    self.version += 1;
                    self.reverts = wanted;
                }
                Round::Nothing
            }
        };
    }

    /// The slots to apply the policy, for which the property is tested elsewhere.
    fn grant(&mut self, name: &str) {
        let is_busy = |(name, report): (&String, &Report)| {
            self.slots.contains(name) || report.phase.is_under_way()
        };
        let busy = self.reports.iter().filter(|it| is_busy(*it)).count();
        let is_reported = self.reports.contains_key(name);
        let is_free = is_reported && !self.slots.iter().any(|it| it == name);
        if !self.exists || !is_free || busy >= self.limit {
            return;
        }
        // Before the first one it reads the slots of the deleted policy of the same name, and changes
        // their version: a coordinator that has not observed the new policy cannot write them then.
        if !self.has_begun {
            self.version += 1;
            if !self.reverts.is_empty() {
                return;
            }
            self.has_begun = true;
        }
        self.slots.push(name.to_owned());
    }

    /// A handler sends its next request, or its change ends.
    fn handle(&mut self, name: &str, random: &mut Random) {
        let report = self.reports.get(name).cloned();
        let uid = report.as_ref().map(|report| report.uid.to_string()).unwrap_or_default();
        let used = report.as_ref().and_then(|report| report.used);
        let revert = own_slot(&self.reverts, name, &uid, used).map(|slot| slot.expires);
        let has_slot = self.slots.iter().any(|it| it == name);
        let next = match self.work[name] {
            Work::Idle if report.is_none() => {
                if self.exists {
                    self.uids += 1;
                    let report = Report { uid: self.uids, phase: Phase::Pending, used: None };
                    self.reports.insert(name.to_owned(), report);
                }
                Work::Idle
            }
            Work::Idle if self.exists && revert.is_some() => {
                self.reports.get_mut(name).unwrap().used = revert;
                Work::Idle
            }
            Work::Idle if revert.is_some() => Work::Permitted,
            // What it has observed of the policy may be outdated.
            Work::Idle if has_slot || random.one_in(8) => {
                self.reports.get_mut(name).unwrap().phase = Phase::Progressing;
                Work::Announced
            }
            Work::Idle => Work::Idle,
            Work::Announced if self.exists && has_slot => Work::Applying,
            Work::Announced => {
                self.reports.get_mut(name).unwrap().phase = Phase::Pending;
                Work::Idle
            }
            Work::Applying => {
                // It is confirmed, or rolled back because the policy is deleted.
                self.reports.get_mut(name).unwrap().phase = Phase::Available;
                self.slots.retain(|it| it != name);
                Work::Idle
            }
            Work::Permitted if self.exists => Work::Idle,
            Work::Permitted => {
                self.reverted += 1;
                Work::Reverting
            }
            Work::Reverting => {
                self.reports.remove(name);
                Work::Idle
            }
        };
        self.work.insert(name.to_owned(), next);
    }

    fn happen(&mut self, random: &mut Random) {
        let name = format!("node-{}", random.below(NODES));
        match random.below(40) {
            0..=11 => {
                let one = random.below(2);
                self.coordinate(one);
            }
            12..=31 => self.handle(&name, random),
            32..=36 => self.grant(&name),
            37 if self.exists => {
                self.exists = false;
                self.slots.clear();
            }
            38 if !self.exists => {
                self.exists = true;
                self.has_begun = false;
            }
            _ => {}
        }
    }
}

#[test]
fn never_more_nodes_are_reverted_than_the_deleted_policy_allowed() {
    let mut reverted = 0;
    for seed in 1..=HISTORIES {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut world = World::new(&mut random);
        for event in 0..EVENTS {
            world.happen(&mut random);
            let (changing, limit) = (world.changing(), world.limit);
            assert!(
                changing <= limit,
                "history {seed}, event {event}: {changing} nodes change, the limit is {limit}"
            );
        }
        reverted += world.reverted;
    }
    let expected = usize::try_from(HISTORIES).unwrap();
    assert!(reverted >= expected, "{reverted} reverts in {HISTORIES} histories prove little");
}

/// A deleted policy is reverted on all nodes, if there are no further events.
#[test]
fn a_deleted_policy_is_reverted_in_the_end_after_any_history() {
    for seed in 1..=HISTORIES / 10 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut world = World::new(&mut random);
        for _ in 0..EVENTS {
            world.happen(&mut random);
        }
        world.exists = false;
        world.slots.clear();
        for _ in 0..600 {
            world.coordinate(random.below(2));
            let name = format!("node-{}", random.below(NODES));
            // Without an outdated view, no handler announces what it may not do.
            if world.work[&name] != Work::Idle || !world.reverts.is_empty() {
                world.handle(&name, &mut random);
            }
        }
        assert!(
            world.reports.is_empty(),
            "history {seed}: {:?} {:?}",
            world.reports,
            world.reverts
        );
    }
}
