//! The change itself. It always ends with the old network or the new one.
//!
//! ```text
//! recover ─▶ record (synced) ─▶ apply in memory ─▶ probe ─▶ commit ─▶ confirm ─▶ persist ─▶ clear
//!                                     │              │         │
//!                                     └──────────────┴─────────┴─▶ roll back ─▶ clear
//! ```
//!
//! Until it is confirmed, a change is in NetworkManager's memory only: a node that loses power
//! boots with its previous profiles. The record covers everything else, see [`crate::recovery`].

use std::time::Duration;

use error_causes::with_causes;
use futures_util::future::{Either, select};
use nmstate::{ErrorKind, NetworkState, NmstateError};

use crate::facts;
use crate::message::Message;
use crate::network_manager::{Checkpoint, ManagerError};
use crate::observe::{self, ExpectedNetwork, Observation};
use crate::outcome::{Cause, Outcome, Recovery};
use crate::persistence;
use crate::probe::{CheckProbes, CheckReport, When};
use crate::record::{Record, RecordError, RecordFile, Stage};
use crate::recovery;

/// The network that a [`Transaction`] changes. [`crate::Host`] is this machine.
///
/// # Errors
///
/// Methods report the errors of nmstate and NetworkManager unchanged. A transaction treats an error
/// as *unknown*, not as *absent*: an unreachable NetworkManager does not mean that a checkpoint is
/// gone.
///
/// # Guarantees
///
/// An implementation guarantees:
///
/// - After an error of [`apply`](Self::apply), everything has been rolled back, or nothing was
///   changed.
/// - After success of [`persist`](Self::persist) and [`restore`](Self::restore), the profiles are
///   synced to disk.
/// - [`probe`](Self::probe) returns the reports of the requested checks first, in their order.
#[allow(async_fn_in_trait)] // Used with concrete types; `Send` futures are not needed.
pub trait Network {
    /// The current state, without passwords.
    async fn state(&self) -> Result<NetworkState, NmstateError>;
    /// The state with passwords, for the rollback. It must not be logged or reported.
    async fn state_with_secrets(&self) -> Result<NetworkState, NmstateError>;
    /// Creates a checkpoint that lasts `life`, applies, verifies; keeps the checkpoint open.
    async fn apply(&self, desired: &NetworkState, life: Duration) -> Result<(), NmstateError>;
    /// Saves what `desired` changed in memory to disk, without touching active connections.
    async fn persist(&self, desired: &NetworkState) -> Result<(), NmstateError>;
    /// Applies the state of an earlier time and keeps it.
    async fn restore(&self, former: &NetworkState, life: Duration) -> Result<(), NmstateError>;
    /// All checkpoints of NetworkManager, those of other programs too.
    async fn checkpoints(&self) -> Result<Vec<Checkpoint>, ManagerError>;
    /// Identifies the running instance of NetworkManager; another one after each restart.
    async fn manager(&self) -> Result<String, ManagerError>;
    /// Keeps the change, and removes the checkpoint.
    async fn commit(&self, checkpoint: &Checkpoint) -> Result<(), NmstateError>;
    /// Restores the network as of the checkpoint, and removes the checkpoint.
    async fn roll_back(&self, checkpoint: &Checkpoint) -> Result<(), NmstateError>;
    /// Sends all probes, each with the timeout `limit`.
    async fn probe(&self, requests: &[CheckProbes], limit: Duration) -> Vec<CheckReport>;
    /// The change has reached this phase. For progress reports and probes that depend on it.
    fn reached(&self, _phase: Phase) {}
}

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing was changed.
    Preparing,
    /// Another program has a checkpoint; its end is awaited.
    Waiting,
    /// The change is being applied or probed.
    Trial,
    /// The previous network is being restored.
    RollingBack,
    /// The change is confirmed and being saved.
    Confirmed,
}

