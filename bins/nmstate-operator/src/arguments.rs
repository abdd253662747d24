//! The command line: what can be written, and where it is explained.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};
use command_line::completion::Shell;

use crate::{coordinator, gather, handler, log, manifests, operator, retry, take_over};

const NOTES: &str = "\
Parts that talk to a cluster find it as kubectl does: KUBECONFIG, ~/.kube/config, or the service account of their pod.

Exit code: 0 done, or asked to stop; 2 wrong usage, or the work could not go on.";

/// Node network policies for OpenShift clusters: the operator, its coordinator and the handlers on nodes
#[derive(Debug, Parser)]
#[command(name = "nmstate-operator", version = build_info::VERSION, after_help = NOTES, subcommand_value_name = "COMMAND")]
pub(crate) struct Arguments {
    /// How much is said on standard error
    #[arg(long, value_name = "LEVEL", default_value = "info", global = true)]
    pub(crate) log_level: log::Level,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Decide whether handlers run, deploy them, and tell the cluster; one leads per cluster
    Operator(operator::Arguments),
    /// Apply policies to this node and report its network; one runs on every node
    Handler(handler::Arguments),
    /// Grant nodes leave to change and write the status of policies; one leads per cluster
    Coordinator(coordinator::Arguments),
    /// Ask the nodes on which a policy failed to try again
    Retry(retry::Arguments),
    /// Replace kubernetes-nmstate in this cluster, with your permissions
    TakeOver(take_over::Arguments),
    /// Restore kubernetes-nmstate after a take-over, with your permissions
    GiveBack(take_over::Arguments),
    /// Write the files of a release payload
    Manifests(manifests::Arguments),
    /// Collect documents, profiles, Open vSwitch and the network state of this node, without secrets
    Gather(gather::Arguments),
    /// Print the version
    Version,
    /// Print a completion script
    Completion {
        /// The shell to complete for
        shell: Shell,
    },
    /// Write man pages and the reference of commands
    #[command(hide = true)]
    GenerateDocs {
        /// Folder to write to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// The command line as clap knows it, for documents about it.
pub(crate) fn command() -> clap::Command {
    Arguments::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }
}
