use std::cell::{Cell, RefCell};
use std::path::Path;

use super::*;
use crate::facts::Expectation;
use crate::probe::{Check, Checks, ProbeReport, Target, When};
use crate::recovery::{Recovered, recover};

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
const DESIRED: &str = "
interfaces:
- {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: nic0}, {name: br-ex}]}}
- {name: br-ex, type: ovs-interface, state: up, ipv4: {enabled: true, dhcp: true}}
";
const OLD: &str = "
interfaces:
- {name: nic0, type: ethernet, state: up}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: nic0, next-hop-address: 198.51.100.1, metric: 100}
";

/// A network with failures on demand.
struct Fake {
    /// The profiles in use, and those that the next boot uses.
    running: Cell<Net>,
    disk: Cell<Net>,
    checkpoints: RefCell<Vec<Checkpoint>>,
    /// Counts the starts of NetworkManager.
    starts: Cell<u32>,
    /// Counts the checkpoints since then.
    made: Cell<u8>,
    /// What NetworkManager restores when a checkpoint ends.
    saved: Cell<Net>,
    fault: Fault,
    calls: RefCell<Vec<&'static str>>,
    /// Whether a probe was sent.
    probed: Cell<bool>,
    /// The program is killed after this many calls of this network.
    lives: Cell<Option<usize>>,
    killed: tokio::sync::Notify,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Net {
    Old,
    New,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    RefusedByNmstate,
    Verification,
    SilentAfter,
    /// The first probe before the change is lost, and nothing responds in the new network.
    LostBeforeAndSilentAfter,
    NoBridge,
    CommitFails,
    PersistFails,
    RollBackFails,
    ExpiresWhileProbing,
    /// NetworkManager restarts while the new network is probed, and keeps using it.
    ManagerRestarts,
    /// The same, and nothing responds in the new network.
    ManagerRestartsAndSilent,
}

/// What happens to a node after the program was killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Next {
    ProgramStarts,
    CheckpointExpires,
    ManagerRestarts,
    PowerLoss,
}

fn checkpoint(number: u8) -> Checkpoint {
    Checkpoint(format!("/org/freedesktop/NetworkManager/Checkpoint/{number}"))
}

impl Fake {
    fn new(fault: Fault) -> Self {
        Self {
            running: Cell::new(Net::Old),
            disk: Cell::new(Net::Old),
            checkpoints: RefCell::default(),
            starts: Cell::new(1),
            made: Cell::new(0),
            saved: Cell::new(Net::Old),
            fault,
            calls: RefCell::default(),
            probed: Cell::new(false),
            lives: Cell::new(None),
            killed: tokio::sync::Notify::new(),
        }
    }

    /// Programs are killed before and after their request is performed.
    async fn live(&self) {
        match self.lives.get() {
            Some(0) => {
                self.killed.notify_one();
                std::future::pending::<()>().await;
            }
            Some(left) => self.lives.set(Some(left - 1)),
            None => {}
        }
    }

    async fn call<T>(&self, name: &'static str, effect: impl FnOnce() -> T) -> T {
        self.live().await;
        self.calls.borrow_mut().push(name);
        let result = effect();
        self.live().await;
        result
    }

    /// NetworkManager counts its checkpoints from one after each start, and allows one at a time.
    fn make_checkpoint(&self) -> Result<(), NmstateError> {
        if !self.checkpoints.borrow().is_empty() {
            return Err(error(ErrorKind::PluginFailure));
        }
        self.made.set(self.made.get() + 1);
        self.saved.set(self.running.get());
        self.checkpoints.borrow_mut().push(checkpoint(self.made.get()));
        Ok(())
    }

    /// NetworkManager restores the state at the creation of its checkpoint.
    fn to_checkpoint(&self) {
        if !self.checkpoints.borrow().is_empty() {
            self.checkpoints.borrow_mut().clear();
            self.running.set(self.saved.get());
        }
    }

    fn restart_manager(&self) {
        self.starts.set(self.starts.get() + 1);
        self.made.set(0);
        self.checkpoints.borrow_mut().clear();
    }

