//! Runs test binaries, several at a time, each in one process.
//!
//! Tests on nodes and clusters wait for most of their time, so that running binaries one after the
//! other leaves the processors idle. Tests of one binary may share servers, hence whole binaries.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::build::TestBinary;
use crate::progress::Ticker;
use crate::repository;

/// How many binaries run at a time.
const AT_A_TIME: usize = 2;

/// Started first, slowest first: a slow binary that starts last would extend the run.
const SLOW: [(&str, &str); 5] = [
    WAITING,
    ("oc-mirror", "integration"),
    ("brex-firstboot", "integration"),
    ("lab-cluster", "integration"),
    ("oc-brex", "integration"),
];

/// Its tests wait for checkpoints, probes and leases most of the time, so more of them run at once
/// than there are processors.
const WAITING: (&str, &str) = ("nmstate-operator", "integration");
const THREADS_OF_WAITING: usize = 5;

/// Names the file to which tests append that their input folder is missing; see the crate
/// `data-tier`.
const SKIPPED: &str = "LANDFALL_SKIPPED";

/// Counts of test results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
}

impl Totals {
    /// Adds up the summary lines in the output of test binaries.
    pub(crate) fn of(output: &str) -> Self {
        let mut totals = Self::default();
        for line in output.lines().filter(|line| line.starts_with("test result: ")) {
            let count = |what: &str| -> usize {
                let words: Vec<&str> = line.split([' ', ';', '.']).collect();
                let found = words.windows(2).find(|pair| pair[1] == what);
                found.and_then(|pair| pair[0].parse().ok()).unwrap_or_default()
            };
            totals.passed += count("passed");
            totals.failed += count("failed");
            totals.ignored += count("ignored");
        }
        totals
    }
}

/// A binary that ended.
struct Ended {
    label: String,
    totals: Totals,
    success: bool,
    seconds: f64,
    log: PathBuf,
}

/// Runs all. Returns what was skipped, by name.
pub(crate) fn run(tests: &[TestBinary]) -> Result<Vec<String>> {
    let folder = repository::scratch("tests")?;
    let skipped = folder.join("skipped");
    let queue = in_order(tests);
    let next = AtomicUsize::new(0);
    let ended = Mutex::new(Vec::new());
    let running = Arc::new(Mutex::new(Vec::<(String, PathBuf)>::new()));
    let ticker = Ticker::start({
        let running = Arc::clone(&running);
        move || status(&running.lock().unwrap_or_else(PoisonError::into_inner))
    });
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..AT_A_TIME)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    while let Some(test) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = run_one(test, &folder, &skipped, &running)?;
                        report(&result);
                        ended.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread that runs tests panicked"),
        })
    })?;
    drop(ticker);
    conclude(&ended.into_inner().unwrap_or_else(PoisonError::into_inner), &skipped)
}

fn conclude(ended: &[Ended], skipped: &Path) -> Result<Vec<String>> {
    let mut totals = Totals::default();
    for Ended { totals: Totals { passed, failed, ignored }, .. } in ended {
        totals.passed += passed;
        totals.failed += failed;
        totals.ignored += ignored;
    }
    let skipped = read_skipped(skipped)?;
    println!("\nslowest binaries:");
    let mut by_time: Vec<&Ended> = ended.iter().collect();
    by_time.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    for Ended { label, seconds, .. } in by_time.iter().take(8) {
        println!("    {label:34} {seconds:>7.1} s");
    }
    let failures: Vec<&str> = ended
        .iter()
        .filter(|one| !one.success)
        .map(|one| {
            println!("\n---- {} ({}) ----", one.label, one.log.display());
            print!("{}", fs::read_to_string(&one.log).unwrap_or_default());
            one.label.as_str()
        })
        .collect();
    // A test without its input ends early and counts as passed in its binary.
    let passed = totals.passed.saturating_sub(skipped.len());
    println!(
        "\n{passed} passed, {} failed, {} skipped",
        totals.failed,
        totals.ignored + skipped.len()
    );
    println!(
        "    {} ignored, with the reason in the test; `cargo xtask test --machine` runs those on machines",
        totals.ignored
    );
    println!("    {} skipped: their input folder is missing", skipped.len());
    ensure!(failures.is_empty(), "failed: {}", failures.join(", "));
    ensure!(totals.passed > 0, "no test was run");
    Ok(skipped)
}

