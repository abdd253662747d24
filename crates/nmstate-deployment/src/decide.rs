//! The operator's decisions: from the observed state of the cluster to the desired one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nmstate_api::annotations::NMStateOptions;
use nmstate_api::condition::{self, Condition, ConditionStatus};
use nmstate_api::{
    NMState, NMStateConditionType, NMStateReason, NodeNetworkConfigurationPolicy,
    PolicyConditionType, PolicyReason, PolicyStatus,
};
use serde_json::Value;

use crate::adoption::Progress;
use crate::cluster_operator::{self, ClusterOperatorStatus, DeploymentState};
use crate::handover::{self, HandoverRequest, Others, Record, RecordError};
use crate::names::TAKEN_OVER;
use crate::operand::{self, ControlPlane, Wanted};
use crate::platform::Platform;
use crate::rollout::{self, Rollout};
use crate::tls_profile::TlsProfile;

/// What does not change while the operator runs.
#[derive(Debug, Clone)]
pub struct Settings {
    pub image: String,
    pub version: String,
    /// Platforms on which an `NMState` is created by default.
    pub default_platforms: BTreeSet<String>,
}

/// The state that the operator keeps across restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// There was an `NMState` once. If there is none now, it was deleted.
    pub had_nmstate: bool,
    /// Fingerprint of the last completed roll-out. Pods that are created and deleted later, with
    /// their nodes, do not count as a roll-out.
    pub rolled_out: String,
}

/// The observed state of the cluster.
#[derive(Debug, Clone)]
pub struct Seen {
    pub platform: Platform,
    pub nmstates: Vec<NMState>,
    pub memory: Memory,
    /// kubernetes-nmstate, if another program deployed it here.
    pub others: Others,
    /// What was taken over from kubernetes-nmstate.
    pub record: Result<Option<Record>, RecordError>,
    pub rollout: Rollout,
    pub cluster_operator: ClusterOperatorStatus,
    pub tls: TlsProfile,
    /// The progress with the documents of nodes, if they are adopted.
    pub adoption: Option<Progress>,
    /// The error of the last attempt, if it failed.
    pub hindrance: Option<String>,
}

/// The action on handlers and coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    Deploy(Vec<Value>),
    Remove,
    /// The desired deployment is unknown; what runs continues.
    Leave,
}

/// The desired state of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub memory: Memory,
    pub make_default: bool,
    pub operand: Operand,
    /// Whether the reports of handlers are deleted as well, once the last handler has ended.
    pub clear_reports: bool,
    /// Whether policies are created from the documents that nodes took at their first boot.
    pub adopt_br_ex: bool,
    /// The state of the handover from or to another operator, if there is one.
    pub handover: Option<handover::HandoverState>,
    /// Conditions of each `NMState`, by name.
    pub nmstates: BTreeMap<String, Vec<Condition>>,
    pub cluster_operator: ClusterOperatorStatus,
    /// The status of policies while no handler acts on them. Without it, their status is the
    /// coordinator's.
    pub policies: Option<String>,
}

/// Why no operand is deployed.
struct Off {
    /// For the ClusterOperator.
    reason: &'static str,
    /// For an `NMState`, where there is one.
    nmstate: NMStateReason,
    message: String,
}

