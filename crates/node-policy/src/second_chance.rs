//! When a policy that failed on a node is retried without a request: after the handler or the node
//! restarted, or a NIC was added or removed, and not more often than the back-off allows.

use jiff::{SignedDuration, Timestamp};

/// The delay before the first of these attempts. It doubles with each further one.
const FIRST_REST: SignedDuration = SignedDuration::from_mins(10);
const LONGEST_REST: SignedDuration = SignedDuration::from_hours(24);

/// When to retry. `attempts` are those made so far, `failed` is when the last one ended, `changed`
/// is the last relevant change of the node. All times are those of the node.
pub fn retry_at(attempts: u32, failed: Timestamp, changed: Timestamp) -> Option<Timestamp> {
    let doublings = attempts.saturating_sub(1).min(16);
    let rest = FIRST_REST.saturating_mul(1 << doublings).min(LONGEST_REST);
    (changed > failed).then(|| failed.saturating_add(rest).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    #[test]
    fn only_a_change_after_the_failure_is_a_reason() {
        assert_eq!(retry_at(1, at(100), at(90)), None);
        assert_eq!(retry_at(1, at(100), at(100)), None);
        assert_eq!(retry_at(1, at(100), at(101)), Some(at(110)));
    }

    #[test]
    fn a_node_that_restarts_all_the_time_tries_less_and_less_often() {
        let rests: Vec<i64> = [1, 2, 3, 8, 9, 40]
            .map(|attempts| retry_at(attempts, at(0), at(1)).unwrap().as_second() / 60)
            .to_vec();
        assert_eq!(rests, [10, 20, 40, 1280, 1440, 1440]);
    }
}
