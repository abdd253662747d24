//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};

const NOTES: &str = "\
The annotation brex.landfall.dev/first-boot of the Node contains the summary as JSON. An event is created when it changes. \
`oc brex status` shows both for all nodes.

Exit code: 0 reported, or reported before; 1 could not be reported; 2 wrong usage, or a file of the node could not be read.";

/// Report to the cluster how br-ex was configured at this node's first boot
#[derive(Debug, Parser)]
#[command(name = "brex-report", version = build_info::VERSION, after_help = NOTES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write man pages and the reference of flags
    #[command(hide = true)]
    GenerateDocs {
        /// Folder to write to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// The folder that holds /etc and /var of the node
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Credentials of the kubelet of this node
    #[arg(long, value_name = "FILE", default_value = "/var/lib/kubelet/kubeconfig")]
    pub(crate) kubeconfig: PathBuf,
    /// Seconds to wait until the node has joined and the API server responds
    #[arg(long, value_name = "SECONDS", default_value = "1800", value_parser = command_line::quantity::parse_seconds)]
    pub(crate) timeout: Duration,
    /// Print the summary and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The whole command line, for documents that are generated from it.
pub(crate) fn command() -> clap::Command {
    Arguments::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn o_selects_the_format_and_out_a_place() {
        let program = command();
        assert_eq!(command_line::conventions::violations(&program), [""; 0]);
        let former = command_line::conventions::former_spellings(&program);
        assert_eq!(former, [""; 0]);
    }
}
