//! Installs the packages and builds the tools that tests and benchmarks need. `cargo xtask tools`
//! and the test command run it.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use test_tools::machine_image::Image;
use test_tools::tree::{self, Purpose, Tree};
use test_tools::{
    Cache, DIST_PACKAGES, MACHINE_PACKAGES, Need, PACKAGES, Package, Recipe, Tool, module_files,
};

/// Tools that write and check release artefacts and that tests use too.
const PACKAGERS: [Tool; 6] = [
    Tool::CargoDeb,
    Tool::CargoGenerateRpm,
    Tool::Cosign,
    Tool::Krew,
    Tool::KrewValidate,
    Tool::Kubectl,
];

const USAGE: &str = "usage: test-tools packages [dist|machine] | build test|book|cluster|bench|dist|fuzz|machine|machine-disk … | path TOOL";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["packages"] => install(&PACKAGES),
        ["packages", "dist"] => install(&[&PACKAGES[..], &DIST_PACKAGES].concat()),
        ["packages", "machine"] => install(&[&PACKAGES[..], &MACHINE_PACKAGES].concat()),
        ["build", purposes @ ..] if !purposes.is_empty() => {
            purposes.iter().try_for_each(|purpose| prepare(purpose))
        }
        ["path", name] => {
            let is_named = |tool: &Tool| tool.recipe().name == *name;
            let tool = Tool::ALL.into_iter().find(is_named);
            let tool = tool.with_context(|| format!("unknown tool `{name}`"))?;
            println!("{}", test_tools::path(tool)?.display());
            Ok(())
        }
        _ => bail!("{USAGE}"),
    }
}

/// Prepares everything that one purpose needs and that is missing.
fn prepare(purpose: &str) -> Result<()> {
    let needed_for = |need| Tool::ALL.into_iter().filter(move |tool| tool.recipe().need == need);
    match purpose {
        // Creating trees mostly waits for downloads, building tools mostly for the processor.
        "test" => at_once(&[&|| build(needed_for(Need::Test)), &|| {
            download_module_files()?;
            Purpose::ALL.into_iter().try_for_each(create_tree)
        }]),
        "book" => build([Tool::Mdbook]),
        "cluster" => {
            build([Tool::Etcd, Tool::KubeApiserver])?;
            create_tree(Purpose::Node)
        }
        "bench" => build(needed_for(Need::Bench)),
        "dist" => {
            build(needed_for(Need::Dist))?;
            build(PACKAGERS)
        }
        "fuzz" => build([Tool::CargoFuzz]),
        "machine" => {
            build([Tool::Nmstatectl])?;
            create_machine_disk()
        }
        "machine-disk" => create_machine_disk(),
        _ => bail!("unknown purpose `{purpose}`; {USAGE}"),
    }
}

/// Installs missing packages as root on Debian. Otherwise the error has the command for that.
fn install(packages: &[Package]) -> Result<()> {
    let missing = test_tools::missing_packages(packages);
    if missing.is_empty() {
        return Ok(());
    }
    for Package { name, program, purpose } in &missing {
        println!("    {name} is missing ({program}: {purpose})");
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let can_install =
        rustix::process::geteuid().is_root() && Path::new("/usr/bin/apt-get").exists();
    ensure!(
        can_install,
        "programs are missing; on Debian run `sudo apt-get install {}`",
        names.join(" ")
    );
    let install = || {
        let fixed = ["install", "--yes", "--no-install-recommends"];
        apt_get(&[&fixed[..], &names].concat())
    };
    // Fresh machines have no package lists; others do not need to fetch them again.
    if install().is_err() {
        apt_get(&["update"])?;
        install()?;
    }
    let still: Vec<&str> =
        test_tools::missing_packages(packages).iter().map(|package| package.program).collect();
    ensure!(
        still.is_empty(),
        "apt-get succeeded, but {} cannot be found on the PATH",
        still.join(", ")
    );
    Ok(())
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .context("starting apt-get")?;
    ensure!(status.success(), "`apt-get {}` ended with {status}", arguments.join(" "));
    Ok(())
}

/// Downloads the CRDs that tests load and that are missing.
fn download_module_files() -> Result<()> {
    let cache = Cache::of_user()?;
    for files in module_files::ALL {
        if module_files::find(&cache, files).is_err() {
            println!("    downloading {files} ({}), once", files.purpose);
        }
        println!("    {files}: {}", module_files::download(&cache, files)?.display());
    }
    Ok(())
}

/// Creates a root file system.
fn create_tree(purpose: Purpose) -> Result<()> {
    let cache = Cache::of_user()?;
    let name = purpose.name();
    if Tree::find(&cache, purpose).is_err() {
        println!(
            "    creating the {name} root from Debian packages, once, about {} min",
            tree::MINUTES
        );
    }
    println!("    {name} root: {}", Tree::create(&cache, purpose)?.folder().display());
    Ok(())
}

/// Creates the image that test machines boot.
fn create_machine_disk() -> Result<()> {
    create_tree(Purpose::Node)?;
    let image = Image::create(&Cache::of_user()?)?;
    println!("    disk of test machines: {}", image.folder().display());
    Ok(())
}

/// Runs all parts at the same time, each in a thread. Returns the first error when all have ended.
fn at_once(parts: &[&(dyn Fn() -> Result<()> + Sync)]) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = parts.iter().map(|part| scope.spawn(part)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread that prepares tools panicked"),
        })
    })
}

/// Builds the tools that are missing: those in Rust beside the others, since every build has phases
/// that occupy one processor only.
fn build(tools: impl IntoIterator<Item = Tool>) -> Result<()> {
    let (rust, others): (Vec<Tool>, Vec<Tool>) =
        tools.into_iter().partition(|tool| tool.is_built_by_cargo());
    at_once(&[&|| build_each(&rust), &|| build_each(&others)])
}

/// Builds one after the other. Prints before each what it is and how long it takes.
fn build_each(tools: &[Tool]) -> Result<()> {
    let cache = Cache::of_user()?;
    for &tool in tools {
        if let Ok(path) = cache.path(tool) {
            println!("    {tool}: {}", path.display());
            continue;
        }
        let Recipe { purpose, minutes, .. } = tool.recipe();
        println!("    building {tool} ({purpose}), once, about {minutes} min on two cores");
        let start = Instant::now();
        let path = test_tools::build(&cache, tool)?;
        println!("    {tool}: {} ({:.0} s)", path.display(), start.elapsed().as_secs_f64());
    }
    Ok(())
}
