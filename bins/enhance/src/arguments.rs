//! The command line: what can be written, and where it is explained.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use enhancement::{Area, Title};

const EXAMPLES: &str = "\
Examples:
  Begin a document, in enhancements/network/mirror-release-signatures.md:
    enhance new \"Mirror release signatures\" --area network
  Check all documents, or only those a branch adds:
    enhance lint enhancements
    enhance lint enhancements --new-since origin/main
  See what there is, and what it lacks:
    enhance report enhancements

Exit code: 0 done; 1 something was found; 2 wrong usage, or a file could not be read or written.";

/// Makes and checks enhancement documents in the form the OpenShift community uses
#[derive(Debug, Parser)]
#[command(name = "enhance", version = build_info::VERSION, after_help = EXAMPLES, subcommand_value_name = "COMMAND")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Begin a document from the template, named after its title and dated today
    New(NewArguments),
    /// Check metadata, headings, Markdown style and links
    Lint(LintArguments),
    /// Print a table of documents by area and age, with what each lacks
    Report(ReportArguments),
    /// Write man pages and the reference of flags
    #[command(hide = true)]
    GenerateDocs {
        /// Folder to write to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewArguments {
    /// The title in words; the file's name follows from it
    #[arg(value_name = "TITLE")]
    pub(crate) title: Title,
    /// The folder it belongs to, below the one for all documents
    #[arg(long, value_name = "AREA")]
    pub(crate) area: Option<Area>,
    /// The folder for all documents
    #[arg(long, value_name = "DIR", default_value = "enhancements")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct LintArguments {
    /// Documents, and folders of documents (*.md)
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Only look at documents that are not in this git revision
    #[arg(long, value_name = "REF")]
    pub(crate) new_since: Option<String>,
    /// Let warnings count as errors do
    #[arg(long)]
    pub(crate) deny_warnings: bool,
    /// How findings are written to standard output: text, json or sarif
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) output: FindingsFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The folder with the documents
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// How the table is written to standard output: markdown, json or html
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "markdown",
        hide_possible_values = true
    )]
    pub(crate) output: TableFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FindingsFormat {
    Text,
    Json,
    Sarif,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    Markdown,
    Json,
    Html,
}

/// The whole command line, for documents that are made from it.
pub(crate) fn command() -> clap::Command {
    Arguments::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