/// One change of the network, which is committed or rolled back.
///
/// # Guarantees
///
/// - The network ends as `desired` or as it was before, also if the program, NetworkManager or the
///   node ends at any moment: [`recovery::recover`] finishes the transaction.
/// - Nothing is changed before the state that undoes the change is synced to disk in `record`.
/// - Until the probes of `expected` succeed, the change is in NetworkManager's memory only; a reboot
///   restores the previous profiles. If nmstate does not support that, the record restores them.
/// - Checkpoints of other programs are not modified.
#[derive(Debug)]
pub struct Transaction<'a> {
    /// The caller's name for the change; [`recovery::Recovered`] returns it after an interruption.
    pub label: &'a str,
    pub desired: &'a NetworkState,
    /// Whether a reboot undoes the change.
    pub memory_only: bool,
    pub expected: &'a ExpectedNetwork,
    pub timing: Timing,
    /// The record of the change. An unfinished change in it is finished first.
    pub record: &'a RecordFile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long the network may take to work after the change.
    pub patience: Duration,
    /// How long one probe may take.
    pub probe: Duration,
    /// How long the checkpoint lasts when the change is not confirmed.
    pub checkpoint: Duration,
    /// How long to wait for the checkpoint of another program.
    pub others: Duration,
}

impl Timing {
    /// With a checkpoint that lasts longer than all waits together.
    pub fn patient(patience: Duration) -> Self {
        let probe = Duration::from_secs(3);
        let others = Duration::from_secs(60);
        Self { patience, probe, checkpoint: patience + probe + Duration::from_secs(20), others }
    }
}

/// How often a check is probed before the change until it counts as failed.
const ATTEMPTS_BEFORE: u32 = 3;
/// The interval between two reads of NetworkManager's checkpoints.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The interval between two checks that the checkpoint exists.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The delay between two attempts to restore the previous network.
const RESTORE_RETRY_DELAY: Duration = Duration::from_secs(1);

