//! The handler at work: it sees what happens, decides, acts and reports, in a circle.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::StreamExt;
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use nmstate::NetworkState;
use nmstate_api::annotations::{Drift, OnDelete, PolicyOptions, Probes};
use nmstate_api::{NetworkDocument, NodeName};
use node_policy::{
    Attempt, Evaluation, OwnView, Phase, Rendered, Step, guard, rendering, report, revert,
};
use tokio_util::sync::CancellationToken;

use super::enactments::{Details, Enactments, Saying};
use super::events::Events;
use super::installed;
use super::machine::{Change, Machine};
use super::node_report::NodeReport;
use super::numbers;
use super::view::{News, Refresh, View, news};
use crate::service_port::Standing;

/// After a change of the network was noticed: more of them usually follow.
const SETTLE: Duration = Duration::from_secs(1);
/// Between two looks at the network, however much happens to it.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Before something is tried again that the API server did not take.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Steps about one policy in one round. No way through them is as long.
const MOST_STEPS: usize = 8;

/// A handler, with all it works on.
#[derive(Debug)]
pub struct Handler<M> {
    pub node: NodeName,
    pub machine: M,
    pub standing: Arc<Standing>,
}

/// What is remembered of a policy while the handler lives.
#[derive(Default)]
struct Memory {
    generation: i64,
    evaluation: Option<Evaluated>,
    attempts: u32,
    /// Nothing is done before.
    rest_until: Option<Instant>,
    /// What could not be told to the API server yet.
    unsaid: Option<Saying>,
    /// Whether a drift was told already.
    is_drift_told: bool,
}

/// A policy compared with the node.
struct Evaluated {
    rendered: Rendered,
    features: Vec<String>,
    options: PolicyOptions,
    differs: bool,
    /// nmstate's refusal. It is reported by nodes that hold a slot, so that the others need not fail.
    refusal: Option<String>,
    /// How to take it back.
    revert: NetworkDocument,
}

/// A change under way.
struct Job {
    policy: String,
    kind: JobKind,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JobKind {
    Apply { generation: i64 },
    TakeBack,
}

type Begun<'a> = (Job, Pin<Box<dyn Future<Output = Attempt> + 'a>>);
type Running<'a> = Option<Begun<'a>>;

/// All that changes while the handler works.
struct Desk {
    view: View,
    memory: BTreeMap<String, Memory>,
    enactments: Enactments,
    report: NodeReport,
    events: Events,
    is_installed: bool,
    /// When to look at the network.
    look_at: Option<Instant>,
    looked: Option<Instant>,
    manager: Option<String>,
}

