//! Checks artefacts by using them as a site does: runs programs, installs, upgrades and removes
//! packages, unpacks and runs images, verifies checksums and signatures.

mod images;
mod install;
mod mirroring;
mod plugins;
mod programs;
mod sandbox;
mod signature;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use crate::job::{Artefacts, Job};

/// Runs all checks, as root. Each prints a line.
pub(crate) fn check(job: &Job, artefacts: &Artefacts) -> Result<()> {
    println!("checking {} files in {}", artefacts.sums.len(), artefacts.folder.display());
    let is_debug = job.debug_programs.is_some();
    for contents in &artefacts.contents {
        programs::check(job, artefacts, contents, is_debug)?;
    }
    if is_debug {
        println!(
            "    not checked for debug programs: static linking, embedded dependencies, alignment \
             of segments, pages of jemalloc, plugins of oc, architectures other than this machine's"
        );
    }
    install::check(job, artefacts)?;
    images::check(artefacts)?;
    plugins::check(artefacts, is_debug)?;
    signature::check(artefacts)?;
    mirroring::check(artefacts)
}

/// Compares the artefacts with those of a build of the same commit in another folder. The second
/// build may have been restricted to some programs.
pub(crate) fn reproducible(first: &Artefacts, second: &Artefacts, is_whole: bool) -> Result<()> {
    let differing = differing(&first.sums, &second.sums, is_whole);
    ensure!(
        differing.is_empty(),
        "two builds in different folders differ: {}; compare {} with {}",
        differing.join(", "),
        first.folder.display(),
        second.folder.display()
    );
    println!(
        "    two builds in different folders: {} of {} files built again, all identical",
        second.sums.len(),
        first.sums.len()
    );
    Ok(())
}

/// Names of files that are not the same in both builds. Files that only the first build has are
/// allowed if the second one was restricted.
fn differing(
    first: &BTreeMap<String, String>,
    second: &BTreeMap<String, String>,
    is_whole: bool,
) -> Vec<String> {
    let names: BTreeSet<&String> = match is_whole {
        true => first.keys().chain(second.keys()).collect(),
        false => second.keys().collect(),
    };
    names.into_iter().filter(|name| first.get(*name) != second.get(*name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, sum)| ((*name).to_owned(), (*sum).to_owned())).collect()
    }

    #[test]
    fn files_that_differ_or_are_missing_are_named() {
        let first = sums(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert_eq!(differing(&first, &first, true), [""; 0]);
        let second = sums(&[("a", "1"), ("b", "other"), ("d", "4")]);
        assert_eq!(differing(&first, &second, true), ["b", "c", "d"]);
    }

    #[test]
    fn a_restricted_second_build_has_fewer_files() {
        let first = sums(&[("a", "1"), ("b", "2")]);
        assert_eq!(differing(&first, &sums(&[("a", "1")]), false), [""; 0]);
        assert_eq!(differing(&first, &sums(&[("a", "other")]), false), ["a"]);
        assert_eq!(differing(&first, &sums(&[("z", "1")]), false), ["z"]);
    }
}
