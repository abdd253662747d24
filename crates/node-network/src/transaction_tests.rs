use std::cell::{Cell, RefCell};

use super::*;
use crate::facts::Expectation;
use crate::probe::{Clause, Gate, ProbeReport, Target, When};

const NEW: &str = "
interfaces:
- {name: nic0, type: ethernet, state: up}
- {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: nic0}, {name: br-ex}]}}
- name: br-ex
  type: ovs-interface
  state: up
  ipv4: {enabled: true, address: [{ip: 198.51.100.10, prefix-length: 24}]}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 198.51.100.1, metric: 48}
";
const OLD: &str = "
interfaces:
- {name: nic0, type: ethernet, state: up}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: nic0, next-hop-address: 198.51.100.1, metric: 100}
";

/// A network on which things go wrong on demand.
struct Fake {
    new: Cell<bool>,
    checkpoints: RefCell<Vec<Checkpoint>>,
    committed: Cell<bool>,
    fault: Fault,
    calls: RefCell<Vec<&'static str>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    RefusedByNmstate,
    Verification,
    NobodyAnswersAfter,
    NoBridge,
    CommitFails,
    RollBackFails,
    ExpiresWhileProbing,
}

fn checkpoint(number: u8) -> Checkpoint {
    Checkpoint(format!("/org/freedesktop/NetworkManager/Checkpoint/{number}"))
}

impl Fake {
    fn new(fault: Fault) -> Self {
        Self {
            new: Cell::new(false),
            checkpoints: RefCell::default(),
            committed: Cell::new(false),
            fault,
            calls: RefCell::default(),
        }
    }

    fn take_back(&self) {
        self.new.set(false);
        self.checkpoints.borrow_mut().clear();
    }
}

fn error(kind: ErrorKind) -> NmstateError {
    NmstateError::new(kind, "as the test wants it".into())
}

impl Network for Fake {
    async fn state(&self) -> Result<NetworkState, NmstateError> {
        let new = self.new.get() && self.fault != Fault::NoBridge;
        NetworkState::new_from_yaml(if new { NEW } else { OLD })
    }

    async fn apply(&self, _: &NetworkState, _: Duration) -> Result<(), NmstateError> {
        self.calls.borrow_mut().push("apply");
        if self.fault == Fault::RefusedByNmstate {
            return Err(error(ErrorKind::InvalidArgument));
        }
        assert!(self.checkpoints.borrow().is_empty(), "NetworkManager allows one checkpoint");
        self.checkpoints.borrow_mut().push(checkpoint(7));
        self.new.set(true);
        tokio::time::sleep(Duration::from_millis(60)).await;
        if self.fault == Fault::Verification {
            self.take_back();
            return Err(error(ErrorKind::VerificationError));
        }
        Ok(())
    }

    async fn checkpoints(&self) -> Result<Vec<Checkpoint>, ManagerError> {
        Ok(self.checkpoints.borrow().clone())
    }

    async fn commit(&self, given: &Checkpoint) -> Result<(), NmstateError> {
        self.calls.borrow_mut().push("commit");
        assert_eq!(*given, checkpoint(7));
        if self.fault == Fault::CommitFails {
            self.take_back();
        }
        if !self.checkpoints.borrow().contains(given) {
            return Err(error(ErrorKind::Bug));
        }
        self.checkpoints.borrow_mut().clear();
        self.committed.set(true);
        Ok(())
    }

    async fn roll_back(&self, given: &Checkpoint) -> Result<(), NmstateError> {
        self.calls.borrow_mut().push("roll back");
        if !self.checkpoints.borrow().contains(given) {
            return Err(error(ErrorKind::InvalidArgument));
        }
        if self.fault == Fault::RollBackFails {
            return Err(error(ErrorKind::Bug));
        }
        self.take_back();
        Ok(())
    }

