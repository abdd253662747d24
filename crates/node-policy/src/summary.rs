//! The summary of all nodes for a policy: counts, and conditions derived from them.

use nmstate_api::PolicyConditionType::{self as Type};
use nmstate_api::{Condition, ConditionStatus, PolicyReason as Reason};

use crate::phase::Phase;

/// The number of matching nodes in each phase, for the current generation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes that match and have a handler.
    pub matching: usize,
    /// Those of them that are ready.
    pub ready: usize,
    pub available: usize,
    pub failed: usize,
    pub aborted: usize,
    pub pending: usize,
}

impl Counts {
    /// Counts nodes, each with its readiness and its phase.
    pub fn of(nodes: impl IntoIterator<Item = (bool, Phase)>) -> Self {
        let mut counts = Self::default();
        for (is_ready, phase) in nodes {
            counts.matching += 1;
            counts.ready += usize::from(is_ready);
            match phase {
                Phase::Available => counts.available += 1,
                Phase::Failed => counts.failed += 1,
                Phase::Aborted => counts.aborted += 1,
                Phase::Pending => counts.pending += 1,
                // A change that will be retried has not failed.
                Phase::Unknown | Phase::Progressing | Phase::Retrying => {}
            }
        }
        counts
    }

    fn finished(self) -> usize {
        self.available + self.failed + self.aborted
    }

    fn not_ready(self) -> usize {
        self.matching - self.ready
    }

    /// The summary of the policy, in the terms that clients of kubernetes-nmstate expect.
    pub fn summarize(self) -> PolicySummary {
        let Self { matching, ready, available, failed, aborted, pending, .. } = self;
        let ignored = match self.not_ready() {
            0 => String::new(),
            nodes => format!(", {nodes} nodes ignored due to NotReady state"),
        };
        let finished = self.finished();
        if matching == 0 {
            return PolicySummary::new(State::NoNode, "Policy does not match any node");
        }
        if failed + aborted > 0 {
            let aborted = match aborted {
                0 => String::new(),
                nodes => format!(", {nodes} nodes aborted configuration"),
            };
            let text = format!("{failed}/{matching} nodes failed to configure{aborted}");
            return PolicySummary::new(State::Failed, text);
        }
        if finished < ready || pending > 0 {
            // Reported only if it is the reason. Otherwise the unfinished nodes are sufficient.
            let pending = match pending {
                nodes if nodes > 0 && finished >= ready => format!(", {nodes} pending"),
                _ => String::new(),
            };
            let text = format!(
                "Policy is progressing {finished}/{ready} nodes finished{pending}{ignored}"
            );
            return PolicySummary::new(State::Progressing, text);
        }
        let text = format!("{available}/{matching} nodes successfully configured{ignored}");
        PolicySummary::new(State::Available, text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    NoNode,
    Failed,
    Progressing,
    Available,
    /// No handlers run, or the policy cannot be honoured; the reason tells which.
    Ignored(Reason),
    /// No node is changed before something is corrected.
    Blocked(Reason),
}

/// The condition of a policy, and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySummary {
    pub state: State,
    pub message: String,
}

impl PolicySummary {
    pub fn new(state: State, message: impl Into<String>) -> Self {
        Self { state, message: message.into() }
    }

