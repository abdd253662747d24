//! The network of the node, as the handler uses it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use nmstate::{NetworkState, NmstateError};
use nmstate_api::NodeName;
use nmstate_api::annotations::{Persistence, ProbeKind, Probes};
use node_network::network_manager::{Manager, ManagerError};
use node_network::probe::{
    Clause, ClauseReport, Endpoint, Gate, ProbeReport, Question, Target, When,
};
use node_network::{
    Aim, Cause, Checkpoint, Host, Network, Outcome, Recovery, Timing, Transaction, events,
};
use node_policy::Attempt;
use node_policy::verdict::{Afterwards, Fault};
use tokio::sync::Mutex;

use super::in_flight::InFlight;
use super::numbers;
use crate::service_port::Standing;

/// One change of the network.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    pub desired: &'a NetworkState,
    pub probes: &'a Probes,
    pub persistence: Persistence,
}

/// What a handler works on. [`NodeNetwork`] is the network of this machine.
#[allow(async_fn_in_trait)] // Used with concrete types; nobody needs `Send` futures of it.
pub trait Machine {
    async fn state(&self) -> Result<NetworkState, NmstateError>;
    /// Makes a change, or takes it back. Dropped in the middle, it leaves a change that
    /// [`Machine::recover`] takes back.
    async fn change(&self, change: &Change<'_>) -> Attempt;
    /// Takes back what a handler left unconfirmed.
    async fn recover(&self);
    /// Returns when something changed since the last time.
    async fn changed(&self);
    /// The version of NetworkManager.
    async fn version(&self) -> Option<String>;
}

/// How patient to be.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) api: Endpoint,
    pub(crate) dns_name: String,
    pub(crate) timing: Timing,
}

/// The network of this machine.
pub(crate) struct NodeNetwork {
    pub(crate) client: Client,
    pub(crate) node: NodeName,
    pub(crate) surroundings: Surroundings,
    pub(crate) in_flight: InFlight,
    pub(crate) events: Mutex<Option<BoxStream<'static, ()>>>,
    pub(crate) standing: Arc<Standing>,
}

impl std::fmt::Debug for NodeNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeNetwork").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Before listening for changes again after that failed.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

impl Machine for NodeNetwork {
    async fn state(&self) -> Result<NetworkState, NmstateError> {
        Host.state().await
    }

    async fn change(&self, change: &Change<'_>) -> Attempt {
        let mut desired = change.desired.clone();
        desired.set_memory_only(change.persistence == Persistence::MemoryOnly);
        let (gate, names) = gate(change.probes, &self.surroundings);
        let leftover = match self.in_flight.read() {
            Ok(leftover) => leftover,
            Err(error) => return Attempt::NotBegun { why: format!("{error:#}") },
        };
        let aim = Aim { bridge: None, gate };
        let readiness = readiness(change.probes).map(|when| Readiness {
            nodes: Api::all(self.client.clone()),
            node: self.node.as_str(),
            when,
            held_before: Cell::new(None),
        });
        let count = |report: &ClauseReport| {
            let kind = names.iter().find(|(about, _)| about == report.about.as_str());
            if let Some((_, kind)) = kind {
                numbers::probes(&self.standing.metrics, *kind, &report.probes);
            }
        };
        let network = Probed::new(readiness, leftover.clone(), &count);
        let timing = self.surroundings.timing;
        let transaction = Transaction { desired: &desired, aim: &aim, timing, leftover };
        let run = transaction.run(&network, |checkpoint| self.in_flight.write(checkpoint));
        let outcome = Box::pin(run).await;
        let is_open =
            matches!(&outcome, Outcome::RolledBack { recovery: Recovery::Pending { .. }, .. });
        if !is_open {
            self.in_flight.clear();
        }
        attempt(&outcome, &names)
    }

    async fn recover(&self) {
        let leftover = match self.in_flight.read() {
            Ok(Some(leftover)) => leftover,
            Ok(None) => return,
            Err(error) => return tracing::warn!("looking for a change under way: {error:#}"),
        };
        let is_there = match Host.checkpoints().await {
            Ok(checkpoints) => checkpoints.contains(&leftover),
            // The next change waits for it, or it expires.
            Err(error) => return tracing::warn!("looking for a change under way: {error}"),
        };
        if is_there {
            tracing::info!("a change was under way when the handler ended; it is taken back");
            if let Err(error) = Host.roll_back(&leftover).await {
                return tracing::warn!("taking back a change: {error}");
            }
        }
        self.in_flight.clear();
    }

