//! Random numbers and durations that a seed repeats.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A generator of numbers (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The numbers of one round of a campaign, so that a campaign can be continued after any round.
    pub(crate) fn of_round(seed: u64, round: u64) -> Self {
        Self(Self(seed).next() ^ Self(round).next())
    }

    /// A seed that differs from run to run.
    pub(crate) fn seed() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs() ^ u64::from(now.subsec_nanos())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Any number below `end`.
    pub(crate) fn pick(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn is_heads(&mut self) -> bool {
        self.pick(2) == 0
    }

    /// Any duration below `end`.
    pub(crate) fn below(&mut self, end: Duration) -> Duration {
        let nanos = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX).max(1);
        Duration::from_nanos(self.next() % nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_the_moments_and_they_stay_below_the_end() {
        let end = Duration::from_millis(700);
        let moments = |seed| {
            let mut random = Random::new(seed);
            (0..1000).map(|_| random.below(end)).collect::<Vec<_>>()
        };
        assert_eq!(moments(7), moments(7));
        assert_ne!(moments(7), moments(8));
        assert!(moments(7).iter().all(|moment| *moment < end));
        assert!(moments(7).iter().any(|moment| *moment > end / 2));
    }
}
