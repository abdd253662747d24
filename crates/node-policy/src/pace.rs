//! A limit on the rate of writes: at most one in an interval for each key.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// The time of the last write for each key.
#[derive(Debug, Clone)]
pub struct Pace {
    interval: SignedDuration,
    last: BTreeMap<String, Timestamp>,
}

impl Pace {
    pub fn new(interval: SignedDuration) -> Self {
        Self { interval, last: BTreeMap::new() }
    }

    /// The earliest time of the next write for this key. A time in the past means now.
    pub fn next(&self, key: &str) -> Option<Timestamp> {
        self.last.get(key).and_then(|last| last.checked_add(self.interval).ok())
    }

    /// Whether a write is allowed now. A clock that was set back does not delay writes.
    pub fn may(&self, key: &str, now: Timestamp) -> bool {
        let too_soon = |last: &Timestamp| {
            let since = now.duration_since(*last);
            since >= SignedDuration::ZERO && since < self.interval
        };
        !self.last.get(key).is_some_and(too_soon)
    }

    pub fn wrote(&mut self, key: &str, now: Timestamp) {
        self.last.insert(key.to_owned(), now);
    }

    pub fn forget(&mut self, key: &str) {
        self.last.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    #[test]
    fn one_write_in_an_interval_and_keys_do_not_wait_for_each_other() {
        let mut pace = Pace::new(SignedDuration::from_secs(1));
        assert!(pace.may("a", at(0)));
        pace.wrote("a", at(0));
        assert!(!pace.may("a", at(999)));
        assert!(pace.may("a", at(1000)));
        assert!(pace.may("b", at(1)));
        assert_eq!(pace.next("a"), Some(at(1000)));
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_stop_writes() {
        let mut pace = Pace::new(SignedDuration::from_secs(1));
        pace.wrote("a", at(1_000_000));
        assert!(pace.may("a", at(0)));
    }
}