    async fn changed(&self) {
        let mut stream = self.events.lock().await;
        loop {
            if let Some(events) = stream.as_mut()
                && events.next().await.is_some()
            {
                return;
            }
            *stream = None;
            match events::listen().await {
                // What happened in between was not heard.
                Ok(events) => {
                    *stream = Some(events);
                    return;
                }
                Err(error) => {
                    tracing::warn!("{:#}", anyhow::Error::new(error));
                    tokio::time::sleep(LISTEN_AGAIN).await;
                }
            }
        }
    }

    async fn version(&self) -> Option<String> {
        Manager::connect().await.ok()?.version().await.ok()
    }
}

/// What must answer after a change, and the names of the probes by what is said about them.
fn gate(probes: &Probes, around: &Surroundings) -> (Gate, Vec<(String, ProbeKind)>) {
    let target = |kind: ProbeKind| match kind {
        ProbeKind::ApiServer => Some(Target::ApiServer(around.api.clone())),
        ProbeKind::Gateway => Some(Target::DefaultGateway { interface: None }),
        ProbeKind::Dns => Some(Target::NameServers { name: around.dns_name.clone() }),
        // The cluster is asked for that, not the network.
        ProbeKind::NodeReadiness => None,
    };
    let mut gate = Gate::default();
    let mut names = Vec::new();
    for kind in ProbeKind::ALL {
        let when = match (kind, probes) {
            (ProbeKind::ApiServer, _) => When::Always,
            (_, Probes::WhatAnsweredBefore) => When::HeldBefore,
            (_, Probes::These(these)) if these.contains(&kind) => When::Always,
            (_, Probes::These(_)) => continue,
        };
        if let Some(target) = target(kind) {
            names.push((target.to_string(), kind));
            gate.clauses.push(Clause { any_of: vec![target], when });
        }
    }
    names.push((READY.to_owned(), ProbeKind::NodeReadiness));
    (gate, names)
}

fn readiness(probes: &Probes) -> Option<When> {
    match probes {
        Probes::WhatAnsweredBefore => Some(When::HeldBefore),
        Probes::These(these) => these.contains(&ProbeKind::NodeReadiness).then_some(When::Always),
    }
}

fn attempt(outcome: &Outcome, names: &[(String, ProbeKind)]) -> Attempt {
    match outcome {
        Outcome::Committed { .. } => Attempt::Applied,
        Outcome::Refused { reason } => Attempt::NotBegun { why: reason.to_string() },
        Outcome::RolledBack { cause, message, after, recovery } => {
            let silent = after.probes.iter().find(|clause| !clause.holds);
            let silent = silent
                .and_then(|clause| names.iter().find(|(about, _)| about == clause.about.as_str()));
            let silent = silent.map(|(_, kind)| kind.name().to_owned());
            Attempt::TakenBack {
                fault: match cause {
                    Cause::Apply => Fault::Apply,
                    Cause::Verification => Fault::Verification,
                    Cause::Facts | Cause::Probes => Fault::Probe(silent),
                    Cause::Expired => Fault::Expired,
                },
                why: message.to_string(),
                now: match recovery {
                    Recovery::Works => Afterwards::Works,
                    Recovery::Differs { message } => Afterwards::Differs(message.to_string()),
                    Recovery::Pending { message } => Afterwards::Pending(message.to_string()),
                },
            }
        }
    }
}

/// This machine, with one more question: is the node ready in the cluster's eyes?
struct Probed<'a> {
    host: Host,
    readiness: Option<Readiness<'a>>,
    leftover: Option<Checkpoint>,
    stage: Cell<Stage>,
    count: &'a dyn Fn(&ClauseReport),
}

/// How far a change is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    NotBegun,
    /// It waits for the checkpoint of somebody else.
    Waiting,
    Begun,
    TakenBack,
}

impl<'a> Probed<'a> {
    fn new(
        readiness: Option<Readiness<'a>>,
        leftover: Option<Checkpoint>,
        count: &'a dyn Fn(&ClauseReport),
    ) -> Self {
        Self { host: Host, readiness, leftover, stage: Cell::new(Stage::NotBegun), count }
    }

    /// A change that did not work is gone afterwards.
    fn or_taken_back<T, E>(&self, result: Result<T, E>) -> Result<T, E> {
        if result.is_err() {
            self.stage.set(Stage::TakenBack);
        }
        result
    }
}

struct Readiness<'a> {
    nodes: Api<Node>,
    node: &'a str,
    when: When,
    /// The first answer is the one from before the change.
    held_before: Cell<Option<bool>>,
}

const READY: &str = "the node is ready";

