//! The network of the node, as the handler uses it.

use std::cell::Cell;
use std::net::IpAddr;
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
    Check, CheckProbes, CheckReport, Checks, Endpoint, ProbeReport, Target, When,
};
use node_network::recovery::RecoveryError;
use node_network::transaction::Phase;
use node_network::{
    ApiTrust, Checkpoint, ExpectedNetwork, Host, Network, RecordFile, Recovered, Timing,
    Transaction, events, recover,
};
use node_policy::Attempt;
use node_policy::verdict::probe_kind;
use tokio::sync::Mutex;

use super::handler_metrics::HandlerMetrics;

/// One change of the network.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// Names the change; [`Machine::recover`] returns it after an interruption.
    pub label: &'a str,
    pub desired: &'a NetworkState,
    pub probes: &'a Probes,
    pub persistence: Persistence,
    /// How long the network may take to work; the default without it.
    pub patience: Option<Duration>,
    /// The name that the DNS probe resolves; the default without it.
    pub dns_name: Option<&'a str>,
    /// The address that the gateway probe pings; the default gateways without it.
    pub ping_target: Option<IpAddr>,
}

/// What a handler works on. [`NodeNetwork`] is the network of this machine.
#[allow(async_fn_in_trait)] // Used with concrete types; `Send` futures are not needed.
pub trait Machine {
    async fn state(&self) -> Result<NetworkState, NmstateError>;
    /// Makes a change, or rolls it back. If dropped in the middle, it leaves a change that
    /// [`Machine::recover`] finishes.
    async fn change(&self, change: &Change<'_>) -> Attempt;
    /// Finishes a change that was interrupted. After an error it must be called again before the
    /// next change.
    async fn recover(&self) -> Result<Recovered, RecoveryError>;
    /// Returns when something changed since the last time.
    async fn changed(&self);
    /// Whether a change survives a reboot, given what its policy specifies.
    fn persistence(&self, requested: Option<Persistence>) -> Persistence {
        requested.unwrap_or_default()
    }
    /// The version of NetworkManager.
    async fn version(&self) -> Option<String>;
}

/// The settings of probes and changes.
#[derive(Debug, Clone)]
pub(crate) struct ProbeSettings {
    pub(crate) api: Endpoint,
    /// The trusted CAs for the API server; none for a kubeconfig without TLS or a CA.
    pub(crate) trust: Option<ApiTrust>,
    pub(crate) dns_name: String,
    pub(crate) timing: Timing,
    /// The persistence of policies that do not specify it.
    pub(crate) persistence: Persistence,
}

/// The network of this machine.
pub(crate) struct NodeNetwork {
    pub(crate) client: Client,
    pub(crate) node: NodeName,
    pub(crate) settings: ProbeSettings,
    pub(crate) record: RecordFile,
    pub(crate) events: Mutex<Option<BoxStream<'static, ()>>>,
    pub(crate) metrics: HandlerMetrics,
}

impl std::fmt::Debug for NodeNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeNetwork").field("node", &self.node).finish_non_exhaustive()
    }
}

/// The delay before listening for changes is retried.
const LISTEN_RETRY_DELAY: Duration = Duration::from_secs(5);

impl Machine for NodeNetwork {
    async fn state(&self) -> Result<NetworkState, NmstateError> {
        Host.state().await
    }

    async fn change(&self, change: &Change<'_>) -> Attempt {
        let dns_name = change.dns_name.unwrap_or(&self.settings.dns_name);
        let checks = checks(change.probes, &self.settings.api, dns_name, change.ping_target);
        let expected = ExpectedNetwork { bridge: None, checks };
        let readiness = readiness(change.probes).map(|when| Readiness {
            nodes: Api::all(self.client.clone()),
            node: self.node.as_str(),
            when,
            held_before: Cell::new(None),
        });
        let count = |report: &CheckReport| {
            if let Some(kind) = probe_kind(report) {
                self.metrics.probes(kind, &report.probes);
            }
        };
        let network = Probed::new(readiness, self.settings.trust.as_ref(), &count);
        let transaction = Transaction {
            label: change.label,
            desired: change.desired,
            memory_only: change.persistence == Persistence::MemoryOnly,
            expected: &expected,
            timing: change.patience.map_or(self.settings.timing, Timing::patient),
            record: &self.record,
        };
        Attempt::of(&Box::pin(transaction.run(&network)).await)
    }

