//! Commands for developers of this repository. `cargo xtask --help` lists them.

mod background;
mod build;
mod campaigns;
mod checks;
mod demo;
mod disk_space;
mod dist;
mod docs;
mod fuzz;
mod progress;
mod repository;
mod steps;
mod test_run;
mod tools;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
Builds, tests, measures and documents this repository.

Usage: cargo xtask COMMAND [OPTIONS]

Commands:
  demo [--keep]             Mirror images, a release and a catalog from registry to disk to registry
  demo policies [--stay]    Change the network of two nodes by policies, at a real API server; needs root
  test [--only STEP]…       Install missing packages and tools, then run every check and test, as in CI
  test --list               List the steps and the short campaigns
  test --machine [--short]  Run the tests on whole emulated machines instead; about ten minutes
  tools [--bench] [--machine] [--dist]   Install packages, and build tools into the user's cache folder
  docs [--check]            Write the generated pages below docs/, or compare them; build the book, check its links,
                            run its tutorials

Campaigns; `--short` is a variant of a few minutes (`test` runs those of dist and torture):
  bench mirror|shards|catalog|helm|operator [--short] [OPTIONS]   Compare with peers and print ratios
  dist [--out DIR] [--arch ARCH] [--key FILE] [--check] [--short]   Build and check the release artefacts
  torture mirror [--kills N] [--seed N] [--short]     Kill runs at random moments; nothing may be lost
  torture jobs [--kills N] [--seed N] [--short]       Kill pods of a run in a cluster; same registry and report
  torture node [--kills N] [--seed N] [--short]       Kill handler, NetworkManager and node during changes
  fuzz [--minutes N] [--target NAME] [--short]        Run the parsers of untrusted input on generated inputs
  coverage [--short]                                  Measure which lines the tests run; fails below the floor

docs/verification.md records the last full run of each campaign.";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Vec<OsString>) -> Result<()> {
    if arguments.is_empty() {
        bail!("expected a command\n\n{HELP}");
    }
    let command = arguments.remove(0);
    match command.to_str() {
        Some("demo") => demo::demo(arguments),
        Some("test") => checks::test(arguments),
        Some("tools") => tools::tools(arguments),
        Some("docs") => docs::docs(arguments),
        Some("bench") => campaigns::bench(arguments),
        Some("dist") => dist::dist(arguments),
        Some("torture") => campaigns::torture(arguments),
        Some("fuzz") => fuzz::fuzz(arguments),
        Some("coverage") => campaigns::coverage(arguments),
        Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            Ok(())
        }
        _ => bail!("unknown command `{}`\n\n{HELP}", command.display()),
    }
}

/// Reads options that take no value. Returns whether each was given, in the order of `known`.
fn flags<const N: usize>(arguments: Vec<OsString>, known: [&str; N]) -> Result<[bool; N]> {
    let mut given = [false; N];
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            lexopt::Arg::Long(name) if known.contains(&name) => {
                for (index, flag) in known.iter().enumerate() {
                    given[index] |= *flag == name;
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order_and_unknown_ones_rejected() {
        let read = |words: &[&str]| {
            flags(words.iter().map(OsString::from).collect(), ["bench", "machine"])
        };
        assert_eq!(read(&["--machine"]).unwrap(), [false, true]);
        assert_eq!(read(&["--machine", "--bench"]).unwrap(), [true, true]);
        assert!(read(&["--benches"]).unwrap_err().to_string().contains("--benches"));
    }

    #[test]
    fn the_help_names_every_command() {
        for command in
            ["demo", "test", "tools", "docs", "bench", "dist", "torture", "fuzz", "coverage"]
        {
            assert!(HELP.contains(&format!("\n  {command} ")), "{command}");
        }
    }
}
