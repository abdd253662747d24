//! How a program ends: the meaning of its exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::former;
use crate::output::say;

/// How a command that could do its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Exit code 0.
    Good,
    /// It found something wrong, and has said what. Exit code 1.
    Findings,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Good => Self::SUCCESS,
            Ending::Findings => Self::FAILURE,
        }
    }
}

/// Parses the command line, the program's name first, and runs `act` on it. Wrong usage and an error
/// of `act` end with exit code 2; both are printed to standard error.
pub fn run<A: Parser>(
    line: impl IntoIterator<Item = OsString>,
    act: impl FnOnce(A) -> anyhow::Result<Ending>,
) -> ExitCode {
    let arguments = match parse(line) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are results; everything else is wrong usage. If the pipe is closed,
            // the message has no reader.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    match act(arguments) {
        Ok(ending) => ending.into(),
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn parse<A: Parser>(line: impl IntoIterator<Item = OsString>) -> Result<A, clap::Error> {
    let line: Vec<OsString> = line.into_iter().collect();
    let mut command = A::command();
    let matches = command.try_get_matches_from_mut(&line)?;
    let arguments = A::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    if let Some(warning) = former::warning(&command, &matches, &line) {
        say(&format!("warning: {warning}"));
    }
    Ok(arguments)
}
