//! The command line of `enhance`: reads flags and files, prints what the
//! `enhancement` crate says about them, and turns that into an exit code.

mod arguments;
mod documents;
mod findings_text;
mod lint_command;
mod new_command;
mod reference;
mod report_command;
mod repository;
mod sarif;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use jiff::civil::Date;

use arguments::{Arguments, Command};

/// How a command that could do its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Good,
    /// It found something wrong, and has said what.
    Findings,
}

/// Runs the program with this command line, the program's name first.
pub fn run(line: impl Iterator<Item = OsString>, today: Date) -> ExitCode {
    let arguments = match Arguments::try_parse_from(line) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are results; everything else is wrong usage.
            // A closed pipe leaves nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let result = match &arguments.command {
        Command::New(arguments) => new_command::new(arguments, today),
        Command::Lint(arguments) => lint_command::lint(arguments),
        Command::Report(arguments) => report_command::report(arguments, today),
        Command::GenerateDocs { out } => reference::write(out).map(|()| Ending::Good),
    };
    match result {
        Ok(Ending::Good) => ExitCode::SUCCESS,
        Ok(Ending::Findings) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Writes a result to standard output. A reader who has gone away wanted no more.
fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Writes a line for people to standard error.
fn say(text: &str) {
    // Nobody is left to be told when standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
