//! The node itself: its name, its network, NetworkManager.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use node_network::network_manager::{ActiveProfile, Manager};
use node_network::{
    ExpectedNetwork, Host, Network as _, NetworkState, Observation, Outcome, RecordFile, Timing,
    Transaction, observe,
};
use tokio::runtime::{Builder, Runtime};

/// How long the previous profiles may take to become active again.
const REACTIVATION: Duration = Duration::from_secs(60);
/// How long one probe may take.
const PROBE: Duration = Duration::from_secs(3);

/// A node, or something that behaves like one.
pub(crate) trait Node {
    fn hostname(&self) -> String;
    fn state(&self) -> Result<NetworkState>;
    fn active_profiles(&self) -> Result<Vec<ActiveProfile>>;
    /// Makes NetworkManager read its profiles again and use these. Returns those it does not use.
    /// `changed` are the UUIDs of profiles whose files changed.
    fn use_profiles(
        &self,
        wanted: &[ActiveProfile],
        changed: &BTreeSet<String>,
    ) -> Result<Vec<ActiveProfile>>;
    /// Applies settings that are not part of a profile.
    fn restore_settings(&self, settings: &NetworkState) -> Result<()>;
    /// Observes until the network is as it should be, for `patience` at most.
    fn observe(&self, expected: &ExpectedNetwork, patience: Duration) -> Observation;
    fn change(&self, change: &Change<'_>) -> Outcome;
    /// Removes a bridge of that name which Open vSwitch has from an earlier boot and which
    /// NetworkManager does not use. Returns whether there was one.
    fn remove_stale_bridge(&self, name: &str) -> Result<bool>;
}

/// A change of the network.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) desired: &'a NetworkState,
    pub(crate) expected: &'a ExpectedNetwork,
    pub(crate) patience: Duration,
    /// The name of the document.
    pub(crate) label: &'a str,
    pub(crate) record: RecordFile,
}

/// The machine this runs on.
#[derive(Debug)]
pub(crate) struct ThisNode {
    runtime: Runtime,
}

impl ThisNode {
    pub(crate) fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self { runtime: runtime.context("starting a runtime")? })
    }
}

impl Node for ThisNode {
    fn hostname(&self) -> String {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    }

    fn state(&self) -> Result<NetworkState> {
        self.runtime.block_on(Host.state()).context("reading the network state")
    }

    fn active_profiles(&self) -> Result<Vec<ActiveProfile>> {
        self.runtime.block_on(async { Ok(Manager::connect().await?.active_profiles().await?) })
    }

    fn use_profiles(
        &self,
        wanted: &[ActiveProfile],
        changed: &BTreeSet<String>,
    ) -> Result<Vec<ActiveProfile>> {
        self.runtime.block_on(async {
            let manager = Manager::connect().await?;
            manager.reload_profiles().await?;
            Ok(manager.activate(wanted, changed, REACTIVATION).await?)
        })
    }

    fn restore_settings(&self, settings: &NetworkState) -> Result<()> {
        let restored = self.runtime.block_on(Host.restore(settings, REACTIVATION));
        restored.context("applying them with nmstate")
    }

    fn observe(&self, expected: &ExpectedNetwork, patience: Duration) -> Observation {
        self.runtime.block_on(observe::wait(&Host, expected, patience, PROBE))
    }

    fn change(&self, change: &Change<'_>) -> Outcome {
        let transaction = Transaction {
            label: change.label,
            memory_only: false,
            desired: change.desired,
            expected: change.expected,
            timing: Timing::patient(change.patience),
            record: &change.record,
        };
        self.runtime.block_on(Box::pin(transaction.run(&Host)))
    }

    fn remove_stale_bridge(&self, name: &str) -> Result<bool> {
        let vsctl = |words: &[&str]| {
            Command::new("ovs-vsctl")
                .args(["--timeout=30", "--no-wait"])
                .args(words)
                .stdin(Stdio::null())
                .output()
                .context("running ovs-vsctl")
        };
        if !vsctl(&["br-exists", name])?.status.success() {
            return Ok(false);
        }
        if self.active_profiles()?.iter().any(|profile| profile.device == name) {
            return Ok(false);
        }
        let output = vsctl(&["--if-exists", "del-br", name])?;
        anyhow::ensure!(
            output.status.success(),
            "`ovs-vsctl del-br {name}` ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(true)
    }
}
