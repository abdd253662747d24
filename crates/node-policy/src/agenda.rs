//! The next step of a handler for one policy on its node.

use crate::phase::Phase;

/// The observed state of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyView {
    pub generation: i64,
    /// Whether it is for this node.
    pub is_for_us: bool,
    /// Whether we hold a slot for this generation that was not used.
    pub has_slot: bool,
    /// Whether this generation was stopped because too many nodes failed.
    pub is_aborted: bool,
}

/// The observed state of our own work on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnView {
    /// Whether we have ever reported about it.
    pub has_enactment: bool,
    /// Our last report, and about which generation.
    pub phase: Phase,
    pub generation: Option<i64>,
    /// The result of comparing it with the node, since this handler started.
    pub evaluation: Option<Evaluation>,
    /// Whether the next attempt has to wait.
    pub is_resting: bool,
    /// Whether a reported failure is about annotations other than the current ones.
    pub is_outdated: bool,
    /// Whether the report contains something that is not requested any more: the state that reverts the
    /// policy, or that the network has drifted.
    pub is_stale: bool,
    /// Whether the node changed since it failed, and enough time has passed.
    pub may_retry: bool,
    /// Whether it has been observed, and not started, for longer than a moment.
    pub has_waited: bool,
}

/// The policy compared with the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evaluation {
    pub generation: i64,
    pub differs: bool,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Nothing,
    /// Compare the policy with the node.
    Evaluate,
    /// Report that it was observed; only nodes that did so get a slot.
    Accept,
    /// Report that the node waits for a slot.
    ReportPending,
    /// Report that the node matches the policy.
    ReportAvailable,
    /// Report that the change is not made.
    ReportAborted,
    /// Make the change.
    Apply,
    /// Report that the slot is not needed.
    ReturnSlot,
    /// The policy does not match this node any more: end the report.
    Leave,
}

