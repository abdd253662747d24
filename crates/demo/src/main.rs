//! Demonstrates the programs on this machine only. `cargo xtask demo` builds and runs it.

mod cluster;
mod mirroring;
mod oc_mirror;
mod output;
mod policies;
mod reader;
mod source_images;
mod upstream;

use std::path::{self, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use policies::Ending;

/// Demonstrate oc-mirror and nmstate-operator
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
        /// Run this oc-mirror
        #[arg(long, value_name = "FILE")]
        program: PathBuf,
        /// Keep the folder with workspace, archives and manifests
        #[arg(long)]
        keep: bool,
    },
    /// Change the network of two nodes by policies, at a real API server; needs root
    Policies {
        /// Run this nmstate-operator
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
    // Commands run in other folders.
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