    async fn recover(&self) -> Result<Recovered, RecoveryError> {
        Box::pin(recover(&Host, &self.record, self.settings.timing.checkpoint)).await
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
                // Events in between were missed.
                Ok(events) => {
                    *stream = Some(events);
                    return;
                }
                Err(error) => {
                    tracing::warn!("{:#}", anyhow::Error::new(error));
                    tokio::time::sleep(LISTEN_RETRY_DELAY).await;
                }
            }
        }
    }

    fn persistence(&self, requested: Option<Persistence>) -> Persistence {
        requested.unwrap_or(self.settings.persistence)
    }

    async fn version(&self) -> Option<String> {
        Manager::connect().await.ok()?.version().await.ok()
    }
}

/// The probes that must succeed after a change.
fn checks(probes: &Probes, api: &Endpoint, dns_name: &str, ping_target: Option<IpAddr>) -> Checks {
    let target = |kind: ProbeKind| match kind {
        ProbeKind::ApiServer => Some(Target::ApiServer(api.clone())),
        ProbeKind::Gateway => Some(match ping_target {
            Some(address) => Target::Ping(address),
            None => Target::DefaultGateway { interface: None },
        }),
        ProbeKind::Dns => Some(Target::NameServers { name: dns_name.to_owned() }),
        // Checked in the cluster, not in the network.
        ProbeKind::NodeReadiness => None,
    };
    let mut checks = Checks::default();
    for kind in ProbeKind::ALL {
        let when = match (kind, probes) {
            (ProbeKind::ApiServer, _) => When::Always,
            (_, Probes::SucceededBefore) => When::HeldBefore,
            (_, Probes::These(these)) if these.contains(&kind) => When::Always,
            (_, Probes::These(_)) => continue,
        };
        if let Some(target) = target(kind) {
            checks.list.push(Check { id: kind.name(), any_of: vec![target], when });
        }
    }
    checks
}

fn readiness(probes: &Probes) -> Option<When> {
    match probes {
        Probes::SucceededBefore => Some(When::HeldBefore),
        Probes::These(these) => these.contains(&ProbeKind::NodeReadiness).then_some(When::Always),
    }
}

/// This machine, with one more probe: whether the cluster considers the node ready.
struct Probed<'a> {
    host: Host,
    readiness: Option<Readiness<'a>>,
    trust: Option<&'a ApiTrust>,
    phase: Cell<Phase>,
    count: &'a dyn Fn(&CheckReport),
}

impl<'a> Probed<'a> {
    fn new(
        readiness: Option<Readiness<'a>>,
        trust: Option<&'a ApiTrust>,
        count: &'a dyn Fn(&CheckReport),
    ) -> Self {
        Self { host: Host, readiness, trust, phase: Cell::new(Phase::Preparing), count }
    }
}

struct Readiness<'a> {
    nodes: Api<Node>,
    node: &'a str,
    when: When,
    /// Whether one of the probes before the change succeeded.
    held_before: Cell<Option<bool>>,
}

