//! The loop of the handler: watch, decide, act, report.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::StreamExt;
use kube::Client;
use nmstate::NetworkState;
use nmstate_api::annotations::{Drift, OnDelete, Persistence, Probes};
use nmstate_api::{NodeName, Warning};
use node_network::Recovered;
use node_policy::secrets::Secrets;
use node_policy::{
    Attempt, Phase, Step, bounds, guard, nmstate_messages, rendering, report, revert, terms,
    warnings,
};
use tokio_util::sync::CancellationToken;

use super::annotations::NO_WAY_BACK;
use super::drift::reports_drift;
use super::handler_metrics::HandlerMetrics;
use super::handler_state::{
    API_RETRY_DELAY, Evaluated, HandlerState, Job, JobKind, MANAGER_CHECK_INTERVAL, Memory,
    NETWORK_READ_INTERVAL, label,
};
use super::installed;
use super::machine::{Change, Machine};
use super::node_report::Seen;
use super::policies::{ReadResult, Reading, Source};
use super::view::news;
use crate::events::Reason;
use crate::service_port::ServiceState;

/// Reported by a node that waits for a slot.
const WAITING: &str = "waiting for its turn: the policy limits how many nodes are changed at a time, \
    and policies are applied one after the other";

/// NetworkManager responds within this time, or hangs.
const MANAGER_LIMIT: Duration = Duration::from_secs(10);

/// The delay before the recovery of an interrupted change is retried.
const RECOVERY_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The most steps for one policy in one round. No sequence of steps is as long.
const MOST_STEPS: usize = 8;

/// A handler and the node that it configures.
#[derive(Debug)]
pub struct Handler<M> {
    pub node: NodeName,
    /// The namespace of the coordinator, where slots of deleted policies are.
    pub namespace: String,
    pub machine: M,
    pub service: Arc<ServiceState>,
    pub metrics: HandlerMetrics,
}

type Begun<'a> = (Job, Pin<Box<dyn Future<Output = Attempt> + 'a>>);
type Running<'a> = Option<Begun<'a>>;

impl<M: Machine> Handler<M> {
    /// Runs until `stop` is cancelled. A change in progress is rolled back then.
    pub async fn run(&self, client: Client, stop: &CancellationToken) -> Result<()> {
        let mut news = news(&client, &self.node);
        let installed = installed::wait(&client);
        tokio::pin!(installed);
        let manager = self.machine.version().await;
        let source = Source { client: client.clone(), namespace: self.namespace.clone() };
        let mut handler = HandlerState::new(&client, &self.node, source.clone(), manager);
        let mut running: Running<'_> = None;
        let mut reading: Option<Reading> = None;
        let mut read_after = Duration::ZERO;
        self.recover(&mut handler).await;
        loop {
            let superseded = running.take_if(|(job, _)| handler.is_superseded(job));
            if let Some((job, change)) = superseded {
                tracing::info!(policy = job.policy, "superseded; rolling back the change");
                drop(change);
                self.recover(&mut handler).await;
                handler.memory.remove(&job.policy);
            }
            if running.is_none() {
                if handler.recover_at.is_some_and(|at| at <= Instant::now()) {
                    self.recover(&mut handler).await;
                }
                self.check_manager_if_due(&mut handler).await;
                self.report_network_if_due(&mut handler).await;
                if handler.recover_at.is_none() {
                    running = self.next_job(&mut handler).await;
                }
            }
            if reading.is_none() {
                reading = handler.view.next_read(&source, read_after);
            }
            let due = handler.next_due(running.is_some());
            tokio::select! {
                () = stop.cancelled() => break,
                event = news.next() => match event {
                    Some(event) => handler.take(event),
                    None => anyhow::bail!("watching the cluster ended"),
                },
                result = end_of_reading(&mut reading) => {
                    reading = None;
                    let is_read = handler.view.take_read(result);
                    read_after = if is_read { Duration::ZERO } else { API_RETRY_DELAY };
                }
                () = &mut installed, if !handler.is_installed => handler.is_installed = true,
                attempt = end_of(&mut running) => {
                    if let Some((job, _)) = running.take() {
                        self.finish(&mut handler, &job, attempt).await;
                    }
                }
                () = self.machine.changed() => handler.network_changed(),
                () = sleep_until(due) => {}
            }
        }
        if running.take().is_some() {
            self.recover(&mut handler).await;
        }
        Ok(())
    }

