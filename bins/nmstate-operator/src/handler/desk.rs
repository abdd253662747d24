//! What a handler knows and remembers while it works, and what it writes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use nmstate::NetworkState;
use nmstate_api::annotations::{Drift, PolicyOptions};
use nmstate_api::{NetworkDocument, NodeName};
use node_policy::{Evaluation, OwnView, Phase, Rendered, Step, rendering};

use super::enactments::{Details, Enactments, Saying};
use super::events::Events;
use super::node_report::NodeReport;
use super::numbers;
use super::view::{News, Refresh, View};
use crate::service_port::Standing;

/// After a change of the network was noticed: more of them usually follow.
const SETTLE: Duration = Duration::from_secs(1);
/// Between two looks at the network, however much happens to it.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Before something is tried again that the API server did not take.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(2);

/// What is remembered of a policy while the handler lives.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) generation: i64,
    pub(super) evaluation: Option<Evaluated>,
    pub(super) attempts: u32,
    /// Nothing is done before.
    pub(super) rest_until: Option<Instant>,
    /// What could not be told to the API server yet.
    pub(super) unsaid: Option<Saying>,
    /// Whether a drift was told already.
    pub(super) is_drift_told: bool,
}

/// A policy compared with the node.
pub(super) struct Evaluated {
    pub(super) rendered: Rendered,
    pub(super) features: Vec<String>,
    pub(super) options: PolicyOptions,
    pub(super) differs: bool,
    /// nmstate's refusal. It is reported by nodes that hold a slot, so that the others need not fail.
    pub(super) refusal: Option<String>,
    /// How to take it back.
    pub(super) revert: NetworkDocument,
}

/// A change under way.
pub(super) struct Job {
    pub(super) policy: String,
    pub(super) kind: JobKind,
    pub(super) since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum JobKind {
    Apply { generation: i64 },
    TakeBack,
}

/// All that changes while the handler works.
pub(super) struct Desk {
    pub(super) view: View,
    pub(super) memory: BTreeMap<String, Memory>,
    pub(super) enactments: Enactments,
    pub(super) report: NodeReport,
    pub(super) events: Events,
    pub(super) is_installed: bool,
    /// When to look at the network.
    pub(super) look_at: Option<Instant>,
    pub(super) looked: Option<Instant>,
    pub(super) manager: Option<String>,
}

impl Memory {
    pub(super) fn saying(
        &self,
        phase: Phase,
        message: &str,
        failure: Option<nmstate_api::Failure>,
    ) -> Saying {
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
    pub(super) fn new(client: &Client, node: &NodeName, manager: Option<String>) -> Self {
        Self {
            view: View::default(),
            memory: BTreeMap::new(),
            enactments: Enactments::new(client.clone(), node.clone()),
            report: NodeReport::new(client.clone(), node.clone()),
            events: Events::new(client.clone(), node),
            is_installed: false,
            look_at: Some(Instant::now()),
            looked: None,
            manager,
        }
    }

    pub(super) fn take(&mut self, told: News) {
        if self.view.take(told) == Refresh::Now {
            self.report.forget();
            self.look_at = Some(Instant::now());
        }
    }

    /// The network changed: it is looked at once things have calmed down.
    pub(super) fn network_changed(&mut self) {
        let earliest = self.looked.map(|looked| looked + LOOK_AGAIN);
        let soon = Instant::now() + SETTLE;
        let at = earliest.map_or(soon, |earliest| earliest.max(soon));
        self.look_at = Some(self.look_at.map_or(at, |planned| planned.min(at)));
    }

    /// When to go on although nothing happens. During a change only its end matters.
    pub(super) fn next_due(&self, is_busy: bool) -> Option<Instant> {
        if is_busy {
            return None;
        }
        let rests = self.memory.values().filter_map(|memory| memory.rest_until);
        let look_at = self.look_at.filter(|_| self.view.owner().is_some());
        rests.chain(look_at).min()
    }

    pub(super) fn is_superseded(&self, job: &Job) -> bool {
        match job.kind {
            JobKind::TakeBack => false,
            JobKind::Apply { generation } => {
                let now = self.view.policy_view(&job.policy, Timestamp::now());
                !now.is_some_and(|policy| policy.is_for_us && policy.generation == generation)
            }
        }
    }

    /// What to do next about a policy.
    pub(super) fn step(&self, policy: &str) -> Step {
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

    pub(super) async fn accept(&mut self, policy: &str) -> Result<()> {
        let Some(owner) = self.view.owner().cloned() else { return Ok(()) };
        let made = self.enactments.create(policy, &owner).await?;
        self.view.wrote(made);
        Ok(())
    }

    pub(super) async fn leave(&mut self, policy: &str) -> Result<()> {
        if let Some(name) = self.view.enactment(policy).map(ResourceExt::name_any) {
            self.enactments.delete(&name).await?;
            self.view.deleted(&name);
        }
        self.memory.remove(policy);
        Ok(())
    }

    pub(super) async fn say(&mut self, policy: &str, phase: Phase, message: &str) -> Result<()> {
        let Some(memory) = self.memory.get(policy) else { return Ok(()) };
        let saying = memory.saying(phase, message, None);
        self.write_now(policy, &saying).await
    }

    /// Writes a report; what cannot be written now is written later.
    pub(super) async fn write(&mut self, policy: &str, saying: Saying) -> Result<()> {
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

    pub(super) async fn write_now(&mut self, policy: &str, saying: &Saying) -> Result<()> {
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
    pub(super) fn end_rests(&mut self) {
        let now = Instant::now();
        for memory in self.memory.values_mut() {
            memory.rest_until = memory.rest_until.filter(|until| *until > now);
        }
    }

    pub(super) async fn say_what_is_unsaid(&mut self) {
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
    pub(super) fn forget_what_is_gone(&mut self) {
        let names = self.view.names();
        self.memory.retain(|policy, _| names.binary_search(policy).is_ok());
    }

    /// Policies that were made true and no longer are.
    pub(super) async fn notice_drift(&mut self, state: &NetworkState, standing: &Standing) {
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