/// Decides.
pub fn decide(settings: &Settings, seen: &Seen, now: Timestamp) -> Decision {
    let mut nmstates: Vec<&NMState> = seen.nmstates.iter().collect();
    nmstates.sort_by_key(|nmstate| (age(nmstate), name(nmstate).to_owned()));
    let made = seen.memory.had_nmstate || !nmstates.is_empty();
    let memory = Memory { had_nmstate: made, ..seen.memory.clone() };
    let mut draft = Draft { settings, seen, now, memory, nmstates: BTreeMap::new() };
    for other in nmstates.iter().skip(1) {
        let message = format!("There is an older NMState, {}; one is enough", name(nmstates[0]));
        draft.tell(other, quiet(NMStateReason::NotTheOldest, &message));
    }
    let Some(nmstate) = nmstates.first() else { return draft.without_nmstate() };
    let options = match NMStateOptions::parse(nmstate.metadata.annotations.as_ref()) {
        Ok(options) => options,
        Err(error) => {
            return draft.broken(nmstate, NMStateReason::InvalidAnnotation, &error.to_string());
        }
    };
    let record = match &seen.record {
        Ok(record) => record.as_ref(),
        Err(error) => {
            let message = format!("{error}; to forget it, delete the ConfigMap {TAKEN_OVER}");
            return draft.broken(nmstate, NMStateReason::InternalError, &message);
        }
    };
    let request = if options.adopt { HandoverRequest::TakeOver } else { HandoverRequest::Leave };
    let state = handover::state(request, &seen.others, record);
    if options.off && !matches!(state, handover::HandoverState::GivingBack { .. }) {
        let message = "An annotation of the NMState turned it off".to_owned();
        let off = Off { reason: "TurnedOff", nmstate: NMStateReason::TurnedOff, message };
        return draft.off(Some(nmstate), &off);
    }
    let unknown = NMStateOptions::unknown(nmstate.metadata.annotations.as_ref());
    let unknown = unknown.map(|error| format!("Without effect: {error}"));
    let remark = match &state {
        handover::HandoverState::Ours { remark } => remark.clone().or(unknown),
        handover::HandoverState::Theirs { message } => {
            let reason = NMStateReason::OtherOperatorPresent;
            let off = Off { reason: reason.into(), nmstate: reason, message: message.clone() };
            return Decision { handover: Some(state), ..draft.off(Some(nmstate), &off) };
        }
        handover::HandoverState::TakingOver { message } => {
            let decision = draft.handing_over(nmstate, NMStateReason::TakingOver, message);
            return Decision { handover: Some(state), ..decision };
        }
        handover::HandoverState::GivingBack { message } => {
            let decision = draft.handing_over(nmstate, NMStateReason::GivingBack, message);
            return Decision { handover: Some(state), ..decision };
        }
    };
    let control_plane = seen.platform.control_plane;
    match Wanted::new(&nmstate.spec, &settings.image, &settings.version, control_plane) {
        Ok(wanted) => {
            let wanted = wanted.with_memory_only(options.memory_only);
            let decision = draft.deploy(
                nmstate,
                operand::objects(&wanted.with_tls(seen.tls.settings.as_ref())),
                remark,
            );
            Decision { handover: Some(state), adopt_br_ex: options.adopt_br_ex, ..decision }
        }
        Err(error) => draft.broken(nmstate, NMStateReason::InternalError, &error.to_string()),
    }
}

/// The `NMState` that counts: the oldest.
pub fn leading(nmstates: &[NMState]) -> Option<&NMState> {
    nmstates.iter().min_by_key(|nmstate| (age(nmstate), name(nmstate).to_owned()))
}

/// A decision being put together.
struct Draft<'a> {
    settings: &'a Settings,
    seen: &'a Seen,
    now: Timestamp,
    memory: Memory,
    nmstates: BTreeMap<String, Vec<Condition>>,
}