    fn happen(&self, next: Next) {
        self.lives.set(None);
        match next {
            Next::ProgramStarts => {}
            Next::CheckpointExpires => self.to_checkpoint(),
            Next::ManagerRestarts => self.restart_manager(),
            Next::PowerLoss => {
                self.restart_manager();
                self.running.set(self.disk.get());
            }
        }
    }
}

fn error(kind: ErrorKind) -> NmstateError {
    NmstateError::new(kind, "as the test requires".into())
}

impl Network for Fake {
    async fn state(&self) -> Result<NetworkState, NmstateError> {
        let new = self.running.get() == Net::New && self.fault != Fault::NoBridge;
        NetworkState::new_from_yaml(if new { NEW } else { OLD })
    }

    async fn state_with_secrets(&self) -> Result<NetworkState, NmstateError> {
        self.state().await
    }

    async fn apply(&self, _: &NetworkState, _: Duration) -> Result<(), NmstateError> {
        if self.fault == Fault::RefusedByNmstate {
            return self.call("apply", || Err(error(ErrorKind::InvalidArgument))).await;
        }
        self.call("apply", || {
            self.make_checkpoint().expect("others were waited for");
            self.running.set(Net::New);
        })
        .await;
        tokio::time::sleep(TAKES).await;
        if self.fault == Fault::Verification {
            self.to_checkpoint();
            return Err(error(ErrorKind::VerificationError));
        }
        Ok(())
    }

    async fn persist(&self, _: &NetworkState) -> Result<(), NmstateError> {
        self.call("persist", || {
            if self.fault == Fault::PersistFails {
                return Err(error(ErrorKind::PluginFailure));
            }
            self.disk.set(self.running.get());
            Ok(())
        })
        .await
    }

    async fn restore(&self, former: &NetworkState, _: Duration) -> Result<(), NmstateError> {
        if former.interfaces.iter().next().is_none() {
            return self.call("restore settings", || Ok(())).await;
        }
        let is_undone = former.interfaces.iter().any(|it| it.name() == "br-ex" && it.is_absent());
        assert!(is_undone, "{former:?}");
        self.call("restore", || self.make_checkpoint()).await?;
        tokio::time::sleep(TAKES).await;
        self.live().await;
        self.running.set(Net::Old);
        self.disk.set(Net::Old);
        self.live().await;
        self.checkpoints.borrow_mut().clear();
        self.live().await;
        Ok(())
    }

    async fn checkpoints(&self) -> Result<Vec<Checkpoint>, ManagerError> {
        Ok(self.checkpoints.borrow().clone())
    }

    async fn manager(&self) -> Result<String, ManagerError> {
        Ok(format!(":1.{}", self.starts.get()))
    }

    async fn commit(&self, given: &Checkpoint) -> Result<(), NmstateError> {
        self.call("commit", || {
            if self.fault == Fault::CommitFails {
                self.to_checkpoint();
            }
            if !self.checkpoints.borrow().contains(given) {
                return Err(error(ErrorKind::Bug));
            }
            self.checkpoints.borrow_mut().clear();
            Ok(())
        })
        .await
    }

    async fn roll_back(&self, given: &Checkpoint) -> Result<(), NmstateError> {
        self.call("roll back", || {
            if !self.checkpoints.borrow().contains(given) {
                return Err(error(ErrorKind::InvalidArgument));
            }
            if self.fault == Fault::RollBackFails {
                return Err(error(ErrorKind::Bug));
            }
            self.to_checkpoint();
            Ok(())
        })
        .await
    }

    async fn probe(&self, requests: &[CheckProbes], _: Duration) -> Vec<CheckReport> {
        let is_new = self.running.get() == Net::New;
        match self.fault {
            Fault::ExpiresWhileProbing if is_new => self.to_checkpoint(),
            Fault::ManagerRestarts | Fault::ManagerRestartsAndSilent if is_new => {
                self.restart_manager();
            }
            _ => {}
        }
        let silent = [
            Fault::SilentAfter,
            Fault::LostBeforeAndSilentAfter,
            Fault::RollBackFails,
            Fault::ManagerRestartsAndSilent,
        ];
        let is_lost = self.fault == Fault::LostBeforeAndSilentAfter && !self.probed.replace(true);
        let answered = !(is_lost || silent.contains(&self.fault) && is_new);
        let report =
            ProbeReport { probe: "gateway".into(), answered, detail: "x".into(), milliseconds: 0 };
        requests.iter().map(|request| request.judge(vec![report.clone()])).collect()
    }
}

