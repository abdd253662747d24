//! Kills programs at random moments and checks that nothing is lost. `cargo xtask torture` builds
//! and runs it.

mod mirror;
mod random;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Kill programs at random moments and check that nothing is lost
#[derive(Parser)]
#[command(bin_name = "cargo xtask torture", disable_version_flag = true)]
struct Torture {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kill oc-mirror in all three modes, then let it finish and compare the registries
    Mirror(Arguments),
}

#[derive(clap::Args)]
struct Arguments {
    /// The oc-mirror to run
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// How many runs are killed, in all modes together
    #[arg(long, value_name = "N", default_value_t = 300)]
    kills: usize,
    /// 12 kills
    #[arg(long, conflicts_with = "kills")]
    short: bool,
    /// Repeats the moments of an earlier campaign
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let Command::Mirror(arguments) = Torture::parse().command;
    let kills = if arguments.short { 12 } else { arguments.kills };
    match mirror::run(&arguments.program, kills, arguments.seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
