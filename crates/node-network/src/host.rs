//! The network of this machine: nmstate and NetworkManager.

use std::time::Duration;

use nmstate::{ErrorKind, NetworkState, NmstateError};

use crate::api_trust::ApiTrust;
use crate::network_manager::{Checkpoint, Manager, ManagerError};
use crate::persistence;
use crate::probe::{CheckProbes, CheckReport};
use crate::reach;
use crate::transaction::Network;

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host;

/// NetworkManager responds within this time, or hangs. Reading 1,500 interfaces takes seconds.
const STATE_LIMIT: Duration = Duration::from_secs(60);

impl Host {
    async fn read(self, with_secrets: bool) -> Result<NetworkState, NmstateError> {
        let mut state = NetworkState::new();
        state.set_include_secrets(with_secrets);
        let read = tokio::time::timeout(STATE_LIMIT, Box::pin(state.retrieve_async())).await;
        let hangs = || {
            let limit = STATE_LIMIT.as_secs();
            let message = format!("NetworkManager did not respond within {limit} s");
            NmstateError::new(ErrorKind::PluginFailure, message)
        };
        read.map_err(|_| hangs())??;
        Ok(state)
    }
}

impl Host {
    /// As [`Network::probe`], with API servers whose certificates are verified.
    pub async fn probe_trusted(
        &self,
        requests: &[CheckProbes],
        limit: Duration,
        trust: Option<&ApiTrust>,
    ) -> Vec<CheckReport> {
        reach::probe(requests, limit, trust).await
    }
}

impl Network for Host {
    async fn state(&self) -> Result<NetworkState, NmstateError> {
        self.read(false).await
    }

    async fn state_with_secrets(&self) -> Result<NetworkState, NmstateError> {
        self.read(true).await
    }

    async fn apply(&self, desired: &NetworkState, life: Duration) -> Result<(), NmstateError> {
        let mut desired = desired.clone();
        desired.set_commit(false);
        desired.set_timeout(seconds(life));
        Box::pin(desired.apply_async()).await
    }

    async fn persist(&self, desired: &NetworkState) -> Result<(), NmstateError> {
        let failed = |error: ManagerError| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let message = format!("{error}: {}", source.unwrap_or_default());
            NmstateError::new(ErrorKind::PluginFailure, message)
        };
        let manager = Manager::connect().await.map_err(failed)?;
        manager.save_profiles(&persistence::names(desired)).await.map_err(failed)?;
        if let Some(removals) = persistence::removals(desired) {
            Box::pin(removals.apply_async()).await?;
        }
        sync().await
    }

    async fn restore(&self, former: &NetworkState, life: Duration) -> Result<(), NmstateError> {
        let mut former = former.clone();
        former.set_timeout(seconds(life));
        Box::pin(former.apply_async()).await?;
        sync().await
    }

    async fn manager(&self) -> Result<String, ManagerError> {
        Manager::connect().await?.instance().await
    }

    async fn checkpoints(&self) -> Result<Vec<Checkpoint>, ManagerError> {
        Manager::connect().await?.checkpoints().await
    }

    async fn commit(&self, checkpoint: &Checkpoint) -> Result<(), NmstateError> {
        NetworkState::checkpoint_commit_async(checkpoint.as_str()).await
    }

    async fn roll_back(&self, checkpoint: &Checkpoint) -> Result<(), NmstateError> {
        NetworkState::checkpoint_rollback_async(checkpoint.as_str()).await
    }

    async fn probe(&self, requests: &[CheckProbes], limit: Duration) -> Vec<CheckReport> {
        reach::probe(requests, limit, None).await
    }
}

/// Returns when profiles are on the disk. NetworkManager does not wait for that when it creates the
/// file of a profile: after a power loss such a file may be empty, and the record of the change has
/// been removed by then. All file systems are synced, as a container does not see that of the
/// profiles.
async fn sync() -> Result<(), NmstateError> {
    let synced = tokio::task::spawn_blocking(rustix::fs::sync).await;
    synced.map_err(|error| NmstateError::new(ErrorKind::Bug, error.to_string()))
}

fn seconds(life: Duration) -> u32 {
    u32::try_from(life.as_secs()).unwrap_or(u32::MAX).max(1)
}