impl Transaction<'_> {
    /// The results of the checks before the change. A check that fails here may not be required
    /// afterwards, so it is probed again: a lost packet, or a route that is just being set, must
    /// not weaken the verification.
    async fn probe_before(&self, network: &impl Network, state: &NetworkState) -> Vec<CheckReport> {
        let checks = &self.expected.checks;
        let is_optional = |index: usize| {
            // Reports beyond the checks are from probes of the network's own.
            checks.list.get(index).is_none_or(|check| check.when == When::HeldBefore)
        };
        let mut reports = network.probe(&checks.probes(state), self.timing.probe).await;
        for _ in 1..ATTEMPTS_BEFORE {
            let may_change =
                |(index, report): (usize, &CheckReport)| !report.holds && is_optional(index);
            if !reports.iter().enumerate().any(may_change) {
                break;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
            let Ok(state) = network.state().await else { continue };
            let again = network.probe(&checks.probes(&state), self.timing.probe).await;
            for (report, again) in reports.iter_mut().zip(again) {
                if !report.holds {
                    *report = again;
                }
            }
        }
        reports
    }

    /// Applies the change, or restores the previous network.
    ///
    /// # Errors
    ///
    /// Failures are outcomes. [`Outcome::Refused`]: nothing was changed. [`Outcome::RolledBack`]: the
    /// previous network was restored; with [`Recovery::Pending`] that failed, the record remains,
    /// and [`recovery::recover`] must be called until it succeeds.
    ///
    /// # Panics
    ///
    /// Requires a Tokio runtime with timers. If the future is dropped, or the program is killed,
    /// `recovery::recover` finishes the change.
    pub async fn run(&self, network: &impl Network) -> Outcome {
        network.reached(Phase::Preparing);
        let before = match self.prepare(network).await {
            Ok(before) => before,
            Err(reason) => return Outcome::Refused { reason: reason.into() },
        };
        let answered = self.probe_before(network, &before.state).await;
        let mut record = before.record;
        if let Err(error) = self.record.write(&record) {
            let reason =
                format!("the record of the change cannot be written: {}", with_causes(&error));
            return Outcome::Refused { reason: reason.into() };
        }

        network.reached(Phase::Trial);
        if let Err(error) = self.try_out(network, &before.state, &mut record).await {
            return self.not_applied(network, &record, &answered, &error).await;
        }
        let Some(checkpoint) = record.checkpoint.clone() else {
            let message = Message::from("NetworkManager lost the checkpoint");
            let after = Observation::default();
            let failed = Failed { cause: Cause::Expired, message, after };
            return self.roll_back(network, &record, &answered, failed).await;
        };

        let expected = ExpectedNetwork {
            bridge: self.expected.bridge.clone(),
            checks: self.expected.checks.after(&answered),
        };
        let wait = observe::wait(network, &expected, self.timing.patience, self.timing.probe);
        let lost = self.lost(network, &record, &checkpoint);
        let after = match select(Box::pin(wait), Box::pin(lost)).await {
            Either::Left((after, _)) => after,
            Either::Right(((), _)) => {
                let message = Message::from("NetworkManager restarted, or the checkpoint expired");
                let after = Observation::default();
                let failed = Failed { cause: Cause::Expired, message, after };
                return self.roll_back(network, &record, &answered, failed).await;
            }
        };
        if !after.is_good() {
            let cause = match facts::all_hold(&after.facts) && after.unread.is_none() {
                true => Cause::Probes,
                false => Cause::Facts,
            };
            let failed = Failed { cause, message: after.failures(), after };
            return self.roll_back(network, &record, &answered, failed).await;
        }
        match self.keep(network, &checkpoint, &mut record).await {
            Ok(()) => Outcome::Committed { after },
            Err((cause, message)) => {
                // Whatever happens to this run, the change will not be completed.
                record.stage = Stage::Committing;
                let _ = self.record.write(&record);
                let failed = Failed { cause, message: message.into(), after };
                self.roll_back(network, &record, &answered, failed).await
            }
        }
    }

    /// Returns when NetworkManager does not have the checkpoint any more. While it does not
    /// respond, that is unknown.
    async fn lost(&self, network: &impl Network, record: &Record, checkpoint: &Checkpoint) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let is_another = network.manager().await.is_ok_and(|it| Some(it) != record.manager);
            let is_gone = network.checkpoints().await.is_ok_and(|all| !all.contains(checkpoint));
            if is_another || is_gone {
                return;
            }
        }
    }

    /// The change works: from here on it is kept, and survives a reboot.
    async fn keep(
        &self,
        network: &impl Network,
        checkpoint: &Checkpoint,
        record: &mut Record,
    ) -> Result<(), (Cause, String)> {
        let stored = |error: RecordError| (Cause::Persist, with_causes(&error));
        record.stage = Stage::Committing;
        self.record.write(record).map_err(stored)?;
        let committed = network.commit(checkpoint).await;
        committed.map_err(|error| (Cause::Expired, error.to_string()))?;
        record.stage = Stage::Confirmed;
        self.record.write(record).map_err(stored)?;
        network.reached(Phase::Confirmed);
        let persisted = recovery::persist(network, record).await;
        persisted.map_err(|error| (Cause::Persist, with_causes(&error)))?;
        // A record that remains completes the same change again.
        let _ = self.record.clear();
        Ok(())
    }

    /// Finishes an earlier change, waits for other programs, and generates the state that undoes the
    /// change.
    async fn prepare(&self, network: &impl Network) -> Result<Before, String> {
        recovery::recover(network, self.record, self.timing.checkpoint)
            .await
            .map_err(|error| format!("an earlier change is unfinished: {}", with_causes(&error)))?;
        self.others_are_done(network).await?;
        let reading = |error: NmstateError| format!("reading the network state: {error}");
        let state = network.state_with_secrets().await.map_err(reading)?;
        let revert =
            network_revert::revert(self.desired, &state).map_err(|error| error.to_string())?;
        let mut record = self.record.draft(self.label, self.desired, revert, self.memory_only);
        record.manager = Some(network.manager().await.map_err(|error| with_causes(&error))?);
        Ok(Before { state, record })
    }

    /// Waits for checkpoints of other programs, and never modifies them.
    async fn others_are_done(&self, network: &impl Network) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + self.timing.others;
        loop {
            let there = network.checkpoints().await.map_err(|error| with_causes(&error))?;
            if there.is_empty() {
                return Ok(());
            }
            network.reached(Phase::Waiting);
            if tokio::time::Instant::now() >= deadline {
                return Err(
                    "another program is changing the network: NetworkManager has a checkpoint that is not ours".into(),
                );
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Applies in memory. Where that is impossible, the change is applied on disk: the record is
    /// then what restores the previous network after a reboot.
    async fn try_out(
        &self,
        network: &impl Network,
        before: &NetworkState,
        record: &mut Record,
    ) -> Result<(), NmstateError> {
        if self.memory_only || !persistence::needs_disk(self.desired, before) {
            let trial = persistence::trial(self.desired, before);
            let tried = self.apply(network, &trial, record).await;
            let Err(error) = &tried else { return tried };
            if self.memory_only || record.checkpoint.is_some() || !is_refusal(error.kind()) {
                return tried;
            }
        }
        record.on_disk = true;
        if let Err(error) = self.record.write(record) {
            return Err(NmstateError::new(ErrorKind::PermissionError, with_causes(&error)));
        }
        self.apply(network, self.desired, record).await
    }

    /// Applies, and records meanwhile which checkpoint is ours: nmstate does not report it. There was
    /// none before, and NetworkManager allows no second one for the same devices.
    async fn apply(
        &self,
        network: &impl Network,
        trial: &NetworkState,
        record: &mut Record,
    ) -> Result<(), NmstateError> {
        let new = async || network.checkpoints().await.unwrap_or_default().into_iter().next();
        let watch = async {
            loop {
                if let Some(checkpoint) = new().await {
                    return checkpoint;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let apply = Box::pin(network.apply(trial, self.timing.checkpoint));
        let (result, checkpoint) = match select(apply, Box::pin(watch)).await {
            Either::Left((result, _)) => (result, new().await),
            Either::Right((checkpoint, apply)) => {
                self.note_checkpoint(record, checkpoint.clone());
                (apply.await, Some(checkpoint))
            }
        };
        if record.checkpoint.is_none()
            && let Some(checkpoint) = checkpoint
        {
            self.note_checkpoint(record, checkpoint);
        }
        result
    }

    /// Without the note, recovery restores the recorded state instead of the checkpoint.
    fn note_checkpoint(&self, record: &mut Record, checkpoint: Checkpoint) {
        record.checkpoint = Some(checkpoint);
        let _ = self.record.write(record);
    }

    async fn not_applied(
        &self,
        network: &impl Network,
        record: &Record,
        answered: &[CheckReport],
        error: &NmstateError,
    ) -> Outcome {
        let message = Message::new(error.to_string());
        if record.checkpoint.is_none() && is_refusal(error.kind()) {
            // nmstate checks the document before it creates a checkpoint.
            let _ = self.record.clear();
            return Outcome::Refused { reason: message };
        }
        let cause = match error.kind() {
            ErrorKind::VerificationError => Cause::Verification,
            _ => Cause::Apply,
        };
        let after = Observation::default();
        self.roll_back(network, record, answered, Failed { cause, message, after }).await
    }

    /// Restores the previous network, for as long as the network may take to be good, and waits
    /// until what responded before responds again.
    async fn roll_back(
        &self,
        network: &impl Network,
        record: &Record,
        answered: &[CheckReport],
        failed: Failed,
    ) -> Outcome {
        network.reached(Phase::RollingBack);
        let Failed { cause, message, after } = failed;
        let deadline = tokio::time::Instant::now() + self.timing.patience;
        let life = self.timing.checkpoint;
        while let Err(error) = recovery::roll_back(network, self.record, record, life).await {
            if tokio::time::Instant::now() + RESTORE_RETRY_DELAY >= deadline {
                let recovery = Recovery::Pending { message: with_causes(&error).into() };
                return Outcome::RolledBack { cause, message, after, recovery };
            }
            tokio::time::sleep(RESTORE_RETRY_DELAY).await;
        }
        // A record that remains is harmless: the same state is restored again.
        let _ = self.record.clear();
        let mut checks = self.expected.checks.clone();
        let mut held = answered.iter().map(|report| report.holds);
        checks.list.retain(|_| held.next().unwrap_or(false));
        let expected = ExpectedNetwork { bridge: None, checks };
        let seen = observe::wait(network, &expected, self.timing.patience, self.timing.probe).await;
        let recovery = match seen.is_good() {
            true => Recovery::Works,
            false => Recovery::Differs { message: seen.failures(), failed: seen.failed_checks() },
        };
        Outcome::RolledBack { cause, message, after, recovery }
    }
}

/// The network before the change.
struct Before {
    state: NetworkState,
    record: Record,
}

/// Why a change is rolled back.
struct Failed {
    cause: Cause,
    message: Message,
    after: Observation,
}

/// Whether nmstate rejects the document itself, rather than failing to apply it.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidArgument
            | ErrorKind::NotImplementedError
            | ErrorKind::NotSupportedError
            | ErrorKind::PolicyError
            | ErrorKind::PermissionError
    )
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
