//! The command line: commands, flags and their help.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use enhancement::{Area, Title};

use crate::document_links::BaseUrl;

const EXAMPLES: &str = "\
Examples:
  Create enhancements/network/mirror-release-signatures.md:
    enhance new \"Mirror release signatures\" --area network
  Check all documents, or only those that a branch adds:
    enhance lint enhancements
    enhance lint enhancements --new-since origin/main
  Write a report that can be read in a browser:
    enhance report enhancements -o html > report.html

Exit code: 0 success; 1 findings; 2 invalid usage, or a file could not be read or written.";

/// Create and check enhancement documents in the format of the OpenShift community
#[derive(Debug, Parser)]
#[command(name = "enhance", version = build_info::VERSION, after_help = EXAMPLES, subcommand_value_name = "COMMAND")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a document from the template, with a file name that matches its title
    New(NewArguments),
    /// Check metadata, headings, Markdown style and links
    Lint(LintArguments),
    /// Print the state of all documents by area: age, missing parts, findings
    Report(ReportArguments),
    /// Write man pages and the reference of flags
    #[command(hide = true)]
    GenerateDocs {
        /// Directory to write to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewArguments {
    /// Title in words; determines the file name
    #[arg(value_name = "TITLE")]
    pub(crate) title: Title,
    /// Directory of the document, below --dir
    #[arg(long, value_name = "AREA")]
    pub(crate) area: Option<Area>,
    /// Directory of all documents
    #[arg(long, value_name = "DIR", default_value = "enhancements")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct LintArguments {
    /// Documents, and directories that contain documents (*.md)
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Check only documents that do not exist in this Git revision
    #[arg(long, value_name = "REF")]
    pub(crate) new_since: Option<String>,
    /// Also check documents that are listed in hack/lint-ignores of their repository
    #[arg(long)]
    pub(crate) no_ignore: bool,
    /// Exit with 1 for warnings, too
    #[arg(long)]
    pub(crate) deny_warnings: bool,
    /// Select the format of the findings: text, json or sarif
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) output: FindingsFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Directory that contains the documents
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Also report documents that are listed in hack/lint-ignores of their repository
    #[arg(long)]
    pub(crate) no_ignore: bool,
    /// Link documents to this URL followed by their path in the repository; by default, to the
    /// current commit on GitHub or GitLab, else to local files. No effect on Markdown, which has
    /// relative links
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<BaseUrl>,
    /// Select the format of the report: markdown, json or html
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "markdown",
        hide_possible_values = true
    )]
    pub(crate) output: ReportFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FindingsFormat {
    Text,
    Json,
    Sarif,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    Markdown,
    Json,
    Html,
}

/// The command line, from which documents are generated.
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
