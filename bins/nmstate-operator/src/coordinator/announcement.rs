//! The event for a change of a policy's status: it was completed, or stopped. One event for all
//! nodes together.

use nmstate_api::{PolicyConditionType as Type, PolicyStatus, condition};

use crate::events::Reason;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) reason: Reason,
    pub(super) message: String,
}

/// The event to publish when `before` becomes `after`.
pub(super) fn announcement(
    before: Option<&PolicyStatus>,
    after: &PolicyStatus,
) -> Option<Announcement> {
    let tell = |reason: Reason, of: Type, prefix: &str| {
        let message = condition::find(&after.conditions, of).and_then(|it| it.message.as_deref());
        let message = format!("{prefix}{}", message.unwrap_or_default());
        Some(Announcement { reason, message })
    };
    let stopped =
        |status: &PolicyStatus| Some((status.aborted_generation?, status.aborted_with.clone()));
    if stopped(after).is_some() && before.and_then(stopped) != stopped(after) {
        return tell(Reason::Aborted, Type::Degraded, "no further node is changed: ");
    }
    let is_applied = |status: &PolicyStatus| {
        condition::is_true(&status.conditions, Type::Available)
            && status.observed_generation == after.observed_generation
    };
    if is_applied(after) && !before.is_some_and(is_applied) {
        return tell(Reason::Applied, Type::Available, "");
    }
    None
}

#[cfg(test)]
mod tests {
    use node_policy::summary::{PolicySummary, State};

    use super::*;

    fn status(generation: i64, state: State, message: &str) -> PolicyStatus {
        PolicyStatus {
            conditions: PolicySummary::new(state, message).conditions(),
            observed_generation: Some(generation),
            ..PolicyStatus::default()
        }
    }

    fn announced(before: Option<&PolicyStatus>, after: &PolicyStatus) -> Option<(Reason, String)> {
        announcement(before, after).map(|it| (it.reason, it.message))
    }

    #[test]
    fn each_generation_that_reaches_all_nodes_is_announced_once() {
        let progressing = status(2, State::Progressing, "Policy is progressing");
        let done = status(2, State::Available, "3/3 nodes successfully configured");
        assert_eq!(announced(None, &progressing), None);
        let applied = (Reason::Applied, "3/3 nodes successfully configured".to_owned());
        assert_eq!(announced(Some(&progressing), &done), Some(applied.clone()));
        assert_eq!(announced(Some(&done), &done), None);
        let older = status(1, State::Available, "3/3 nodes successfully configured");
        assert_eq!(announced(Some(&older), &done), Some(applied));
    }

    #[test]
    fn a_roll_out_that_is_stopped_is_announced_once() {
        let failed = status(2, State::Failed, "1/3 nodes failed to configure");
        let stopped = PolicyStatus {
            aborted_generation: Some(2),
            aborted_with: Some("so".into()),
            ..failed.clone()
        };
        let text = "no further node is changed: 1/3 nodes failed to configure".to_owned();
        assert_eq!(announced(Some(&failed), &stopped), Some((Reason::Aborted, text)));
        assert_eq!(announced(Some(&stopped), &stopped), None);
        assert_eq!(announced(Some(&stopped), &failed), None);
    }
}
