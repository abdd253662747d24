//! `cargo xtask demo`: our programs at work, on this machine alone.

mod cluster;
mod exhibits;
mod mirroring;
mod policies;
mod reader;
mod stage;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::program::{self, Profile};
use crate::set_up;
use crate::steps::Outcome;
use policies::Ending;
use stage::{heading, say};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Leave the folder with workspace, archives and manifests behind
    #[arg(long)]
    keep: bool,
    #[command(subcommand)]
    show: Option<Show>,
}

#[derive(Subcommand)]
enum Show {
    /// Change the network of two nodes by policies, at a real API server; needs root
    Policies {
        /// Let the cluster run at the end, for commands of your own, until Ctrl-C
        #[arg(long)]
        stay: bool,
    },
}

/// The step of `cargo xtask test`: a demo that does not work is a broken build.
pub(crate) fn check() -> Result<Outcome> {
    let programs = program::build_all()?;
    mirroring::show(programs.path("oc-mirror")?.to_owned(), false)?;
    policies::show(programs.path("nmstate-operator")?, Ending::AtOnce)?;
    Ok(Outcome::Done)
}

/// `cargo xtask demo`.
pub(crate) fn demo(arguments: &Arguments) -> Result<()> {
    match arguments.show {
        None => {
            heading("Building oc-mirror");
            // A release build would compile everything again, for a speed that a few megabytes do
            // not need.
            say("A minute or two on two cores the first time, seconds later.");
            mirroring::show(program::build(Profile::Development)?, arguments.keep)
        }
        Some(Show::Policies { stay }) => {
            heading("Building nmstate-operator, and what a cluster consists of");
            say("The first time a quarter of an hour on two cores, seconds later.");
            set_up::packages()?;
            set_up::cluster_tools()?;
            let program = program::build_program(
                "nmstate-operator",
                "nmstate-operator",
                Profile::Development,
            )?;
            policies::show(&program, if stay { Ending::OnInterrupt } else { Ending::AtOnce })
        }
    }
}
