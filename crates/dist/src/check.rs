//! Checks artefacts by using them as a site does: runs programs, installs, upgrades and removes
//! packages, unpacks and runs images, verifies checksums and signatures.

mod images;
mod install;
mod mirroring;
mod plugins;
mod programs;
mod sandbox;
mod signature;

use anyhow::{Result, ensure};

use crate::job::{Artefacts, Job};

/// Runs all checks. Each prints a line.
pub(crate) fn check(job: &Job, artefacts: &Artefacts) -> Result<()> {
    ensure!(
        is_root()?,
        "checking needs root: packages are installed into trees and images run in namespaces"
    );
    println!("checking {} files in {}", artefacts.sums.len(), artefacts.folder.display());
    let is_debug = job.debug_programs.is_some();
    for contents in &artefacts.contents {
        programs::check(job, artefacts, contents, is_debug)?;
    }
    if is_debug {
        println!(
            "    not checked for debug programs: static linking, embedded dependencies, \
             architectures other than this machine's"
        );
    }
    install::check(job, artefacts)?;
    images::check(artefacts)?;
    plugins::check(artefacts)?;
    signature::check(artefacts)?;
    mirroring::check(artefacts)
}

fn is_root() -> Result<bool> {
    let mut id = std::process::Command::new("id");
    Ok(crate::command::output(id.arg("-u"))?.trim() == "0")
}

/// Compares the artefacts with those of a build of the same commit in another folder.
pub(crate) fn reproducible(first: &Artefacts, second: &Artefacts) -> Result<()> {
    let differing: Vec<&str> = first
        .sums
        .iter()
        .filter(|(name, sum)| second.sums.get(*name) != Some(sum))
        .map(|(name, _)| name.as_str())
        .collect();
    ensure!(
        differing.is_empty() && first.sums.len() == second.sums.len(),
        "two builds in different folders differ: {}; compare {} with {}",
        differing.join(", "),
        first.folder.display(),
        second.folder.display()
    );
    println!("    two builds in different folders: {} identical files", first.sums.len());
    Ok(())
}
