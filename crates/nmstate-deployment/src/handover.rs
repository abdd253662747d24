//! Taking a cluster over from kubernetes-nmstate, and giving it back. Either is one command of the
//! administrator, and many steps: each is decided from what is in the cluster and from the record,
//! so that it may be interrupted anywhere. Nothing is removed before it is recorded. The operator
//! itself only deploys or removes its own part meanwhile ([`state`]).

mod installer;
mod record;

use std::collections::BTreeSet;

pub use installer::{
    Installer, InstallerKind, NETWORK_ADDONS, NETWORK_ADDONS_GROUP, OLM_GROUP, PACKAGE, is_version,
};
pub use record::{Phase, Record, RecordError};

use crate::leftovers::{self, Leftover};

/// kubernetes-nmstate in this cluster, deployed by another program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Others {
    /// What would restore removed objects, as text: `the operator x`.
    pub running: Vec<String>,
    /// What installed it, in the order of removal. Read only by callers that need it.
    pub installers: Vec<Installer>,
    /// Whether there are network add-ons whose setting can be restored.
    pub has_network_addons: bool,
    pub leftovers: Vec<Leftover>,
    /// The namespaces of its components.
    pub namespaces: BTreeSet<String>,
}

impl Others {
    /// Whether any part of it is in this cluster.
    pub fn are_here(&self) -> bool {
        !self.running.is_empty() || !self.leftovers.is_empty()
    }
}

/// The request in the annotation of the `NMState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoverRequest {
    TakeOver,
    Leave,
}

/// How much is read: most clusters never have kubernetes-nmstate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Whether anything of kubernetes-nmstate runs.
    Running,
    /// What installs it, too.
    Installers,
    /// What installs it, and all objects that it left.
    Everything,
}

/// Which of the two serves the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandoverState {
    /// Ours serves the API. `remark` lists parts of the other that are being removed.
    Ours {
        remark: Option<String>,
    },
    /// Theirs serves the API, and ours is inactive.
    Theirs {
        message: String,
    },
    TakingOver {
        message: String,
    },
    GivingBack {
        message: String,
    },
}

/// The actions, in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub state: HandoverState,
    /// The record to write before any other action. Without it, the record is deleted after all
    /// other actions.
    pub record: Option<Record>,
    /// Removed at once.
    pub dismiss: Vec<Installer>,
    /// Whether that was attempted before: another component restores it, so a retry can wait.
    pub is_repeated: bool,
    /// Removed before ours is deployed.
    pub clear: Vec<Leftover>,
    /// Created again after ours is removed.
    pub give_back: Vec<Installer>,
}

impl Plan {
    fn new(state: HandoverState, record: Option<Record>) -> Self {
        Self {
            state,
            record,
            dismiss: vec![],
            is_repeated: false,
            clear: vec![],
            give_back: vec![],
        }
    }
}

/// The state for the operator, which reads only what runs, and changes only its own objects.
pub fn state(request: HandoverRequest, others: &Others, record: Option<&Record>) -> HandoverState {
    let is_owed = record.is_some_and(|record| !record.installers.is_empty());
    match (request, record.map(|record| record.phase)) {
        (HandoverRequest::Leave, Some(_)) if is_owed && others.running.is_empty() => {
            HandoverState::GivingBack {
                message: format!("Waiting for kubernetes-nmstate; {CONTINUE_BACK}"),
            }
        }
        (HandoverRequest::TakeOver, Some(Phase::Dismissing)) => HandoverState::TakingOver {
            message: match others.running.is_empty() {
                true => format!("Taking over from kubernetes-nmstate; {CONTINUE}"),
                false => format!(
                    "Taking over from kubernetes-nmstate: waiting for {} to end; {CONTINUE}",
                    all(&others.running)
                ),
            },
        },
        (HandoverRequest::TakeOver, Some(Phase::Clearing | Phase::Done)) => {
            match others.running.first() {
                Some(who) => HandoverState::Theirs { message: back(who) },
                None => HandoverState::Ours { remark: ending(&others.leftovers) },
            }
        }
        (HandoverRequest::Leave, _) | (HandoverRequest::TakeOver, None) => aside(others).state,
    }
}

