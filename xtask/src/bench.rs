//! `cargo xtask bench`: oc-mirror against its peers, on one corpus, in one run; catalogs against opm; the
//! operator on many nodes.

mod catalog;
mod contender;
mod floor;
mod ground;
mod jobs;
mod launch;
mod line;
mod memory;
mod operator;
mod results;
mod table;
mod targets;
mod traffic;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{self, Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use lab::tools::{self, Need, Tool};

use crate::program::{self, Profile};
use crate::set_up;
use contender::Programs;
use ground::Ground;
use results::{Job, Results};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Images from registry to disk, from disk to registry, from registry to registry
    Mirror(Arguments),
    /// A catalog of 300 MB read, selected from and packed again
    Catalog(catalog::Arguments),
    /// A policy rolled out on 500 nodes at a real API server: writes, times, memory
    Operator(operator::Arguments),
    /// Run a command, and print what it used
    #[command(hide = true)]
    Launch {
        /// File for what the command prints
        log: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Copy files and hash them on the way
    #[command(hide = true)]
    HashAndCopy {
        /// File with one path per line
        list: PathBuf,
        to: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// Measure this part alone; may be given several times
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// How often each case is measured
    #[arg(long, value_name = "N", default_value = "3")]
    runs: NonZeroUsize,
    /// A hundredth of the corpus, one run: shows that the benchmark works, and no more
    #[arg(long)]
    quick: bool,
    /// Measure this oc-mirror instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Registry to disk
    ToDisk,
    /// Disk to registry
    FromDisk,
    /// Registry to registry
    Across,
    /// Registry to disk over a slow line
    Line,
    /// Memory with few and with many images
    Memory,
}

/// `cargo xtask bench …`.
pub(crate) fn bench(command: Command) -> Result<()> {
    match command {
        Command::Mirror(arguments) => mirror(&arguments),
        Command::Catalog(arguments) => catalog::catalog(&arguments),
        Command::Operator(arguments) => operator::operator(&arguments),
        Command::Launch { log, command } => launch::launched(&log, &command),
        Command::HashAndCopy { list, to } => floor::hash_and_copy(&list, &to),
    }
}

fn mirror(arguments: &Arguments) -> Result<()> {
    let programs = programs(arguments.program.as_deref())?;
    let chosen = |part: Part| arguments.only.is_empty() || arguments.only.contains(&part);
    let runs = if arguments.quick { 1 } else { arguments.runs.get() };
    let ground = Ground::prepare(if arguments.quick { 100 } else { 1 })?;
    println!("{}", table::surroundings(&ground, runs));

    let mut results = Results::new(&ground);
    for (part, job) in
        [(Part::ToDisk, Job::ToDisk), (Part::FromDisk, Job::FromDisk), (Part::Across, Job::Across)]
    {
        if chosen(part) {
            results.rows.extend(jobs::measure(&ground, &programs, job, runs)?);
        }
    }
    if chosen(Part::ToDisk) {
        results.floor = Some(floor::measure(&ground, runs)?);
    }
    if chosen(Part::Line) {
        results.line = line::measure(&ground, &programs, runs)?;
    }
    if chosen(Part::Memory) {
        let many = if arguments.quick { 600 } else { 6_000 };
        results.memory = memory::measure(&ground, &programs, many)?;
    }
    println!("\n{}", table::render(&results));
    Ok(())
}

/// Builds or finds what is measured.
fn programs(given: Option<&Path>) -> Result<Programs> {
    let oc_mirror = match given {
        Some(program) => {
            path::absolute(program).with_context(|| format!("finding {}", program.display()))?
        }
        None => {
            println!("building oc-mirror with optimisations, some minutes the first time");
            program::build(Profile::Release)?
        }
    };
    set_up::build_tools(Need::Bench)?;
    Ok(Programs { oc_mirror, regsync: tools::path(Tool::Regsync)? })
}
