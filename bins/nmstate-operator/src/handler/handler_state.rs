//! The state of a running handler, and the reports that it writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};
use nmstate::{Interface, InterfaceType, NetworkState};
use nmstate_api::annotations::{Drift, PolicyOptions};
use nmstate_api::{
    EnactmentConditionType, IntOrText, NetworkDocument, NodeName, Warning, condition,
};
use node_policy::drift::Corrections;
use node_policy::second_chance::Failed;
use node_policy::secrets::Secrets;
use node_policy::{
    Attempt, Evaluation, OwnView, Phase, Rendered, Step, overlap, second_chance, terms,
};

use super::annotations::NOT_REVERTED;
use super::drift::reports_drift;
use super::enactments::{Details, Enactments, StatusUpdate};
use super::node_report::NodeReport;
use super::policies::Source;
use super::view::{News, Refresh, View};
use crate::events::{Events, Reason};

/// The delay after a change of the network: more changes usually follow.
const SETTLE: Duration = Duration::from_secs(1);
/// The shortest interval between two reads of the network.
pub(super) const NETWORK_READ_INTERVAL: Duration = Duration::from_secs(5);
/// The interval between two checks that NetworkManager responds.
pub(super) const MANAGER_CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The delay before a request that the API server rejected is retried.
pub(super) const API_RETRY_DELAY: Duration = Duration::from_secs(2);

/// A node that waits longer than this for a slot reports it. Shorter waits are not reported.
const LONG_WAIT: Duration = Duration::from_secs(30);

/// The state of one policy while the handler runs.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) generation: i64,
    /// Since when this handler has observed this generation.
    pub(super) since: Option<Instant>,
    pub(super) options: PolicyOptions,
    pub(super) evaluation: Option<Evaluated>,
    /// The generation that was applied here last.
    pub(super) applied: Option<i64>,
    pub(super) attempts: u32,
    /// Attempts during which the API server was down. They are not counted against the change.
    pub(super) outages: u32,
    /// Attempts to revert it after it was deleted.
    pub(super) reverts: u32,
    /// `maxUnavailable` of the policy.
    pub(super) limit: Option<IntOrText>,
    /// No step is taken before this time.
    pub(super) rest_until: Option<Instant>,
    /// A report that could not be written to the API server yet.
    pub(super) unwritten: Option<StatusUpdate>,
    /// Whether the drift was reported.
    pub(super) is_drift_reported: bool,
    /// Whether a rollback was reported.
    pub(super) is_rollback_reported: bool,
    /// How often drift was corrected on the node.
    pub(super) corrections: Corrections,
}

/// A policy compared with the node.
pub(super) struct Evaluated {
    pub(super) rendered: Rendered,
    pub(super) features: Vec<String>,
    /// Parts of it that have no effect.
    pub(super) warnings: Vec<Warning>,
    pub(super) differs: bool,
    /// Why nmstate cannot apply it to the node.
    pub(super) refusal: Option<String>,
    /// The state that reverts the policy.
    pub(super) revert: NetworkDocument,
}

/// A change in progress.
pub(super) struct Job {
    pub(super) policy: String,
    pub(super) kind: JobKind,
    pub(super) since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum JobKind {
    Apply { generation: i64 },
    Revert,
}

/// All state that changes while the handler runs.
pub(super) struct HandlerState {
    pub(super) view: View,
    source: Source,
    pub(super) memory: BTreeMap<String, Memory>,
    pub(super) enactments: Enactments,
    pub(super) report: NodeReport,
    pub(super) events: Events,
    pub(super) is_installed: bool,
    /// When to read the network.
    pub(super) read_network_at: Option<Instant>,
    pub(super) network_read: Option<Instant>,
    pub(super) manager: Option<String>,
    /// The NICs of the node, and when they or the handler changed last.
    pub(super) nics: Option<BTreeSet<String>>,
    pub(super) node_changed: Timestamp,
    /// When to recover an interrupted change. No other change starts before.
    pub(super) recover_at: Option<Instant>,
    /// When to check that NetworkManager responds.
    pub(super) check_at: Instant,
    /// Whether it did not respond at the last check.
    pub(super) is_manager_silent: bool,
    /// The label of a confirmed change that was completed after an interruption.
    pub(super) completed: Option<String>,
}

/// Names a change in the record on disk.
pub(super) fn label(policy: &str, generation: i64) -> String {
    format!("{policy}@{generation}")
}

impl Memory {
    /// Counts an attempt. Returns its number, from one, among those of its kind.
    pub(super) fn count(&mut self, attempt: &Attempt) -> u32 {
        let counter = match attempt.is_api_down() {
            true => &mut self.outages,
            false => &mut self.attempts,
        };
        *counter = counter.saturating_add(1);
        *counter
    }

