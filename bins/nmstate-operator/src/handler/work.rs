//! The handler at work: it sees what happens, decides, acts and reports, in a circle.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::StreamExt;
use kube::Client;
use nmstate::NetworkState;
use nmstate_api::NodeName;
use nmstate_api::annotations::{Drift, OnDelete, Persistence, Probes};
use node_network::Recovered;
use node_policy::limit::MaxUnavailable;
use node_policy::revert::Turn;
use node_policy::{Attempt, Phase, Step, bounds, guard, rendering, report, revert, terms};
use tokio_util::sync::CancellationToken;

use super::annotations::NO_WAY_BACK;
use super::desk::{
    ASK_AGAIN, CHECK_AGAIN, Desk, Evaluated, Job, JobKind, LOOK_AGAIN, Memory, label,
};
use super::drift::says_drifted;
use super::installed;
use super::machine::{Change, Machine};
use super::node_report::Seen;
use super::numbers;
use super::policies::{ReadResult, Reading};
use super::view::news;
use crate::events::Reason;
use crate::service_port::Standing;

/// For who waits longer than a moment.
const WAITING: &str = "waiting for its turn: no more nodes are changed at a time than the policy \
    allows, and policies come one after the other";

/// NetworkManager tells its version within this time, or hangs.
const MANAGER_LIMIT: Duration = Duration::from_secs(10);

/// Before an interrupted change is tried to be finished again.
const RECOVER_AGAIN: Duration = Duration::from_secs(5);

/// Steps about one policy in one round. No way through them is as long.
const MOST_STEPS: usize = 8;

/// A handler, with all it works on.
#[derive(Debug)]
pub struct Handler<M> {
    pub node: NodeName,
    pub machine: M,
    pub standing: Arc<Standing>,
}

type Begun<'a> = (Job, Pin<Box<dyn Future<Output = Attempt> + 'a>>);
type Running<'a> = Option<Begun<'a>>;

impl<M: Machine> Handler<M> {
    /// Works until it is asked to stop. A change under way is taken back then.
    pub async fn run(&self, client: Client, stop: &CancellationToken) -> Result<()> {
        numbers::declare(&self.standing.metrics);
        let mut news = news(&client, &self.node);
        let installed = installed::wait(&client);
        tokio::pin!(installed);
        let manager = self.machine.version().await;
        let mut desk = Desk::new(&client, &self.node, manager);
        let mut running: Running<'_> = None;
        let mut reading: Option<Reading> = None;
        let mut read_after = Duration::ZERO;
        self.recover(&mut desk).await;
        loop {
            let superseded = running.take_if(|(job, _)| desk.is_superseded(job));
            if let Some((job, change)) = superseded {
                tracing::info!(policy = job.policy, "superseded; rolling back the change");
                drop(change);
                self.recover(&mut desk).await;
                desk.memory.remove(&job.policy);
            }
            if running.is_none() {
                if desk.recover_at.is_some_and(|at| at <= Instant::now()) {
                    self.recover(&mut desk).await;
                }
                self.check_manager_if_due(&mut desk).await;
                self.look_if_due(&mut desk).await;
                if desk.recover_at.is_none() {
                    running = self.next_job(&mut desk).await;
                }
            }
            if reading.is_none() {
                reading = desk.view.next_read(&client, read_after);
            }
            let due = desk.next_due(running.is_some());
            tokio::select! {
                () = stop.cancelled() => break,
                told = news.next() => match told {
                    Some(told) => desk.take(told),
                    None => anyhow::bail!("watching the cluster ended"),
                },
                result = end_of_reading(&mut reading) => {
                    reading = None;
                    let is_read = desk.view.take_read(result);
                    read_after = if is_read { Duration::ZERO } else { ASK_AGAIN };
                }
                () = &mut installed, if !desk.is_installed => desk.is_installed = true,
                attempt = end_of(&mut running) => {
                    if let Some((job, _)) = running.take() {
                        self.finish(&mut desk, &job, attempt).await;
                    }
                }
                () = self.machine.changed() => desk.network_changed(),
                () = sleep_until(due) => {}
            }
        }
        if running.take().is_some() {
            self.recover(&mut desk).await;
        }
        Ok(())
    }