impl Draft<'_> {
    fn tell(&mut self, nmstate: &NMState, conditions: Vec<Condition>) {
        let held = nmstate.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let stamped = condition::stamped(conditions, held, &Time(self.now));
        self.nmstates.insert(name(nmstate).to_owned(), stamped);
    }

    fn finish(self, operand: Operand, state: &DeploymentState<'_>) -> Decision {
        let held = &self.seen.cluster_operator;
        let version = &self.settings.version;
        Decision {
            cluster_operator: cluster_operator::status(state, held, version, self.now),
            memory: self.memory,
            make_default: false,
            operand,
            clear_reports: false,
            adopt_br_ex: false,
            handover: None,
            nmstates: self.nmstates,
            policies: None,
        }
    }

    fn without_nmstate(self) -> Decision {
        let platform = &self.seen.platform.name;
        if self.memory.had_nmstate {
            let message = "The NMState was deleted; create one to deploy handlers again".into();
            let nmstate = NMStateReason::TurnedOff;
            // Reports are derived from what handlers see; those of other handlers are theirs.
            let clear_reports = !self.seen.others.are_here();
            let off = Off { reason: "NMStateDeleted", nmstate, message };
            return Decision { clear_reports, ..self.off(None, &off) };
        }
        let by_default = self.settings.default_platforms.contains(platform);
        let free = !self.seen.others.are_here();
        let message = if by_default {
            "About to make the default NMState".to_owned()
        } else {
            format!("Nothing to do on platform {platform:?} unless an NMState is created")
        };
        let nmstate = NMStateReason::TurnedOff;
        let reason = if by_default { "WaitingForNMState" } else { "UnsupportedPlatform" };
        let mut decision = self.off(None, &Off { reason, nmstate, message });
        // Another operator would take the default for a request of its own administrator.
        decision.make_default = by_default && free;
        decision
    }

    fn off(mut self, nmstate: Option<&NMState>, off: &Off) -> Decision {
        if let Some(nmstate) = nmstate {
            self.tell(nmstate, quiet(off.nmstate, &off.message));
        }
        // Where other handlers run, they own the status of policies.
        let policies =
            (!self.seen.others.are_here()).then(|| format!("No handlers run: {}", off.message));
        self.memory.rolled_out = String::new();
        let state = DeploymentState::Disabled { reason: off.reason, message: &off.message };
        Decision { policies, ..self.finish(Operand::Remove, &state) }
    }

    /// During a handover. The status of policies does not mention it: nothing changes for them.
    fn handing_over(mut self, nmstate: &NMState, reason: NMStateReason, message: &str) -> Decision {
        use ConditionStatus::{False, True};
        let message = self.with_hindrance(message);
        self.tell(nmstate, conditions([False, True, False], reason, &message));
        self.memory.rolled_out = String::new();
        let state = DeploymentState::HandingOver { reason: reason.into(), message: &message };
        self.finish(Operand::Remove, &state)
    }

    /// Since when handlers are not ready.
    fn unhealthy_since(&self, nmstate: &NMState) -> Timestamp {
        let held = nmstate.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let reason: &str = NMStateReason::HandlersNotReady.into();
        condition::find(held, NMStateConditionType::Degraded)
            .filter(|it| it.status == ConditionStatus::True)
            .filter(|it| it.reason.as_deref() == Some(reason))
            .and_then(|it| Some(it.last_transition_time.as_ref()?.0))
            .unwrap_or(self.now)
    }

    fn with_hindrance(&self, message: &str) -> String {
        match &self.seen.hindrance {
            Some(why) => format!("{message}; the last attempt failed: {}", bounded(why)),
            None => message.to_owned(),
        }
    }

    fn broken(mut self, nmstate: &NMState, reason: NMStateReason, message: &str) -> Decision {
        use ConditionStatus::{False, True};
        self.tell(nmstate, conditions([False, False, True], reason, message));
        self.finish(Operand::Leave, &DeploymentState::Broken { reason: reason.into(), message })
    }

    fn deploy(
        mut self,
        nmstate: &NMState,
        mut objects: Vec<Value>,
        remark: Option<String>,
    ) -> Decision {
        use ConditionStatus::{False, True};
        let fingerprint = rollout::mark(&mut objects);
        let with_coordinator = self.seen.platform.control_plane != ControlPlane::Hosted;
        let missing = if self.memory.rolled_out == fingerprint {
            None
        } else {
            let missing = self.seen.rollout.missing(&fingerprint, with_coordinator);
            missing.map(|message| self.with_hindrance(&message))
        };
        if missing.is_some() {
            // A downgrade before completion must not find its own version as rolled out before.
            self.memory.rolled_out = String::new();
        }
        let not_ready = self.seen.rollout.handlers_not_ready();
        let unhealthy = (!not_ready.is_empty()).then(|| {
            format!("Handlers are not ready on ready nodes: {}", rollout::names(&not_ready))
        });
        let (held, state) = match &missing {
            Some(message) => (
                conditions([False, True, False], NMStateReason::Deploying, message),
                DeploymentState::RollingOut { message },
            ),
            None => {
                self.memory.rolled_out = fingerprint;
                let done = NMStateReason::SuccessfullyDeployed;
                let down = self.seen.rollout.handlers_down();
                let down = (!down.is_empty())
                    .then(|| format!("nodes that are not ready: {}", rollout::names(&down)));
                let remark: Vec<String> = remark.into_iter().chain(down).collect();
                let held = conditions([True, False, False], done, &remark.join("; "));
                match &unhealthy {
                    Some(message) => (
                        degraded(held, NMStateReason::HandlersNotReady, message),
                        DeploymentState::Unhealthy {
                            message,
                            since: self.unhealthy_since(nmstate),
                        },
                    ),
                    None => (held, DeploymentState::Deployed),
                }
            }
        };
        let mut held = self.seen.tls.noted(held);
        held.extend(self.seen.adoption.iter().map(Progress::condition));
        self.tell(nmstate, held);
        self.finish(Operand::Deploy(objects), &state)
    }
}

