//! The phase of one policy on one node, from and to conditions.

use nmstate_api::EnactmentConditionType::{
    self as Type, Aborted, Available, Failing, Pending, Progressing,
};
use nmstate_api::{Condition, ConditionStatus, EnactmentReason};

/// The phase of a policy on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The node has observed the policy, and nothing more is known.
    Unknown,
    /// It waits for a slot.
    Pending,
    /// The change is being made.
    Progressing,
    /// The change failed and will be retried.
    Retrying,
    /// The change failed permanently.
    Failed,
    /// The change was not started, as too many other nodes failed.
    Aborted,
    /// The node matches the policy.
    Available,
}

impl Phase {
    /// Whether nothing more will happen for this generation of the policy.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Failed | Self::Aborted | Self::Available)
    }

    /// Whether the node's network may be changing.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Progressing | Self::Retrying)
    }

    /// Reads the phase from stored conditions. An inconsistent combination is `Unknown`.
    pub fn of(conditions: &[Condition]) -> Self {
        let is = |type_: Type| nmstate_api::condition::is_true(conditions, type_);
        match (is(Available), is(Failing), is(Progressing), is(Pending), is(Aborted)) {
            (true, false, false, false, false) => Self::Available,
            (false, true, false, false, false) => Self::Failed,
            (false, true, true, false, false) => Self::Retrying,
            (false, false, true, false, false) => Self::Progressing,
            (false, false, false, true, false) => Self::Pending,
            (false, false, false, false, true) => Self::Aborted,
            _ => Self::Unknown,
        }
    }

    /// The five conditions of this phase, without times.
    pub fn conditions(self, message: &str) -> Vec<Condition> {
        use ConditionStatus::{False, True, Unknown};
        use EnactmentReason as Reason;
        let row = |statuses: [ConditionStatus; 5], reason: Option<Reason>| {
            let make = |(type_, status): (Type, ConditionStatus)| {
                let condition = Condition::new(type_, status);
                let condition = match reason {
                    Some(reason) => condition.reason(reason),
                    None => condition,
                };
                match status {
                    True => condition.message(message),
                    _ => condition,
                }
            };
            Type::ALL.into_iter().zip(statuses).map(make).collect::<Vec<_>>()
        };
        // Available, Failing, Progressing, Pending, Aborted.
        match self {
            Self::Unknown => row([Unknown; 5], None),
            Self::Pending => {
                row([False, False, False, True, False], Some(Reason::MaxUnavailableLimitReached))
            }
            Self::Progressing => {
                row([Unknown, Unknown, True, False, False], Some(Reason::ConfigurationProgressing))
            }
            Self::Retrying => row([False, True, True, False, False], Some(Reason::Retrying)),
            Self::Failed => {
                row([False, True, False, False, False], Some(Reason::FailedToConfigure))
            }
            Self::Aborted => {
                row([False, False, False, False, True], Some(Reason::ConfigurationAborted))
            }
            Self::Available => {
                row([True, False, False, False, False], Some(Reason::SuccessfullyConfigured))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Phase; 7] = [
        Phase::Unknown,
        Phase::Pending,
        Phase::Progressing,
        Phase::Retrying,
        Phase::Failed,
        Phase::Aborted,
        Phase::Available,
    ];

    /// Available, Failing, Progressing, Pending, Aborted and the reason, as clients of
    /// kubernetes-nmstate expect them.
    const MATRIX: [(Phase, &str, &str); 7] = [
        (Phase::Unknown, "UUUUU", ""),
        (Phase::Pending, "FFFTF", "MaxUnavailableLimitReached"),
        (Phase::Progressing, "UUTFF", "ConfigurationProgressing"),
        (Phase::Retrying, "FTTFF", "Retrying"),
        (Phase::Failed, "FTFFF", "FailedToConfigure"),
        (Phase::Aborted, "FFFFT", "ConfigurationAborted"),
        (Phase::Available, "TFFFF", "SuccessfullyConfigured"),
    ];

    #[test]
    fn conditions_are_those_that_clients_know() {
        for (phase, row, reason) in MATRIX {
            let conditions = phase.conditions("because");
            let types: Vec<&str> = conditions.iter().map(|it| it.type_.as_str()).collect();
            assert_eq!(types, ["Available", "Failing", "Progressing", "Pending", "Aborted"]);
            let letters: String = conditions
                .iter()
                .map(|it| match it.status {
                    ConditionStatus::True => 'T',
                    ConditionStatus::False => 'F',
                    ConditionStatus::Unknown => 'U',
                })
                .collect();
            assert_eq!(letters, row, "{phase:?}");
            for condition in &conditions {
                assert_eq!(condition.reason.as_deref().unwrap_or_default(), reason);
                let has_message = condition.message.is_some();
                assert_eq!(has_message, condition.status == ConditionStatus::True, "{phase:?}");
            }
        }
    }

    #[test]
    fn a_phase_is_read_back_from_its_conditions() {
        for phase in ALL {
            assert_eq!(Phase::of(&phase.conditions("x")), phase);
        }
        assert_eq!(Phase::of(&[]), Phase::Unknown);
    }
}
