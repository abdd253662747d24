//! Calls every target with the committed inputs: the seeds that fuzzing starts from, and the inputs
//! that made a target fail.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzz_targets::TARGETS;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The names of the entries of a folder; none if it does not exist.
fn names(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn target_names() -> BTreeSet<String> {
    TARGETS.iter().map(|target| target.name.to_owned()).collect()
}

/// Calls a target with every file of a folder. Returns how many there were.
fn replay(folder: &Path, run: fn(&[u8])) -> usize {
    let names = names(folder);
    for name in &names {
        let path = folder.join(name);
        // The output of a failed test ends with the input that failed.
        println!("{}", path.display());
        run(&fs::read(&path).unwrap());
    }
    names.len()
}

#[test]
fn every_seed_passes_its_target() {
    for target in TARGETS {
        let count = replay(&fuzz_folder().join("corpus").join(target.name), target.run);
        assert!(count > 0, "{} has no seeds", target.name);
    }
}

#[test]
fn inputs_that_once_failed_pass_their_target() {
    for target in TARGETS {
        replay(&fuzz_folder().join("regressions").join(target.name), target.run);
    }
}

#[test]
fn every_target_has_a_program_and_every_folder_of_inputs_a_target() {
    let programs = names(&fuzz_folder().join("fuzz_targets"));
    let expected = target_names().into_iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(programs, expected);
    assert_eq!(names(&fuzz_folder().join("corpus")), target_names());
    let regressions = names(&fuzz_folder().join("regressions"));
    assert!(regressions.is_subset(&target_names()), "{regressions:?}");
}

#[test]
fn seeds_are_small() {
    for target in TARGETS {
        let folder = fuzz_folder().join("corpus").join(target.name);
        for name in names(&folder) {
            let size = fs::metadata(folder.join(&name)).unwrap().len();
            assert!(size <= 8 << 10, "{}/{name} has {size} bytes", target.name);
        }
    }
}