    /// Finishes an interrupted change, or plans to try again.
    async fn recover(&self, desk: &mut Desk) {
        desk.recover_at = None;
        match self.machine.recover().await {
            Ok(Recovered::Nothing) => {}
            Ok(Recovered::RolledBack { label }) => {
                tracing::info!(change = label, "an interrupted change was rolled back");
            }
            Ok(Recovered::Completed { label }) => {
                tracing::info!(change = label, "a confirmed change was completed");
                desk.completed = Some(label);
            }
            Err(error) => {
                tracing::warn!("finishing an interrupted change: {:#}", anyhow::Error::new(error));
                desk.recover_at = Some(Instant::now() + RECOVER_AGAIN);
            }
        }
    }

    /// Asks NetworkManager whether it responds. Nothing else would notice that it hangs as long as
    /// nothing happens on the node; the kubelet tells the cluster that this handler is not ready.
    async fn check_manager_if_due(&self, desk: &mut Desk) {
        if desk.check_at > Instant::now() {
            return;
        }
        let version = tokio::time::timeout(MANAGER_LIMIT, self.machine.version()).await;
        let is_silent = !matches!(version, Ok(Some(_)));
        numbers::manager(&self.standing.metrics, !is_silent);
        if is_silent != desk.is_manager_silent {
            desk.is_manager_silent = is_silent;
            match is_silent {
                true => {
                    let limit = MANAGER_LIMIT.as_secs();
                    tracing::warn!("NetworkManager does not respond within {limit} s");
                    self.standing.set_ready(false);
                }
                false => {
                    tracing::info!("NetworkManager responds again");
                    desk.look_at = Some(Instant::now());
                }
            }
        }
        let again = if is_silent { LOOK_AGAIN } else { CHECK_AGAIN };
        desk.check_at = Instant::now() + again;
    }

