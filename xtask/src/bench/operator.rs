//! `cargo xtask bench operator`: a roll-out on hundreds of nodes at a real API server.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::program::{self, Profile};
use crate::set_up;

#[derive(Args)]
pub(crate) struct Arguments {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 500)]
    nodes: usize,
    /// How long each change of a network takes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    change: u64,
    /// Twenty nodes: shows that the benchmark works, and no more
    #[arg(long)]
    quick: bool,
}

pub(crate) fn operator(arguments: &Arguments) -> Result<()> {
    set_up::test_tools()?;
    let handler = program::build_program("nmstate-operator", "nmstate-operator", Profile::Release)?;
    let bench = program::build_example("nmstate-operator", "many_nodes")?;
    let nodes = if arguments.quick { 20 } else { arguments.nodes };
    let status = Command::new(&bench)
        .args(["--nodes", &nodes.to_string(), "--change", &arguments.change.to_string()])
        .arg("--program")
        .arg(&handler)
        .status()
        .with_context(|| format!("running {}", bench.display()))?;
    ensure!(status.success(), "the benchmark ended with {status}");
    Ok(())
}
