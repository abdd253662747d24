//! Which nodes may revert policies that were deleted.
//!
//! The slots of a policy are in its status, and go with it. So those of deleted policies are in an
//! annotation of one Lease in the namespace of the coordinator: its version makes them exclusive.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::policy::Slot;

/// The Lease.
pub const REVERTS: &str = "nmstate-reverts";
/// The annotation of the Lease.
pub const REVERT_SLOTS: &str = "nmstate.landfall.dev/revert-slots";
/// The generation of these slots: a deleted policy has none.
pub const REVERT_GENERATION: i64 = 0;

/// Slots by the name of the deleted policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RevertSlots(BTreeMap<String, Vec<Slot>>);

impl RevertSlots {
    /// Parses the annotation.
    ///
    /// # Errors
    ///
    /// Those of the JSON parser. An invalid annotation does not mean that there are no slots.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The slots of a policy.
    pub fn of(&self, policy: &str) -> &[Slot] {
        self.0.get(policy).map(Vec::as_slice).unwrap_or_default()
    }

    /// Replaces the slots of a policy.
    pub fn set(&mut self, policy: &str, slots: Vec<Slot>) {
        match slots.is_empty() {
            true => drop(self.0.remove(policy)),
            false => drop(self.0.insert(policy.to_owned(), slots)),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Slot])> {
        self.0.iter().map(|(policy, slots)| (policy.as_str(), slots.as_slice()))
    }

    /// The number of slots of all policies.
    pub fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_policy_without_slots_is_removed() {
        let expires = Time(jiff::Timestamp::from_second(7).unwrap());
        let enactment = Some("uid".to_owned());
        let slot = Slot { node: "n".into(), generation: REVERT_GENERATION, expires, enactment };
        let mut slots = RevertSlots::default();
        slots.set("p", vec![slot.clone()]);
        slots.set("q", vec![slot.clone(), slot]);
        assert_eq!((slots.of("p").len(), slots.of("x").len(), slots.count()), (1, 0, 3));
        assert_eq!(RevertSlots::parse(&slots.to_text().unwrap()).unwrap(), slots);
        slots.set("q", vec![]);
        assert_eq!(slots.iter().map(|(policy, _)| policy).collect::<Vec<_>>(), ["p"]);
        assert!(RevertSlots::parse("nonsense").is_err());
    }
}