    pub(super) fn status_update(
        &self,
        phase: Phase,
        message: &str,
        failure: Option<nmstate_api::Failure>,
    ) -> StatusUpdate {
        let evaluated = self.evaluation.as_ref();
        let is_failure = matches!(phase, Phase::Retrying | Phase::Failed | Phase::Aborted);
        StatusUpdate {
            generation: self.generation,
            phase,
            message: message.to_owned(),
            failure,
            tried_with: is_failure.then(|| terms::terms(&self.options)),
            details: Details {
                desired: evaluated.map(|it| it.rendered.document.clone()).unwrap_or_default(),
                captured: evaluated.map(|it| it.rendered.captured.clone()).unwrap_or_default(),
                features: evaluated.map(|it| it.features.clone()).unwrap_or_default(),
                warnings: evaluated.map(|it| it.warnings.clone()).unwrap_or_default(),
                // A success does not report the number of attempts.
                attempts: if phase == Phase::Available { 0 } else { self.attempts },
                revert: evaluated.map(|it| it.revert.clone()).unwrap_or_default(),
                revert_limit: self.limit.clone(),
            },
        }
    }
}

impl HandlerState {
    pub(super) fn new(
        client: &Client,
        node: &NodeName,
        source: Source,
        manager: Option<String>,
    ) -> Self {
        Self {
            view: View::default(),
            source,
            memory: BTreeMap::new(),
            enactments: Enactments::new(client.clone(), node.clone()),
            report: NodeReport::new(client.clone(), node.clone()),
            events: Events::of_handler(client.clone(), node),
            is_installed: false,
            read_network_at: Some(Instant::now()),
            network_read: None,
            manager,
            nics: None,
            node_changed: Timestamp::now(),
            recover_at: Some(Instant::now()),
            check_at: Instant::now() + MANAGER_CHECK_INTERVAL,
            is_manager_silent: false,
            completed: None,
        }
    }

    pub(super) fn take(&mut self, news: News) {
        if let News::Report(event) = &news
            && let Event::Apply(report) = event.as_ref()
        {
            self.report.saw(report.metadata.resource_version.as_deref());
        }
        if self.view.take(news) == Refresh::Now {
            self.report.forget();
            self.read_network_at = Some(Instant::now());
        }
    }

    /// The network changed: it is read after it has settled.
    pub(super) fn network_changed(&mut self) {
        let earliest = self.network_read.map(|last| last + NETWORK_READ_INTERVAL);
        let soon = Instant::now() + SETTLE;
        let at = earliest.map_or(soon, |earliest| earliest.max(soon));
        self.read_network_at = Some(self.read_network_at.map_or(at, |planned| planned.min(at)));
    }

    /// When to continue without an event. During a change only its end matters.
    pub(super) fn next_due(&self, is_busy: bool) -> Option<Instant> {
        if is_busy {
            return None;
        }
        let now = Instant::now();
        let rests = self.memory.values().filter_map(|memory| memory.rest_until);
        let waits = self.memory.values().filter_map(|memory| Some(memory.since? + LONG_WAIT));
        let read_network_at = self.read_network_at.filter(|_| self.view.owner().is_some());
        let waits = waits.filter(|end| *end > now);
        let all =
            rests.chain(waits).chain(read_network_at).chain(self.recover_at).chain([self.check_at]);
        all.chain(self.next_retry()).min()
    }

    /// When a failed policy is retried: because the node changed, or the API server may have been down.
    fn retry_at(&self, policy: &str) -> Option<Timestamp> {
        let reported = self.view.reported(policy)?;
        if Phase::of(&reported.conditions) != Phase::Failed {
            return None;
        }
        let failing = condition::find(&reported.conditions, EnactmentConditionType::Failing)?;
        let failed = failing.last_heartbeat_time.as_ref()?.0;
        let attempts = reported.retry_count.values().max().copied().unwrap_or(1);
        let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
        let failure = reported.failure.as_ref();
        let failed = Failed {
            attempts,
            at: failed,
            is_possible_outage: failure.is_some_and(|it| it.possible_outage == Some(true)),
        };
        second_chance::retry_at(failed, self.node_changed)
    }

    fn next_retry(&self) -> Option<Instant> {
        let names = self.view.names();
        let next = names.iter().filter_map(|policy| self.retry_at(policy)).min()?;
        let left = Duration::try_from(next.duration_since(Timestamp::now())).ok()?;
        Some(Instant::now() + left)
    }

    /// Compares the NICs with those of the previous read.
    pub(super) fn compare_nics(&mut self, state: &NetworkState) {
        let is_nic = |it: &&Interface| {
            matches!(it.iface_type(), InterfaceType::Ethernet | InterfaceType::InfiniBand)
        };
        let nics: BTreeSet<String> =
            state.interfaces.iter().filter(is_nic).map(|it| it.name().to_owned()).collect();
        let before = self.nics.replace(nics);
        if before.is_some() && before != self.nics {
            tracing::info!("NICs were added or removed; failed policies are retried");
            self.node_changed = Timestamp::now();
        }
    }