/// The same conditions with Degraded.
fn degraded(mut held: Vec<Condition>, reason: NMStateReason, message: &str) -> Vec<Condition> {
    let name: &str = NMStateConditionType::Degraded.into();
    if let Some(place) = held.iter_mut().find(|it| it.type_ == name) {
        *place = Condition::new(NMStateConditionType::Degraded, ConditionStatus::True)
            .reason(reason)
            .message(message);
    }
    held
}

/// Errors of servers may be long; a condition may not.
fn bounded(text: &str) -> String {
    const MOST: usize = 300;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain(['…']).collect()
}

fn name(nmstate: &NMState) -> &str {
    nmstate.metadata.name.as_deref().unwrap_or_default()
}

fn age(nmstate: &NMState) -> Option<Timestamp> {
    nmstate.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// No operand runs, and there is no error.
fn quiet(reason: NMStateReason, message: &str) -> Vec<Condition> {
    conditions([ConditionStatus::False; 3], reason, message)
}

/// Available, Progressing, Degraded. The message is set on the condition that is true, or on the
/// first.
fn conditions(
    statuses: [ConditionStatus; 3],
    reason: NMStateReason,
    message: &str,
) -> Vec<Condition> {
    use NMStateConditionType::{Available, Degraded, Progressing};
    let speaker =
        statuses.iter().position(|status| *status == ConditionStatus::True).unwrap_or_default();
    [Available, Progressing, Degraded]
        .into_iter()
        .zip(statuses)
        .enumerate()
        .map(|(place, (type_, status))| {
            let condition = Condition::new(type_, status).reason(reason);
            if place == speaker && !message.is_empty() {
                condition.message(message)
            } else {
                condition
            }
        })
        .collect()
}

/// The status of a policy that no handler acts on; none if it has that status already.
pub fn ignored(
    policy: &NodeNetworkConfigurationPolicy,
    message: &str,
    now: Timestamp,
) -> Option<PolicyStatus> {
    let wanted = PolicyConditionType::ALL.map(|type_| {
        let holds = type_ == PolicyConditionType::Ignored;
        let condition = Condition::new(type_, ConditionStatus::from(holds))
            .reason(PolicyReason::OperandNotDeployed);
        if holds { condition.message(message) } else { condition }
    });
    let conditions = condition::stamped(wanted.into(), policy.conditions(), &Time(now));
    let generation = policy.metadata.generation;
    let is_same = policy.status.as_ref().is_some_and(|status| {
        status.conditions == conditions && status.observed_generation == generation
    });
    (!is_same).then(|| PolicyStatus {
        conditions,
        observed_generation: generation,
        ..PolicyStatus::default()
    })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
