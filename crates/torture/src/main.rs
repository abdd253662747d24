//! Kills programs at random moments and checks that nothing is lost. `cargo xtask torture` builds
//! and runs it.

mod jobs;
mod mirror;
mod node;
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
    Mirror(Mirror),
    /// Kill the pods of a run in a cluster, and compare the registry and the report with those of one
    /// process
    Jobs(Jobs),
    /// Kill the handler, NetworkManager and the node during changes of the network, and compare the
    /// network with what is reported
    Node(Node),
}

#[derive(clap::Args)]
struct Mirror {
    /// Run this oc-mirror
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Kill this many runs, in all modes together
    #[arg(long, value_name = "N", default_value_t = 300)]
    kills: usize,
    /// Kill 12 runs only
    #[arg(long, conflicts_with = "kills")]
    short: bool,
    /// Repeat the random choices of the campaign with this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(clap::Args)]
struct Jobs {
    /// Run this oc-mirror
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Run pods from the image in this archive of a release [default: pods run the program]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Kill this many pods
    #[arg(long, value_name = "N", default_value_t = 64)]
    kills: usize,
    /// 8 kills, a tenth of the content, no lost node
    #[arg(long, conflicts_with = "kills")]
    short: bool,
    /// Repeat the random choices of the campaign with this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(clap::Args)]
struct Node {
    /// Run this nmstate-operator
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Kill this many times: handler, NetworkManager and node together
    #[arg(long, value_name = "N", default_value_t = 100)]
    kills: u64,
    /// Kill 5 times only
    #[arg(long, conflicts_with = "kills")]
    short: bool,
    /// Repeat the random choices of the campaign with this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Store the progress in this file after each change, and continue a campaign that was stopped
    #[arg(long, value_name = "FILE")]
    progress: Option<PathBuf>,
}

fn main() -> ExitCode {
    let ended = match Torture::parse().command {
        Command::Mirror(arguments) => {
            let kills = if arguments.short { 12 } else { arguments.kills };
            mirror::run(&arguments.program, kills, arguments.seed)
        }
        Command::Jobs(arguments) => jobs::run(&jobs::Plan {
            program: &arguments.program,
            image: arguments.image.as_deref(),
            kills: if arguments.short { 8 } else { arguments.kills },
            seed: arguments.seed,
            is_short: arguments.short,
        }),
        Command::Node(arguments) => node::run(&node::Plan {
            program: &arguments.program,
            kills: if arguments.short { 5 } else { arguments.kills },
            seed: arguments.seed,
            progress: arguments.progress.as_deref(),
            is_short: arguments.short,
        }),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
