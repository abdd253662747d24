//! Coordinators and handlers together, over random histories: never more nodes change at the same
//! time than the policy allows.
//!
//! The API server is a list of states; each program sees policies, reports and nodes at its own,
//! possibly much earlier moment. Programs restart, clocks differ by hours, coordinators lead at the
//! same time, nodes join and leave, the policy and the labels of nodes change. Coordinators and
//! handlers are of this version and of the previous one, in any mix.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod previous;
mod reverts;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use node_policy::limit::MaxUnavailable;
use node_policy::rollout::{NodeView, RolloutInput, Slot, own_slot};
use node_policy::{Evaluation, OwnView, Phase, PolicyView, Step, step};

const HISTORIES: u64 = 6_000;
const EVENTS: usize = 500;
const NODES: usize = 4;

/// A sequence of numbers that looks random and is the same in each run (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap() % end
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

#[derive(Debug, Clone)]
struct Policy {
    version: usize,
    generation: i64,
    slots: Vec<Slot>,
    was_aborted: bool,
    /// None in a status of the previous version.
    has_begun: Option<bool>,
}

#[derive(Debug, Clone, PartialEq)]
struct Report {
    uid: String,
    phase: Phase,
    generation: Option<i64>,
    reported_at: Option<Timestamp>,
    used: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    is_ready: bool,
    matches: bool,
}

/// The content of the API server.
#[derive(Debug, Clone)]
struct Store {
    policy: Policy,
    reports: BTreeMap<String, Report>,
    nodes: BTreeMap<String, Node>,
}

/// Up to which state a program has observed each kind of object.
#[derive(Debug, Clone, Copy)]
struct Seen {
    policy: usize,
    reports: usize,
    nodes: usize,
}

#[derive(Debug)]
struct Handler {
    seen: Seen,
    /// The difference of its own clock from the right time.
    skew: SignedDuration,
    /// What it compared last, and whether that differs.
    evaluation: Option<(i64, bool)>,
    /// The generation it is applying: the network of the node is changing.
    running: Option<i64>,
    /// Handlers of the previous version report no used slot.
    is_old: bool,
}

#[derive(Debug, Clone, Copy)]
struct Coordinator {
    seen: Seen,
    is_old: bool,
}

/// Which programs are of the previous version, some of them or none.
#[derive(Debug, Clone, Copy)]
struct Mix {
    old_handlers: bool,
    old_coordinators: bool,
}

struct World {
    history: Vec<Store>,
    now: Timestamp,
    limit: usize,
    mix: Mix,
    coordinators: Vec<Coordinator>,
    handlers: BTreeMap<String, Handler>,
    reports_made: usize,
    most_running: usize,
    applied: usize,
}

impl World {
    fn new(random: &mut Random, mix: Mix) -> Self {
        let policy = Policy {
            version: 0,
            generation: 1,
            slots: vec![],
            was_aborted: false,
            has_begun: Some(false),
        };
        let mut store = Store { policy, reports: BTreeMap::new(), nodes: BTreeMap::new() };
        let mut handlers = BTreeMap::new();
        for number in 0..NODES {
            let name = format!("node-{number}");
            store.nodes.insert(name.clone(), Node { is_ready: true, matches: true });
            let is_old = mix.old_handlers && random.one_in(2);
            handlers.insert(name, Handler::new(random, is_old));
        }
        let start = Seen { policy: 0, reports: 0, nodes: 0 };
        let first = Coordinator { seen: start, is_old: mix.old_coordinators && random.one_in(2) };
        Self {
            mix,
            history: vec![store],
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            limit: 1 + random.below(2),
            coordinators: vec![first],
            handlers,
            reports_made: 0,
            most_running: 0,
            applied: 0,
        }
    }

    fn latest(&self) -> &Store {
        self.history.last().unwrap()
    }

    fn change(&mut self, change: impl FnOnce(&mut Store)) {
        let mut store = self.latest().clone();
        change(&mut store);
        self.history.push(store);
    }

    fn present(&self) -> Seen {
        let last = self.history.len() - 1;
        Seen { policy: last, reports: last, nodes: last }
    }