/// Slow binaries first, the rest by name.
fn in_order(tests: &[TestBinary]) -> Vec<&TestBinary> {
    let rank = |test: &TestBinary| {
        SLOW.iter().position(|slow| is_named(test, *slow)).unwrap_or(SLOW.len())
    };
    let mut queue: Vec<&TestBinary> = tests.iter().collect();
    queue.sort_by_key(|test| (rank(test), *test));
    queue
}

fn is_named(test: &TestBinary, (package, name): (&str, &str)) -> bool {
    test.package == package && test.name == name
}

fn run_one(
    test: &TestBinary,
    folder: &Path,
    skipped: &Path,
    running: &Mutex<Vec<(String, PathBuf)>>,
) -> Result<Ended> {
    let label = format!("{} ({})", test.package, test.name);
    let log = folder.join(format!("{}-{}.log", test.package, test.name.replace([' ', ','], "-")));
    let writing = || format!("writing {}", log.display());
    let output = File::create(&log).with_context(writing)?;
    let errors = output.try_clone().with_context(writing)?;
    let lock = || running.lock().unwrap_or_else(PoisonError::into_inner);
    lock().push((label.clone(), log.clone()));
    let start = Instant::now();
    let mut command = Command::new(&test.path);
    if is_named(test, WAITING) {
        command.env("RUST_TEST_THREADS", THREADS_OF_WAITING.to_string());
    }
    let status = command
        .current_dir(&test.folder)
        .env("CARGO_MANIFEST_DIR", &test.folder)
        .env("CARGO_PKG_NAME", &test.package)
        .env(SKIPPED, skipped)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .status()
        .with_context(|| format!("starting {}", test.path.display()))?;
    lock().retain(|(name, _)| *name != label);
    let totals = Totals::of(&fs::read_to_string(&log).unwrap_or_default());
    let seconds = start.elapsed().as_secs_f64();
    Ok(Ended { label, totals, success: status.success(), seconds, log })
}

fn report(ended: &Ended) {
    let Ended { label, totals, success, seconds, .. } = ended;
    let verdict = if *success { "ok" } else { "FAILED" };
    println!("    {label:34} {verdict:6} {:>4} passed  {seconds:>7.1} s", totals.passed);
}

/// What runs, and how many of its tests have ended.
fn status(running: &[(String, PathBuf)]) -> String {
    let parts = running.iter().map(|(label, log)| {
        let text = fs::read_to_string(log).unwrap_or_default();
        let is_result = |line: &&str| line.starts_with("test ") && line.ends_with(" ok");
        format!("{label}: {} passed", text.lines().filter(is_result).count())
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// Lines `TEST<tab>FOLDER`, each once.
fn read_skipped(path: &Path) -> Result<Vec<String>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| match line.split_once('\t') {
            Some((test, folder)) => format!("{test}: there is no {folder}"),
            None => line.to_owned(),
        })
        .collect();
    lines.sort();
    lines.dedup();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(package: &str, name: &str) -> TestBinary {
        TestBinary {
            package: package.into(),
            name: name.into(),
            path: PathBuf::new(),
            folder: PathBuf::new(),
        }
    }

    #[test]
    fn summary_lines_of_several_binaries_add_up() {
        let output = "running 3 tests\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.01s\n\
            test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n";
        assert_eq!(Totals::of(output), Totals { passed: 7, failed: 1, ignored: 1 });
    }

    #[test]
    fn slow_binaries_start_first() {
        let tests = [
            binary("br-ex", "unit"),
            binary("oc-mirror", "integration"),
            binary("nmstate-operator", "integration"),
        ];
        let packages: Vec<&str> =
            in_order(&tests).iter().map(|test| test.package.as_str()).collect();
        assert_eq!(packages, ["nmstate-operator", "oc-mirror", "br-ex"]);
    }

    #[test]
    fn a_skipped_test_is_listed_once_with_its_folder() {
        let file = std::env::temp_dir().join(format!("xtask-skipped-{}", std::process::id()));
        fs::write(&file, "b\t/data/x\na\t/data/y\nb\t/data/x\n").unwrap();
        let skipped = read_skipped(&file);
        fs::remove_file(&file).unwrap();
        assert_eq!(skipped.unwrap(), ["a: there is no /data/y", "b: there is no /data/x"]);
        assert!(read_skipped(&file).unwrap().is_empty());
    }
}
