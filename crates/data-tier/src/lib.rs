//! Real-world files beside the checkout, and a record of the tests that were skipped without them.
//!
//! The files are not part of this repository: `../shared/data` beside the checkout, or the folder
//! that `LANDFALL_DATA` names. A test requests a folder and returns early when it is missing:
//!
//! ```text
//! let Some(folder) = data_tier("operator-catalogs") else { return };
//! ```
//!
//! Each early return is printed to standard error, which the test harness does not capture here, and
//! appended to the file that `LANDFALL_SKIPPED` names: one line `TEST<tab>FOLDER`. The test command
//! prints those lines and their count, so that a run without the files cannot be mistaken for a run
//! with them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{env, thread};

/// Names the folder of real-world files; without it, `../shared/data` beside the checkout.
pub const DATA_VARIABLE: &str = "LANDFALL_DATA";
/// Names the file that collects the skipped tests.
pub const SKIPPED_VARIABLE: &str = "LANDFALL_SKIPPED";

/// A folder of real-world files. When it is missing, the skip of the current test is recorded.
///
/// # Panics
///
/// When the skip cannot be recorded: a test must not be skipped unnoticed.
#[must_use]
pub fn data_tier(name: &str) -> Option<PathBuf> {
    let data = set(DATA_VARIABLE).map_or_else(beside_the_checkout, PathBuf::from);
    let folder = data.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    record_skip(&folder.display().to_string());
    None
}

/// Records that the current test is skipped because `missing` does not exist.
///
/// # Panics
///
/// When the skip cannot be recorded.
pub fn record_skip(missing: &str) {
    let skip = format!("{}\t{missing}\n", current_test());
    // A test may request several folders; it is skipped once.
    if !is_new(&skip) {
        return;
    }
    // A closed standard error is ignored; the file below is the record.
    let _ = write!(io::stderr(), "skipped: {skip}");
    if let Some(record) = set(SKIPPED_VARIABLE) {
        let record = Path::new(&record);
        append(record, &skip)
            .unwrap_or_else(|error| panic!("recording a skip in {}: {error}", record.display()));
    }
}

fn set(variable: &str) -> Option<OsString> {
    env::var_os(variable).filter(|value| !value.is_empty())
}

fn beside_the_checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data")
}

/// The package and the name of the test that runs on this thread. The test harness names threads
/// after tests, except in a run with one thread. The folder of a package has its name.
fn current_test() -> String {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = manifest.as_deref().and_then(Path::file_name).unwrap_or_default();
    let thread = thread::current();
    format!("{}::{}", package.display(), thread.name().unwrap_or("unnamed thread"))
}

/// Whether this process has not recorded the skip yet.
fn is_new(skip: &str) -> bool {
    static RECORDED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut recorded = RECORDED.lock().unwrap_or_else(PoisonError::into_inner);
    recorded.insert(skip.to_owned())
}

/// One write in append mode: lines of tests that run at the same time do not mix.
fn append(record: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(record)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::{fs, process};

    use super::*;

    /// Set for the process that the test below starts.
    const CHILD: &str = "DATA_TIER_TEST_CHILD";

    /// A separate folder for a test, removed with the value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("data-tier-{name}-{}", process::id()));
            fs::create_dir_all(path.join("present")).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_missing_folder_is_recorded_with_the_test_and_a_present_one_is_not() {
        if env::var_os(CHILD).is_some() {
            assert!(data_tier("present").is_some());
            assert_eq!(data_tier("missing"), None);
            assert_eq!(data_tier("missing"), None);
            return;
        }
        // Variables are per process, so a separate process requests the folders.
        let folder = Folder::new("record");
        let record = folder.0.join("skipped");
        let name = "tests::a_missing_folder_is_recorded_with_the_test_and_a_present_one_is_not";
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", name, "--test-threads=2"])
            .env(CHILD, "1")
            .env(DATA_VARIABLE, &folder.0)
            .env(SKIPPED_VARIABLE, &record)
            .env("CARGO_MANIFEST_DIR", "/checkout/crates/data-tier")
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
        let missing = folder.0.join("missing");
        let line = format!("data-tier::{name}\t{}\n", missing.display());
        assert_eq!(fs::read_to_string(&record).unwrap(), line);
        let printed = String::from_utf8(child.stderr).unwrap();
        assert!(printed.contains(&format!("skipped: {line}")), "{printed}");
    }

    #[test]
    fn lines_are_added_at_the_end() {
        let folder = Folder::new("append");
        let record = folder.0.join("skipped");
        append(&record, "one\n").unwrap();
        append(&record, "two\n").unwrap();
        assert_eq!(fs::read_to_string(&record).unwrap(), "one\ntwo\n");
    }
}
