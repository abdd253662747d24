//! Pausing and stopping a run from outside.

use std::sync::Arc;

use registry::{Allowed, RateLimiter};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use workspace::{ControlRequest, ControlState, Controlled, Journal, JournalEvent};

/// The switch of a run.
#[derive(Debug)]
pub(crate) struct RunControl {
    held: watch::Sender<bool>,
    /// Holds transfers that are in progress.
    limiter: RateLimiter,
    cancel: CancellationToken,
    journal: Option<Arc<Journal>>,
}

impl RunControl {
    pub(crate) fn new(cancel: CancellationToken, journal: Option<Arc<Journal>>) -> Self {
        let limiter = RateLimiter::default();
        Self { held: watch::Sender::new(false), limiter, cancel, journal }
    }

    /// A limit that all transfers of the run must share, so that a pause holds them.
    pub(crate) fn limiter(&self) -> RateLimiter {
        self.limiter.clone()
    }

    /// Tells transfers when to hold.
    pub(crate) fn hold(&self) -> Hold {
        Hold(self.held.subscribe())
    }

    /// Whether transfers are held, for other processes that work for the run.
    pub(crate) fn held(&self) -> watch::Receiver<bool> {
        self.held.subscribe()
    }

    #[cfg(test)]
    pub(crate) fn token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    fn set(&self, is_held: bool, event: JournalEvent) {
        let changed =
            self.held.send_if_modified(|held| std::mem::replace(held, is_held) != is_held);
        self.limiter.set(if is_held { Allowed::Nothing } else { Allowed::Everything });
        if let (true, Some(journal)) = (changed, &self.journal) {
            // The state is decisive; the journal is only for those who follow the run.
            let _ = journal.append(event);
        }
    }
}

impl Controlled for RunControl {
    fn control(&self, request: ControlRequest) -> ControlState {
        match request {
            ControlRequest::State => {}
            ControlRequest::Pause => self.set(true, JournalEvent::Paused),
            ControlRequest::Resume => self.set(false, JournalEvent::Resumed),
            ControlRequest::Stop => self.cancel.cancel(),
        }
        if self.cancel.is_cancelled() {
            ControlState::Stopping
        } else if *self.held.borrow() {
            ControlState::Paused
        } else {
            ControlState::Running
        }
    }
}

/// Whether a run is paused: then no transfer begins.
#[derive(Debug, Clone)]
pub(crate) struct Hold(watch::Receiver<bool>);

impl Hold {
    pub(crate) fn is_held(&mut self) -> bool {
        *self.0.borrow_and_update()
    }

    /// Returns once the run was paused or resumed.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The run is over.
            std::future::pending::<()>().await;
        }
    }
}
