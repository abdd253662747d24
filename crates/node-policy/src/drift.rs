//! How often drift of a node is corrected. A program or another policy that reverts the correction
//! each time must not make the network change permanently.

use std::time::{Duration, Instant};

/// The delay before the second correction in a row; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(60);
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 60);
/// After this time without drift, the next one counts as the first again.
const QUIET: Duration = Duration::from_secs(2 * 60 * 60);

/// How often one policy was corrected on this node recently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Corrections {
    count: u32,
    last: Option<Instant>,
}

impl Corrections {
    /// The earliest time of the next correction; a time in the past means now.
    pub fn next(&self, now: Instant) -> Instant {
        let Some(last) = self.last.filter(|_| !self.is_quiet(now)) else { return now };
        let doubled = 1_u32.checked_shl(self.count.saturating_sub(1)).unwrap_or(u32::MAX);
        last + FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT)
    }

    /// A correction is made.
    pub fn made(&mut self, now: Instant) {
        let count = if self.is_quiet(now) { 0 } else { self.count };
        *self = Self { count: count.saturating_add(1), last: Some(now) };
    }

    fn is_quiet(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.duration_since(last) >= QUIET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_drift_is_corrected_at_once_and_a_quarrel_ever_more_slowly() {
        let start = Instant::now();
        let mut corrections = Corrections::default();
        let mut now = start;
        let mut waits = Vec::new();
        for _ in 0..8 {
            let next = corrections.next(now).max(now);
            waits.push(next.duration_since(now).as_secs());
            now = next;
            corrections.made(now);
        }
        assert_eq!(waits, [0, 60, 120, 240, 480, 960, 1800, 1800]);
    }

    #[test]
    fn after_a_quiet_time_a_drift_is_the_first_one_again() {
        let start = Instant::now();
        let mut corrections = Corrections::default();
        corrections.made(start);
        corrections.made(start);
        let later = start + QUIET;
        assert!(corrections.next(later) <= later);
        corrections.made(later);
        assert_eq!(corrections.next(later), later + FIRST_WAIT);
    }
}