    /// Discards the evaluation of failed policies when they are retried.
    pub(super) fn start_retries(&mut self) {
        let now = Timestamp::now();
        for policy in self.view.names() {
            if self.retry_at(&policy).is_some_and(|at| at <= now) {
                self.memory.remove(&policy);
            }
        }
    }

    pub(super) fn is_superseded(&self, job: &Job) -> bool {
        match job.kind {
            JobKind::Revert => false,
            JobKind::Apply { generation } => {
                let now = self.view.policy_view(&job.policy);
                !now.is_some_and(|policy| policy.is_for_us && policy.generation == generation)
            }
        }
    }

    /// The next step for a policy.
    pub(super) fn step(&self, policy: &str) -> Step {
        let view = self.view.policy_view(policy);
        let options = self.view.options(policy).transpose();
        let is_for_us = view.as_ref().is_some_and(|view| view.is_for_us);
        // The coordinator reports unreadable policies and unsupported annotations.
        if self.view.is_unusable(policy) || (is_for_us && options.is_err()) {
            return Step::Nothing;
        }
        let options = options.ok().flatten().unwrap_or_default();
        // The coordinator reports values that are missing, too.
        if is_for_us && options.node_values.is_some() && options.values.is_none() {
            return Step::Nothing;
        }
        let reported = self.view.reported(policy);
        let memory = self.memory.get(policy);
        let memory =
            memory.filter(|it| view.as_ref().is_none_or(|view| view.generation == it.generation));
        if memory.is_some_and(|it| it.unwritten.is_some() || it.rest_until.is_some()) {
            return Step::Nothing;
        }
        let evaluated = memory.and_then(|it| Some((it.generation, it.evaluation.as_ref()?)));
        let keeps_revert_state = reported.is_some_and(|it| !it.revert_state.is_empty());
        let own = OwnView {
            has_enactment: self.view.enactment(policy).is_some(),
            phase: reported.map_or(Phase::Unknown, |it| Phase::of(&it.conditions)),
            generation: reported.and_then(|it| it.policy_generation),
            evaluation: evaluated
                .map(|(generation, it)| Evaluation { generation, differs: it.differs }),
            // A resting policy returned above.
            is_resting: false,
            is_outdated: reported
                .is_some_and(|it| terms::are_others(it.tried_with.as_deref(), &options)),
            is_stale: (keeps_revert_state && evaluated.is_some_and(|(_, it)| it.revert.is_empty()))
                || (options.drift == Drift::Ignore && reported.is_some_and(reports_drift)),
            may_retry: self.retry_at(policy).is_some_and(|at| at <= Timestamp::now()),
            // Warnings are reported at once: before any node is changed.
            has_waited: evaluated.is_some_and(|(_, it)| !it.warnings.is_empty())
                || memory.and_then(|it| it.since).is_some_and(|since| since.elapsed() >= LONG_WAIT),
        };
        node_policy::step(view.as_ref(), &own)
    }

    /// Publishes an event on a policy.
    pub(super) async fn publish(&self, policy: &str, reason: Reason, message: &str) {
        let uid = self.view.policy(policy).and_then(|it| it.metadata.uid.as_deref());
        self.events.publish(policy, uid, reason, message).await;
    }

    /// Values of a policy that must not be reported.
    pub(super) fn secrets(&self, policy: &str) -> Secrets {
        let policy = self.view.policy(policy);
        policy.map(|it| Secrets::of(&it.spec.desired_state)).unwrap_or_default()
    }

    /// Reports that this node has observed the policy, and that it can be applied.
    pub(super) async fn accept(&mut self, policy: &str) -> Result<()> {
        let generation = self.view.policy_view(policy).map(|it| it.generation);
        self.create(policy, generation.unwrap_or_default()).await
    }

    async fn create(&mut self, policy: &str, accepted: i64) -> Result<()> {
        let Some(owner) = self.view.owner().cloned() else { return Ok(()) };
        let made = self.enactments.create(policy, &owner, accepted).await?;
        self.view.wrote(made);
        Ok(())
    }

    /// Ends the report about a policy that is not reverted.
    pub(super) async fn leave_as_it_is(&mut self, policy: &str) -> Result<()> {
        if self.view.is_reverted_here(policy) && self.view.enactment(policy).is_some() {
            self.publish(policy, Reason::NoWayBack, NOT_REVERTED).await;
        }
        self.leave(policy).await
    }

