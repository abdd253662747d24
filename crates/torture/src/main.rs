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

#[derive(clap::Args)]
struct Jobs {
    /// The oc-mirror to run
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// The archive of a release with the image that pods run [default: pods run the program]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// How many pods are killed
    #[arg(long, value_name = "N", default_value_t = 64)]
    kills: usize,
    /// 8 kills
    #[arg(long, conflicts_with = "kills")]
    short: bool,
    /// Repeats the moments of an earlier campaign
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(clap::Args)]
struct Node {
    /// The nmstate-operator to run
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// How many kills, of handler, NetworkManager and node together
    #[arg(long, value_name = "N", default_value_t = 100)]
    kills: u64,
    /// 5 kills
    #[arg(long, conflicts_with = "kills")]
    short: bool,
    /// Repeats the moments of an earlier campaign
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Stores the progress here after each change, and continues a campaign that was stopped
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