impl<M: Machine> Handler<M> {
    /// Works until it is asked to stop. A change under way is taken back then.
    pub async fn run(&self, client: Client, stop: &CancellationToken) -> Result<()> {
        self.machine.recover().await;
        numbers::declare(&self.standing.metrics);
        let mut news = news(&client, &self.node);
        let installed = installed::wait(&client);
        tokio::pin!(installed);
        let mut desk = Desk {
            view: View::default(),
            memory: BTreeMap::new(),
            enactments: Enactments::new(client.clone(), self.node.clone()),
            report: NodeReport::new(client.clone(), self.node.clone()),
            events: Events::new(client.clone(), &self.node),
            is_installed: false,
            look_at: Some(Instant::now()),
            looked: None,
            manager: self.machine.version().await,
        };
        let mut running: Running<'_> = None;
        loop {
            let superseded = running.take_if(|(job, _)| desk.is_superseded(job));
            if let Some((job, change)) = superseded {
                tracing::info!(
                    policy = job.policy,
                    "superseded; the change under way is taken back"
                );
                drop(change);
                self.machine.recover().await;
                desk.memory.remove(&job.policy);
            }
            if running.is_none() {
                self.look_if_due(&mut desk).await;
                running = self.next_job(&mut desk).await;
            }
            let due = desk.next_due(running.is_some());
            tokio::select! {
                () = stop.cancelled() => break,
                told = news.next() => match told {
                    Some(told) => desk.take(told),
                    None => anyhow::bail!("watching the cluster ended"),
                },
                () = &mut installed, if !desk.is_installed => desk.is_installed = true,
                attempt = end_of(&mut running) => {
                    if let Some((job, _)) = running.take() {
                        self.finish(&mut desk, &job, &attempt).await;
                    }
                }
                () = self.machine.changed() => desk.network_changed(),
                () = sleep_until(due) => {}
            }
        }
        if running.take().is_some() {
            self.machine.recover().await;
        }
        Ok(())
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
                desk.look_at = Some(Instant::now() + LOOK_AGAIN);
                return;
            }
        };
        let document = match report::report(&state) {
            Ok(document) => document,
            Err(error) => return tracing::warn!("{error}"),
        };
        numbers::network(&self.standing.metrics, &self.node, &document);
        match desk.report.write(&document, desk.manager.clone(), &owner).await {
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
        desk.say_what_is_unsaid().await;
        for policy in desk.view.names() {
            for _ in 0..MOST_STEPS {
                let step = desk.step(&policy);
                let done = match step {
                    Step::Nothing => break,
                    Step::Evaluate => self.evaluate(desk, &policy).await,
                    Step::Accept => desk.accept(&policy).await,
                    Step::ReportPending => {
                        desk.say(&policy, Phase::Pending, "waiting for progressing nodes").await
                    }
                    Step::ReportAvailable => {
                        let verdict = Attempt::NothingDiffers.judge(1);
                        desk.say(&policy, Phase::Available, &verdict.message).await
                    }
                    Step::ReportAborted => {
                        let why = "not begun, as too many other nodes failed";
                        desk.say(&policy, Phase::Aborted, why).await
                    }
                    Step::Leave => match self.take_back(desk, &policy) {
                        Some(running) => return Some(running),
                        None => desk.leave(&policy).await,
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
        let options = PolicyOptions::parse(object.metadata.annotations.as_ref())?;
        let current = self.machine.state().await?;
        let held = desk.view.enactment(policy).and_then(|it| it.status.clone()).unwrap_or_default();
        let rendered = rendering::render(&object.spec, &held.captured_states, &current);
        let mut memory = Memory { generation, ..Memory::default() };
        memory.attempts = held
            .retry_count
            .get(&generation.to_string())
            .and_then(|count| u32::try_from(*count).ok())
            .unwrap_or_default();
        let refused = match &rendered {
            Ok(rendered) => guard::forbidden(&current, &rendered.desired),
            Err(error) => Some(Attempt::NotRendered { why: error.to_string() }),
        };
        if let (Ok(rendered), None) = (rendered, &refused) {
            let compared = rendering::differs(&rendered.desired, &current);
            let statistic = rendered.desired.statistic(&current).ok();
            let features = statistic.map(|it| names_of(&it.features)).unwrap_or_default();
            memory.evaluation = Some(Evaluated {
                features,
                options,
                differs: compared.as_ref().is_ok_and(|differs| *differs) || compared.is_err(),
                refusal: compared.err(),
                revert: held.revert_state.clone(),
                rendered,
            });
        }
        let was_under_way = held.policy_generation == Some(generation)
            && Phase::of(&held.conditions) == Phase::Progressing;
        desk.memory.insert(policy.to_owned(), memory);
        if let Some(refused) = refused {
            return self.conclude(desk, policy, &refused).await;
        }
        // The handler ended in the middle of an attempt.
        if was_under_way {
            return self.conclude(desk, policy, &Attempt::Interrupted).await;
        }
        Ok(())
    }

    /// Begins to make a policy true.
    async fn begin<'a>(&'a self, desk: &mut Desk, policy: &str) -> Result<Option<Begun<'a>>> {
        let Some(memory) = desk.memory.get_mut(policy) else { return Ok(None) };
        let generation = memory.generation;
        let Some(evaluated) = memory.evaluation.as_mut() else { return Ok(None) };
        if let Some(why) = evaluated.refusal.clone() {
            self.conclude(desk, policy, &Attempt::Invalid { why }).await?;
            return Ok(None);
        }
        let desired = evaluated.rendered.desired.clone();
        let options = evaluated.options.clone();
        if options.on_delete == OnDelete::Revert {
            let before = self.machine.state().await?;
            evaluated.revert = revert::way_back(&desired, &before, &evaluated.revert)?;
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
        let change = async move {
            let change = Change {
                desired: &desired,
                probes: &options.probes,
                persistence: options.persistence,
            };
            self.machine.change(&change).await
        };
        Ok(Some((job, Box::pin(change))))
    }

    /// Begins to take a policy back that was deleted, when it asked for that.
    fn take_back<'a>(&'a self, desk: &Desk, policy: &str) -> Option<Begun<'a>> {
        if desk.view.policy(policy).is_some() {
            return None;
        }
        let status = desk.view.enactment(policy)?.status.as_ref()?;
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
        tracing::info!(policy, "the policy was deleted; it is taken back");
        let job = Job { policy: policy.to_owned(), kind: JobKind::TakeBack, since: Instant::now() };
        let change = async move {
            let probes = Probes::default();
            let change =
                Change { desired: &desired, probes: &probes, persistence: Default::default() };
            self.machine.change(&change).await
        };
        Some((job, Box::pin(change)))
    }

    /// Takes note of how a change ended.
    async fn finish(&self, desk: &mut Desk, job: &Job, attempt: &Attempt) {
        numbers::attempt(&self.standing.metrics, attempt, job.since.elapsed());
        let ended = match job.kind {
            JobKind::Apply { .. } => self.conclude(desk, &job.policy, attempt).await,
            JobKind::TakeBack => self.taken_back(desk, &job.policy, attempt).await,
        };
        if let Err(error) = ended {
            tracing::warn!(policy = job.policy, "{error:#}");
        }
        desk.look_at = Some(Instant::now());
    }

    async fn taken_back(&self, desk: &mut Desk, policy: &str, attempt: &Attempt) -> Result<()> {
        let memory = desk.memory.entry(policy.to_owned()).or_default();
        memory.attempts += 1;
        let verdict = attempt.judge(memory.attempts);
        match verdict.again_after {
            Some(wait) => {
                tracing::warn!(policy, "taking the policy back: {}", verdict.message);
                memory.rest_until = Some(Instant::now() + wait);
                Ok(())
            }
            None => {
                if verdict.phase != Phase::Available {
                    tracing::error!(policy, "the policy was not taken back: {}", verdict.message);
                    desk.events.failed(policy, "RevertFailed", &verdict.message).await;
                }
                desk.leave(policy).await
            }
        }
    }

    /// Reports the end of an attempt, and decides whether there is another one.
    async fn conclude(&self, desk: &mut Desk, policy: &str, attempt: &Attempt) -> Result<()> {
        let memory = desk.memory.entry(policy.to_owned()).or_default();
        memory.attempts += 1;
        let verdict = attempt.judge(memory.attempts);
        match verdict.phase {
            Phase::Available => {
                tracing::info!(policy, "{}", verdict.message);
                memory.is_drift_told = false;
                if let Some(evaluated) = memory.evaluation.as_mut() {
                    evaluated.differs = false;
                }
            }
            _ => tracing::warn!(policy, "{}", verdict.message),
        }
        memory.rest_until = verdict.again_after.map(|wait| Instant::now() + wait);
        let saying = memory.saying(verdict.phase, &verdict.message, verdict.failure);
        if verdict.phase == Phase::Failed {
            desk.events.failed(policy, "ReconcileFailed", &verdict.message).await;
        }
        desk.write(policy, saying).await
    }
}