fn expected() -> ExpectedNetwork {
    let any_of = vec![Target::DefaultGateway { interface: None }];
    ExpectedNetwork {
        bridge: Some(Expectation { bridge: "br-ex".into(), ..Expectation::default() }),
        checks: Checks { list: vec![Check { id: "gateway", any_of, when: When::Always }] },
    }
}

/// How long applying takes: longer than it takes to notice the checkpoint.
const TAKES: Duration = Duration::from_millis(60);
const LIFE: Duration = Duration::from_secs(60);

fn record(folder: &Path, boot: u32) -> RecordFile {
    RecordFile::new(folder.join("change.json"), format!("boot-{boot}"))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(work)
}

/// Runs a change. None when the program was killed.
fn run_in(network: &Fake, folder: &Path) -> Option<Outcome> {
    run_document(network, folder, DESIRED)
}

fn run_document(network: &Fake, folder: &Path, desired: &str) -> Option<Outcome> {
    run_expecting(network, folder, desired, &expected())
}

fn run_expecting(
    network: &Fake,
    folder: &Path,
    desired: &str,
    expected: &ExpectedNetwork,
) -> Option<Outcome> {
    let desired = NetworkState::new_from_yaml(desired).unwrap();
    let record = record(folder, 1);
    let timing = Timing { others: Duration::ZERO, ..Timing::patient(Duration::ZERO) };
    let transaction = Transaction {
        label: "a change",
        desired: &desired,
        memory_only: false,
        expected,
        timing,
        record: &record,
    };
    block_on(async {
        tokio::select! {
            outcome = transaction.run(network) => Some(outcome),
            () = network.killed.notified() => None,
        }
    })
}

fn run(network: &Fake) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run_in(network, folder.path()).unwrap();
    let is_open = record(folder.path(), 1).read().unwrap().is_some();
    let pending =
        matches!(&outcome, Outcome::RolledBack { recovery: Recovery::Pending { .. }, .. });
    assert_eq!(is_open, pending, "a record remains only while there is something to do");
    outcome
}

fn cause(outcome: &Outcome) -> Option<Cause> {
    match outcome {
        Outcome::RolledBack { cause, recovery: Recovery::Works, .. } => Some(*cause),
        _ => None,
    }
}

#[test]
fn a_good_change_is_committed_and_saved() {
    let network = Fake::new(Fault::None);
    let outcome = run(&network);
    assert!(outcome.is_committed(), "{outcome}");
    assert_eq!((network.running.get(), network.disk.get()), (Net::New, Net::New));
    assert_eq!(*network.calls.borrow(), ["apply", "commit", "persist"]);
}

#[test]
fn a_probe_that_is_lost_before_the_change_is_repeated_and_required_afterwards() {
    let network = Fake::new(Fault::LostBeforeAndSilentAfter);
    let mut expected = expected();
    for check in &mut expected.checks.list {
        check.when = When::HeldBefore;
    }
    let folder = tempfile::tempdir().unwrap();
    let outcome = run_expecting(&network, folder.path(), DESIRED, &expected).unwrap();
    assert_eq!(cause(&outcome), Some(Cause::Probes), "{outcome}");
    assert_eq!((network.running.get(), network.disk.get()), (Net::Old, Net::Old));
}

/// Neither nmstate nor a checkpoint restores them.
#[test]
fn settings_of_open_vswitch_are_restored_with_the_checkpoint() {
    let desired = format!("{DESIRED}ovs-db: {{external_ids: {{rack: '7'}}}}\n");
    for (fault, expected) in [
        (Fault::SilentAfter, vec!["apply", "roll back", "restore settings"]),
        (Fault::Verification, vec!["apply", "restore settings"]),
        (Fault::None, vec!["apply", "commit", "persist"]),
    ] {
        let network = Fake::new(fault);
        let folder = tempfile::tempdir().unwrap();
        run_document(&network, folder.path(), &desired).unwrap();
        assert_eq!(*network.calls.borrow(), expected, "{fault:?}");
    }
}