impl Readiness<'_> {
    async fn probe(&self, limit: Duration, phase: Phase) -> Option<CheckReport> {
        let begun = Instant::now();
        let response = tokio::time::timeout(limit, self.nodes.get(self.node)).await;
        let milliseconds = begun.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        let (holds, detail) = match response {
            Ok(Ok(node)) if is_ready(&node) => (true, "ready".to_owned()),
            Ok(Ok(_)) => (false, "not ready".to_owned()),
            Ok(Err(error)) => (false, error.to_string()),
            Err(_) => (false, format!("no response within {} s", limit.as_secs())),
        };
        let is_before = phase < Phase::Trial;
        if is_before {
            let before = self.held_before.get().unwrap_or(false);
            self.held_before.set(Some(before || holds));
        }
        // A node that was not ready before the change need not be so without it.
        let need_not = self.when == When::HeldBefore || phase == Phase::RollingBack;
        if !is_before && need_not && self.held_before.get() == Some(false) {
            return None;
        }
        let probe = ProbeReport {
            probe: format!("node {}", self.node).into(),
            answered: holds,
            detail: detail.into(),
            milliseconds,
        };
        let (id, about) = (ProbeKind::NodeReadiness.name().to_owned(), "the node is ready".into());
        Some(CheckReport { id, about, holds, probes: vec![probe] })
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

    async fn state_with_secrets(&self) -> Result<NetworkState, NmstateError> {
        self.host.state_with_secrets().await
    }

    async fn apply(&self, desired: &NetworkState, life: Duration) -> Result<(), NmstateError> {
        self.host.apply(desired, life).await
    }

    async fn persist(&self, desired: &NetworkState) -> Result<(), NmstateError> {
        self.host.persist(desired).await
    }

    async fn restore(&self, former: &NetworkState, life: Duration) -> Result<(), NmstateError> {
        self.host.restore(former, life).await
    }

    async fn checkpoints(&self) -> Result<Vec<Checkpoint>, ManagerError> {
        self.host.checkpoints().await
    }

    async fn manager(&self) -> Result<String, ManagerError> {
        self.host.manager().await
    }

    async fn commit(&self, checkpoint: &Checkpoint) -> Result<(), NmstateError> {
        self.host.commit(checkpoint).await
    }

    async fn roll_back(&self, checkpoint: &Checkpoint) -> Result<(), NmstateError> {
        self.host.roll_back(checkpoint).await
    }

    fn reached(&self, phase: Phase) {
        if phase == Phase::Waiting && self.phase.get() != Phase::Waiting {
            tracing::info!("another program is changing the network; waiting for its end");
        }
        self.phase.set(phase);
    }

    async fn probe(&self, requests: &[CheckProbes], limit: Duration) -> Vec<CheckReport> {
        let node = async {
            match &self.readiness {
                Some(readiness) => readiness.probe(limit, self.phase.get()).await,
                None => None,
            }
        };
        let (mut reports, node) =
            tokio::join!(self.host.probe_trusted(requests, limit, self.trust), node);
        // Last, so that the others keep the places of their requests.
        reports.extend(node);
        reports.iter().for_each(self.count);
        reports
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn selected(probes: &Probes) -> Vec<(String, When)> {
        let api = Endpoint { host: "api.example".into(), port: 6443 };
        let checks = checks(probes, &api, "example", None);
        checks.list.iter().map(|it| (it.any_of[0].to_string(), it.when)).collect()
    }

    #[test]
    fn the_api_server_is_always_probed() {
        let api = ("the API server api.example:6443 responds".to_owned(), When::Always);
        let usual = selected(&Probes::SucceededBefore);
        assert_eq!(usual[0], api);
        assert_eq!(selected(&Probes::These(BTreeSet::new())), [api]);
        assert!(usual[1..].iter().all(|(_, when)| *when == When::HeldBefore));
        let dns = selected(&Probes::These(BTreeSet::from([ProbeKind::Dns])));
        assert_eq!(dns[1], ("a name server responds".to_owned(), When::Always));
    }

    #[test]
    fn a_ping_target_replaces_the_default_gateways() {
        let api = Endpoint { host: "api.example".into(), port: 6443 };
        let probes = Probes::These(BTreeSet::from([ProbeKind::Gateway]));
        let target = "192.0.2.7".parse().unwrap();
        let checks = checks(&probes, &api, "example", Some(target));
        assert_eq!(checks.list[1].any_of, [Target::Ping(target)]);
        assert_eq!(checks.list[1].id, ProbeKind::Gateway.name());
    }
}