    /// The four conditions of a policy, without times.
    pub fn conditions(&self) -> Vec<Condition> {
        use ConditionStatus::{False, True, Unknown};
        // Available, Degraded, Progressing, Ignored.
        let (statuses, reason) = match self.state {
            State::NoNode => ([False, False, False, True], Reason::NoMatchingNode),
            State::Ignored(reason) => ([False, False, False, True], reason),
            State::Blocked(reason) => ([False, True, False, False], reason),
            State::Failed => ([False, True, False, False], Reason::FailedToConfigure),
            State::Progressing => {
                ([Unknown, Unknown, True, False], Reason::ConfigurationProgressing)
            }
            State::Available => ([True, False, False, False], Reason::SuccessfullyConfigured),
        };
        let make = |(type_, status): (Type, ConditionStatus)| {
            // The API has always been like this.
            let reason = match (self.state, type_) {
                (State::Failed, Type::Progressing) => Reason::ConfigurationProgressing,
                _ => reason,
            };
            let condition = Condition::new(type_, status).reason(reason);
            if status == True { condition.message(&self.message) } else { condition }
        };
        Type::ALL.into_iter().zip(statuses).map(make).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Phase::{Aborted, Available, Failed, Pending, Progressing, Retrying, Unknown};

    fn summarize(nodes: &[(bool, Phase)]) -> (State, String) {
        let summary = Counts::of(nodes.iter().copied()).summarize();
        (summary.state, summary.message)
    }

    /// Nodes, and what they make of their policy.
    type Row = (&'static [(bool, Phase)], State, &'static str);

    const UP: bool = true;
    const DOWN: bool = false;

    /// The messages of kubernetes-nmstate for the same nodes, literally.
    #[test]
    fn the_status_of_a_policy_follows_from_its_nodes() {
        let progressing = |nodes: &[(bool, Phase)], rest: &str| {
            let expected = format!("Policy is progressing {rest}");
            assert_eq!(summarize(nodes), (State::Progressing, expected), "{nodes:?}");
        };
        progressing(&[(UP, Progressing); 3], "0/3 nodes finished");
        let two = [(UP, Available), (UP, Available)];
        let three = [(UP, Available), (UP, Available), (UP, Available)];
        // The last one has not created its report, or the report is empty.
        progressing(&[&three[..], &[(UP, Unknown)]].concat(), "3/4 nodes finished");
        progressing(&[&two[..], &[(UP, Progressing)]].concat(), "2/3 nodes finished");
        progressing(&[(UP, Unknown), (UP, Unknown), (UP, Available)], "1/3 nodes finished");
        progressing(&[&two[..], &[(UP, Pending)]].concat(), "2/3 nodes finished");
        progressing(&[&three[..], &[(UP, Pending)]].concat(), "3/4 nodes finished");
        progressing(
            &[&three[..], &[(DOWN, Pending)]].concat(),
            "3/3 nodes finished, 1 pending, 1 nodes ignored due to NotReady state",
        );
        let table: [Row; 7] = [
            (&[], State::NoNode, "Policy does not match any node"),
            (&[(UP, Available); 3], State::Available, "3/3 nodes successfully configured"),
            (
                &[(UP, Available), (UP, Available), (UP, Available), (DOWN, Unknown)],
                State::Available,
                "3/4 nodes successfully configured, 1 nodes ignored due to NotReady state",
            ),
            (
                &[(UP, Available), (UP, Progressing), (UP, Failed), (UP, Available)],
                State::Failed,
                "1/4 nodes failed to configure",
            ),
            (
                &[(UP, Failed), (UP, Failed), (UP, Available)],
                State::Failed,
                "2/3 nodes failed to configure",
            ),
            (&[(UP, Failed); 3], State::Failed, "3/3 nodes failed to configure"),
            (
                &[(UP, Failed), (UP, Aborted), (UP, Aborted)],
                State::Failed,
                "1/3 nodes failed to configure, 2 nodes aborted configuration",
            ),
        ];
        for (nodes, state, message) in table {
            assert_eq!(summarize(nodes), (state, message.to_owned()), "{nodes:?}");
        }
    }

    #[test]
    fn nodes_that_are_away_or_try_again_are_counted_for_what_they_are() {
        let table: [Row; 6] = [
            (
                &[(UP, Available), (UP, Unknown), (DOWN, Unknown)],
                State::Progressing,
                "Policy is progressing 1/2 nodes finished, 1 nodes ignored due to NotReady state",
            ),
            (
                &[(UP, Failed), (UP, Available), (DOWN, Unknown)],
                State::Failed,
                "1/3 nodes failed to configure",
            ),
            // A node that waits is not finished, even if nodes that are down count as finished.
            (
                &[(DOWN, Available), (DOWN, Available), (UP, Pending)],
                State::Progressing,
                "Policy is progressing 2/1 nodes finished, 1 pending, 2 nodes ignored due to NotReady state",
            ),
            (
                &[(UP, Retrying), (UP, Available)],
                State::Progressing,
                "Policy is progressing 1/2 nodes finished",
            ),
            (
                &[(DOWN, Unknown)],
                State::Available,
                "0/1 nodes successfully configured, 1 nodes ignored due to NotReady state",
            ),
            (
                &[(UP, Aborted)],
                State::Failed,
                "0/1 nodes failed to configure, 1 nodes aborted configuration",
            ),
        ];
        for (nodes, state, message) in table {
            assert_eq!(summarize(nodes), (state, message.to_owned()), "{nodes:?}");
        }
    }

    #[test]
    fn conditions_are_those_that_clients_know() {
        let table = [
            (State::Progressing, "UUTF", ["ConfigurationProgressing"; 4]),
            (State::Available, "TFFF", ["SuccessfullyConfigured"; 4]),
            (
                State::Failed,
                "FTFF",
                [
                    "FailedToConfigure",
                    "FailedToConfigure",
                    "ConfigurationProgressing",
                    "FailedToConfigure",
                ],
            ),
            (State::NoNode, "FFFT", ["NoMatchingNode"; 4]),
            (State::Ignored(Reason::OperandNotDeployed), "FFFT", ["OperandNotDeployed"; 4]),
        ];
        for (state, row, reasons) in table {
            let conditions = PolicySummary::new(state, "so it is").conditions();
            let types: Vec<&str> = conditions.iter().map(|it| it.type_.as_str()).collect();
            assert_eq!(types, ["Available", "Degraded", "Progressing", "Ignored"]);
            let letters: String =
                conditions.iter().map(|it| format!("{:?}", it.status).remove(0)).collect();
            assert_eq!(letters, row, "{state:?}");
            let found: Vec<&str> =
                conditions.iter().map(|it| it.reason.as_deref().unwrap_or_default()).collect();
            assert_eq!(found, reasons, "{state:?}");
        }
    }
}
