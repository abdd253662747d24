//! Requests to stop: SIGTERM from the kubelet, SIGINT from a terminal.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled when this process is requested to stop. Call it within a runtime.
pub(crate) fn requested() -> Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        cancelled.cancel();
    });
    Ok(token)
}