    /// Finishes an interrupted change, or schedules a retry.
    async fn recover(&self, handler: &mut HandlerState) {
        handler.recover_at = None;
        match self.machine.recover().await {
            Ok(Recovered::Nothing) => {}
            Ok(Recovered::RolledBack { label }) => {
                tracing::info!(change = label, "an interrupted change was rolled back");
            }
            Ok(Recovered::Completed { label }) => {
                tracing::info!(change = label, "a confirmed change was completed");
                handler.completed = Some(label);
            }
            Err(error) => {
                tracing::warn!("finishing an interrupted change: {:#}", anyhow::Error::new(error));
                handler.recover_at = Some(Instant::now() + RECOVERY_RETRY_DELAY);
            }
        }
    }

    /// Checks that NetworkManager responds. Without this check a hang is not detected while nothing
    /// changes on the node. The kubelet reports that this handler is not ready.
    async fn check_manager_if_due(&self, handler: &mut HandlerState) {
        if handler.check_at > Instant::now() {
            return;
        }
        let version = tokio::time::timeout(MANAGER_LIMIT, self.machine.version()).await;
        let is_silent = !matches!(version, Ok(Some(_)));
        self.metrics.manager(!is_silent);
        if is_silent != handler.is_manager_silent {
            handler.is_manager_silent = is_silent;
            match is_silent {
                true => {
                    let limit = MANAGER_LIMIT.as_secs();
                    tracing::warn!("NetworkManager does not respond within {limit} s");
                    self.service.set_ready(false);
                }
                false => {
                    tracing::info!("NetworkManager responds again");
                    handler.read_network_at = Some(Instant::now());
                }
            }
        }
        let again = if is_silent { NETWORK_READ_INTERVAL } else { MANAGER_CHECK_INTERVAL };
        handler.check_at = Instant::now() + again;
    }