impl Memory {
    fn saying(&self, phase: Phase, message: &str, failure: Option<nmstate_api::Failure>) -> Saying {
        let evaluated = self.evaluation.as_ref();
        Saying {
            generation: self.generation,
            phase,
            message: message.to_owned(),
            failure,
            details: Details {
                desired: evaluated.map(|it| it.rendered.document.clone()).unwrap_or_default(),
                captured: evaluated.map(|it| it.rendered.captured.clone()).unwrap_or_default(),
                features: evaluated.map(|it| it.features.clone()).unwrap_or_default(),
                // A success says how it stands, not how often it was tried.
                attempts: if phase == Phase::Available { 0 } else { self.attempts },
                revert: evaluated.map(|it| it.revert.clone()).unwrap_or_default(),
            },
        }
    }
}

impl Desk {
    fn take(&mut self, told: News) {
        if self.view.take(told) == Refresh::Now {
            self.report.forget();
            self.look_at = Some(Instant::now());
        }
    }

    /// The network changed: it is looked at once things have calmed down.
    fn network_changed(&mut self) {
        let earliest = self.looked.map(|looked| looked + LOOK_AGAIN);
        let soon = Instant::now() + SETTLE;
        let at = earliest.map_or(soon, |earliest| earliest.max(soon));
        self.look_at = Some(self.look_at.map_or(at, |planned| planned.min(at)));
    }

    /// When to go on although nothing happens. During a change only its end matters.
    fn next_due(&self, is_busy: bool) -> Option<Instant> {
        if is_busy {
            return None;
        }
        let rests = self.memory.values().filter_map(|memory| memory.rest_until);
        let look_at = self.look_at.filter(|_| self.view.owner().is_some());
        rests.chain(look_at).min()
    }

    fn is_superseded(&self, job: &Job) -> bool {
        match job.kind {
            JobKind::TakeBack => false,
            JobKind::Apply { generation } => {
                let now = self.view.policy_view(&job.policy, Timestamp::now());
                !now.is_some_and(|policy| policy.is_for_us && policy.generation == generation)
            }
        }
    }

