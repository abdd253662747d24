//! The policies that concern this node, as assigned by the coordinator and stored by the API
//! server.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt};
use nmstate_api::{
    Assignment, Assignments, NodeNetworkConfigurationPolicy as Policy, NodeValues, REVERT_SLOTS,
    REVERTS, RevertSlots, Slot, StoredPolicy, Unreadable,
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
    /// The slots to revert a deleted policy of this name.
    reverts: Vec<Slot>,
}

/// Where policies, and the slots of deleted ones, are read.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) client: Client,
    /// The namespace of the coordinator.
    pub(super) namespace: String,
}

impl Source {
    /// Reads a policy after a while, and the slots to revert it if there is one for this node.
    fn read(&self, name: String, assignment: Option<Assignment>, after: Duration) -> Reading {
        let policies: Api<StoredPolicy> = Api::all(self.client.clone());
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        Box::pin(async move {
            tokio::time::sleep(after).await;
            let read = async {
                // First the slots: a policy that does not exist afterwards did not exist when they
                // were read, either.
                let reverts = match assignment.as_ref().and_then(|assignment| assignment.revert) {
                    Some(_) => reverts(within(leases.get_opt(REVERTS)).await??, &name)?,
                    None => Vec::new(),
                };
                Ok((within(policies.get_opt(&name)).await??, reverts))
            };
            let result: Result<_> = read.await;
            ReadResult { name, assignment, result }
        })
    }
}

/// Versions are numbers that grow, from Kubernetes 1.35 on by contract.
fn version(policy: &Policy) -> Option<u64> {
    policy.metadata.resource_version.as_deref()?.parse().ok()
}

fn reverts(lease: Option<Lease>, policy: &str) -> Result<Vec<Slot>> {
    let Some(lease) = lease else { return Ok(Vec::new()) };
    let Some(text) = lease.annotations().get(REVERT_SLOTS) else { return Ok(Vec::new()) };
    Ok(RevertSlots::parse(text)?.of(policy).to_vec())
}

/// A policy that is being read.
pub(super) type Reading = Pin<Box<dyn Future<Output = ReadResult>>>;

/// The result of reading a policy.
pub(super) struct ReadResult {
    name: String,
    assignment: Option<Assignment>,
    result: Result<(Option<StoredPolicy>, Vec<Slot>)>,
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
        source: &Source,
        after: Duration,
    ) -> Option<Reading> {
        let assigned = self.assigned.as_ref()?;
        let mut names = assigned.iter().map(|(name, _)| name).chain(reported);
        let is_new = |name: &&str| {
            self.read.get(*name).is_none_or(|read| read.assignment.as_ref() != assigned.get(name))
        };
        let name = names.find(is_new)?.to_owned();
        let assignment = assigned.get(&name).cloned();
        Some(source.read(name, assignment, after))
    }

    /// Reads a policy again, whether it has changed or not.
    pub(super) fn again(&self, name: &str, source: &Source) -> Reading {
        let assignment = self.assigned.as_ref().and_then(|assigned| assigned.get(name)).cloned();
        source.read(name.to_owned(), assignment, Duration::ZERO)
    }

    /// Stores the result of a read. Returns whether it succeeded.
    pub(super) fn take(&mut self, result: ReadResult) -> bool {
        let ReadResult { name, assignment, result } = result;
        match result {
            Ok((policy, reverts)) => {
                let policy = policy.map(|policy| policy.read());
                // It may have been read again since this read was sent.
                let is_older = |held: &Read| match (&held.policy, &policy) {
                    (Some(Ok(held)), Some(Ok(read))) => {
                        held.metadata.uid == read.metadata.uid && version(held) > version(read)
                    }
                    _ => false,
                };
                if !self.read.get(&name).is_some_and(is_older) {
                    self.read.insert(name, Read { assignment, policy, reverts });
                }
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

    /// The slots to revert a deleted policy of this name.
    pub(super) fn reverts(&self, name: &str) -> &[Slot] {
        self.read.get(name).map(|read| read.reverts.as_slice()).unwrap_or_default()
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
        let result = Ok((policy, Vec::new()));
        assert!(policies.take(ReadResult { name: "p".into(), assignment, result }));
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
    fn a_read_that_was_overtaken_by_a_later_one_is_not_used() {
        let stored = |version: u64| -> StoredPolicy {
            let metadata = format!(r#"{{"name":"p","uid":"u","resourceVersion":"{version}"}}"#);
            serde_json::from_str(&format!(r#"{{"metadata":{metadata}}}"#)).unwrap()
        };
        let mut policies = Policies::default();
        policies.assign(assignments(1));
        for (read_now, expected) in [(7, 7), (6, 7), (10, 10)] {
            read(&mut policies, Some(stored(read_now)));
            let held = policies.get("p").unwrap().as_ref().unwrap();
            assert_eq!(version(held), Some(expected));
        }
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