    /// Reads the network and reports it, when it is time.
    async fn look_if_due(&self, desk: &mut Desk) {
        let is_due = desk.look_at.is_some_and(|at| at <= Instant::now());
        let Some(owner) = desk.view.owner().cloned().filter(|_| is_due) else { return };
        desk.look_at = None;
        desk.looked = Some(Instant::now());
        let state = match self.machine.state().await {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!("reading the network: {error}");
                // The kubelet tells the cluster if that lasts; a short restart goes unnoticed.
                self.standing.set_ready(false);
                desk.look_at = Some(Instant::now() + LOOK_AGAIN);
                return;
            }
        };
        let document = match report::report(&state) {
            Ok(document) => document,
            Err(error) => return tracing::warn!("{error}"),
        };
        desk.see_nics(&state);
        numbers::network(&self.standing.metrics, &self.node, &document);
        // It may have been replaced by a newer one.
        desk.manager = self.machine.version().await.or(desk.manager.take());
        let seen = Seen::new(document);
        match desk.report.write(&seen, desk.manager.clone(), &owner).await {
            Ok(_) => self.standing.set_ready(true),
            Err(error) => {
                tracing::warn!("{error:#}");
                desk.look_at = Some(Instant::now() + ASK_AGAIN);
            }
        }
        desk.notice_drift(&state, &self.standing).await;
    }

    /// Does all that is quick, and begins the next change if there is one.
    async fn next_job<'a>(&'a self, desk: &mut Desk) -> Running<'a> {
        if !desk.is_installed || !desk.view.is_complete() {
            return None;
        }
        desk.end_rests();
        desk.follow_annotations().await;
        desk.start_retries();
        desk.say_what_is_unsaid().await;
        for policy in desk.view.names() {
            for _ in 0..MOST_STEPS {
                let step = desk.step(&policy);
                let done = match step {
                    Step::Nothing => break,
                    Step::Evaluate => self.evaluate(desk, &policy).await,
                    Step::Accept => desk.accept(&policy).await,
                    Step::ReportPending => desk.say(&policy, Phase::Pending, WAITING).await,
                    Step::ReportAvailable => desk.say_available(&policy).await,
                    Step::ReturnSlot => desk.return_slot(&policy).await,
                    Step::ReportAborted => {
                        let why = "not begun, as too many other nodes failed";
                        desk.say(&policy, Phase::Aborted, why).await
                    }
                    Step::Leave => match self.may_revert(desk, &policy).await {
                        Ok(true) => match self.take_back(desk, &policy) {
                            Some(running) => return Some(running),
                            None => desk.leave_as_it_is(&policy).await,
                        },
                        // It rests until its turn may have come.
                        Ok(false) => break,
                        Err(error) => Err(error),
                    },
                    Step::Apply => match self.begin(desk, &policy).await {
                        Ok(Some(running)) => return Some(running),
                        Ok(None) => Ok(()),
                        Err(error) => Err(error),
                    },
                };
                if let Err(error) = done {
                    tracing::warn!(policy, "{error:#}");
                    desk.memory.entry(policy.clone()).or_default().rest_until =
                        Some(Instant::now() + ASK_AGAIN);
                    break;
                }
            }
        }
        desk.forget_what_is_gone();
        numbers::enactments(&self.standing.metrics, &self.node, desk.view.enactments());
        None
    }

    /// Compares a policy with the node.
    async fn evaluate(&self, desk: &mut Desk, policy: &str) -> Result<()> {
        let Some(object) = desk.view.policy(policy) else { return Ok(()) };
        let generation = object.metadata.generation.unwrap_or_default();
        let Some(options) = desk.view.options(policy).transpose()? else { return Ok(()) };
        let current = self.machine.state().await?;
        let held = desk.view.reported(policy).cloned().unwrap_or_default();
        let phase = Phase::of(&held.conditions);
        let is_reported = held.policy_generation == Some(generation);
        let values = options.values.as_ref();
        let rendered =
            rendering::render_with(&object.spec, values, &held.captured_states, &current);
        let limit = object.spec.max_unavailable.clone();
        let mut memory = Memory { generation, options, limit, ..Memory::default() };
        memory.since = Some(Instant::now());
        memory.made = held.policy_generation.filter(|_| phase == Phase::Available);
        let is_completed = desk.completed.take_if(|it| *it == label(policy, generation)).is_some();
        let was_begun = is_reported && phase == Phase::Progressing;
        if is_completed {
            memory.made = Some(generation);
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
            let compared = rendering::differs(&rendered.desired, &current);
            let statistic = rendered.desired.statistic(&current).ok();
            let features = statistic.map(|it| names_of(&it.features)).unwrap_or_default();
            // A drift that is only to be reported is no reason to act for a handler that starts.
            // Other values of the node are none.
            let has_same_values =
                memory.options.values.is_none() || held.desired_state == rendered.document;
            let is_left = memory.made == Some(generation)
                && has_same_values
                && memory.options.drift == Drift::Report
                && self.machine.persistence(memory.options.persistence)
                    == Persistence::AcrossReboots;
            let keeps_way_back = memory.options.on_delete == OnDelete::Revert;
            // Reported at once, without a slot: no node is changed before all have compared it.
            if !is_left && let Err(why) = &compared {
                refused = Some(Attempt::Invalid { why: why.clone() });
            }
            memory.evaluation = Some(Evaluated {
                features,
                differs: !is_left && compared.as_ref() != Ok(&false),
                refusal: compared.err(),
                revert: if keeps_way_back { held.revert_state.clone() } else { Default::default() },
                rendered,
            });
        }
        // A handler that ended cannot tell that the network is right again.
        memory.is_drift_told = is_reported && says_drifted(&held);
        let looks = memory.options.drift != Drift::Ignore;
        desk.memory.insert(policy.to_owned(), memory);
        if looks {
            desk.look_at = Some(Instant::now());
        }
        if let Some(refused) = refused {
            return self.conclude(desk, policy, refused).await;
        }
        if !was_begun || is_completed {
            return Ok(());
        }
        // Interrupted changes were rolled back before anything is compared. If the node is as the
        // policy wants it nevertheless, the change was confirmed and only the report is missing.
        match desk.memory.get_mut(policy) {
            Some(memory) if memory.evaluation.as_ref().is_some_and(|it| !it.differs) => {
                memory.made = Some(generation);
                Ok(())
            }
            _ => self.conclude(desk, policy, Attempt::Interrupted).await,
        }
    }

    /// Begins to make a policy true.
    async fn begin<'a>(&'a self, desk: &mut Desk, policy: &str) -> Result<Option<Begun<'a>>> {
        let Some(memory) = desk.memory.get_mut(policy) else { return Ok(None) };
        let generation = memory.generation;
        let Some(evaluated) = memory.evaluation.as_mut() else { return Ok(None) };
        if let Some(why) = evaluated.refusal.clone() {
            self.conclude(desk, policy, Attempt::Invalid { why }).await?;
            return Ok(None);
        }
        let desired = evaluated.rendered.desired.clone();
        let options = memory.options.clone();
        // What was there before the policy is known only to who asked in time.
        let is_late = memory.made.is_some() && evaluated.revert.is_empty();
        if options.on_delete == OnDelete::Revert && !(is_late && memory.made == Some(generation)) {
            let before = self.machine.state().await?;
            evaluated.revert = revert::way_back(&desired, &before, &evaluated.revert)?;
            if evaluated.rendered.size() + bounds::size(&evaluated.revert) > bounds::REPORT_LIMIT {
                evaluated.revert = Default::default();
                let why = "what would take it back is too large to be kept; do without \
                    revert-on-delete, or divide it among several policies";
                self.conclude(desk, policy, Attempt::Invalid { why: why.into() }).await?;
                return Ok(None);
            }
            if is_late {
                desk.tell(policy, Reason::NoWayBack, NO_WAY_BACK).await;
            }
        }
        // Nothing is touched before the API server knows: a node that cannot tell it would be
        // changed without anybody seeing.
        desk.say(policy, Phase::Progressing, "applying the desired state").await?;
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
            };
            self.machine.change(&change).await
        };
        Ok(Some((job, Box::pin(change))))
    }

    /// Whether it is the turn of this node to revert a policy that was deleted. No coordinator gives
    /// slots for it any more: nodes take turns in the order of their names, by the reports that are
    /// left. Whatever needs no turn may always be done.
    async fn may_revert(&self, desk: &mut Desk, policy: &str) -> Result<bool> {
        let Some(status) = desk.view.reported(policy) else { return Ok(true) };
        if status.revert_state.is_empty() || !desk.view.is_reverted(policy) {
            return Ok(true);
        }
        let limit = MaxUnavailable::parse(status.revert_max_unavailable.as_ref());
        let mut left = desk.enactments.nodes(policy).await?;
        // Of a policy that is there, only some nodes are reverted.
        if let Some(Ok(options)) =
            desk.view.options(policy).filter(|_| !desk.view.is_deleted(policy))
        {
            left.retain(|node| options.is_reverted_on(node));
        }
        let memory = desk.memory.entry(policy.to_owned()).or_default();
        let waited = memory.revert_since.get_or_insert_with(Instant::now).elapsed();
        let turn = revert::turn(self.node.as_str(), &left, limit.unwrap_or_default(), waited);
        if let Turn::In(wait) = turn {
            memory.rest_until = Some(Instant::now() + wait);
        }
        Ok(turn == Turn::Now)
    }

    /// Begins to revert a policy that was deleted, or that is reverted on this node, when it asked
    /// for that in time.
    fn take_back<'a>(&'a self, desk: &Desk, policy: &str) -> Option<Begun<'a>> {
        if !desk.view.is_reverted(policy) {
            return None;
        }
        let status = desk.view.reported(policy)?;
        if status.revert_state.is_empty() {
            return None;
        }
        let desired: NetworkState = match serde_json::from_value(status.revert_state.to_value()) {
            Ok(desired) => desired,
            Err(error) => {
                tracing::warn!(policy, "how to take the policy back cannot be read: {error}");
                return None;
            }
        };
        let why = if desk.view.is_deleted(policy) { "deleted" } else { "ended on this node" };
        tracing::info!(policy, "the policy was {why}; reverting it");
        let job = Job { policy: policy.to_owned(), kind: JobKind::TakeBack, since: Instant::now() };
        let label = label(policy, 0);
        let change = async move {
            match self.machine.state().await {
                // What the policy made may have become a part of br-ex since.
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
            };
            self.machine.change(&change).await
        };
        Some((job, Box::pin(change)))
    }

    /// Takes note of how a change ended.
    async fn finish(&self, desk: &mut Desk, job: &Job, attempt: Attempt) {
        numbers::attempt(&self.standing.metrics, &attempt, job.since.elapsed());
        if attempt.is_unfinished() {
            desk.recover_at = Some(Instant::now() + RECOVER_AGAIN);
        }
        let ended = match job.kind {
            JobKind::Apply { .. } => self.conclude(desk, &job.policy, attempt).await,
            JobKind::TakeBack => self.taken_back(desk, &job.policy, &attempt).await,
        };
        if let Err(error) = ended {
            tracing::warn!(policy = job.policy, "{error:#}");
        }
        desk.look_at = Some(Instant::now());
    }

    async fn taken_back(&self, desk: &mut Desk, policy: &str, attempt: &Attempt) -> Result<()> {
        let memory = desk.memory.entry(policy.to_owned()).or_default();
        memory.reverts += 1;
        let verdict = attempt.judge_revert(memory.reverts);
        match verdict.again_after {
            Some(wait) => {
                tracing::warn!(policy, "taking the policy back: {}", verdict.message);
                memory.rest_until = Some(Instant::now() + wait);
                Ok(())
            }
            None => {
                if verdict.phase != Phase::Available {
                    tracing::error!(policy, "the policy was not reverted: {}", verdict.message);
                    desk.tell(policy, Reason::RevertFailed, &verdict.message).await;
                }
                desk.compare_again_what_shares_parts_with(policy);
                desk.leave(policy).await
            }
        }
    }

    /// Reports the end of an attempt, and decides whether there is another one.
    async fn conclude(&self, desk: &mut Desk, policy: &str, attempt: Attempt) -> Result<()> {
        let attempt = attempt.without(&desk.secrets(policy));
        let memory = desk.memory.entry(policy.to_owned()).or_default();
        memory.attempts += 1;
        let verdict = attempt.judge(memory.attempts);
        let mut told = Vec::new();
        if attempt.taken_back().is_some() && !memory.is_rollback_told {
            memory.is_rollback_told = true;
            told.push(Reason::RolledBack);
        }
        match verdict.phase {
            Phase::Available => {
                tracing::info!(policy, "{}", verdict.message);
                if std::mem::take(&mut memory.is_drift_told) {
                    told.push(Reason::DriftCorrected);
                }
                memory.made = Some(memory.generation);
                if let Some(evaluated) = memory.evaluation.as_mut() {
                    evaluated.differs = false;
                }
            }
            _ => tracing::warn!(policy, "{}", verdict.message),
        }
        if verdict.phase == Phase::Failed {
            told.push(Reason::ReconcileFailed);
        }
        memory.rest_until = verdict.again_after.map(|wait| Instant::now() + wait);
        let saying = memory.saying(verdict.phase, &verdict.message, verdict.failure);
        let written = desk.write(policy, saying).await;
        for reason in told {
            desk.tell(policy, reason, &verdict.message).await;
        }
        written
    }
}

/// The end of the change under way; for ever when there is none.
async fn end_of(running: &mut Running<'_>) -> Attempt {
    match running {
        Some((_, change)) => change.await,
        None => std::future::pending().await,
    }
}

/// The end of reading a policy; for ever when none is read.
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
