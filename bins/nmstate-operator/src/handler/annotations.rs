//! Annotations that are changed after a policy was written. They have no generation, so they are
//! compared with what is remembered.

use std::time::Instant;

use nmstate_api::annotations::{OnDelete, PolicyOptions};
use node_policy::Phase;
use node_policy::terms::terms;

use super::desk::{Desk, Memory};
use crate::events::Reason;

pub(super) const NO_WAY_BACK: &str = "revert-on-delete was asked for after the change was made, and \
    what was there before is not known: deleting the policy leaves that as it is";

pub(super) const NOT_REVERTED: &str = "the policy is not applied to this node any more; what was \
    there before it is not known, so the network is left as it is";

/// What a change of annotations means for a policy that is known already.
#[derive(Debug, PartialEq, Eq)]
struct Consequences {
    /// Attempts are counted anew.
    starts_over: bool,
    /// The policy is compared with the node again.
    compares: bool,
    /// The network is looked at.
    looks: bool,
    /// The way back is forgotten.
    forgets_way_back: bool,
    /// There is no way back, and somebody believes in one.
    is_too_late: bool,
}

fn consequences(before: &PolicyOptions, now: &PolicyOptions, is_made: bool) -> Consequences {
    Consequences {
        starts_over: terms(before) != terms(now),
        compares: before.values != now.values,
        looks: before.drift != now.drift,
        forgets_way_back: now.on_delete == OnDelete::LeaveAsIs,
        is_too_late: is_made
            && (before.on_delete, now.on_delete) == (OnDelete::LeaveAsIs, OnDelete::Revert),
    }
}

impl Desk {
    /// Acts on annotations that were changed.
    pub(super) async fn follow_annotations(&mut self) {
        let mut too_late = Vec::new();
        for (policy, memory) in &mut self.memory {
            let Some(Ok(options)) = self.view.options(policy) else { continue };
            if memory.options == options {
                continue;
            }
            tracing::info!(policy, "the annotations of the policy were changed");
            let is_made = memory.is_made();
            let before = std::mem::replace(&mut memory.options, options);
            let consequences = consequences(&before, &memory.options, is_made);
            if consequences.starts_over {
                memory.start_over();
            }
            if consequences.compares {
                memory.evaluation = None;
                memory.since = Some(Instant::now());
            }
            if consequences.looks {
                self.look_at = Some(Instant::now());
            }
            if consequences.forgets_way_back
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
            if let Some(saying) = memory.map(|it| it.saying(Phase::Available, NO_WAY_BACK, None))
                && let Err(error) = self.write(&policy, saying).await
            {
                tracing::warn!(policy, "{error:#}");
            }
            self.tell(&policy, Reason::NoWayBack, NO_WAY_BACK).await;
        }
    }
}

impl Memory {
    /// Whether the node is as this generation of the policy wants it.
    fn is_made(&self) -> bool {
        self.made == Some(self.generation)
            && self.evaluation.as_ref().is_some_and(|it| !it.differs && it.revert.is_empty())
    }

    fn start_over(&mut self) {
        self.attempts = 0;
        self.is_rollback_told = false;
        // What could not be said yet is said all the same.
        if self.unsaid.is_none() {
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
    fn each_annotation_means_something_else_when_it_is_changed() {
        // Starts over, looks, forgets the way back, is too late.
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
            let row = [now.starts_over, now.looks, now.forgets_way_back, now.is_too_late];
            assert_eq!(row, expected, "{pairs:?}");
        }
        let revert = options(&[(REVERT_ON_DELETE, "true")]);
        assert!(!consequences(&plain, &revert, false).is_too_late, "nothing was changed yet");
        assert!(consequences(&revert, &plain, true).forgets_way_back);
    }
}
