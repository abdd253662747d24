//! Annotations that are changed after a policy was written. They have no generation, so they are
//! compared with the stored ones.

use std::time::Instant;

use nmstate_api::annotations::{OnDelete, PolicyOptions};
use node_policy::Phase;
use node_policy::terms::terms;

use super::handler_state::{HandlerState, Memory};
use crate::events::Reason;

pub(super) const NO_WAY_BACK: &str = "revert-on-delete was set after the change was applied, and the \
    previous state is not known: deleting the policy does not revert it";

pub(super) const NOT_REVERTED: &str = "the policy no longer applies to this node; the previous state \
    is not known, so the network is not changed";

/// The effect of a change of annotations on a policy that has been observed before.
#[derive(Debug, PartialEq, Eq)]
struct Consequences {
    /// The count of attempts is reset.
    starts_over: bool,
    /// The policy is compared with the node again.
    compares: bool,
    /// The network is read.
    reads_network: bool,
    /// The state that reverts the policy is discarded.
    discards_revert_state: bool,
    /// A revert was requested too late to be possible.
    is_too_late: bool,
}

fn consequences(before: &PolicyOptions, now: &PolicyOptions, is_applied: bool) -> Consequences {
    Consequences {
        starts_over: terms(before) != terms(now),
        compares: before.values != now.values,
        reads_network: before.drift != now.drift,
        discards_revert_state: now.on_delete == OnDelete::LeaveAsIs,
        is_too_late: is_applied
            && (before.on_delete, now.on_delete) == (OnDelete::LeaveAsIs, OnDelete::Revert),
    }
}

impl HandlerState {
    /// Acts on annotations that were changed.
    pub(super) async fn follow_annotations(&mut self) {
        let mut too_late = Vec::new();
        for (policy, memory) in &mut self.memory {
            let Some(Ok(options)) = self.view.options(policy) else { continue };
            if memory.options == options {
                continue;
            }
            tracing::info!(policy, "the annotations of the policy were changed");
            let is_applied = memory.is_applied();
            let before = std::mem::replace(&mut memory.options, options);
            let consequences = consequences(&before, &memory.options, is_applied);
            if consequences.starts_over {
                memory.start_over();
            }
            if consequences.compares {
                memory.evaluation = None;
                memory.since = Some(Instant::now());
            }
            if consequences.reads_network {
                self.read_network_at = Some(Instant::now());
            }
            if consequences.discards_revert_state
                && let Some(evaluated) = memory.evaluation.as_mut()
            {
                evaluated.revert = Default::default();
            }
            if consequences.is_too_late {
                too_late.push(policy.clone());
            }
        }
        for policy in too_late {
            tracing::warn!(policy, "{NO_WAY_BACK}");
            let memory = self.memory.get(&policy);
            if let Some(update) =
                memory.map(|it| it.status_update(Phase::Available, NO_WAY_BACK, None))
                && let Err(error) = self.write(&policy, update).await
            {
                tracing::warn!(policy, "{error:#}");
            }
            self.publish(&policy, Reason::NoWayBack, NO_WAY_BACK).await;
        }
    }
}

impl Memory {
    /// Whether the node matches this generation of the policy.
    fn is_applied(&self) -> bool {
        self.applied == Some(self.generation)
            && self.evaluation.as_ref().is_some_and(|it| !it.differs && it.revert.is_empty())
    }

    fn start_over(&mut self) {
        self.attempts = 0;
        self.is_rollback_reported = false;
        // A postponed report is written in any case.
        if self.unwritten.is_none() {
            self.rest_until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use nmstate_api::annotations::{CANARY, DRIFT, MEMORY_ONLY, PROBES, REVERT_ON_DELETE};

    use super::*;

    fn options(pairs: &[(&str, &str)]) -> PolicyOptions {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        PolicyOptions::parse(Some(&pairs.collect())).unwrap()
    }

    #[test]
    fn each_changed_annotation_has_its_own_consequences() {
        // Starts over, reads the network, discards the revert state, is too late.
        let table = [
            (&[(PROBES, "dns")][..], [true, false, true, false]),
            (&[(MEMORY_ONLY, "true")], [true, false, true, false]),
            (&[(DRIFT, "report")], [false, true, true, false]),
            (&[(CANARY, "1")], [false, false, true, false]),
            (&[(REVERT_ON_DELETE, "true")], [false, false, false, true]),
        ];
        let plain = options(&[]);
        for (pairs, expected) in table {
            let now = consequences(&plain, &options(pairs), true);
            let row =
                [now.starts_over, now.reads_network, now.discards_revert_state, now.is_too_late];
            assert_eq!(row, expected, "{pairs:?}");
        }
        let revert = options(&[(REVERT_ON_DELETE, "true")]);
        assert!(!consequences(&plain, &revert, false).is_too_late, "nothing was changed yet");
        assert!(consequences(&revert, &plain, true).discards_revert_state);
    }
}
