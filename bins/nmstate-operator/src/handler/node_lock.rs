//! One handler per node: a lock on a file that all versions of the handler use.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The lock. It is released when this is dropped, or when the process ends in any way.
#[derive(Debug)]
pub(super) struct NodeLock {
    _file: File,
}

impl NodeLock {
    /// Waits until no other handler acts on this node.
    pub(super) async fn take(path: &Path) -> Result<Self> {
        let opening = || format!("opening the lock of this node, {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(opening)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .with_context(opening)?;
        let mut is_said = false;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("locking {}", path.display()));
                }
            }
            if !is_said {
                tracing::info!("another handler acts on this node; waiting for {}", path.display());
                is_said = true;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_handler_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/handler_lock");
        let first = NodeLock::take(&path).await.unwrap();
        let mut second = Box::pin(NodeLock::take(&path));
        let early = tokio::time::timeout(Duration::from_millis(50), &mut second).await;
        assert!(early.is_err(), "the first one still has it");
        drop(first);
        second.await.unwrap();
    }
}