    /// A coordinator decides by what it has observed. Its write fails if the policy changed since.
    fn coordinate(&mut self, coordinator: Coordinator) {
        let Coordinator { mut seen, is_old } = coordinator;
        let policy = &self.history[seen.policy].policy;
        if !is_old && policy.has_begun.is_none() {
            // The previous version may have ended a slot of a node that is being changed.
            seen.reports = self.history.len() - 1;
        }
        let reports = &self.history[seen.reports].reports;
        let (mut nodes, mut leaving) = (BTreeMap::new(), BTreeMap::new());
        for (name, node) in &self.history[seen.nodes].nodes {
            let view = view(*node, reports.get(name));
            let into = if node.matches { &mut nodes } else { &mut leaving };
            into.insert(name.clone(), view);
        }
        leaving.retain(|_, view: &mut NodeView| view.enactment.is_some());
        if is_old {
            let scene = previous::Scene {
                generation: policy.generation,
                limit: self.limit,
                nodes: &nodes,
                held: &policy.slots,
                was_aborted: policy.was_aborted,
                now: self.now,
            };
            let (slots, is_aborted) = scene.decide();
            return self.write(policy.version, slots, is_aborted, None);
        }
        let is_of_it = |slot: &Slot| slot.generation == policy.generation;
        let input = RolloutInput {
            generation: policy.generation,
            limit: MaxUnavailable::Nodes(self.limit),
            canary: None,
            nodes: &nodes,
            leaving: &leaving,
            held: &policy.slots,
            was_aborted: policy.was_aborted,
            is_taken_over: policy.has_begun.is_none(),
            has_begun: policy.has_begun.unwrap_or_else(|| policy.slots.iter().any(is_of_it)),
            awaits_reports: self.now.as_second() % 3 == 0,
            is_paused: false,
            are_reverts_paused: false,
            now: self.now,
        };
        let latest = self.latest();
        let are_gone = input.doubtful().into_iter().all(|slot| {
            let node = latest.nodes.get(&slot.node);
            let view = node.map(|node| view(*node, latest.reports.get(&slot.node)));
            RolloutInput::is_gone(slot, view.as_ref())
        });
        if !are_gone {
            return;
        }
        let rollout = input.decide();
        self.write(policy.version, rollout.slots, rollout.is_aborted, Some(rollout.has_begun));
    }

    fn write(
        &mut self,
        version: usize,
        slots: Vec<Slot>,
        was_aborted: bool,
        has_begun: Option<bool>,
    ) {
        if self.latest().policy.version == version {
            self.change(|store| {
                let generation = store.policy.generation;
                let version = version + 1;
                store.policy = Policy { version, generation, slots, was_aborted, has_begun };
            });
        }
    }

    /// The slot that a handler accepts.
    fn slot(&self, name: &str, policy: &Policy, report: Option<&Report>) -> Option<Slot> {
        let handler = &self.handlers[name];
        let report = report?;
        let generation = policy.generation;
        let slot = match handler.is_old {
            // It compares it with its own clock, and does not know what it is bound to.
            true => {
                let local = self.now.saturating_add(handler.skew).unwrap();
                let is_it = |slot: &&Slot| {
                    slot.node == name && slot.generation == generation && slot.expires > local
                };
                policy.slots.iter().find(is_it)
            }
            false => own_slot(&policy.slots, name, generation, &report.uid, report.used),
        };
        slot.cloned()
    }

