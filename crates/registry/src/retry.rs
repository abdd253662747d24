//! When to try again, and after how long.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::traffic::Counters;

/// The longest a registry may request us to wait. It could name a year.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The longest exponential delay.
const LONGEST_DELAY: Duration = Duration::from_secs(120);
/// Before the only retry of a host that has not responded yet.
const QUICK_DELAY: Duration = Duration::from_millis(500);

/// How often, and how far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Further attempts after the first.
    pub times: u32,
    /// Between attempts; `None` is 1, 2, 4, 8, 16 seconds and so on, each up
    /// to a tenth longer so that many clients do not come back at once.
    pub delay: Option<Duration>,
}

impl Default for Retry {
    fn default() -> Self {
        Self { times: 5, delay: None }
    }
}

impl Retry {
    /// The delay before the attempt after number `failed` (from 0).
    fn pause(&self, failed: u32, jitter: f64) -> Duration {
        self.delay.unwrap_or_else(|| {
            let seconds = Duration::from_secs(1 << failed.min(16)).min(LONGEST_DELAY);
            seconds + seconds.mul_f64(jitter * 0.1)
        })
    }

    /// What to do after `error`, the `failed`-th failure in a row (from 0):
    /// wait this long and try again, or `None`: give up.
    pub(crate) fn after(&self, failed: u32, error: &Error) -> Option<Duration> {
        if failed >= self.attempts(error) - 1 {
            return None;
        }
        let pause = self.pause(failed, jitter());
        if error.most_retries() <= 1 {
            return Some(pause.min(QUICK_DELAY));
        }
        Some(error.retry_after().map_or(pause, |request_line| request_line.max(pause)))
    }

    /// How many attempts a request gets that fails with `error` each time.
    fn attempts(&self, error: &Error) -> u32 {
        if error.is_retryable() { 1 + self.times.min(error.most_retries()) } else { 1 }
    }

    /// Runs `attempt` until it succeeds, fails for good, or the attempts are
    /// used up.
    pub(crate) async fn run<T, F: Future<Output = Result<T, Error>>>(
        &self,
        counters: &Counters,
        attempt: impl Fn() -> F,
    ) -> Result<T, Error> {
        let mut failed = 0;
        loop {
            match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => match self.after(failed, &error) {
                    None => return Err(error.after_attempts(failed + 1)),
                    Some(pause) => self.wait(counters, failed, &error, pause).await,
                },
            }
            failed += 1;
        }
    }

    /// Reports that there will be another attempt after the `failed`-th failure (from 0), and
    /// waits for it.
    pub(crate) async fn wait(
        &self,
        counters: &Counters,
        failed: u32,
        error: &Error,
        pause: Duration,
    ) {
        counters.retry();
        tracing::warn!(
            "retrying in {} (attempt {} of {}): {}",
            seconds(pause),
            failed + 2,
            self.attempts(error),
            error.chain()
        );
        tokio::time::sleep(pause).await;
    }
}

fn seconds(pause: Duration) -> String {
    if pause < Duration::from_secs(1) {
        format!("{} ms", pause.as_millis())
    } else {
        format!("{} s", pause.as_secs_f64().round())
    }
}

/// A number from 0 to 1, different each time.
#[expect(clippy::cast_precision_loss, reason = "a rough number is all that is wanted")]
fn jitter() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

/// What a `Retry-After` header contains: seconds, with a fraction from some servers, or a date in
/// one of the three forms of HTTP. `now` is the time of the server, where it sent one: its clock and
/// ours may differ.
pub(crate) fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse::<f64>() {
        Ok(seconds) if seconds >= LONGEST_WAIT.as_secs_f64() => LONGEST_WAIT,
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_unless_one_is_given() {
        let retry = Retry::default();
        let delays: Vec<u64> = (0..5).map(|n| retry.pause(n, 0.0).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16]);
        assert_eq!(retry.pause(3, 1.0), Duration::from_millis(8800));
        assert_eq!(retry.pause(60, 0.0), LONGEST_DELAY);
        let constant = Retry { times: 5, delay: Some(Duration::from_secs(3)) };
        assert_eq!(constant.pause(4, 1.0), Duration::from_secs(3));
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms_and_bounded() {
        // 1994-11-06 08:49:37 UTC, the example date of the HTTP standard.
        let example = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let now = example - Duration::from_secs(90);
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (value, now, expected) in [
            ("120", now, Some(120)),
            (" 0 ", now, Some(0)),
            ("31536000", now, Some(600)),
            ("1e400", now, Some(600)),
            ("NaN", now, None),
            (date, now, Some(90)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", now, Some(90)),
            ("Sun Nov  6 08:49:37 1994", now, Some(90)),
            (date, example + Duration::from_secs(5), Some(0)),
            ("soon", now, None),
            ("-1", now, None),
            ("", now, None),
        ] {
            let expected = expected.map(Duration::from_secs);
            assert_eq!(parse_retry_after(value, now), expected, "{value}");
        }
        assert_eq!(parse_retry_after("0.5", now), Some(Duration::from_millis(500)));
    }

    #[test]
    fn jitter_stays_within_its_bounds() {
        assert!((0..100).map(|_| jitter()).all(|jitter| (0.0..=1.0).contains(&jitter)));
    }
}
