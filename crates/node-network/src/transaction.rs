//! The change itself. Every way out of it ends with the old network or the new one.

use std::time::Duration;

use futures_util::future::{Either, select};
use nmstate::{ErrorKind, NetworkState, NmstateError};

use crate::facts;
use crate::message::Message;
use crate::network_manager::{Checkpoint, ManagerError};
use crate::observe::{self, Aim, Observation};
use crate::outcome::{Cause, Outcome, Recovery};
use crate::probe::{ClauseReport, Question};

/// What a change is made on. [`crate::Host`] is this machine.
#[allow(async_fn_in_trait)] // Used with concrete types; nobody needs `Send` futures of it.
pub trait Network {
    async fn state(&self) -> Result<NetworkState, NmstateError>;
    /// Makes a checkpoint that lasts `life`, applies, verifies; leaves the checkpoint open. On
    /// an error everything has been taken back, or nothing was touched.
    async fn apply(&self, desired: &NetworkState, life: Duration) -> Result<(), NmstateError>;
    async fn checkpoints(&self) -> Result<Vec<Checkpoint>, ManagerError>;
    async fn commit(&self, checkpoint: &Checkpoint) -> Result<(), NmstateError>;
    async fn roll_back(&self, checkpoint: &Checkpoint) -> Result<(), NmstateError>;
    async fn ask(&self, questions: &[Question], limit: Duration) -> Vec<ClauseReport>;
}

/// One change.
#[derive(Debug)]
pub struct Transaction<'a> {
    pub desired: &'a NetworkState,
    pub aim: &'a Aim,
    pub timing: Timing,
    /// The checkpoint of an earlier run that did not end. It is rolled back first. Checkpoints of
    /// others are waited for, and never touched.
    pub leftover: Option<Checkpoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long the network may take to be good after the change.
    pub patience: Duration,
    /// How long one probe may take.
    pub probe: Duration,
    /// How long the checkpoint lasts when nobody confirms the change.
    pub checkpoint: Duration,
    /// How long to wait for the checkpoint of somebody else.
    pub others: Duration,
}

impl Timing {
    /// With a checkpoint that outlives all that is waited for.
    pub fn patient(patience: Duration) -> Self {
        let probe = Duration::from_secs(3);
        let others = Duration::from_secs(60);
        Self { patience, probe, checkpoint: patience + probe + Duration::from_secs(20), others }
    }
}

