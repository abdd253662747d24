//! Benchmarks: oc-mirror and its peers on one corpus, in one run; catalogs and opm; charts and Helm;
//! mirrors with many workers. `cargo xtask bench` builds and runs it.

mod catalog;
mod contender;
mod floor;
mod helm;
mod jobs;
mod large_plan;
mod launch;
mod memory;
mod results;
mod shards;
mod slow_link;
mod table;
mod targets;
mod test_bed;
mod tiny;
mod traffic;

use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{self, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use lab::tools::{self, Tool};

use contender::Programs;
use results::{Job, Results};
use test_bed::TestBed;

/// Compare our programs with their peers
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench", disable_version_flag = true)]
struct Bench {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Mirror images from registry to disk, from disk to registry, from registry to registry
    Mirror(Arguments),
    /// Read a catalog of 300 MB, select from it and pack the result
    Catalog(catalog::Arguments),
    /// Find the images of charts by rendering them
    Helm(helm::Arguments),
    /// Mirror with 1, 2, 4 and 8 workers, each behind its own slow link
    Shards(shards::Arguments),
    /// Plan a synthetic mirror, and write the part of each shard
    #[command(hide = true)]
    SplitPlan { images: u64, blobs: u64, shards: NonZeroU32, result: PathBuf },
    /// Run a command, and print what it used
    #[command(hide = true)]
    Launch {
        /// File for the output of the command
        log: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Copy and hash files
    #[command(hide = true)]
    HashAndCopy {
        /// File with one path per line
        list: PathBuf,
        to: PathBuf,
    },
}

#[derive(Args)]
struct Arguments {
    /// Measure only this part; can be repeated
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Measure each case N times
    #[arg(long, value_name = "N", default_value = "3")]
    runs: NonZeroUsize,
    /// Use a hundredth of the corpus, one run and one setting of each peer; only shows that the benchmark works
    #[arg(long, alias = "quick")]
    short: bool,
    /// Measure this oc-mirror
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Compare with this oc-mirror, such as the newest one or an older build; can be repeated
    #[arg(long, value_name = "FILE")]
    peer: Vec<PathBuf>,
    /// Compare with the programs of `--peer` only, not with skopeo and regsync
    #[arg(long, requires = "peer")]
    only_peers: bool,
}

/// What can be measured separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Registry to disk
    ToDisk,
    /// Disk to registry
    FromDisk,
    /// Registry to registry
    Across,
    /// Registry to disk over a slow link
    Line,
    /// Memory with few and with many images
    Memory,
    /// A thousand tiny images, cold and with nothing to do
    Tiny,
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Mirror(arguments) => mirror(&arguments),
        Command::Catalog(arguments) => catalog::catalog(&arguments),
        Command::Helm(arguments) => helm::helm(&arguments),
        Command::Shards(arguments) => shards::shards(&arguments),
        Command::SplitPlan { images, blobs, shards, result } => {
            shards::split_plan(large_plan::Size { images, blobs, shards }, &result)
        }
        Command::Launch { log, command } => launch::launch(&log, &command),
        Command::HashAndCopy { list, to } => floor::hash_and_copy(&list, &to),
    }
}

fn mirror(arguments: &Arguments) -> Result<()> {
    let find = |program: &PathBuf| {
        path::absolute(program).with_context(|| format!("finding {}", program.display()))
    };
    let programs = Programs {
        oc_mirror: find(&arguments.program)?,
        others: arguments.peer.iter().map(find).collect::<Result<_>>()?,
        regsync: tools::path(Tool::Regsync)?,
        only_oc_mirror: arguments.only_peers,
        one_setting_each: arguments.short,
    };
    let chosen = |part: Part| arguments.only.is_empty() || arguments.only.contains(&part);
    let runs = if arguments.short { 1 } else { arguments.runs.get() };
    let test_bed = TestBed::prepare(if arguments.short { 100 } else { 1 })?;
    println!("{}", table::environment(&test_bed, runs));
    for (number, other) in programs.others.iter().enumerate() {
        println!("other oc-mirror {}: {}", number + 1, other.display());
    }

    let mut results = Results::new(&test_bed);
    for (part, job) in
        [(Part::ToDisk, Job::ToDisk), (Part::FromDisk, Job::FromDisk), (Part::Across, Job::Across)]
    {
        if chosen(part) {
            results.rows.extend(jobs::measure(&test_bed, &programs, job, runs)?);
        }
    }
    if chosen(Part::ToDisk) {
        results.floor = Some(floor::measure(&test_bed, runs)?);
    }
    if chosen(Part::Line) {
        results.link = slow_link::measure(&test_bed, &programs, runs)?;
    }
    if chosen(Part::Memory) {
        let many = if arguments.short { 600 } else { 6_000 };
        results.memory = memory::measure(&test_bed, &programs, many)?;
    }
    if chosen(Part::Tiny) {
        let images = if arguments.short { 50 } else { 1_000 };
        results.tiny = tiny::measure(&test_bed, &programs, images, runs)?;
    }
    println!("\n{}", table::render(&results));
    Ok(())
}

fn main() -> ExitCode {
    match run(Bench::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
