//! Commands for those who work on this repository. `cargo xtask --help` lists them.

mod bench;
mod checks;
mod demo;
mod dist;
mod docs;
mod program;
mod repository;
mod set_up;
mod steps;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, tests and documents this repository
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_version_flag = true)]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Mirror generated images across an imaginary air gap, and show each step
    Demo(demo::Arguments),
    /// Install and build what the tests need, then run every check and every test
    Test(checks::Arguments),
    /// Build the helper tools that the tests run, once, into the user's cache folder
    Tools(set_up::Arguments),
    /// Write the man pages and the reference of flags below docs/
    Docs(docs::Arguments),
    /// Build brex-firstboot for nodes: static and stripped, into dist/
    Dist(dist::Arguments),
    /// Measure oc-mirror against skopeo and regsync, catalogs, and the operator on many nodes
    #[command(subcommand)]
    Bench(bench::Command),
}

fn main() -> ExitCode {
    let result = match Xtask::parse().command {
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Test(arguments) => checks::test(&arguments),
        Command::Tools(arguments) => set_up::tools(&arguments),
        Command::Docs(arguments) => docs::docs(&arguments),
        Command::Dist(arguments) => dist::dist(&arguments),
        Command::Bench(command) => bench::bench(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