    /// A handler performs its next step.
    fn handle(&mut self, name: &str) {
        let handler = &self.handlers[name];
        if handler.running.is_some() {
            return;
        }
        let policy = self.history[handler.seen.policy].policy.clone();
        let node = self.history[handler.seen.nodes].nodes.get(name).copied();
        // A handler knows its own writes; no other program writes its reports.
        let report = self.latest().reports.get(name).cloned();
        let is_old = handler.is_old;
        let granted = self.slot(name, &policy, report.as_ref());
        let slot = granted.map(|slot| slot.expires);
        let view = PolicyView {
            generation: policy.generation,
            is_for_us: node.is_some_and(|node| node.matches),
            has_slot: slot.is_some(),
            is_aborted: policy.was_aborted,
        };
        let evaluation = handler.evaluation;
        let own = OwnView {
            has_enactment: report.is_some(),
            phase: report.as_ref().map_or(Phase::Unknown, |it| it.phase),
            generation: report.as_ref().and_then(|it| it.generation),
            evaluation: evaluation.map(|(generation, differs)| Evaluation { generation, differs }),
            is_resting: false,
            is_outdated: false,
            is_stale: false,
            may_retry: false,
            has_waited: true,
        };
        match step(Some(&view), &own) {
            Step::Nothing => {}
            Step::Evaluate => {
                let is_made =
                    own.phase == Phase::Available && own.generation == Some(view.generation);
                self.handler(name).evaluation = Some((view.generation, !is_made));
            }
            Step::Accept => self.accept(name),
            Step::ReportPending => self.report(name, Phase::Pending, view.generation, None),
            Step::ReportAvailable => self.report(name, Phase::Available, view.generation, slot),
            Step::ReportAborted => self.report(name, Phase::Aborted, view.generation, slot),
            Step::ReturnSlot => self.report(name, own.phase, view.generation, slot),
            Step::Leave => {
                self.change(|store| drop(store.reports.remove(name)));
                self.handler(name).evaluation = None;
            }
            Step::Apply => {
                self.report(name, Phase::Progressing, view.generation, None);
                let latest = self.latest().clone();
                // The report comes first, then the policy is read again.
                let is_confirmed = latest.policy.generation == view.generation
                    && self.slot(name, &latest.policy, latest.reports.get(name)).is_some();
                if !is_old && !is_confirmed {
                    return;
                }
                self.handler(name).running = Some(view.generation);
                self.applied += 1;
                self.most_running = self.most_running.max(self.running());
            }
        }
    }

    /// How many nodes are being changed. If there are coordinators of the previous version, handlers of
    /// the previous version are not counted: these two exceed the limit by themselves.
    fn running(&self) -> usize {
        let counts =
            |it: &&Handler| it.running.is_some() && !(it.is_old && self.mix.old_coordinators);
        self.handlers.values().filter(counts).count()
    }

    /// The change of a node ends.
    fn finish(&mut self, name: &str, random: &mut Random) {
        let handler = &self.handlers[name];
        let Some(generation) = handler.running else { return };
        let seen = &self.history[handler.seen.policy].policy;
        let is_superseded = seen.generation != generation
            || !self.history[handler.seen.nodes].nodes.get(name).is_some_and(|it| it.matches);
        let slot = self.slot(name, seen, self.latest().reports.get(name));
        let slot = slot.filter(|slot| slot.generation == generation).map(|slot| slot.expires);
        self.handler(name).running = None;
        if is_superseded {
            self.handler(name).evaluation = None;
            return;
        }
        let phase = match random.below(20) {
            0 => Phase::Failed,
            1 => Phase::Retrying,
            _ => Phase::Available,
        };
        let slot = slot.filter(|_| phase.is_settled());
        self.report(name, phase, generation, slot);
        self.handler(name).evaluation = Some((generation, phase != Phase::Available));
    }

    fn accept(&mut self, name: &str) {
        self.reports_made += 1;
        let uid = format!("uid-{}", self.reports_made);
        let used = (!self.handlers[name].is_old).then_some(Timestamp::UNIX_EPOCH);
        let report =
            Report { uid, phase: Phase::Unknown, generation: None, reported_at: None, used };
        self.change(|store| drop(store.reports.insert(name.to_owned(), report)));
    }

    fn report(&mut self, name: &str, phase: Phase, generation: i64, slot: Option<Timestamp>) {
        if !self.latest().reports.contains_key(name) {
            self.accept(name);
        }
        let handler = &self.handlers[name];
        let reported_at = self.now.saturating_add(handler.skew).ok();
        let slot = slot.filter(|_| !handler.is_old);
        self.change(|store| {
            let report = store.reports.get_mut(name).unwrap();
            *report = Report {
                phase,
                generation: Some(generation),
                reported_at,
                used: slot.or(report.used),
                ..report.clone()
            };
        });
    }

    fn handler(&mut self, name: &str) -> &mut Handler {
        self.handlers.get_mut(name).unwrap()
    }

