//! Shows our programs at work, on this machine only. `cargo xtask demo` builds and runs it.

mod cluster;
mod exhibits;
mod mirroring;
mod policies;
mod reader;
mod stage;
mod upstream;

use std::path::{self, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use policies::Ending;

/// Show oc-mirror and nmstate-operator at work
#[derive(Parser)]
#[command(bin_name = "cargo xtask demo", disable_version_flag = true)]
struct Demo {
    #[command(subcommand)]
    show: Show,
}

#[derive(Subcommand)]
enum Show {
    /// Mirror images, a release and a catalog from registry to disk to registry
    Mirroring {
        /// The oc-mirror to run
        #[arg(long, value_name = "FILE")]
        program: PathBuf,
        /// Keep the folder with workspace, archives and manifests
        #[arg(long)]
        keep: bool,
    },
    /// Change the network of two nodes by policies, at a real API server; needs root
    Policies {
        /// The nmstate-operator to run
        #[arg(long, value_name = "FILE")]
        program: PathBuf,
        /// Keep the cluster running at the end, for your own commands, until Ctrl-C
        #[arg(long)]
        stay: bool,
    },
}

fn main() -> ExitCode {
    match run(Demo::parse().show) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(show: Show) -> Result<()> {
    // Commands run in folders of their own.
    let absolute = |program: &Path| {
        path::absolute(program).with_context(|| format!("finding {}", program.display()))
    };
    match show {
        Show::Mirroring { program, keep } => mirroring::show(&absolute(&program)?, keep),
        Show::Policies { program, stay } => {
            let ending = if stay { Ending::OnInterrupt } else { Ending::AtOnce };
            policies::show(&absolute(&program)?, ending)
        }
    }
}