#[test]
fn every_fault_ends_with_the_old_network_and_its_own_cause() {
    let cases = [
        (Fault::Verification, Cause::Verification),
        (Fault::SilentAfter, Cause::Probes),
        (Fault::NoBridge, Cause::Facts),
        (Fault::CommitFails, Cause::Expired),
        (Fault::PersistFails, Cause::Persist),
        (Fault::ExpiresWhileProbing, Cause::Expired),
        (Fault::ManagerRestarts, Cause::Expired),
        (Fault::ManagerRestartsAndSilent, Cause::Probes),
    ];
    for (fault, expected) in cases {
        let network = Fake::new(fault);
        let outcome = run(&network);
        assert_eq!(cause(&outcome), Some(expected), "{fault:?}: {outcome}");
        assert_eq!((network.running.get(), network.disk.get()), (Net::Old, Net::Old), "{fault:?}");
        assert!(network.checkpoints.borrow().is_empty());
    }
}

#[test]
fn networkmanager_rolls_back_without_help_while_it_runs() {
    for fault in [Fault::Verification, Fault::SilentAfter, Fault::NoBridge] {
        let network = Fake::new(fault);
        let _ = run(&network);
        assert!(!network.calls.borrow().contains(&"restore"), "{fault:?}");
    }
}

#[test]
fn a_document_that_nmstate_refuses_changes_nothing() {
    let network = Fake::new(Fault::RefusedByNmstate);
    let outcome = run(&network);
    assert!(matches!(outcome, Outcome::Refused { .. }), "{outcome}");
    // In memory, then on disk.
    assert_eq!(*network.calls.borrow(), ["apply", "apply"]);
}

#[test]
fn without_a_record_nothing_is_changed() {
    let network = Fake::new(Fault::None);
    let folder = tempfile::tempdir().unwrap();
    let outcome = run_in(&network, &folder.path().join("missing")).unwrap();
    assert!(matches!(outcome, Outcome::Refused { .. }), "{outcome}");
    assert!(network.calls.borrow().is_empty());
}

#[test]
fn a_roll_back_that_failed_is_repeated() {
    let mut network = Fake::new(Fault::RollBackFails);
    let folder = tempfile::tempdir().unwrap();
    let outcome = run_in(&network, folder.path()).unwrap();
    let pending =
        matches!(&outcome, Outcome::RolledBack { recovery: Recovery::Pending { .. }, .. });
    assert!(pending, "{outcome}");
    let record = record(folder.path(), 1);
    assert!(block_on(recover(&network, &record, LIFE)).is_err());
    network.fault = Fault::None;
    let recovered = block_on(recover(&network, &record, LIFE)).unwrap();
    assert_eq!(recovered, Recovered::RolledBack { label: "a change".into() });
    assert_eq!(network.running.get(), Net::Old);
    assert_eq!(block_on(recover(&network, &record, LIFE)).unwrap(), Recovered::Nothing);
}

#[test]
fn a_change_that_is_interrupted_anywhere_ends_with_one_of_the_two_networks() {
    use Next::*;
    for fault in [Fault::None, Fault::SilentAfter, Fault::PersistFails] {
        for next in [ProgramStarts, CheckpointExpires, ManagerRestarts, PowerLoss] {
            for lives in 0.. {
                let mut network = Fake::new(fault);
                network.lives.set(Some(lives));
                let folder = tempfile::tempdir().unwrap();
                let outcome = run_in(&network, folder.path());
                let at = format!("{fault:?}, {next:?} after {lives} calls");
                // What failed on the node may succeed after the restart.
                network.fault = Fault::None;
                network.happen(next);
                let boot = if next == PowerLoss { 2 } else { 1 };
                let recovered =
                    block_on(recover(&network, &record(folder.path(), boot), LIFE)).expect(&at);
                let is_new = match (&recovered, &outcome) {
                    (Recovered::Completed { .. }, None) => true,
                    (Recovered::RolledBack { .. }, None) => false,
                    (Recovered::Nothing, Some(outcome)) => outcome.is_committed(),
                    (Recovered::Nothing, None) => false,
                    _ => panic!("{at}: {recovered:?} after {outcome:?}"),
                };
                let expected = if is_new { Net::New } else { Net::Old };
                let found = (network.running.get(), network.disk.get());
                assert_eq!(found, (expected, expected), "{at}: {recovered:?}");
                assert!(network.checkpoints.borrow().is_empty(), "{at}");
                if outcome.is_some() {
                    break;
                }
            }
        }
    }
}

