//! Finishes a change that was interrupted: by the end of the program, of NetworkManager or of the
//! node.

use std::time::Duration;

use futures_util::future::{Either, select};
use nmstate::{ErrorKind, NmstateError};

use crate::network_manager::{Checkpoint, ManagerError};
use crate::record::{Record, RecordError, RecordFile, Restoring, Stage};
use crate::transaction::Network;

/// The interval between two requests for NetworkManager's checkpoints.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The result of the recovery of an interrupted change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// There was none.
    Nothing,
    /// The node has its previous network.
    RolledBack { label: String },
    /// The change had been confirmed and is complete.
    Completed { label: String },
}

#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Manager(#[from] ManagerError),
    #[error("rolling back to the checkpoint: {0}")]
    Checkpoint(NmstateError),
    #[error("restoring the former network: {0}")]
    Restore(NmstateError),
    #[error("saving the confirmed network: {0}")]
    Persist(NmstateError),
}

/// Finishes the recorded change, if there is one. After an error the record is still there: call
/// it again. No other change may begin before it succeeds.
pub async fn recover(
    network: &impl Network,
    file: &RecordFile,
    life: Duration,
) -> Result<Recovered, RecoveryError> {
    let Some(record) = file.read()? else { return Ok(Recovered::Nothing) };
    let label = record.label.clone();
    let completed = record.stage == Stage::Confirmed && file.is_of_this_boot(&record);
    if completed {
        persist(network, &record).await?;
    } else {
        let rolled_back = roll_back(network, file, &record, life).await;
        // A trial in memory ends with the boot: after a reboot the node has its previous profiles
        // anyway, and a device that is missing since then must not block other changes.
        let is_in_memory = record.stage != Stage::Confirmed && !record.on_disk;
        let is_gone = is_in_memory && !file.is_of_this_boot(&record);
        match rolled_back {
            Err(RecoveryError::Restore(error)) if is_gone && !is_temporary(error.kind()) => {}
            other => other?,
        }
    }
    file.clear()?;
    Ok(match completed {
        true => Recovered::Completed { label },
        false => Recovered::RolledBack { label },
    })
}

/// Whether NetworkManager may be able to do it later.
fn is_temporary(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PluginFailure | ErrorKind::Bug)
}

/// Saves a confirmed change to disk, so that it survives a reboot.
pub(crate) async fn persist(network: &impl Network, record: &Record) -> Result<(), RecoveryError> {
    match record.memory_only || record.on_disk {
        true => Ok(()),
        false => network.persist(&record.desired).await.map_err(RecoveryError::Persist),
    }
}

/// Returns to the previous network: by the checkpoint if NetworkManager still has it, else by the
/// recorded state.
pub(crate) async fn roll_back(
    network: &impl Network,
    file: &RecordFile,
    record: &Record,
    life: Duration,
) -> Result<(), RecoveryError> {
    // A restarted NetworkManager counts its checkpoints from one again: a checkpoint of the same
    // name is another one, of another program or of our own restoring.
    let manager = network.manager().await?;
    let is_same = file.is_of_this_boot(record) && record.manager.as_ref() == Some(&manager);
    if let Some(own) = record.checkpoint.as_ref().filter(|_| is_same) {
        if network.checkpoints().await?.contains(own) {
            match network.roll_back(own).await {
                Ok(()) => return restore_settings(network, record, life).await,
                // Another attempt may succeed while NetworkManager has the checkpoint.
                Err(error) if network.checkpoints().await?.contains(own) => {
                    return Err(RecoveryError::Checkpoint(error));
                }
                Err(_) => {}
            }
        }
        // The same NetworkManager does not have the checkpoint any more: it rolled back by itself,
        // unless the checkpoint was removed because the change was good.
        if record.stage == Stage::Trial {
            return restore_settings(network, record, life).await;
        }
    }
    if let Some(left) = &record.restoring
        && (left.boot.as_str(), &left.manager) == (file.boot(), &manager)
    {
        remove_checkpoint(network, &left.checkpoint).await?;
    }
    restore(network, file, record, &manager, life).await
}

/// Removes the checkpoint of a restore that was interrupted. NetworkManager rejects a second one
/// until then. What was restored under it is kept, and the rest follows.
async fn remove_checkpoint(network: &impl Network, left: &Checkpoint) -> Result<(), RecoveryError> {
    if network.checkpoints().await?.contains(left)
        && let Err(error) = network.commit(left).await
        && network.checkpoints().await?.contains(left)
    {
        return Err(RecoveryError::Checkpoint(error));
    }
    Ok(())
}

/// Restores what NetworkManager's checkpoint does not cover.
async fn restore_settings(
    network: &impl Network,
    record: &Record,
    life: Duration,
) -> Result<(), RecoveryError> {
    match crate::settings::of(&record.revert) {
        Some(settings) => network.restore(&settings, life).await.map_err(RecoveryError::Restore),
        None => Ok(()),
    }
}

/// Applies the recorded state. NetworkManager or the node may have restarted: the checkpoint does
/// not exist any more, and NetworkManager may use the changed profiles. If interrupted, it is
/// repeated.
async fn restore(
    network: &impl Network,
    file: &RecordFile,
    record: &Record,
    manager: &str,
    life: Duration,
) -> Result<(), RecoveryError> {
    let mut revert = record.revert.clone();
    revert.set_memory_only(record.memory_only);
    let others = network.checkpoints().await?;
    let watch = async {
        loop {
            let all = network.checkpoints().await.unwrap_or_default();
            if let Some(own) = all.into_iter().find(|it| !others.contains(it)) {
                return own;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let restore = Box::pin(network.restore(&revert, life));
    let restored = match select(restore, Box::pin(watch)).await {
        Either::Left((restored, _)) => restored,
        Either::Right((checkpoint, restore)) => {
            let (boot, manager) = (file.boot().to_owned(), manager.to_owned());
            let mut note = record.clone();
            note.restoring = Some(Restoring { boot, manager, checkpoint });
            // Without the note, an interrupted restore is repeated when its checkpoint has expired.
            let _ = file.write(&note);
            restore.await
        }
    };
    restored.map_err(RecoveryError::Restore)
}
