//! How a program ends: the meaning of its exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, Command, FromArgMatches, Parser};

use crate::alternative;
use crate::former;
use crate::output::print_message;

/// The exit code of wrong usage and general failures. `oc-mirror` has its own, that of oc-mirror v2.
const WRONG_USAGE: u8 = 2;

/// The result of a command that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Exit code 0.
    Good,
    /// It printed findings. Exit code 1.
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
    let line: Vec<OsString> = line.into_iter().collect();
    let (arguments, warning) = match parse(A::command(), &line, |_, _| Ok(())) {
        Ok(parsed) => parsed,
        Err(error) => return end_parsing(&error, WRONG_USAGE),
    };
    if let Some(warning) = warning {
        print_message(&format!("warning: {warning}"));
    }
    match act(arguments) {
        Ok(ending) => ending.into(),
        Err(error) => {
            print_message(&format!("error: {error:#}"));
            ExitCode::from(WRONG_USAGE)
        }
    }
}

/// The arguments in a command line, the program's name first, and a warning if it uses a former
/// spelling.
///
/// # Errors
///
/// Help, version and wrong usage, for [`end_parsing`]. `accept` may reject what clap accepts.
pub fn parse<A: FromArgMatches>(
    mut command: Command,
    line: &[OsString],
    accept: impl FnOnce(&mut Command, &ArgMatches) -> Result<(), clap::Error>,
) -> Result<(A, Option<String>), clap::Error> {
    let matches = command
        .try_get_matches_from_mut(line)
        .map_err(|error| alternative::suggest(&command, line, error))?;
    accept(&mut command, &matches)?;
    let arguments = A::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((arguments, former::warning(&command, &matches, line)))
}

/// Prints the reason why a command line was not parsed into arguments. Help and version are results;
/// everything else is wrong usage and ends with this exit code.
pub fn end_parsing(error: &clap::Error, wrong_usage: u8) -> ExitCode {
    // If the pipe is closed, the message has no reader.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(wrong_usage) } else { ExitCode::SUCCESS }
}