impl Readiness<'_> {
    async fn ask(&self, limit: Duration, stage: Stage) -> Option<ClauseReport> {
        let begun = Instant::now();
        let asked = tokio::time::timeout(limit, self.nodes.get(self.node)).await;
        let milliseconds = begun.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        let (holds, detail) = match asked {
            Ok(Ok(node)) if is_ready(&node) => (true, "ready".to_owned()),
            Ok(Ok(_)) => (false, "not ready".to_owned()),
            Ok(Err(error)) => (false, error.to_string()),
            Err(_) => (false, format!("no answer within {} s", limit.as_secs())),
        };
        let before = self.held_before.get();
        self.held_before.set(before.or(Some(holds)));
        // A node that was not ready before the change need not be so without it.
        let need_not = self.when == When::HeldBefore || stage == Stage::TakenBack;
        if need_not && before == Some(false) {
            return None;
        }
        let probe = ProbeReport {
            probe: format!("node {}", self.node).into(),
            answered: holds,
            detail: detail.into(),
            milliseconds,
        };
        Some(ClauseReport { about: READY.into(), holds, probes: vec![probe] })
    }
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

impl Network for Probed<'_> {
    async fn state(&self) -> Result<NetworkState, NmstateError> {
        self.host.state().await
    }

    async fn apply(&self, desired: &NetworkState, life: Duration) -> Result<(), NmstateError> {
        self.stage.set(Stage::Begun);
        self.or_taken_back(self.host.apply(desired, life).await)
    }

    async fn checkpoints(&self) -> Result<Vec<Checkpoint>, ManagerError> {
        let all = self.host.checkpoints().await?;
        let is_others = |it: &Checkpoint| Some(it) != self.leftover.as_ref();
        if self.stage.get() == Stage::NotBegun && all.iter().any(is_others) {
            self.stage.set(Stage::Waiting);
            tracing::info!("another program is changing the network; waiting for its end");
        }
        Ok(all)
    }

    async fn commit(&self, checkpoint: &Checkpoint) -> Result<(), NmstateError> {
        self.or_taken_back(self.host.commit(checkpoint).await)
    }

    async fn roll_back(&self, checkpoint: &Checkpoint) -> Result<(), NmstateError> {
        if self.stage.get() == Stage::Begun {
            self.stage.set(Stage::TakenBack);
        }
        self.host.roll_back(checkpoint).await
    }

    async fn ask(&self, questions: &[Question], limit: Duration) -> Vec<ClauseReport> {
        let node = async {
            match &self.readiness {
                Some(readiness) => readiness.ask(limit, self.stage.get()).await,
                None => None,
            }
        };
        let (mut reports, node) = tokio::join!(self.host.ask(questions, limit), node);
        // Last, so that the others keep the places of their questions.
        reports.extend(node);
        reports.iter().for_each(self.count);
        reports
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn around() -> Surroundings {
        Surroundings {
            api: Endpoint { host: "api.example".into(), port: 6443 },
            dns_name: "example".into(),
            timing: Timing::patient(Duration::from_secs(5)),
        }
    }

    fn asked(probes: &Probes) -> Vec<(String, When)> {
        let (gate, _) = gate(probes, &around());
        gate.clauses.iter().map(|it| (it.any_of[0].to_string(), it.when)).collect()
    }

    #[test]
    fn the_api_server_decides_whatever_a_policy_says() {
        let api = ("the API server api.example:6443 answers".to_owned(), When::Always);
        let usual = asked(&Probes::WhatAnsweredBefore);
        assert_eq!(usual[0], api);
        assert_eq!(asked(&Probes::These(BTreeSet::new())), [api]);
        assert!(usual[1..].iter().all(|(_, when)| *when == When::HeldBefore));
        let dns = asked(&Probes::These(BTreeSet::from([ProbeKind::Dns])));
        assert_eq!(dns[1], ("a name server answers".to_owned(), When::Always));
    }

    #[test]
    fn a_change_that_was_taken_back_names_the_probe_that_was_not_answered() {
        let (_, names) = gate(&Probes::WhatAnsweredBefore, &around());
        let clause =
            |about: &str, holds| ClauseReport { about: about.into(), holds, probes: vec![] };
        let after = node_network::Observation {
            probes: vec![
                clause("the API server api.example:6443 answers", true),
                clause("a default gateway answers", false),
            ],
            ..Default::default()
        };
        let outcome = Outcome::RolledBack {
            cause: Cause::Probes,
            message: "why".into(),
            after,
            recovery: Recovery::Works,
        };
        let expected = Attempt::TakenBack {
            fault: Fault::Probe(Some("gateway".into())),
            why: "why".into(),
            now: Afterwards::Works,
        };
        assert_eq!(attempt(&outcome, &names), expected);
    }
}
