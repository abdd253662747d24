//! Required arguments that `--cluster` replaces. For a missing argument, clap does not name the flag
//! that would make it unnecessary.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The flag that makes a command read the running cluster instead of files. In some commands its value
/// is a folder.
const CLUSTER: [&[&str]; 2] = [&["--cluster"], &["--cluster", "DIR"]];

/// The error of this command line, with a tip if `--cluster` replaces a missing argument.
pub(crate) fn suggest(command: &Command, line: &[OsString], mut error: clap::Error) -> clap::Error {
    let Some(missing) = missing(&error) else { return error };
    let replaces = |flag: &&&[&str]| {
        let line = line.iter().cloned().chain(flag.iter().map(OsString::from));
        match command.clone().try_get_matches_from(line) {
            Ok(_) => true,
            Err(error) => self::missing(&error).is_some_and(|fewer| fewer.len() < missing.len()),
        }
    };
    if let Some(flag) = CLUSTER.iter().find(replaces) {
        let tip = format!("give {} to read the running cluster instead", flag.join(" "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The missing arguments, if the error is about missing ones.
fn missing(error: &clap::Error) -> Option<Vec<String>> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(names))) => {
            Some(names.clone())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::*;

    fn error_of(line: &str) -> String {
        let cluster = Arg::new("cluster").long("cluster").action(ArgAction::SetTrue);
        let folder = Arg::new("cluster").long("cluster").action(ArgAction::Set);
        let path = Arg::new("path").required_unless_present("cluster");
        let out = Arg::new("out").long("out").required(true);
        let command = Command::new("p").subcommands([
            Command::new("check").args([&cluster, &path]),
            Command::new("render").args([&cluster, &path]).arg(&out),
            Command::new("plan").args([&folder, &path]),
            Command::new("import").args([&cluster, &out]),
        ]);
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = command.clone().try_get_matches_from(&line).unwrap_err();
        suggest(&command, &line, error).to_string()
    }

    #[test]
    fn a_missing_argument_that_the_flag_replaces_is_reported_with_the_flag() {
        for (line, flag) in
            [("p check", "--cluster"), ("p render", "--cluster"), ("p plan", "--cluster DIR")]
        {
            let tip = format!("tip: give {flag} to read the running cluster");
            let error = error_of(line);
            assert!(error.contains(&tip), "{line}: {error}");
        }
    }

    #[test]
    fn other_errors_do_not_mention_the_flag() {
        for line in ["p import", "p check --unknown"] {
            let error = error_of(line);
            assert!(!error.contains("tip: give"), "{line}: {error}");
        }
    }
}