const CONTINUE: &str = "`nmstate-operator take-over --yes` continues it";
const CONTINUE_BACK: &str = "`nmstate-operator give-back --yes` continues it";

/// Another operator is present again after a take-over.
fn back(who: &str) -> String {
    let what = match is_of_addons(who) {
        true => "the field spec.nmstate of the NetworkAddonsConfig",
        false => "what installs it",
    };
    format!(
        "{} is back after this cluster was taken over; remove {what}, or run \
         `nmstate-operator give-back` to leave the cluster to it",
        capital(who)
    )
}

/// Whether the network add-ons of OpenShift Virtualization deployed it.
fn is_of_addons(who: &str) -> bool {
    who.contains("NetworkAddonsConfig")
}

/// Pods that have not ended yet.
fn ending(leftovers: &[Leftover]) -> Option<String> {
    let ending: Vec<&Leftover> =
        leftovers::workloads(leftovers).filter(|left| left.is_going).collect();
    (!ending.is_empty()).then(|| {
        format!(
            "Pods of kubernetes-nmstate are ending still, those of {}; what they need goes after \
             them",
            all(&ending)
        )
    })
}

/// Decides the next step of a command.
pub fn plan(request: HandoverRequest, others: &Others, record: Option<&Record>) -> Plan {
    match (request, record) {
        (HandoverRequest::TakeOver, record) => take_over(others, record),
        (HandoverRequest::Leave, None) => aside(others),
        (HandoverRequest::Leave, Some(record)) => give_back(others, record),
    }
}

/// Nothing is requested: the deployed operator stays.
fn aside(others: &Others) -> Plan {
    let how = match others.running.iter().any(|who| is_of_addons(who)) {
        true => {
            "to take over, run `nmstate-operator take-over`, or remove the field spec.nmstate of \
             the NetworkAddonsConfig"
        }
        false => "to take over, run `nmstate-operator take-over`",
    };
    let message = match (others.running.first(), others.leftovers.first()) {
        (Some(who), _) => format!("{} serves this API in this cluster; {how}", capital(who)),
        (None, Some(left)) => format!(
            "kubernetes-nmstate left {} objects behind, such as {left}; {how}",
            others.leftovers.len()
        ),
        (None, None) => return Plan::new(HandoverState::Ours { remark: None }, None),
    };
    Plan::new(HandoverState::Theirs { message }, None)
}

fn take_over(others: &Others, record: Option<&Record>) -> Plan {
    let began = record.is_none_or(|record| record.phase == Phase::Dismissing);
    if !began && let Some(who) = others.running.first() {
        // It was removed, and installed again by another program. Removing it again would start an
        // endless conflict.
        return Plan::new(HandoverState::Theirs { message: back(who) }, record.cloned());
    }
    if !began || (others.running.is_empty() && others.installers.is_empty()) {
        return clear(others, record);
    }
    let mut kept = record.cloned().unwrap_or(Record {
        phase: Phase::Dismissing,
        namespaces: BTreeSet::new(),
        installers: Vec::new(),
    });
    kept.namespaces.extend(others.namespaces.iter().cloned());
    for installer in others.installers.iter().filter(|installer| !installer.is_going) {
        keep(&mut kept.installers, installer);
    }
    if others.installers.is_empty() && kept.installers.is_empty() {
        let message = format!(
            "{} was installed neither by a Subscription nor by the network add-ons; remove it the \
             way it was installed, but not its CRDs, and run the command again",
            others.running.first().map_or_else(String::new, |who| capital(who))
        );
        return Plan::new(HandoverState::Theirs { message }, None);
    }
    let dismiss: Vec<Installer> =
        others.installers.iter().filter(|installer| !installer.is_going).cloned().collect();
    // An interrupted migration looks the same, and waits half a minute.
    let is_repeated = !dismiss.is_empty() && record == Some(&kept);
    let message = if others.installers.is_empty() {
        format!("Taking over from kubernetes-nmstate: waiting for {} to end", all(&others.running))
    } else {
        let hint = match others.installers.iter().find_map(|it| it.owner.as_ref()) {
            Some(owner) => format!("; {owner} may put it back: then remove it there"),
            None if is_repeated => "; another component restores it: remove it there".to_owned(),
            None => String::new(),
        };
        let what = all(&others.installers);
        format!("Taking over from kubernetes-nmstate: removing {what}{hint}")
    };
    let state = HandoverState::TakingOver { message };
    Plan { dismiss, is_repeated, ..Plan::new(state, Some(kept)) }
}