/// Another failure while the previous network is restored.
#[test]
fn a_recovery_that_is_interrupted_anywhere_ends_with_the_network_it_reports() {
    use Next::*;
    let all = [ProgramStarts, CheckpointExpires, ManagerRestarts, PowerLoss];
    for (first, second) in all.iter().flat_map(|it| all.iter().map(move |other| (*it, *other))) {
        // Killed after the change was made, and at each moment of the recovery.
        for lives in 0.. {
            let network = Fake::new(Fault::None);
            let folder = tempfile::tempdir().unwrap();
            network.lives.set(Some(1));
            assert_eq!(run_in(&network, folder.path()), None);
            assert_eq!(network.running.get(), Net::New);
            network.happen(first);
            let mut boot = if first == PowerLoss { 2 } else { 1 };
            network.lives.set(Some(lives));
            let file = record(folder.path(), boot);
            let interrupted = block_on(async {
                tokio::select! {
                    recovered = recover(&network, &file, LIFE) => {
                        recovered.unwrap();
                        false
                    }
                    () = network.killed.notified() => true,
                }
            });
            network.happen(second);
            boot += u32::from(second == PowerLoss);
            let file = record(folder.path(), boot);
            let at = format!("{first:?}, then {second:?} after {lives} calls");
            block_on(recover(&network, &file, LIFE)).expect(&at);
            assert_eq!(network.running.get(), Net::Old, "{at}");
            assert_eq!(network.disk.get(), Net::Old, "{at}");
            assert!(network.checkpoints.borrow().is_empty(), "{at}");
            assert_eq!(file.read().unwrap(), None, "{at}");
            if !interrupted {
                break;
            }
        }
    }
}

/// NetworkManager restarted; another program has a checkpoint of the same name as ours had.
#[test]
fn a_checkpoint_of_the_same_name_in_a_restarted_networkmanager_is_not_ours() {
    let network = Fake::new(Fault::None);
    let folder = tempfile::tempdir().unwrap();
    network.lives.set(Some(1));
    assert_eq!(run_in(&network, folder.path()), None);
    network.happen(Next::ManagerRestarts);
    network.make_checkpoint().unwrap();
    let file = record(folder.path(), 1);
    assert!(block_on(recover(&network, &file, LIFE)).is_err());
    assert_eq!(*network.checkpoints.borrow(), [checkpoint(1)], "it is not touched");
    // The other program has finished.
    network.checkpoints.borrow_mut().clear();
    let recovered = block_on(recover(&network, &file, LIFE)).unwrap();
    assert_eq!(recovered, Recovered::RolledBack { label: "a change".into() });
    assert_eq!(network.running.get(), Net::Old);
}

#[test]
fn an_unfinished_change_is_finished_before_the_next_one() {
    let network = Fake::new(Fault::None);
    let folder = tempfile::tempdir().unwrap();
    network.lives.set(Some(1));
    assert!(run_in(&network, folder.path()).is_none());
    network.happen(Next::ManagerRestarts);
    let outcome = run_in(&network, folder.path()).unwrap();
    assert!(outcome.is_committed(), "{outcome}");
    assert_eq!(*network.calls.borrow(), ["apply", "restore", "apply", "commit", "persist"]);
}

#[test]
fn the_checkpoint_of_another_program_is_not_touched() {
    let network = Fake::new(Fault::None);
    network.checkpoints.borrow_mut().push(checkpoint(3));
    let outcome = run(&network);
    assert!(
        matches!(&outcome, Outcome::Refused { reason } if reason.as_str().contains("another program"))
    );
    assert!(network.calls.borrow().is_empty());
}