    /// A random event.
    fn happen(&mut self, random: &mut Random) {
        let name = format!("node-{}", random.below(NODES));
        let is_node = self.latest().nodes.contains_key(&name);
        let last = self.history.len() - 1;
        match random.below(52) {
            0..=6 | 40..=41 => {
                let one = random.below(self.coordinators.len());
                self.coordinate(self.coordinators[one]);
            }
            7..=16 | 42..=49 if is_node => self.handle(&name),
            17..=19 if is_node => self.finish(&name, random),
            20..=25 => {
                let one = random.below(self.coordinators.len());
                self.coordinators[one].seen.advance(random, last);
            }
            26..=32 | 50..=51 if is_node => self.handler(&name).seen.advance(random, last),
            // A handler restarts; its change is rolled back, and reported as interrupted.
            33 if is_node => {
                let is_old = self.handlers[&name].is_old;
                let present = self.present();
                let restarted = Handler { seen: present, ..Handler::new(random, is_old) };
                self.handlers.insert(name.clone(), restarted);
                let report = self.latest().reports.get(&name).cloned();
                if let Some(report) = report.filter(|it| it.phase == Phase::Progressing) {
                    self.report(&name, Phase::Retrying, report.generation.unwrap_or(1), None);
                }
            }
            // A leader is replaced, and continues for a while.
            34 => {
                let is_old = self.mix.old_coordinators && random.one_in(2);
                let seen = self.present();
                self.coordinators.push(Coordinator { seen, is_old });
                if self.coordinators.len() > 2 {
                    self.coordinators.remove(0);
                }
            }
            35 => {
                let minutes = i64::try_from(random.below(200)).unwrap();
                self.now = self.now.saturating_add(SignedDuration::from_mins(minutes)).unwrap();
            }
            36 if random.one_in(6) => self.change(|store| {
                store.policy.version += 1;
                store.policy.generation += 1;
                store.policy.was_aborted = false;
            }),
            37 if is_node => {
                let flips_ready = random.one_in(2);
                self.change(|store| {
                    let node = store.nodes.get_mut(&name).unwrap();
                    match flips_ready {
                        true => node.is_ready = !node.is_ready,
                        false => node.matches = !node.matches,
                    }
                });
            }
            // The network of a node differs from the policy without a reason.
            38 if is_node => {
                let handler = self.handler(&name);
                // Handlers of the previous version may use a slot twice then.
                if let Some((_, differs)) = handler.evaluation.as_mut().filter(|_| !handler.is_old)
                {
                    *differs = true;
                }
            }
            39 if random.one_in(8) => match is_node {
                // A node that left is powered off; its objects are deleted with it.
                true => {
                    self.handler(&name).running = None;
                    self.change(|store| {
                        store.nodes.remove(&name);
                        store.reports.remove(&name);
                    });
                }
                false => {
                    self.change(|store| {
                        store.nodes.insert(name.clone(), Node { is_ready: true, matches: true });
                    });
                    let present = self.present();
                    let joined = Handler { seen: present, ..Handler::new(random, false) };
                    self.handlers.insert(name, joined);
                }
            },
            _ => {}
        }
    }
}

fn view(node: Node, report: Option<&Report>) -> NodeView {
    NodeView {
        is_ready: node.is_ready,
        enactment: report.map(|it| it.uid.clone()),
        phase: report.map_or(Phase::Unknown, |it| it.phase),
        generation: report.and_then(|it| it.generation),
        reported_at: report.and_then(|it| it.reported_at),
        used: report.and_then(|it| it.used),
        is_free: true,
        refusal: None,
        is_reverted: false,
    }
}

impl Handler {
    fn new(random: &mut Random, is_old: bool) -> Self {
        let hours = i64::try_from(random.below(9)).unwrap() - 4;
        Self {
            seen: Seen { policy: 0, reports: 0, nodes: 0 },
            skew: SignedDuration::from_hours(hours),
            evaluation: None,
            running: None,
            is_old,
        }
    }
}

