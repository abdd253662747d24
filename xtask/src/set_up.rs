//! Brings to this machine what the tests run: distribution packages and helper tools.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;
use lab::node::machine::Image;
use lab::node::tree::{self, Tree};
use lab::tools::{self, Cache, Need, Package, Recipe, Tool};

use crate::repository;
use crate::steps::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Also build what only the benchmark runs
    #[arg(long)]
    bench: bool,
    /// Also build what only tests on whole machines need
    #[arg(long)]
    machine: bool,
}

/// `cargo xtask tools`.
pub(crate) fn tools(arguments: &Arguments) -> Result<()> {
    test_tools()?;
    if arguments.bench {
        build_tools(Need::Bench)?;
    }
    if arguments.machine {
        prepare_machines()?;
    }
    Ok(())
}

/// What every test run needs.
pub(crate) fn packages() -> Result<Outcome> {
    install(&tools::PACKAGES)
}

/// What tests on whole machines need.
pub(crate) fn machine_packages() -> Result<Outcome> {
    install(&[&tools::PACKAGES[..], &tools::MACHINE_PACKAGES].concat())
}

/// Installs missing packages when we may, else says the command that does.
fn install(packages: &[Package]) -> Result<Outcome> {
    let missing = tools::missing_packages(packages);
    if missing.is_empty() {
        return Ok(Outcome::Done);
    }
    for Package { name, program, purpose } in &missing {
        println!("    {name} is missing ({program}: {purpose})");
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let may_install =
        rustix::process::geteuid().is_root() && Path::new("/usr/bin/apt-get").exists();
    if !may_install {
        bail!("programs are missing; on Debian run `sudo apt-get install {}`", names.join(" "));
    }
    println!("    installing {} with apt-get, about a minute", names.join(", "));
    let install = || {
        let fixed = ["install", "--yes", "--no-install-recommends"];
        repository::run(apt_get().args(fixed).args(&names))
    };
    // Fresh machines have no package lists, others do not need to fetch them again.
    if install().is_err() {
        repository::run(apt_get().arg("update"))?;
        install()?;
    }
    let still: Vec<&str> =
        tools::missing_packages(packages).iter().map(|package| package.program).collect();
    if !still.is_empty() {
        bail!("apt-get succeeded, but {} cannot be found on the PATH", still.join(", "));
    }
    Ok(Outcome::Done)
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Builds the tools that tests run and that are not there yet.
pub(crate) fn test_tools() -> Result<Outcome> {
    build_tools(Need::Test)?;
    make_node_tree()?;
    Ok(Outcome::Done)
}

/// Builds what a cluster of the lab consists of and is not there yet.
pub(crate) fn cluster_tools() -> Result<()> {
    build_each([Tool::Etcd, Tool::KubeApiserver])?;
    make_node_tree()
}

/// Builds what tests on whole machines need and is not there yet.
pub(crate) fn machine_tools() -> Result<Outcome> {
    make_node_tree()?;
    prepare_machines()?;
    Ok(Outcome::Done)
}

fn prepare_machines() -> Result<()> {
    build_tools(Need::Machine)?;
    let image = Image::make(&Cache::of_user()?)?;
    println!("    the disk of test machines is there: {}", image.folder().display());
    Ok(())
}

/// Makes the root file system that test nodes run on.
fn make_node_tree() -> Result<()> {
    let cache = Cache::of_user()?;
    if Tree::find(&cache).is_err() {
        println!(
            "    making the root of test nodes from Debian packages, once, about {} min",
            tree::MINUTES
        );
    }
    println!("    the root of test nodes is there: {}", Tree::make(&cache)?.folder().display());
    Ok(())
}

/// Builds what `need` asks for and is not there yet. Says before each what it is and how long it
/// takes.
pub(crate) fn build_tools(need: Need) -> Result<()> {
    build_each(Tool::ALL.into_iter().filter(|tool| tool.recipe().need == need))
}

fn build_each(tools: impl IntoIterator<Item = Tool>) -> Result<()> {
    let cache = Cache::of_user()?;
    for tool in tools {
        if let Ok(path) = cache.path(tool) {
            println!("    {tool} is there: {}", path.display());
            continue;
        }
        let Recipe { purpose, minutes, .. } = tool.recipe();
        println!("    building {tool} ({purpose}), once, about {minutes} min on two cores");
        let path = tools::build(&cache, tool)?;
        println!("    {tool} is built: {}", path.display());
    }
    Ok(())
}