    /// What to do next about a policy.
    fn step(&self, policy: &str) -> Step {
        let view = self.view.policy_view(policy, Timestamp::now());
        let annotations = self.view.policy(policy).map(|it| it.metadata.annotations.as_ref());
        // The coordinator reports annotations that cannot be honoured.
        if annotations.is_some_and(|it| PolicyOptions::parse(it).is_err()) {
            return Step::Nothing;
        }
        let (phase, generation) = self.view.reported(policy);
        let has_enactment = self.view.enactment(policy).is_some();
        let memory = self.memory.get(policy);
        let memory =
            memory.filter(|it| view.as_ref().is_none_or(|view| view.generation == it.generation));
        let mut is_resting = false;
        let mut evaluation = None;
        if let Some(memory) = memory {
            if memory.unsaid.is_some() {
                return Step::Nothing;
            }
            is_resting = memory.rest_until.is_some();
            evaluation = memory
                .evaluation
                .as_ref()
                .map(|it| Evaluation { generation: memory.generation, differs: it.differs });
        }
        if is_resting {
            return Step::Nothing;
        }
        let own = OwnView { has_enactment, phase, generation, evaluation, is_resting };
        node_policy::step(view.as_ref(), &own)
    }

    async fn accept(&mut self, policy: &str) -> Result<()> {
        let Some(owner) = self.view.owner().cloned() else { return Ok(()) };
        let made = self.enactments.create(policy, &owner).await?;
        self.view.wrote(made);
        Ok(())
    }

    async fn leave(&mut self, policy: &str) -> Result<()> {
        if let Some(name) = self.view.enactment(policy).map(ResourceExt::name_any) {
            self.enactments.delete(&name).await?;
            self.view.deleted(&name);
        }
        self.memory.remove(policy);
        Ok(())
    }

    async fn say(&mut self, policy: &str, phase: Phase, message: &str) -> Result<()> {
        let Some(memory) = self.memory.get(policy) else { return Ok(()) };
        let saying = memory.saying(phase, message, None);
        self.write_now(policy, &saying).await
    }

    /// Writes a report; what cannot be written now is written later.
    async fn write(&mut self, policy: &str, saying: Saying) -> Result<()> {
        let written = self.write_now(policy, &saying).await;
        if written.is_err()
            && let Some(memory) = self.memory.get_mut(policy)
        {
            memory.unsaid = Some(saying);
            let soon = Instant::now() + ASK_AGAIN;
            memory.rest_until = Some(memory.rest_until.map_or(soon, |until| until.min(soon)));
        }
        written
    }

    async fn write_now(&mut self, policy: &str, saying: &Saying) -> Result<()> {
        if self.view.enactment(policy).is_none() {
            self.accept(policy).await?;
        }
        let Some(held) = self.view.enactment(policy).cloned() else { return Ok(()) };
        let written = self.enactments.say(held, saying).await?;
        self.view.wrote(written);
        Ok(())
    }

    /// What is over is over for the whole round, so that nothing falls between two looks at the
    /// clock.
    fn end_rests(&mut self) {
        let now = Instant::now();
        for memory in self.memory.values_mut() {
            memory.rest_until = memory.rest_until.filter(|until| *until > now);
        }
    }

    async fn say_what_is_unsaid(&mut self) {
        let due = self.memory.iter_mut().filter(|(_, memory)| memory.rest_until.is_none());
        let due: Vec<(String, Saying)> = due
            .filter_map(|(policy, memory)| Some((policy.clone(), memory.unsaid.take()?)))
            .collect();
        for (policy, saying) in due {
            if let Err(error) = self.write(&policy, saying).await {
                tracing::warn!(policy, "{error:#}");
            }
        }
    }

    /// Memories of policies that are neither there nor reported about.
    fn forget_what_is_gone(&mut self) {
        let names = self.view.names();
        self.memory.retain(|policy, _| names.binary_search(policy).is_ok());
    }

    /// Policies that were made true and no longer are.
    async fn notice_drift(&mut self, state: &NetworkState, standing: &Standing) {
        let mut drifted = 0_u32;
        let mut told = Vec::new();
        for (policy, memory) in &mut self.memory {
            let Some(evaluated) = memory.evaluation.as_mut() else { continue };
            if evaluated.options.drift == Drift::Ignore || evaluated.differs {
                continue;
            }
            let differs = rendering::differs(&evaluated.rendered.desired, state);
            if differs != Ok(true) {
                memory.is_drift_told = false;
                continue;
            }
            drifted += 1;
            if !memory.is_drift_told {
                memory.is_drift_told = true;
                told.push(policy.clone());
            }
            if evaluated.options.drift == Drift::Enforce {
                evaluated.differs = true;
            }
        }
        numbers::drift(&standing.metrics, drifted);
        for policy in told {
            tracing::warn!(policy, "the network is no longer what the policy made it");
            self.events
                .failed(&policy, "Drift", "the network is no longer what the policy made it")
                .await;
        }
    }
}

/// The end of the change under way; for ever when there is none.
async fn end_of(running: &mut Running<'_>) -> Attempt {
    match running {
        Some((_, change)) => change.await,
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
