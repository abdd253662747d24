//! Which policies concern a node, as the coordinator writes it for the handler.
//!
//! It is an annotation of the node's `NodeNetworkState`. A handler watches that object and reads the
//! policies that are named there, so what it receives depends neither on the number of policies nor
//! on the number of nodes. The annotation defines when to read a policy and is not a permission: slots
//! are in the status of the policy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::annotations::PREFIX;
use crate::fingerprint::fingerprint;
use crate::node_values::NodeValues;
use crate::policy::NodeNetworkConfigurationPolicy as Policy;

/// On a node's state, as an annotation: the policies that concern the node.
pub const ASSIGNED_POLICIES: &str = "nmstate.landfall.dev/assigned-policies";

/// The policies of one node, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Assignments(BTreeMap<String, Assignment>);

/// A policy as far as it concerns a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// Differs when the spec, our annotations, or the end of the rollout differ.
    pub version: String,
    /// Identifies the slot that was given to the node last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<i64>,
    /// Identifies the slot by which the node may revert a policy of this name that was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<i64>,
    /// What the policy is completed with on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<NodeValues>,
}

/// What handlers act on of a policy. It is made once for all nodes of the policy.
#[derive(Debug, Clone)]
pub struct PolicyNews<'a> {
    version: String,
    slots: BTreeMap<&'a str, i64>,
}

impl<'a> PolicyNews<'a> {
    pub fn of(policy: &'a Policy) -> Self {
        let status = policy.status.as_ref();
        let number = |number: Option<i64>| number.unwrap_or_default().to_string();
        let generation = number(policy.metadata.generation);
        let aborted = number(status.and_then(|it| it.aborted_generation));
        let is_deleted = policy.metadata.deletion_timestamp.is_some().to_string();
        let mut texts = vec![
            policy.metadata.uid.as_deref().unwrap_or_default(),
            &generation,
            &is_deleted,
            &aborted,
            status.and_then(|it| it.aborted_with.as_deref()).unwrap_or_default(),
        ];
        let annotations = policy.metadata.annotations.iter().flatten();
        for (name, value) in annotations.filter(|(name, _)| name.starts_with(PREFIX)) {
            texts.extend([name.as_str(), value.as_str()]);
        }
        let mut slots: BTreeMap<&str, i64> = BTreeMap::new();
        for slot in status.map(|it| it.slots.as_slice()).unwrap_or_default() {
            let latest = slots.entry(&slot.node).or_default();
            *latest = slot.expires.0.as_second().max(*latest);
        }
        Self { version: fingerprint(texts), slots }
    }

    /// The assignment of one node.
    pub fn for_node(&self, node: &str, values: Option<NodeValues>) -> Assignment {
        let slot = self.slots.get(node).copied();
        Assignment { version: self.version.clone(), slot, revert: None, values }
    }
}

impl Assignment {
    /// Whether a node that has `self` needs `wanted`. That a slot is gone is not needed
    /// to the node that reported its end.
    fn is_news(&self, wanted: &Self) -> bool {
        self.version != wanted.version
            || self.values != wanted.values
            || (wanted.slot.is_some() && self.slot != wanted.slot)
            || (wanted.revert.is_some() && self.revert != wanted.revert)
    }
}

impl Assignments {
    /// Parses the annotation. An invalid one is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    pub fn insert(&mut self, policy: &str, assignment: Assignment) {
        self.0.insert(policy.to_owned(), assignment);
    }

    /// The node may revert the deleted policy of this name. There may be another policy of the same
    /// name already.
    pub fn set_revert(&mut self, policy: &str, slot: i64) {
        self.0.entry(policy.to_owned()).or_default().revert = Some(slot);
    }

    pub fn get(&self, policy: &str) -> Option<&Assignment> {
        self.0.get(policy)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Assignment)> {
        self.0.iter().map(|(policy, assignment)| (policy.as_str(), assignment))
    }

    /// Whether a node that has these assignments needs no others for `wanted`.
    pub fn cover(&self, wanted: &Self) -> bool {
        let is_covered = |(policy, wanted): (&String, &Assignment)| {
            self.0.get(policy).is_some_and(|held| !held.is_news(wanted))
        };
        self.0.len() == wanted.0.len() && wanted.0.iter().all(is_covered)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;
    use crate::policy::{PolicyStatus, Slot};

    fn policy() -> Policy {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u", "generation": 2, "annotations": {"a": "b"}},
        }))
        .unwrap()
    }

    fn assignments(policy: &Policy) -> Assignments {
        let mut assigned = Assignments::default();
        assigned.insert("p", PolicyNews::of(policy).for_node("n", None));
        assigned
    }

    fn with_slot(node: &str) -> Policy {
        let expires = Time(jiff::Timestamp::from_second(7).unwrap());
        let slot = Slot { node: node.to_owned(), generation: 2, expires, enactment: None };
        let status = PolicyStatus { slots: vec![slot], ..PolicyStatus::default() };
        Policy { status: Some(status), ..policy() }
    }

    #[test]
    fn a_node_gets_what_it_acts_on_and_nothing_else() {
        let before = assignments(&policy());
        let is_news = |now: &Policy| !before.cover(&assignments(now));
        let mut edited = policy();
        edited.metadata.generation = Some(3);
        assert!(is_news(&edited));
        let mut annotated = policy();
        let ours = [(format!("{PREFIX}probes"), "dns".to_owned())];
        annotated.metadata.annotations = Some(ours.into());
        assert!(is_news(&annotated));
        let mut of_others = policy();
        of_others.metadata.annotations = None;
        assert!(!is_news(&of_others), "annotations of others");
        let aborted = PolicyStatus { aborted_generation: Some(2), ..PolicyStatus::default() };
        assert!(is_news(&Policy { status: Some(aborted), ..policy() }));
        let observed = PolicyStatus { observed_generation: Some(2), ..PolicyStatus::default() };
        assert!(!is_news(&Policy { status: Some(observed), ..policy() }));
        assert!(is_news(&with_slot("n")));
        assert!(!is_news(&with_slot("another")), "the slot of another node");
    }

    #[test]
    fn the_end_of_a_slot_is_no_news_to_its_holder() {
        let before = assignments(&with_slot("n"));
        assert!(before.cover(&assignments(&policy())));
        assert!(!before.cover(&Assignments::default()), "the policy is gone");
        assert!(!Assignments::default().cover(&before));
    }

    #[test]
    fn a_slot_to_revert_a_deleted_policy_is_news_until_it_is_assigned() {
        let mut wanted = assignments(&policy());
        wanted.set_revert("p", 7);
        wanted.set_revert("q", 8);
        let before = assignments(&policy());
        assert!(!before.cover(&wanted));
        assert!(wanted.cover(&wanted.clone()));
        assert_eq!(wanted.get("q").unwrap().version, "");
    }

    #[test]
    fn what_is_written_is_read() {
        let mut assigned = assignments(&with_slot("n"));
        let values = NodeValues::parse("ip: 192.0.2.1\nvlan: 3").unwrap();
        assigned.insert("q", PolicyNews::of(&policy()).for_node("n", Some(values)));
        assert_eq!(Assignments::parse(&assigned.to_text().unwrap()), Some(assigned));
        assert_eq!(Assignments::parse("nonsense"), None);
    }
}
