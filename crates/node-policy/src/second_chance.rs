//! When a policy that failed on a node is retried without a request: after the handler or the node
//! restarted, or a NIC was added or removed, or if only the API server did not respond; and not more
//! often than the back-off allows.

use jiff::{SignedDuration, Timestamp};

use crate::verdict::MOST_OUTAGES;

/// The delay before the first of these attempts. It doubles with each further one.
const FIRST_REST: SignedDuration = SignedDuration::from_mins(10);
const LONGEST_REST: SignedDuration = SignedDuration::from_hours(24);

/// A failure on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// The attempts made so far.
    pub attempts: u32,
    /// When the last one ended, by the clock of the node.
    pub at: Timestamp,
    /// Whether only the API server did not respond. The change need not be the cause then.
    pub is_possible_outage: bool,
}

/// When to retry. `changed` is the last relevant change of the node, by its clock.
pub fn retry_at(failed: Failed, changed: Timestamp) -> Option<Timestamp> {
    let Failed { attempts, at, is_possible_outage } = failed;
    // The attempts during the first outage count as one.
    let before = if is_possible_outage { MOST_OUTAGES } else { 1 };
    let doublings = attempts.saturating_sub(before).min(16);
    let rest = FIRST_REST.saturating_mul(1 << doublings).min(LONGEST_REST);
    let has_reason = is_possible_outage || changed > at;
    has_reason.then(|| at.saturating_add(rest).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn failed(attempts: u32, minute: i64) -> Failed {
        Failed { attempts, at: at(minute), is_possible_outage: false }
    }

    #[test]
    fn only_a_change_after_the_failure_is_a_reason() {
        assert_eq!(retry_at(failed(1, 100), at(90)), None);
        assert_eq!(retry_at(failed(1, 100), at(100)), None);
        assert_eq!(retry_at(failed(1, 100), at(101)), Some(at(110)));
    }

    #[test]
    fn a_possible_outage_of_the_api_server_is_a_reason_by_itself() {
        let rests = [3, 4, 5, 40].map(|attempts| {
            let failed = Failed { is_possible_outage: true, ..failed(attempts, 0) };
            retry_at(failed, Timestamp::MIN).unwrap().as_second() / 60
        });
        assert_eq!(rests, [10, 20, 40, 1440]);
    }

    #[test]
    fn a_node_that_restarts_all_the_time_tries_less_and_less_often() {
        let rests: Vec<i64> = [1, 2, 3, 8, 9, 40]
            .map(|attempts| retry_at(failed(attempts, 0), at(1)).unwrap().as_second() / 60)
            .to_vec();
        assert_eq!(rests, [10, 20, 40, 1280, 1440, 1440]);
    }
}
