//! Waiting for what others do in their own time.

use std::time::{Duration, Instant};

/// Long enough for a machine that is busy with other things.
const DEADLINE: Duration = Duration::from_secs(600);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Waits until something holds, ten minutes at most; `what` is for the one who reads why not.
///
/// # Panics
/// When it does not hold by then: the test that waits has failed.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let end = Instant::now() + DEADLINE;
    while !holds().await {
        assert!(Instant::now() < end, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
