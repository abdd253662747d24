//! The command line: what can be written, and where it is explained.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};
use command_line::completion::Shell;

use crate::{
    coordinator, gather, guest_access, handler, log, manifests, operator, retry, revert, take_over,
};

const NOTES: &str = "\
Commands that use a cluster find it as kubectl does: KUBECONFIG, ~/.kube/config, or the service account of their pod.

Exit code: 0 done, or stopped by a signal; 2 wrong usage, or an error that ends the program.";

/// Node network policies for OpenShift clusters: the operator, its coordinator and the handlers on nodes
#[derive(Debug, Parser)]
#[command(name = "nmstate-operator", version = build_info::VERSION, after_help = NOTES, subcommand_value_name = "COMMAND")]
pub(crate) struct Arguments {
    /// Level of the log on standard error
    #[arg(long, value_name = "LEVEL", default_value = "info", global = true)]
    pub(crate) log_level: log::Level,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Decide whether handlers run, deploy them, and report the status; one leader per cluster
    Operator(operator::Arguments),
    /// Apply policies to this node and report its network; one runs on every node
    Handler(handler::Arguments),
    /// Schedule node updates and write the status of policies; one leader per cluster
    Coordinator(coordinator::Arguments),
    /// Retry a policy on the nodes where it failed
    Retry(retry::Arguments),
    /// Revert a policy on some of its nodes, or apply it there again
    Revert(revert::Arguments),
    /// Replace kubernetes-nmstate in this cluster, with your permissions
    TakeOver(take_over::Arguments),
    /// Restore kubernetes-nmstate after a take-over, with your permissions
    GiveBack(take_over::Arguments),
    /// Beside a hosted control plane: write tokens of a service account of the guest cluster
    GuestAccess(guest_access::Arguments),
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

/// The command line as clap's value, for generated documents.
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

    #[test]
    fn o_selects_the_format_and_out_a_place() {
        let program = command();
        assert_eq!(command_line::conventions::violations(&program), [""; 0]);
        let former = command_line::conventions::former_spellings(&program);
        assert_eq!(
            former,
            ["nmstate-operator manifests -o DIR", "nmstate-operator manifests --output DIR"]
        );
    }
}