    pub(super) async fn leave(&mut self, policy: &str) -> Result<()> {
        if let Some(name) = self.view.enactment(policy).map(ResourceExt::name_any) {
            self.enactments.delete(&name).await?;
            self.view.deleted(&name);
        }
        self.memory.remove(policy);
        Ok(())
    }

    pub(super) async fn report_phase(
        &mut self,
        policy: &str,
        phase: Phase,
        message: &str,
    ) -> Result<()> {
        let Some(memory) = self.memory.get(policy) else { return Ok(()) };
        let update = memory.status_update(phase, message, None);
        self.write_now(policy, &update).await
    }

    pub(super) async fn report_available(&mut self, policy: &str) -> Result<()> {
        // A handler that applied it does not report that nothing was changed.
        let is_applied =
            self.memory.get(policy).is_some_and(|it| it.applied == Some(it.generation));
        let end = if is_applied { Attempt::Applied } else { Attempt::NothingDiffers };
        self.report_phase(policy, Phase::Available, &end.judge(1).message).await
    }

    /// Writes a report; if that fails, it is written later.
    pub(super) async fn write(&mut self, policy: &str, update: StatusUpdate) -> Result<()> {
        let written = self.write_now(policy, &update).await;
        if written.is_err()
            && let Some(memory) = self.memory.get_mut(policy)
        {
            memory.unwritten = Some(update);
            let soon = Instant::now() + API_RETRY_DELAY;
            memory.rest_until = Some(memory.rest_until.map_or(soon, |until| until.min(soon)));
        }
        written
    }

    pub(super) async fn write_now(&mut self, policy: &str, update: &StatusUpdate) -> Result<()> {
        if self.view.enactment(policy).is_none() {
            // The report follows at once; until then the object must not count as acceptance.
            self.create(policy, 0).await?;
        }
        let Some(held) = self.view.enactment(policy).cloned() else { return Ok(()) };
        let slot = self.view.slot(policy);
        let written = self.enactments.write_status(held, update, slot.as_ref()).await?;
        self.view.wrote(written);
        Ok(())
    }

    /// Reports that a slot is not needed.
    pub(super) async fn return_slot(&mut self, policy: &str) -> Result<()> {
        let Some(held) = self.view.enactment(policy).cloned() else { return Ok(()) };
        let Some(slot) = self.view.slot(policy) else { return Ok(()) };
        let written = self.enactments.return_slot(held, slot).await?;
        self.view.wrote(written);
        Ok(())
    }

    /// Reads a policy again.
    pub(super) async fn read_again(&mut self, policy: &str) -> Result<()> {
        let read = self.view.read_again(policy, &self.source).await;
        match self.view.take_read(read) {
            true => Ok(()),
            false => anyhow::bail!("policy {policy} could not be read again"),
        }
    }

    /// Returns slots to revert deleted policies that exist again.
    pub(super) async fn return_stale_slots(&mut self) {
        for policy in self.view.names() {
            let Some(slot) = self.view.stale_revert_slot(&policy) else { continue };
            let Some(held) = self.view.enactment(&policy).cloned() else { continue };
            match self.enactments.return_slot(held, slot).await {
                Ok(written) => self.view.wrote(written),
                Err(error) => tracing::warn!(policy, "{error:#}"),
            }
        }
    }

    /// Ends expired rests for the whole round, so that two reads of the clock cannot disagree.
    pub(super) fn end_rests(&mut self) {
        let now = Instant::now();
        for memory in self.memory.values_mut() {
            memory.rest_until = memory.rest_until.filter(|until| *until > now);
        }
    }

    pub(super) async fn write_postponed_updates(&mut self) {
        let due = self.memory.iter_mut().filter(|(_, memory)| memory.rest_until.is_none());
        let due: Vec<(String, StatusUpdate)> = due
            .filter_map(|(policy, memory)| Some((policy.clone(), memory.unwritten.take()?)))
            .collect();
        for (policy, update) in due {
            if let Err(error) = self.write(&policy, update).await {
                tracing::warn!(policy, "{error:#}");
            }
        }
    }

    /// A policy is reverted: others that configure the same interfaces may differ now.
    pub(super) fn reevaluate_overlapping_policies(&mut self, policy: &str) {
        let Some(reverted) = self.view.reported(policy) else { return };
        let parts = overlap::subjects(&reverted.revert_state);
        for (other, memory) in &mut self.memory {
            let Some(evaluated) = memory.evaluation.as_ref() else { continue };
            let shares = !overlap::subjects(&evaluated.rendered.document).is_disjoint(&parts);
            if other != policy && shares {
                memory.evaluation = None;
            }
        }
    }

    /// Removes the state of policies that neither exist nor have a report.
    pub(super) fn remove_stale_state(&mut self) {
        self.view.forget_policies();
        let names = self.view.names();
        self.memory.retain(|policy, _| names.binary_search(policy).is_ok());
    }
}
