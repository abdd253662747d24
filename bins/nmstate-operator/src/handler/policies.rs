//! The policies that concern this node, as assigned by the coordinator and stored by the API
//! server.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use anyhow::Result;
use kube::{Api, Client};
use nmstate_api::{
    Assignment, Assignments, NodeNetworkConfigurationPolicy as Policy, NodeValues, StoredPolicy,
    Unreadable,
};

use crate::requests::within;

/// The observed policies.
#[derive(Debug, Default)]
pub(super) struct Policies {
    /// None until the coordinator has written the assignment.
    assigned: Option<Assignments>,
    read: BTreeMap<String, Read>,
}

/// A policy that was read.
#[derive(Debug)]
struct Read {
    /// The assignment by the coordinator at that time; none if the policy was not assigned.
    assignment: Option<Assignment>,
    /// None if the policy does not exist.
    policy: Option<Result<Policy, Unreadable>>,
}

/// A policy that is being read.
pub(super) type Reading = Pin<Box<dyn Future<Output = ReadResult>>>;

/// The result of reading a policy.
pub(super) struct ReadResult {
    name: String,
    assignment: Option<Assignment>,
    policy: Result<Option<StoredPolicy>>,
}

impl Policies {
    /// The coordinator has assigned these policies.
    pub(super) fn assign(&mut self, assigned: Assignments) {
        self.assigned = Some(assigned);
    }

    /// Whether the coordinator has written the assignment, and all assigned policies were read, as
    /// were all that this node has reports about.
    pub(super) fn are_complete<'a>(&'a self, reported: impl Iterator<Item = &'a str>) -> bool {
        let Some(assigned) = &self.assigned else { return false };
        let mut names = assigned.iter().map(|(name, _)| name).chain(reported);
        names.all(|name| self.read.contains_key(name))
    }

    /// The next policy to read, because it has changed; `after` a while.
    pub(super) fn next<'a>(
        &'a self,
        reported: impl Iterator<Item = &'a str>,
        client: &Client,
        after: Duration,
    ) -> Option<Reading> {
        let assigned = self.assigned.as_ref()?;
        let mut names = assigned.iter().map(|(name, _)| name).chain(reported);
        let is_new = |name: &&str| {
            self.read.get(*name).is_none_or(|read| read.assignment.as_ref() != assigned.get(name))
        };
        let name = names.find(is_new)?.to_owned();
        let assignment = assigned.get(&name).cloned();
        let api: Api<StoredPolicy> = Api::all(client.clone());
        Some(Box::pin(async move {
            tokio::time::sleep(after).await;
            let policy = match within(api.get_opt(&name)).await {
                Ok(policy) => policy.map_err(anyhow::Error::new),
                Err(error) => Err(error),
            };
            ReadResult { name, assignment, policy }
        }))
    }

    /// Stores the result of a read. Returns whether it succeeded.
    pub(super) fn take(&mut self, result: ReadResult) -> bool {
        let ReadResult { name, assignment, policy } = result;
        match policy {
            Ok(policy) => {
                let policy = policy.map(|policy| policy.read());
                self.read.insert(name, Read { assignment, policy });
                true
            }
            Err(error) => {
                tracing::warn!(policy = name, "reading the policy: {error:#}");
                false
            }
        }
    }

    /// Removes policies that do not concern this node any more.
    pub(super) fn forget<'a>(&mut self, reported: impl Iterator<Item = &'a str>) {
        let Some(assigned) = &self.assigned else { return };
        let reported: BTreeSet<&str> = reported.collect();
        self.read
            .retain(|name, _| assigned.get(name).is_some() || reported.contains(name.as_str()));
    }

    /// Names of all existing policies.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let is_there = |(_, read): &(&String, &Read)| read.policy.is_some();
        self.read.iter().filter(is_there).map(|(name, _)| name.as_str())
    }

    /// A policy that exists.
    pub(super) fn get(&self, name: &str) -> Option<&Result<Policy, Unreadable>> {
        self.read.get(name)?.policy.as_ref()
    }

    /// Whether the policy has been observed not to exist.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.read.get(name).is_some_and(|read| read.policy.is_none())
    }

    /// The values of this node for the policy.
    pub(super) fn values(&self, name: &str) -> Option<&NodeValues> {
        self.assigned.as_ref()?.get(name)?.values.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use nmstate_api::PolicyNews;

    use super::*;

    fn assignments(generation: i64) -> Assignments {
        let mut policy = Policy::new("p");
        policy.metadata.generation = Some(generation);
        let mut assigned = Assignments::default();
        assigned.insert("p", PolicyNews::of(&policy).for_node("n", None));
        assigned
    }

    fn read(policies: &mut Policies, policy: Option<StoredPolicy>) {
        let assignment = policies.assigned.as_ref().unwrap().get("p").cloned();
        assert!(policies.take(ReadResult { name: "p".into(), assignment, policy: Ok(policy) }));
    }

    fn stored() -> StoredPolicy {
        serde_json::from_str(r#"{"metadata":{"name":"p"}}"#).unwrap()
    }

    /// The next one that would be read.
    fn next(policies: &Policies, reported: &[&str]) -> Option<String> {
        let assigned = policies.assigned.as_ref()?;
        let mut names = assigned.iter().map(|(name, _)| name).chain(reported.iter().copied());
        let is_new = |name: &&str| {
            policies
                .read
                .get(*name)
                .is_none_or(|read| read.assignment.as_ref() != assigned.get(name))
        };
        names.find(is_new).map(str::to_owned)
    }

    #[test]
    fn the_view_is_incomplete_until_the_coordinator_assigns_policies() {
        let mut policies = Policies::default();
        assert!(!policies.are_complete([].into_iter()));
        assert_eq!(next(&policies, &["p"]), None);
        policies.assign(Assignments::default());
        assert!(policies.are_complete([].into_iter()));
        assert!(!policies.are_complete(["p"].into_iter()), "there is a report about it");
        assert!(!policies.is_absent("p"), "not requested yet");
    }

    #[test]
    fn a_policy_is_read_when_its_assignment_changes() {
        let mut policies = Policies::default();
        policies.assign(assignments(1));
        assert_eq!(next(&policies, &[]).as_deref(), Some("p"));
        read(&mut policies, Some(stored()));
        assert_eq!(next(&policies, &["p"]), None);
        policies.assign(assignments(1));
        assert_eq!(next(&policies, &["p"]), None, "nothing new");
        policies.assign(assignments(2));
        assert_eq!(next(&policies, &["p"]).as_deref(), Some("p"));
        assert!(policies.are_complete(["p"].into_iter()), "what was read is used until then");
    }

    #[test]
    fn an_unassigned_policy_is_deleted_only_if_the_server_confirms_it() {
        let mut policies = Policies::default();
        policies.assign(assignments(1));
        read(&mut policies, Some(stored()));
        policies.assign(Assignments::default());
        assert!(!policies.is_absent("p") && policies.get("p").is_some());
        assert_eq!(next(&policies, &["p"]).as_deref(), Some("p"));
        read(&mut policies, None);
        assert!(policies.is_absent("p"));
        policies.forget([].into_iter());
        assert!(policies.read.is_empty());
    }
}
