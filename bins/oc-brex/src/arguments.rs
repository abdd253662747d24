//! The command line: the commands. The arguments of each are in its own module.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};
use command_line::completion::Shell;

use crate::{
    adopt, check, decode, doctor, hosts, import, init, migrate, plan, render, scale_out, show,
    status, topology,
};

const EXIT_CODES: &str = "\
Exit code: 0 done, perhaps with warnings; 1 errors were found; 2 wrong usage, or a file could not be read or written.";

/// The br-ex bridge of OpenShift nodes, as NMState documents
#[derive(Debug, Parser)]
#[command(name = "oc-brex", version = build_info::VERSION, after_help = EXIT_CODES, subcommand_value_name = "COMMAND")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check documents against all rules for br-ex
    Check(check::Arguments),
    /// Write a document for one of the usual shapes of br-ex
    Topology(topology::Arguments),
    /// Write a document step by step, starting from the network that a node has
    Init(init::Arguments),
    /// Write documents for many hosts from a table and a template
    Hosts(hosts::Arguments),
    /// Write documents with br-ex for the hosts that installers list
    Import(import::Arguments),
    /// Show the interfaces below br-ex: NIC, bond, VLAN, with MTU, MAC addresses, addresses and routes
    Show(show::Arguments),
    /// Print the JSON schema of documents, for editors
    Schema,
    /// Write MachineConfigs with the documents, one per role
    Render(render::Arguments),
    /// Extract the documents from MachineConfigs
    Decode(decode::Arguments),
    /// Add a host to a running cluster: its document, its first network, its BareMetalHost
    ScaleOut(scale_out::Arguments),
    /// Show br-ex of every node of a cluster: document, first boot, policy, drift, next step
    Status(status::Arguments),
    /// Report what is wrong with the br-ex of nodes, and what to do
    Doctor(doctor::Arguments),
    /// Report what a change of br-ex does to running nodes, and write the policies for it
    Plan(plan::Arguments),
    /// Write policies for the current network of nodes, verified to change nothing
    Adopt(adopt::Arguments),
    /// Write documents for nodes whose br-ex configure-ovs created
    Migrate(migrate::Arguments),
    /// Print the version of this program
    Version,
    /// Print a completion script for a shell
    Completion {
        /// Which shell: bash, zsh, fish or powershell
        #[arg(value_name = "SHELL", hide_possible_values = true)]
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

/// The whole command line, for documents that are generated from it.
pub(crate) fn command() -> clap::Command {
    Arguments::command()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }

    #[test]
    fn o_selects_the_format_and_out_a_place() {
        let program = command();
        assert_eq!(command_line::conventions::violations(&program), [""; 0]);
        let former = command_line::conventions::former_spellings(&program);
        assert_eq!(
            former,
            [
                "oc-brex render -o DIR",
                "oc-brex decode -o DIR",
                "oc-brex scale-out -o DIR",
                "oc-brex plan -o DIR",
                "oc-brex adopt -o DIR",
                "oc-brex migrate -o DIR",
            ]
        );
    }

    #[test]
    fn a_command_that_can_read_a_cluster_names_the_flag_when_its_files_are_missing() {
        for line in ["check", "doctor", "decode", "plan", "adopt", "migrate", "scale-out"] {
            let line = ["oc-brex", line].map(OsString::from);
            let parsed = command_line::parse::<Arguments>(command(), &line, |_, _| Ok(()));
            let error = parsed.unwrap_err().to_string();
            assert!(error.contains("tip: give --cluster"), "{error}");
        }
    }
}