/// Between two looks at NetworkManager's checkpoints.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Transaction<'_> {
    /// Makes the change. `record` is told of the checkpoint as soon as it exists; who keeps
    /// that can give it as the leftover of the next run.
    pub async fn run(&self, network: &impl Network, record: impl FnMut(&Checkpoint)) -> Outcome {
        let refuse = |reason: String| Outcome::Refused { reason: reason.into() };
        let there = match self.free_of_checkpoints(network).await {
            Ok(there) => there,
            Err(reason) => return refuse(reason),
        };
        let before = match network.state().await {
            Ok(state) => state,
            Err(error) => return refuse(format!("reading the network state: {error}")),
        };
        let questions = self.aim.gate.questions(&before);
        let answered = network.ask(&questions, self.timing.probe).await;

        let (result, own) = self.apply(network, &there, record).await;
        if let Err(error) = result {
            return self.not_applied(network, own, &answered, &error).await;
        }
        let Some(checkpoint) = own else {
            // nmstate said that it left a checkpoint open, and there is none.
            let message = Message::from("NetworkManager does not know the checkpoint");
            let after = Observation::default();
            return self.taken_back(network, Cause::Expired, message, after, &answered).await;
        };

        let aim = Aim { bridge: self.aim.bridge.clone(), gate: self.aim.gate.after(&answered) };
        let after = observe::wait(network, &aim, self.timing.patience, self.timing.probe).await;
        if !after.is_good() {
            let cause = match facts::all_hold(&after.facts) && after.unread.is_none() {
                true => Cause::Probes,
                false => Cause::Facts,
            };
            let message = after.failures();
            return match network.roll_back(&checkpoint).await {
                Ok(()) => self.taken_back(network, cause, message, after, &answered).await,
                Err(error) => {
                    self.could_not_roll_back(network, &checkpoint, cause, after, error, &answered)
                        .await
                }
            };
        }
        match network.commit(&checkpoint).await {
            Ok(()) => Outcome::Committed { after },
            Err(error) => {
                let message = Message::new(error.to_string());
                self.taken_back(network, Cause::Expired, message, after, &answered).await
            }
        }
    }

    /// Rolls our leftover back, then waits for checkpoints of others.
    async fn free_of_checkpoints(&self, network: &impl Network) -> Result<Vec<Checkpoint>, String> {
        let deadline = tokio::time::Instant::now() + self.timing.others;
        let mut leftover = self.leftover.as_ref();
        loop {
            let there = network.checkpoints().await.map_err(|error| said(&error))?;
            if there.is_empty() {
                return Ok(there);
            }
            if let Some(own) = leftover.take().filter(|own| there.contains(own)) {
                // Expired in this moment is as good.
                let _ = network.roll_back(own).await;
                continue;
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(
                    "another program is changing the network: NetworkManager has a checkpoint that is not ours".into(),
                );
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Applies, and learns meanwhile which checkpoint is ours: nmstate does not say. There can
    /// be only one, as NetworkManager allows no second one for the same devices.
    async fn apply(
        &self,
        network: &impl Network,
        there: &[Checkpoint],
        mut record: impl FnMut(&Checkpoint),
    ) -> (Result<(), NmstateError>, Option<Checkpoint>) {
        let new = async || {
            let all = network.checkpoints().await.unwrap_or_default();
            all.into_iter().find(|checkpoint| !there.contains(checkpoint))
        };
        let watch = async {
            loop {
                if let Some(checkpoint) = new().await {
                    return checkpoint;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let apply = Box::pin(network.apply(self.desired, self.timing.checkpoint));
        match select(apply, Box::pin(watch)).await {
            Either::Left((result, _)) => {
                let own = new().await;
                own.iter().for_each(&mut record);
                (result, own)
            }
            Either::Right((checkpoint, apply)) => {
                record(&checkpoint);
                (apply.await, Some(checkpoint))
            }
        }
    }

    async fn not_applied(
        &self,
        network: &impl Network,
        own: Option<Checkpoint>,
        answered: &[ClauseReport],
        error: &NmstateError,
    ) -> Outcome {
        let message = Message::new(error.to_string());
        let Some(checkpoint) = own else {
            // It is checked before there is a checkpoint.
            return Outcome::Refused { reason: message };
        };
        let cause = match error.kind() {
            ErrorKind::VerificationError => Cause::Verification,
            _ => Cause::Apply,
        };
        let after = Observation::default();
        // nmstate rolls back by itself, and only logs when it cannot.
        let still = network.checkpoints().await.is_ok_and(|all| all.contains(&checkpoint));
        if still && let Err(error) = network.roll_back(&checkpoint).await {
            return self
                .could_not_roll_back(network, &checkpoint, cause, after, error, answered)
                .await;
        }
        self.taken_back(network, cause, message, after, answered).await
    }

    /// NetworkManager may have rolled back by itself in the meantime.
    async fn could_not_roll_back(
        &self,
        network: &impl Network,
        checkpoint: &Checkpoint,
        cause: Cause,
        after: Observation,
        error: NmstateError,
        answered: &[ClauseReport],
    ) -> Outcome {
        let message = after.failures();
        match network.checkpoints().await {
            Ok(all) if !all.contains(checkpoint) => {
                self.taken_back(network, cause, message, after, answered).await
            }
            _ => {
                let recovery = Recovery::Pending { message: error.to_string().into() };
                Outcome::RolledBack { cause, message, after, recovery }
            }
        }
    }

    /// Waits until what answered before answers again.
    async fn taken_back(
        &self,
        network: &impl Network,
        cause: Cause,
        message: Message,
        after: Observation,
        answered: &[ClauseReport],
    ) -> Outcome {
        let mut gate = self.aim.gate.clone();
        let mut held = answered.iter().map(|report| report.holds);
        gate.clauses.retain(|_| held.next().unwrap_or(false));
        let aim = Aim { bridge: None, gate };
        let seen = observe::wait(network, &aim, self.timing.patience, self.timing.probe).await;
        let recovery = match seen.is_good() {
            true => Recovery::Works,
            false => Recovery::Differs { message: seen.failures() },
        };
        Outcome::RolledBack { cause, message, after, recovery }
    }
}

/// An error with its sources, in one line.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
