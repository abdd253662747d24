//! The network of this machine: nmstate and NetworkManager.

use std::time::Duration;

use nmstate::{NetworkState, NmstateError};

use crate::network_manager::{Checkpoint, Manager, ManagerError};
use crate::probe::{ClauseReport, Question};
use crate::reach;
use crate::transaction::Network;

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host;

impl Network for Host {
    async fn state(&self) -> Result<NetworkState, NmstateError> {
        let mut state = NetworkState::new();
        Box::pin(state.retrieve_async()).await?;
        Ok(state)
    }

    async fn apply(&self, desired: &NetworkState, life: Duration) -> Result<(), NmstateError> {
        let mut desired = desired.clone();
        desired.set_commit(false);
        desired.set_timeout(u32::try_from(life.as_secs()).unwrap_or(u32::MAX).max(1));
        Box::pin(desired.apply_async()).await
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

    async fn ask(&self, questions: &[Question], limit: Duration) -> Vec<ClauseReport> {
        reach::ask(questions, limit).await
    }
}
