//! Ctrl-C and SIGTERM: work is cancelled, and abandoned if it does not end.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long work may take to end. The whole program ends within 2 s.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Exit code of what was interrupted.
pub(crate) const EXIT_CODE: u8 = 130;

/// How work ended.
#[derive(Debug)]
pub(crate) enum Ended<T> {
    /// By itself, be it after a signal.
    Result(T),
    /// It did not end in time after a signal.
    Abandoned,
}

/// Runs work that ends early when its token is cancelled, which a signal does.
/// A second signal does not wait any longer.
pub(crate) async fn until_ended<T, F: Future<Output = T>>(
    work: impl FnOnce(CancellationToken) -> F,
) -> io::Result<Ended<T>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let cancel = CancellationToken::new();
    let mut work = Box::pin(work(cancel.clone()));
    tokio::select! {
        result = &mut work => return Ok(Ended::Result(result)),
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tracing::warn!("stopped by a signal: ending the work in progress");
    cancel.cancel();
    tokio::select! {
        result = &mut work => Ok(Ended::Result(result)),
        () = tokio::time::sleep(PATIENCE) => Ok(Ended::Abandoned),
        _ = interrupt.recv() => Ok(Ended::Abandoned),
        _ = terminate.recv() => Ok(Ended::Abandoned),
    }
}
