//! The command line of `enhance`: reads flags and files, prints the findings
//! and reports of the `enhancement` crate, and returns an exit code.

mod arguments;
mod check;
mod document_links;
mod documents;
mod findings_text;
mod lint_command;
mod new_command;
mod reference;
mod report_command;
mod repository;
mod sarif_log;

use std::ffi::OsString;
use std::process::ExitCode;

use command_line::Ending;
use jiff::civil::Date;

use arguments::{Arguments, Command};

/// Runs the program with these arguments; the first is the program's name.
pub fn run(line: impl Iterator<Item = OsString>, today: Date) -> ExitCode {
    command_line::run(line, |arguments: Arguments| match &arguments.command {
        Command::New(arguments) => new_command::new(arguments, today),
        Command::Lint(arguments) => lint_command::lint(arguments),
        Command::Report(arguments) => report_command::report(arguments, today),
        Command::GenerateDocs { out } => reference::write(out).map(|()| Ending::Good),
    })
}
