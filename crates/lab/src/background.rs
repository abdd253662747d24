//! Threads that serve beside the caller.

use std::future::Future;
use std::net::TcpListener;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// A small separate runtime. Everything on it ends when this is dropped,
/// which never waits: callers may themselves be asynchronous.
#[derive(Debug)]
pub struct Background(Option<Runtime>);

impl Background {
    /// Starts two threads with this name.
    pub fn start(name: &str) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(name)
            .enable_all()
            .build()
            .with_context(|| format!("starting the threads of {name}"))?;
        Ok(Self(Some(runtime)))
    }

    /// Runs a task until it ends or this is dropped.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0 {
            runtime.spawn(task);
        }
    }

    /// Makes a listener one of this runtime's.
    pub(crate) fn listener(&self, listener: TcpListener) -> Result<tokio::net::TcpListener> {
        let _entered = self.0.as_ref().map(Runtime::enter);
        listener
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(listener))
            .context("listening")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