impl Seen {
    /// Observes more of one kind of object, or all of it.
    fn advance(&mut self, random: &mut Random, last: usize) {
        let further = |from: usize, random: &mut Random| (from + 1 + random.below(12)).min(last);
        match random.below(4) {
            0 => self.policy = further(self.policy, random),
            1 => self.reports = further(self.reports, random),
            2 => self.nodes = further(self.nodes, random),
            _ => *self = Self { policy: last, reports: last, nodes: last },
        }
    }
}

fn play(mix: Mix) {
    let mut applied = 0;
    for seed in 1..=HISTORIES {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut world = World::new(&mut random, mix);
        for event in 0..EVENTS {
            world.happen(&mut random);
            assert!(
                world.most_running <= world.limit,
                "history {seed}, event {event}: {} nodes change, the limit is {}",
                world.most_running,
                world.limit
            );
        }
        applied += world.applied;
    }
    let expected = usize::try_from(HISTORIES).unwrap();
    assert!(applied >= expected, "{applied} changes in {HISTORIES} histories prove little");
}

#[test]
fn never_more_nodes_change_than_the_policy_allows() {
    play(Mix { old_handlers: false, old_coordinators: false });
}

#[test]
fn the_same_holds_while_handlers_of_the_former_version_run() {
    play(Mix { old_handlers: true, old_coordinators: false });
}

#[test]
fn the_same_holds_while_coordinators_of_both_versions_lead_in_turn() {
    play(Mix { old_handlers: false, old_coordinators: true });
}

#[test]
fn the_same_holds_for_handlers_of_this_version_in_any_mix_of_versions() {
    play(Mix { old_handlers: true, old_coordinators: true });
}

/// Handlers of this version do not change anything for a coordinator of the previous version, and
/// continue when one of this version leads.
#[test]
fn handlers_wait_for_a_coordinator_of_their_version() {
    for seed in 1..=HISTORIES / 10 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mix = Mix { old_handlers: false, old_coordinators: true };
        let mut world = World::new(&mut random, mix);
        let names: Vec<String> = world.latest().nodes.keys().cloned().collect();
        for round in 0..80 {
            let is_old = round < 20;
            world.coordinate(Coordinator { seen: world.present(), is_old });
            for name in &names {
                world.handler(name).seen = world.present();
                world.handle(name);
                world.finish(name, &mut random);
            }
            assert!(!is_old || world.applied == 0, "history {seed}, round {round}");
        }
        assert!(world.applied > 0, "history {seed}");
    }
}

/// Without stale views nodes make progress: all that match and are ready finish in the end.
#[test]
fn a_policy_comes_to_its_end_after_any_history() {
    for seed in 1..=HISTORIES / 10 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mix = Mix { old_handlers: false, old_coordinators: seed % 2 == 0 };
        let mut world = World::new(&mut random, mix);
        for _ in 0..EVENTS {
            world.happen(&mut random);
        }
        // An edit ends whatever was stopped, and there are no further events.
        world.change(|store| {
            store.policy.version += 1;
            store.policy.generation += 1;
            store.policy.was_aborted = false;
            store.nodes.values_mut().for_each(|node| node.is_ready = true);
        });
        let names: Vec<String> = world.latest().nodes.keys().cloned().collect();
        for _ in 0..60 {
            world.coordinate(Coordinator { seen: world.present(), is_old: false });
            for name in &names {
                let present = world.present();
                let handler = world.handler(name);
                handler.seen = present;
                match handler.running.take() {
                    Some(generation) if generation == world.latest().policy.generation => {
                        let slot = world.latest().policy.slots.iter().find(|it| it.node == *name);
                        let slot = slot.map(|it| it.expires);
                        world.handler(name).evaluation = Some((generation, false));
                        world.report(name, Phase::Available, generation, slot);
                    }
                    Some(_) => world.handler(name).evaluation = None,
                    None => world.handle(name),
                }
            }
        }
        let store = world.latest();
        for (name, node) in store.nodes.iter().filter(|(_, node)| node.matches) {
            let report = &store.reports[name];
            let found = (report.phase, report.generation, node.is_ready);
            assert_eq!(found, (Phase::Available, Some(store.policy.generation), true), "{seed}");
        }
        assert!(store.policy.slots.is_empty(), "history {seed}: {:?}", store.policy.slots);
    }
}
