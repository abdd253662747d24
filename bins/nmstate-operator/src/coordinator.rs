//! The coordinator.

use anyhow::{Result, bail};
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Arguments {}

/// Runs until it is asked to stop.
pub(crate) async fn run(_arguments: &Arguments) -> Result<()> {
    bail!("this build has no coordinator")
}
