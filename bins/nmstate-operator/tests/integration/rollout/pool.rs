//! Benches that tests share: each test uses one exclusively, and returns it in its initial state.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What tests of a group run on.
pub(crate) trait Shared: Sized {
    /// What tests may request of it.
    type Setting: Copy;

    fn start() -> Self;
    /// Whether a test with this setting can begin without a delay.
    fn fits(&self, setting: Self::Setting) -> bool;
    /// Before a test.
    fn begin(&mut self, setting: Self::Setting);
    /// After a test that passed: restores the initial state.
    fn restore(&mut self);
}

/// The benches of a group of tests.
pub(crate) struct Pool<B> {
    state: Mutex<State<B>>,
    /// Names of the tests of the group.
    tests: fn() -> Vec<&'static str>,
}

struct State<B> {
    idle: Vec<B>,
    /// Tests that have ended.
    ended: usize,
}

impl<B: Shared> Pool<B> {
    pub(crate) const fn new(tests: fn() -> Vec<&'static str>) -> Self {
        Self { state: Mutex::new(State { idle: Vec::new(), ended: 0 }), tests }
    }

    /// Runs a test. A bench on which a test failed is discarded: its state is unknown.
    pub(crate) fn run(&self, setting: B::Setting, test: fn(&mut B)) {
        let _ended = Ended(self);
        let mut bench = self.take(setting).unwrap_or_else(B::start);
        bench.begin(setting);
        test(&mut bench);
        bench.restore();
        self.lock().idle.push(bench);
    }

    fn take(&self, setting: B::Setting) -> Option<B> {
        let idle = &mut self.lock().idle;
        let fitting = idle.iter().position(|bench| bench.fits(setting));
        let index = fitting.or_else(|| idle.len().checked_sub(1))?;
        Some(idle.swap_remove(index))
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a test when it ends, also if it fails. After the last one the pool is emptied: a `static` is
/// never dropped, and temporary folders would remain.
struct Ended<'a, B: Shared>(&'a Pool<B>);

impl<B: Shared> Drop for Ended<'_, B> {
    fn drop(&mut self) {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let tests = (self.0.tests)().into_iter();
        let selected = tests.filter(|name| is_selected(name, &arguments)).count();
        let mut state = self.0.lock();
        state.ended += 1;
        if state.ended >= selected {
            let benches = std::mem::take(&mut state.idle);
            drop(state);
            drop(benches);
        }
    }
}

/// Whether the test harness runs a test of this path, given its arguments.
fn is_selected(path: &str, arguments: &[String]) -> bool {
    // The harness omits the name of the crate.
    let name = path.split_once("::").map_or(path, |(_, rest)| rest);
    let is_exact = arguments.iter().any(|it| it == "--exact");
    let matches = |filter: &str| if is_exact { name == filter } else { name.contains(filter) };
    let (mut filters, mut skipped) = (Vec::new(), Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--skip" => skipped.extend(words.next().map(String::as_str)),
            "--test-threads" | "--format" | "--color" | "--logfile" | "--shuffle-seed" | "-Z" => {
                words.next();
            }
            flag if flag.starts_with('-') => skipped.extend(flag.strip_prefix("--skip=")),
            filter => filters.push(filter),
        }
    }
    let is_wanted = filters.is_empty() || filters.iter().any(|it| matches(it));
    is_wanted && !skipped.iter().any(|it| matches(it))
}

#[test]
fn tests_are_selected_as_by_the_harness() {
    let name = "integration::rollout::nodes::a_paused_policy_changes_no_node";
    let is_selected = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        is_selected(name, &arguments)
    };
    assert!(is_selected(&[]));
    assert!(is_selected(&["--test-threads", "1", "--nocapture"]));
    assert!(is_selected(&["rollout::nodes"]));
    assert!(is_selected(&["other", "a_paused_policy"]));
    assert!(!is_selected(&["other"]));
    assert!(!is_selected(&["a_paused_policy", "--exact"]));
    assert!(is_selected(&["rollout::nodes::a_paused_policy_changes_no_node", "--exact"]));
    assert!(!is_selected(&["--skip", "a_paused_policy"]));
    assert!(!is_selected(&["--skip=a_paused_policy"]));
}