/// Adds to what is to be given back. A version is restored by its Subscription, if it has one.
fn keep(kept: &mut Vec<Installer>, installer: &Installer) {
    let is_subscribed = |held: &Installer| {
        held.kind == InstallerKind::Subscription && held.namespace() == installer.namespace()
    };
    if installer.kind == InstallerKind::ServiceVersion && kept.iter().any(is_subscribed) {
        return;
    }
    let copy = Installer { uid: String::new(), is_going: false, owner: None, ..installer.clone() };
    match kept.iter_mut().find(|held| held.is_same(installer)) {
        Some(held) => *held = copy,
        None => kept.push(copy),
    }
}

/// Its operator has been removed, or was never installed: ours is deployed, and the leftovers are
/// removed.
fn clear(others: &Others, record: Option<&Record>) -> Plan {
    let is_clean = others.leftovers.is_empty();
    let known = record.into_iter().flat_map(|record| record.namespaces.iter());
    let record = Record {
        phase: if is_clean { Phase::Done } else { Phase::Clearing },
        namespaces: known.chain(&others.namespaces).cloned().collect(),
        installers: record.map(|record| record.installers.clone()).unwrap_or_default(),
    };
    let remark = ending(&others.leftovers);
    let clear = leftovers::may_go(&others.leftovers);
    Plan { clear, ..Plan::new(HandoverState::Ours { remark }, Some(record)) }
}

fn give_back(others: &Others, record: &Record) -> Plan {
    // Network add-ons that are not installed any more need no restore.
    let can_return =
        |held: &&Installer| held.kind != InstallerKind::NetworkAddons || others.has_network_addons;
    let owed: Vec<&Installer> = record.installers.iter().filter(can_return).collect();
    if owed.is_empty() {
        return aside(others);
    }
    let is_there = |held: &Installer| {
        others.installers.iter().any(|seen| seen.is_same(held) && !seen.is_going)
    };
    let missing: Vec<Installer> =
        owed.iter().filter(|held| !is_there(held)).map(|held| (*held).clone()).collect();
    if missing.is_empty() && !others.running.is_empty() {
        return aside(others);
    }
    let mut message = if missing.is_empty() {
        let by = all(&owed);
        format!("Giving the cluster back to kubernetes-nmstate: waiting for what {by} installs")
    } else {
        format!("Giving the cluster back to kubernetes-nmstate: restoring {}", all(&missing))
    };
    if missing.is_empty() && owed.iter().any(|held| held.needs_approval()) {
        message.push_str("; its InstallPlan must be approved by hand, as always");
    }
    // If the request changes meanwhile, the migration starts again.
    let record = Record { phase: Phase::Dismissing, ..record.clone() };
    let state = HandoverState::GivingBack { message };
    Plan { give_back: missing, ..Plan::new(state, Some(record)) }
}

/// As a sentence begins.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// A readable list: the first few, and how many more there are.
fn all(things: &[impl ToString]) -> String {
    const SHOWN: usize = 4;
    let mut shown: Vec<String> = things.iter().take(SHOWN).map(ToString::to_string).collect();
    if things.len() > SHOWN {
        shown.push(format!("{} more", things.len() - SHOWN));
    }
    let last = shown.pop().unwrap_or_default();
    if shown.is_empty() { last } else { format!("{} and {last}", shown.join(", ")) }
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