    async fn ask(&self, questions: &[Question], _: Duration) -> Vec<ClauseReport> {
        if self.fault == Fault::ExpiresWhileProbing && self.new.get() {
            self.take_back();
        }
        let silent = [Fault::NobodyAnswersAfter, Fault::RollBackFails].contains(&self.fault);
        let answered = !(silent && self.new.get());
        let report =
            ProbeReport { probe: "gateway".into(), answered, detail: "x".into(), milliseconds: 0 };
        questions.iter().map(|question| question.judge(vec![report.clone()])).collect()
    }
}

fn aim() -> Aim {
    let any_of = vec![Target::DefaultGateway { interface: None }];
    Aim {
        bridge: Some(Expectation { bridge: "br-ex".into(), node_address: None }),
        gate: Gate { clauses: vec![Clause { any_of, when: When::Always }] },
    }
}

fn run(network: &Fake, leftover: Option<Checkpoint>) -> (Outcome, Vec<Checkpoint>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let desired = NetworkState::new();
    let aim = aim();
    let timing = Timing { others: Duration::ZERO, ..Timing::patient(Duration::ZERO) };
    let transaction = Transaction { desired: &desired, aim: &aim, timing, leftover };
    let mut recorded = Vec::new();
    let outcome =
        runtime.block_on(transaction.run(network, |checkpoint| recorded.push(checkpoint.clone())));
    (outcome, recorded)
}

fn cause(outcome: &Outcome) -> Option<Cause> {
    match outcome {
        Outcome::RolledBack { cause, recovery: Recovery::Works, .. } => Some(*cause),
        _ => None,
    }
}

#[test]
fn a_good_change_is_committed_under_the_checkpoint_that_was_recorded() {
    let network = Fake::new(Fault::None);
    let (outcome, recorded) = run(&network, None);
    assert!(outcome.is_committed(), "{outcome}");
    assert!(network.committed.get() && network.new.get());
    assert_eq!(recorded, [checkpoint(7)]);
}

#[test]
fn every_fault_ends_with_the_old_network_and_its_own_cause() {
    let cases = [
        (Fault::Verification, Cause::Verification),
        (Fault::NobodyAnswersAfter, Cause::Probes),
        (Fault::NoBridge, Cause::Facts),
        (Fault::CommitFails, Cause::Expired),
        (Fault::ExpiresWhileProbing, Cause::Expired),
    ];
    for (fault, expected) in cases {
        let network = Fake::new(fault);
        let (outcome, _) = run(&network, None);
        assert_eq!(cause(&outcome), Some(expected), "{outcome}");
        assert!(!network.new.get() && network.checkpoints.borrow().is_empty());
    }
}

#[test]
fn a_document_that_nmstate_refuses_changes_nothing() {
    let network = Fake::new(Fault::RefusedByNmstate);
    let (outcome, recorded) = run(&network, None);
    assert!(matches!(outcome, Outcome::Refused { .. }), "{outcome}");
    assert!(recorded.is_empty());
    assert_eq!(*network.calls.borrow(), ["apply"]);
}

#[test]
fn when_rolling_back_fails_networkmanager_is_left_to_do_it() {
    let network = Fake::new(Fault::RollBackFails);
    let (outcome, _) = run(&network, None);
    let pending =
        matches!(&outcome, Outcome::RolledBack { recovery: Recovery::Pending { .. }, .. });
    assert!(pending, "{outcome}");
    assert!(!network.committed.get());
}

#[test]
fn the_checkpoint_of_a_killed_run_is_rolled_back_first() {
    let network = Fake::new(Fault::None);
    network.checkpoints.borrow_mut().push(checkpoint(3));
    let (outcome, _) = run(&network, Some(checkpoint(3)));
    assert!(outcome.is_committed(), "{outcome}");
    assert_eq!(network.calls.borrow()[0], "roll back");
}

#[test]
fn the_checkpoint_of_another_program_is_not_touched() {
    let network = Fake::new(Fault::None);
    network.checkpoints.borrow_mut().push(checkpoint(3));
    let (outcome, _) = run(&network, Some(checkpoint(2)));
    assert!(
        matches!(&outcome, Outcome::Refused { reason } if reason.as_str().contains("another program"))
    );
    assert!(network.calls.borrow().is_empty());
}
