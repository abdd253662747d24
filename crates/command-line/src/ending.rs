//! How a program ends: what its exit code says.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

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

/// Parses the command line, the program's name first, and acts on it. Wrong
/// usage and an error of `act` end with exit code 2; both are said on standard
/// error.
pub fn run<A: Parser>(
    line: impl IntoIterator<Item = OsString>,
    act: impl FnOnce(A) -> anyhow::Result<Ending>,
) -> ExitCode {
    let arguments = match A::try_parse_from(line) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are results; everything else is wrong usage.
            // A closed pipe leaves nobody to tell.
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
