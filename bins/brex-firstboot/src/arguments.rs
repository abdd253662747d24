//! The command line: what can be written, and where it is explained.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use first_boot::attempt::DEFAULT_TRIES;

const NOTES: &str = "\
Order at boot: recover, before NetworkManager; stage; nmstate.service; confirm; ovs-configuration.
A node without nmstate.service runs apply in place of stage and confirm.

Exit code: 0 done, or nothing to do; 1 br-ex was not configured, the report states why; 2 wrong usage.";

/// Configures br-ex from the node's NMState document at first boot, or reports why not
#[derive(Debug, Parser)]
#[command(name = "brex-firstboot", version = build_info::VERSION, after_help = NOTES, subcommand_value_name = "COMMAND")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Select the document of this node, check it, save the profiles, stage it for nmstate.service
    Stage(StageArguments),
    /// Confirm that br-ex is as the document has it and write the flag, or roll the change back
    Confirm(ConfirmArguments),
    /// Stage, apply and confirm in one transaction, without nmstate.service
    Apply(ApplyArguments),
    /// Restore saved profiles after an attempt that a power failure interrupted
    Recover(RootArguments),
    /// Collect what is needed to diagnose br-ex, without secrets
    Gather(GatherArguments),
    /// Write man pages and the reference of commands
    #[command(hide = true)]
    GenerateDocs {
        /// Folder to write to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RootArguments {
    /// The folder that holds /etc, /run, /var, /sys and /proc of the node
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Choosing {
    #[command(flatten)]
    pub(crate) place: RootArguments,
    /// Fail if there is no document for this node, instead of leaving br-ex to configure-ovs
    #[arg(long)]
    pub(crate) required: bool,
    /// The host name, in place of the one the kernel has
    #[arg(long, value_name = "NAME")]
    pub(crate) hostname: Option<String>,
    /// Seconds to wait for a host name that is not a placeholder such as localhost
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = command_line::quantity::parse_seconds)]
    pub(crate) hostname_timeout: Duration,
    /// Number of failures after which a document is reported and not retried
    #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_TRIES)]
    pub(crate) tries: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Waiting {
    /// Seconds that br-ex may take to connect the node
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = command_line::quantity::parse_seconds)]
    pub(crate) patience: Duration,
    /// The API server, in place of the one in /etc/kubernetes/kubeconfig
    #[arg(long, value_name = "HOST:PORT", value_parser = crate::api_server::endpoint)]
    pub(crate) api_server: Option<node_network::probe::Endpoint>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct StageArguments {
    #[command(flatten)]
    pub(crate) choosing: Choosing,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ConfirmArguments {
    #[command(flatten)]
    pub(crate) place: RootArguments,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ApplyArguments {
    #[command(flatten)]
    pub(crate) choosing: Choosing,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct GatherArguments {
    #[command(flatten)]
    pub(crate) place: RootArguments,
    /// Folder to write to; `-` writes a tar archive to standard output
    #[arg(long, short_alias = 'o', alias = "output", value_name = "DIR")]
    pub(crate) out: PathBuf,
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
        assert_eq!(former, ["brex-firstboot gather -o DIR", "brex-firstboot gather --output DIR"]);
    }
}