    /// Reads and reports the network, if it is time.
    async fn report_network_if_due(&self, handler: &mut HandlerState) {
        let is_due = handler.read_network_at.is_some_and(|at| at <= Instant::now());
        let Some(owner) = handler.view.owner().cloned().filter(|_| is_due) else { return };
        handler.read_network_at = None;
        handler.network_read = Some(Instant::now());
        let state = match self.machine.state().await {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!("reading the network: {error}");
                // The kubelet reports it if that lasts; a short restart is not reported.
                self.service.set_ready(false);
                handler.read_network_at = Some(Instant::now() + NETWORK_READ_INTERVAL);
                return;
            }
        };
        let document = match report::report(&state) {
            Ok(document) => document,
            Err(error) => return tracing::warn!("{error}"),
        };
        handler.compare_nics(&state);
        self.metrics.network(&self.node, &document);
        // It may have been replaced by a newer one.
        handler.manager = self.machine.version().await.or(handler.manager.take());
        let seen = Seen::new(document);
        match handler.report.write(&seen, handler.manager.clone(), &owner).await {
            Ok(_) => self.service.set_ready(true),
            Err(error) => {
                tracing::warn!("{error:#}");
                handler.read_network_at = Some(Instant::now() + API_RETRY_DELAY);
            }
        }
        handler.notice_drift(&state, &self.metrics).await;
    }

    /// Performs the quick steps, and starts the next change, if any.
    async fn next_job<'a>(&'a self, handler: &mut HandlerState) -> Running<'a> {
        if !handler.is_installed || !handler.view.is_complete() {
            return None;
        }
        handler.end_rests();
        handler.follow_annotations().await;
        handler.start_retries();
        handler.write_postponed_updates().await;
        handler.return_stale_slots().await;
        for policy in handler.view.names() {
            for _ in 0..MOST_STEPS {
                let step = handler.step(&policy);
                let done = match step {
                    Step::Nothing => break,
                    Step::Evaluate => self.evaluate(handler, &policy).await,
                    Step::Accept => handler.accept(&policy).await,
                    Step::ReportPending => {
                        handler.report_phase(&policy, Phase::Pending, WAITING).await
                    }
                    Step::ReportAvailable => handler.report_available(&policy).await,
                    Step::ReturnSlot => handler.return_slot(&policy).await,
                    Step::ReportAborted => {
                        let why = "not started, because too many other nodes failed";
                        handler.report_phase(&policy, Phase::Aborted, why).await
                    }
                    Step::Leave => match self.may_revert(handler, &policy).await {
                        Ok(true) => match self.begin_revert(handler, &policy) {
                            Some(running) => return Some(running),
                            None => handler.leave_as_it_is(&policy).await,
                        },
                        // It waits for a slot.
                        Ok(false) => break,
                        Err(error) => Err(error),
                    },
                    Step::Apply => match self.begin(handler, &policy).await {
                        Ok(Some(running)) => return Some(running),
                        Ok(None) => Ok(()),
                        Err(error) => Err(error),
                    },
                };
                if let Err(error) = done {
                    tracing::warn!(policy, "{error:#}");
                    handler.memory.entry(policy.clone()).or_default().rest_until =
                        Some(Instant::now() + API_RETRY_DELAY);
                    break;
                }
            }
        }
        handler.remove_stale_state();
        self.metrics.enactments(&self.node, handler.view.enactments());
        None
    }

    /// Compares a policy with the node.
    async fn evaluate(&self, handler: &mut HandlerState, policy: &str) -> Result<()> {
        let Some(object) = handler.view.policy(policy) else { return Ok(()) };
        let generation = object.metadata.generation.unwrap_or_default();
        let Some(options) = handler.view.options(policy).transpose()? else { return Ok(()) };
        let current = self.machine.state().await?;
        let held = handler.view.reported(policy).cloned().unwrap_or_default();
        let phase = Phase::of(&held.conditions);
        let is_reported = held.policy_generation == Some(generation);
        let values = options.values.as_ref();
        let spec = object.spec.clone();
        let (rendered, mut messages) = nmstate_messages::collect(|| {
            rendering::render_with(&spec, values, &held.captured_states, &current)
        });
        let limit = object.spec.max_unavailable.clone();
        let mut memory = Memory { generation, options, limit, ..Memory::default() };
        memory.since = Some(Instant::now());
        memory.applied = held.policy_generation.filter(|_| phase == Phase::Available);
        let is_completed =
            handler.completed.take_if(|it| *it == label(policy, generation)).is_some();
        let was_begun = is_reported && phase == Phase::Progressing;
        if is_completed {
            memory.applied = Some(generation);
        }
        if !terms::are_others(held.tried_with.as_deref(), &memory.options) {
            let count = held.retry_count.get(&generation.to_string());
            memory.attempts = count.and_then(|it| u32::try_from(*it).ok()).unwrap_or_default();
        }
        let mut refused = match &rendered {
            Ok(rendered) => guard::forbidden(&current, &rendered.desired),
            Err(error) => Some(Attempt::NotRendered { why: error.to_string() }),
        };
        if let (Ok(rendered), None) = (rendered, &refused) {
            let (compared, more) =
                nmstate_messages::collect(|| rendering::differs(&rendered.desired, &current));
            messages.extend(more);
            let secrets = Secrets::of(&spec.desired_state);
            let desired = rendering::filled(&spec, memory.options.values.as_ref());
            let desired = desired.unwrap_or_default();
            let compared = compared.map_err(|why| warnings::located(&desired, &why));
            let warnings = warnings::with_messages(&desired, &messages);
            let warnings = warnings
                .into_iter()
                .map(|it| Warning { reason: secrets.hide(it.reason), path: it.path });
            let statistic = rendered.desired.statistic(&current).ok();
            let features = statistic.map(|it| names_of(&it.features)).unwrap_or_default();
            // A drift that is only reported does not cause a change when the handler starts.
            // A changed value of the node does.
            let has_same_values =
                memory.options.values.is_none() || held.desired_state == rendered.document;
            let is_left = memory.applied == Some(generation)
                && has_same_values
                && memory.options.drift == Drift::Report
                && self.machine.persistence(memory.options.persistence)
                    == Persistence::AcrossReboots;
            let keeps_revert_state = memory.options.on_delete == OnDelete::Revert;
            // Reported at once, without a slot: no node is changed before all have compared it.
            if !is_left && let Err(why) = &compared {
                refused = Some(Attempt::Invalid { why: why.clone() });
            }
            memory.evaluation = Some(Evaluated {
                features,
                warnings: warnings.collect(),
                differs: !is_left && compared.as_ref() != Ok(&false),
                refusal: compared.err(),
                revert: if keeps_revert_state {
                    held.revert_state.clone()
                } else {
                    Default::default()
                },
                rendered,
            });
        }
        // A handler that ended cannot report that the drift is over.
        memory.is_drift_reported = is_reported && reports_drift(&held);
        let checks_drift = memory.options.drift != Drift::Ignore;
        handler.memory.insert(policy.to_owned(), memory);
        if checks_drift {
            handler.read_network_at = Some(Instant::now());
        }
        if let Some(refused) = refused {
            return self.conclude(handler, policy, refused).await;
        }
        if !was_begun || is_completed {
            return Ok(());
        }
        // Interrupted changes were rolled back before anything is compared. If the node matches the
        // policy nevertheless, the change was confirmed and only the report is missing.
        match handler.memory.get_mut(policy) {
            Some(memory) if memory.evaluation.as_ref().is_some_and(|it| !it.differs) => {
                memory.applied = Some(generation);
                Ok(())
            }
            _ => self.conclude(handler, policy, Attempt::Interrupted).await,
        }
    }

    /// Starts to apply a policy.
    async fn begin<'a>(
        &'a self,
        handler: &mut HandlerState,
        policy: &str,
    ) -> Result<Option<Begun<'a>>> {
        let Some(memory) = handler.memory.get_mut(policy) else { return Ok(None) };
        let generation = memory.generation;
        let Some(evaluated) = memory.evaluation.as_mut() else { return Ok(None) };
        if let Some(why) = evaluated.refusal.clone() {
            self.conclude(handler, policy, Attempt::Invalid { why }).await?;
            return Ok(None);
        }
        let desired = evaluated.rendered.desired.clone();
        let options = memory.options.clone();
        // The previous state is known only if revert-on-delete was set before the change.
        let is_late = memory.applied.is_some() && evaluated.revert.is_empty();
        if options.on_delete == OnDelete::Revert && !(is_late && memory.applied == Some(generation))
        {
            let before = self.machine.state().await?;
            evaluated.revert = revert::way_back(&desired, &before, &evaluated.revert)?;
            if evaluated.rendered.size() + bounds::size(&evaluated.revert) > bounds::REPORT_LIMIT {
                evaluated.revert = Default::default();
                let why = "the state that reverts the policy is too large to be stored; remove \
                    revert-on-delete, or split the policy";
                self.conclude(handler, policy, Attempt::Invalid { why: why.into() }).await?;
                return Ok(None);
            }
            if is_late {
                handler.publish(policy, Reason::NoWayBack, NO_WAY_BACK).await;
            }
        }
        // Nothing is changed before the report is written: a node that cannot report would be
        // changed without a record.
        handler.report_phase(policy, Phase::Progressing, "applying the desired state").await?;
        // The policy may have been deleted or edited, or the slot ended, before that report: then other
        // nodes may have been given slots.
        handler.read_again(policy).await?;
        if handler.step(policy) != Step::Apply {
            tracing::info!(policy, generation, "not started: the policy or its slots have changed");
            return Ok(None);
        }
        tracing::info!(policy, generation, "applying");
        let job = Job {
            policy: policy.to_owned(),
            kind: JobKind::Apply { generation },
            since: Instant::now(),
        };
        let label = label(policy, generation);
        let change = async move {
            let change = Change {
                label: &label,
                desired: &desired,
                probes: &options.probes,
                persistence: self.machine.persistence(options.persistence),
                patience: options.probe_timeout.map(|it| Duration::from_secs(it.into())),
                dns_name: options.probe_dns_name.as_deref(),
                ping_target: options.probe_ping_target,
            };
            self.machine.change(&change).await
        };
        Ok(Some((job, Box::pin(change))))
    }

    /// Whether this node may revert a policy, or need not: it has a slot, and the policy is still
    /// deleted or reverted here. That is read again, because what was observed may be outdated.
    async fn may_revert(&self, handler: &mut HandlerState, policy: &str) -> Result<bool> {
        let Some(status) = handler.view.reported(policy) else { return Ok(true) };
        if status.revert_state.is_empty() || !handler.view.is_reverted(policy) {
            return Ok(true);
        }
        if handler.view.revert_slot(policy).is_none() {
            return Ok(false);
        }
        handler.read_again(policy).await?;
        Ok(handler.view.is_reverted(policy) && handler.view.revert_slot(policy).is_some())
    }

    /// Starts to revert a policy that was deleted, or that no longer applies to this node, if
    /// revert-on-delete was set in time.
    fn begin_revert<'a>(&'a self, handler: &HandlerState, policy: &str) -> Option<Begun<'a>> {
        if !handler.view.is_reverted(policy) {
            return None;
        }
        let status = handler.view.reported(policy)?;
        if status.revert_state.is_empty() {
            return None;
        }
        let desired: NetworkState = match serde_json::from_value(status.revert_state.to_value()) {
            Ok(desired) => desired,
            Err(error) => {
                tracing::warn!(policy, "reading the state that reverts the policy: {error}");
                return None;
            }
        };
        let why = if handler.view.is_deleted(policy) { "deleted" } else { "ended on this node" };
        tracing::info!(policy, "the policy was {why}; reverting it");
        let job = Job { policy: policy.to_owned(), kind: JobKind::Revert, since: Instant::now() };
        let label = label(policy, 0);
        let change = async move {
            match self.machine.state().await {
                // An interface of the policy may have become a part of br-ex since.
                Ok(current) => {
                    if let Some(refused) = guard::forbidden(&current, &desired) {
                        return refused;
                    }
                }
                Err(error) => return Attempt::NotBegun { why: error.to_string() },
            }
            let probes = Probes::default();
            let change = Change {
                label: &label,
                desired: &desired,
                probes: &probes,
                persistence: self.machine.persistence(None),
                patience: None,
                dns_name: None,
                ping_target: None,
            };
            self.machine.change(&change).await
        };
        Some((job, Box::pin(change)))
    }

    /// Records the outcome of a change.
    async fn finish(&self, handler: &mut HandlerState, job: &Job, attempt: Attempt) {
        self.metrics.attempt(&attempt, job.since.elapsed());
        if attempt.is_unfinished() {
            handler.recover_at = Some(Instant::now() + RECOVERY_RETRY_DELAY);
        }
        let ended = match job.kind {
            JobKind::Apply { .. } => self.conclude(handler, &job.policy, attempt).await,
            JobKind::Revert => self.conclude_revert(handler, &job.policy, &attempt).await,
        };
        if let Err(error) = ended {
            tracing::warn!(policy = job.policy, "{error:#}");
        }
        handler.read_network_at = Some(Instant::now());
    }

    async fn conclude_revert(
        &self,
        handler: &mut HandlerState,
        policy: &str,
        attempt: &Attempt,
    ) -> Result<()> {
        let memory = handler.memory.entry(policy.to_owned()).or_default();
        memory.reverts += 1;
        let verdict = attempt.judge_revert(memory.reverts);
        match verdict.again_after {
            Some(wait) => {
                tracing::warn!(policy, "reverting the policy: {}", verdict.message);
                memory.rest_until = Some(Instant::now() + wait);
                Ok(())
            }
            None => {
                if verdict.phase != Phase::Available {
                    tracing::error!(policy, "the policy was not reverted: {}", verdict.message);
                    handler.publish(policy, Reason::RevertFailed, &verdict.message).await;
                }
                handler.reevaluate_overlapping_policies(policy);
                handler.leave(policy).await
            }
        }
    }

    /// Reports the outcome of an attempt, and decides whether it is retried.
    async fn conclude(
        &self,
        handler: &mut HandlerState,
        policy: &str,
        attempt: Attempt,
    ) -> Result<()> {
        let attempt = attempt.without(&handler.secrets(policy));
        let memory = handler.memory.entry(policy.to_owned()).or_default();
        let number = memory.count(&attempt);
        let verdict = attempt.judge(number);
        let mut reasons = Vec::new();
        if attempt.rolled_back().is_some() && !memory.is_rollback_reported {
            memory.is_rollback_reported = true;
            reasons.push(Reason::RolledBack);
        }
        match verdict.phase {
            Phase::Available => {
                tracing::info!(policy, "{}", verdict.message);
                if std::mem::take(&mut memory.is_drift_reported) {
                    reasons.push(Reason::DriftCorrected);
                }
                memory.applied = Some(memory.generation);
                if let Some(evaluated) = memory.evaluation.as_mut() {
                    evaluated.differs = false;
                }
            }
            _ => tracing::warn!(policy, "{}", verdict.message),
        }
        if verdict.phase == Phase::Failed {
            reasons.push(Reason::ReconcileFailed);
        }
        memory.rest_until = verdict.again_after.map(|wait| Instant::now() + wait);
        let update = memory.status_update(verdict.phase, &verdict.message, verdict.failure);
        let written = handler.write(policy, update).await;
        for reason in reasons {
            handler.publish(policy, reason, &verdict.message).await;
        }
        written
    }
}

/// The end of the change in progress; never returns if there is none.
async fn end_of(running: &mut Running<'_>) -> Attempt {
    match running {
        Some((_, change)) => change.await,
        None => std::future::pending().await,
    }
}

/// The end of reading a policy; never returns if none is read.
async fn end_of_reading(reading: &mut Option<Reading>) -> ReadResult {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Features by the names that NMState gives them.
fn names_of(features: &[nmstate::NmstateFeature]) -> Vec<String> {
    let value = serde_json::to_value(features).unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
}