/// Decides the next step of a handler for one policy. A pure function: it has no errors and does not
/// panic.
///
/// # Guarantees
///
/// - The result depends on the arguments only, never on earlier steps: a handler may be killed at
///   any point.
/// - After each step is performed and observed, repeated calls reach [`Step::Nothing`].
pub fn step(policy: Option<&PolicyView>, own: &OwnView) -> Step {
    let Some(policy) = policy.filter(|policy| policy.is_for_us) else {
        return if own.has_enactment { Step::Leave } else { Step::Nothing };
    };
    let reported = own.generation == Some(policy.generation);
    let is_retried =
        own.is_outdated || (own.may_retry && own.phase == Phase::Failed && !policy.is_aborted);
    if reported && !is_retried && matches!(own.phase, Phase::Failed | Phase::Aborted) {
        return if policy.has_slot { Step::ReturnSlot } else { Step::Nothing };
    }
    let evaluation = own.evaluation.filter(|it| it.generation == policy.generation);
    let Some(evaluation) = evaluation else { return Step::Evaluate };
    if !evaluation.differs {
        let is_said = reported && own.phase == Phase::Available && !own.is_stale;
        return match (is_said, policy.has_slot) {
            (true, true) => Step::ReturnSlot,
            (true, false) => Step::Nothing,
            (false, _) => Step::ReportAvailable,
        };
    }
    if policy.has_slot {
        return if own.is_resting { Step::Nothing } else { Step::Apply };
    }
    if policy.is_aborted {
        return Step::ReportAborted;
    }
    match (own.has_enactment, reported, own.phase) {
        (false, ..) => Step::Accept,
        // Created a moment ago, and still empty: that means waiting. Most waits end before they are
        // worth a write.
        (true, false, Phase::Unknown) if own.generation.is_none() && !own.has_waited => {
            Step::Nothing
        }
        (true, true, Phase::Pending) => Step::Nothing,
        // The slot returns to us, or another one is granted.
        (true, true, Phase::Progressing | Phase::Retrying) => Step::Nothing,
        (true, ..) => Step::ReportPending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: PolicyView =
        PolicyView { generation: 2, is_for_us: true, has_slot: false, is_aborted: false };
    const NEW: OwnView = OwnView {
        has_enactment: false,
        phase: Phase::Unknown,
        generation: None,
        evaluation: None,
        is_resting: false,
        is_outdated: false,
        is_stale: false,
        may_retry: false,
        has_waited: false,
    };

    fn evaluated(differs: bool, own: OwnView) -> OwnView {
        OwnView { evaluation: Some(Evaluation { generation: 2, differs }), ..own }
    }

    fn reported(phase: Phase, generation: i64) -> OwnView {
        OwnView { has_enactment: true, phase, generation: Some(generation), ..NEW }
    }

    #[test]
    fn a_new_policy_is_compared_accepted_waited_for_and_applied() {
        assert_eq!(step(Some(&POLICY), &NEW), Step::Evaluate);
        let own = evaluated(true, NEW);
        assert_eq!(step(Some(&POLICY), &own), Step::Accept);
        let own = OwnView { has_enactment: true, ..own };
        assert_eq!(step(Some(&POLICY), &own), Step::Nothing);
        let with_slot = PolicyView { has_slot: true, ..POLICY };
        assert_eq!(step(Some(&with_slot), &own), Step::Apply);
        let done = evaluated(false, reported(Phase::Available, 2));
        assert_eq!(step(Some(&POLICY), &done), Step::Nothing);
    }

    #[test]
    fn what_does_not_differ_needs_no_slot() {
        assert_eq!(step(Some(&POLICY), &evaluated(false, NEW)), Step::ReportAvailable);
    }

    #[test]
    fn a_restarted_handler_compares_before_it_uses_its_report() {
        let own = reported(Phase::Available, 2);
        assert_eq!(step(Some(&POLICY), &own), Step::Evaluate);
        assert_eq!(step(Some(&POLICY), &evaluated(false, own)), Step::Nothing);
        assert_eq!(step(Some(&POLICY), &evaluated(true, own)), Step::ReportPending);
    }

    #[test]
    fn an_edit_supersedes_whatever_was_reported() {
        for phase in [Phase::Failed, Phase::Aborted, Phase::Progressing, Phase::Available] {
            let own = reported(phase, 1);
            assert_eq!(step(Some(&POLICY), &own), Step::Evaluate, "{phase:?}");
            assert_eq!(
                step(Some(&POLICY), &evaluated(true, own)),
                Step::ReportPending,
                "{phase:?}"
            );
        }
    }

    #[test]
    fn what_failed_or_was_stopped_stays_so_until_the_policy_is_edited() {
        for phase in [Phase::Failed, Phase::Aborted] {
            assert_eq!(step(Some(&POLICY), &evaluated(true, reported(phase, 2))), Step::Nothing);
        }
    }

    #[test]
    fn a_slot_that_is_not_needed_is_returned() {
        let with_slot = PolicyView { has_slot: true, ..POLICY };
        for (phase, differs) in
            [(Phase::Failed, true), (Phase::Aborted, true), (Phase::Available, false)]
        {
            let own = evaluated(differs, reported(phase, 2));
            assert_eq!(step(Some(&with_slot), &own), Step::ReturnSlot, "{phase:?}");
        }
    }

    #[test]
    fn a_failure_is_retried_when_annotations_change() {
        for phase in [Phase::Failed, Phase::Aborted] {
            let own = OwnView { is_outdated: true, ..reported(phase, 2) };
            assert_eq!(step(Some(&POLICY), &own), Step::Evaluate, "{phase:?}");
            assert_eq!(step(Some(&POLICY), &evaluated(true, own)), Step::ReportPending);
            let with_slot = PolicyView { has_slot: true, ..POLICY };
            assert_eq!(step(Some(&with_slot), &evaluated(true, own)), Step::Apply);
        }
    }

    #[test]
    fn what_failed_is_tried_again_after_the_node_changed_unless_the_policy_is_stopped() {
        let own = OwnView { may_retry: true, ..reported(Phase::Failed, 2) };
        assert_eq!(step(Some(&POLICY), &own), Step::Evaluate);
        assert_eq!(step(Some(&POLICY), &evaluated(true, own)), Step::ReportPending);
        let stopped = PolicyView { is_aborted: true, ..POLICY };
        assert_eq!(step(Some(&stopped), &own), Step::Nothing);
        let aborted = OwnView { may_retry: true, ..reported(Phase::Aborted, 2) };
        assert_eq!(step(Some(&POLICY), &aborted), Step::Nothing);
    }

    #[test]
    fn a_waiting_node_reports_that_after_a_while_and_once() {
        let own = OwnView { has_enactment: true, has_waited: true, ..evaluated(true, NEW) };
        assert_eq!(step(Some(&POLICY), &own), Step::ReportPending);
        let reported = OwnView { phase: Phase::Pending, generation: Some(2), ..own };
        assert_eq!(step(Some(&POLICY), &reported), Step::Nothing);
    }

    #[test]
    fn what_is_no_longer_requested_is_removed_from_the_report() {
        let own = evaluated(false, reported(Phase::Available, 2));
        let own = OwnView { is_stale: true, ..own };
        assert_eq!(step(Some(&POLICY), &own), Step::ReportAvailable);
    }

    #[test]
    fn a_stopped_policy_is_reported_as_such_by_those_who_wait() {
        let stopped = PolicyView { is_aborted: true, ..POLICY };
        let own = evaluated(true, reported(Phase::Pending, 2));
        assert_eq!(step(Some(&stopped), &own), Step::ReportAborted);
        let with_slot = PolicyView { has_slot: true, ..stopped };
        assert_eq!(step(Some(&with_slot), &own), Step::Apply, "a node with a slot continues");
    }

    #[test]
    fn between_attempts_nothing_is_done() {
        let with_slot = PolicyView { has_slot: true, ..POLICY };
        let own = OwnView { is_resting: true, ..evaluated(true, reported(Phase::Retrying, 2)) };
        assert_eq!(step(Some(&with_slot), &own), Step::Nothing);
    }

    #[test]
    fn a_policy_that_is_gone_or_for_others_is_left() {
        let others = PolicyView { is_for_us: false, ..POLICY };
        let own = reported(Phase::Available, 2);
        assert_eq!(step(Some(&others), &own), Step::Leave);
        assert_eq!(step(None, &own), Step::Leave);
        assert_eq!(step(None, &NEW), Step::Nothing);
    }
}
