//! Waiting for a condition, with a deadline that a busy machine can keep.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Long enough for the slowest machine; reached only if something is broken.
const DEADLINE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until a condition holds. `what` is a short sentence for the error.
pub(super) fn until(what: &str, holds: impl FnMut() -> Result<bool>) -> Result<()> {
    within(DEADLINE, what, holds)
}

pub(super) fn within(
    deadline: Duration,
    what: &str,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let end = Instant::now() + deadline;
    loop {
        if holds()? {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("waiting until {what}: not within {deadline:?}");
        }
        thread::sleep(PAUSE);
    }
}
