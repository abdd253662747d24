//! Slots for nodes that revert deleted policies: read from the Lease that contains them, decided, and
//! written if no other coordinator did so meanwhile.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use nmstate_api::{
    NodeNetworkConfigurationEnactment as Enactment, POLICY_LABEL, REVERT_SLOTS, REVERTS,
    RevertSlots, Slot, StoredPolicy,
};
use node_policy::policy_status::{slot_from_api, slot_to_api};
use node_policy::revert::{LeftNode, MOST_REVERTS, RevertInput};

use serde_json::json;

use super::view::View;
use crate::requests::within;

/// The annotation that changes the version of the Lease: the UID of the policy that began last.
const LATEST_POLICY: &str = "nmstate.landfall.dev/latest-policy";
/// The most policies about which one write decides.
const MOST_POLICIES: usize = 16;

/// The slots as they were read or written last.
pub(super) struct Reverts {
    client: Client,
    leases: Api<Lease>,
    known: Option<RevertSlots>,
}

/// The result of a decision about deleted policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing is to be decided.
    UpToDate,
    /// Something was written, or there is more to decide.
    Continue,
}

impl Reverts {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        let leases = Api::namespaced(client.clone(), namespace);
        Self { client, leases, known: None }
    }

    /// The slots, as far as they are known.
    pub(super) fn slots(&self) -> Option<&RevertSlots> {
        self.known.as_ref()
    }

    /// Reads the slots for the first time.
    pub(super) async fn load(&mut self) -> Result<()> {
        if self.known.is_none() {
            let lease = self.read().await?;
            let known = slots(lease.as_ref())?;
            if lease.is_none() {
                self.write(None, &known).await?;
            }
            self.known = Some(known);
        }
        Ok(())
    }

    /// Whether a deleted policy of this name is being reverted, as the API server reports now. Before a
    /// node is changed by a new policy, this also changes the version of the slots: a coordinator that
    /// has found the policy deleted cannot write them any more.
    pub(super) async fn is_reverting(&self, policy: &str, uid: Option<&str>) -> Result<bool> {
        let doing = || format!("annotating the Lease {REVERTS}");
        let patch = json!({"metadata": {"annotations": {LATEST_POLICY: uid}}});
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let lease = within(self.leases.patch(REVERTS, &parameters, &patch)).await;
        match lease.with_context(doing)? {
            Ok(lease) => Ok(!slots(Some(&lease))?.of(policy).is_empty()),
            // It was deleted, and the slots with it. Nothing is known about reverts in progress.
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.write(None, &RevertSlots::default()).await?;
                Ok(false)
            }
            Err(error) => Err(error).with_context(doing),
        }
    }

    async fn read(&self) -> Result<Option<Lease>> {
        let doing = || format!("reading the Lease {REVERTS}");
        within(self.leases.get_opt(REVERTS)).await.with_context(doing)?.with_context(doing)
    }

    /// Decides about deleted policies. What the view contains only tells about which of them there is
    /// something to decide: the view may be older than the slots.
    pub(super) async fn decide(&mut self, view: &View, now: Timestamp) -> Result<Decision> {
        let Some(known) = &self.known else { return Ok(Decision::UpToDate) };
        let due = due(known, view, now);
        if due.is_empty() {
            return Ok(Decision::UpToDate);
        }
        // First the slots, then the reports: a slot whose report does not exist has ended.
        let lease = self.read().await?;
        let held = slots(lease.as_ref())?;
        let mut wanted = held.clone();
        for policy in due.iter().take(MOST_POLICIES) {
            let is_deleted = self.is_deleted(policy).await?;
            let left = view.left_by(self.reports(policy).await?);
            let slots = decided(&wanted, policy, is_deleted, &left, now);
            wanted.set(policy, slots);
        }
        if wanted == held {
            // The view will follow.
            self.known = Some(held);
            return Ok(Decision::UpToDate);
        }
        self.write(lease, &wanted).await?;
        self.known = Some(wanted);
        Ok(Decision::Continue)
    }

    async fn is_deleted(&self, policy: &str) -> Result<bool> {
        let doing = || format!("reading policy {policy}");
        let api: Api<StoredPolicy> = Api::all(self.client.clone());
        let found = within(api.get_metadata_opt(policy)).await.with_context(doing)?;
        let found = found.with_context(doing)?;
        Ok(found.is_none_or(|policy| policy.metadata.deletion_timestamp.is_some()))
    }

    /// The reports about a policy, as the API server has them now.
    async fn reports(&self, policy: &str) -> Result<Vec<Enactment>> {
        reports(&self.client, policy).await
    }

    /// Writes the slots. Fails if the Lease has changed since it was read.
    async fn write(&self, lease: Option<Lease>, slots: &RevertSlots) -> Result<()> {
        let doing = || format!("writing the Lease {REVERTS}");
        let is_new = lease.is_none();
        let mut lease = lease.unwrap_or_default();
        lease.metadata.name = Some(REVERTS.to_owned());
        let text = slots.to_text().with_context(doing)?;
        lease.annotations_mut().insert(REVERT_SLOTS.to_owned(), text);
        let parameters = PostParams::default();
        let written = match is_new {
            true => within(self.leases.create(&parameters, &lease)).await,
            false => within(self.leases.replace(REVERTS, &parameters, &lease)).await,
        };
        written.with_context(doing)?.with_context(doing)?;
        Ok(())
    }
}

/// The reports about a policy, as the API server has them now.
pub(super) async fn reports(client: &Client, policy: &str) -> Result<Vec<Enactment>> {
    let doing = || format!("listing the reports about policy {policy}");
    let api: Api<Enactment> = Api::all(client.clone());
    let of_it = ListParams::default().labels(&format!("{POLICY_LABEL}={policy}"));
    let list = within(api.list(&of_it)).await.with_context(doing)?.with_context(doing)?;
    Ok(list.items)
}

/// The slots in a Lease; none without one.
fn slots(lease: Option<&Lease>) -> Result<RevertSlots> {
    let text = lease.and_then(|lease| lease.annotations().get(REVERT_SLOTS));
    let slots = text.map(|text| RevertSlots::parse(text)).transpose();
    let slots = slots.with_context(|| format!("reading {REVERT_SLOTS} of the Lease {REVERTS}"))?;
    Ok(slots.unwrap_or_default())
}

/// Policies about which there is something to decide, by what was observed.
fn due(known: &RevertSlots, view: &View, now: Timestamp) -> Vec<String> {
    let left = view.left();
    let held = known.iter().map(|(policy, _)| policy.to_owned());
    let mut names: Vec<String> = left.keys().cloned().chain(held).collect();
    names.sort();
    names.dedup();
    let none = BTreeMap::new();
    names.retain(|policy| {
        let is_deleted = !view.has_policy(policy);
        // There are no reports here about a policy that exists again: those are read.
        let nodes = left.get(policy).unwrap_or(&none);
        decided(known, policy, is_deleted, nodes, now) != known.of(policy)
    });
    names
}

/// The slots of a policy.
fn decided(
    slots: &RevertSlots,
    policy: &str,
    is_deleted: bool,
    left: &BTreeMap<String, LeftNode>,
    now: Timestamp,
) -> Vec<Slot> {
    let held: Vec<_> = slots.of(policy).iter().map(slot_from_api).collect();
    let room = MOST_REVERTS.saturating_sub(slots.count());
    let wanted = RevertInput { is_deleted, left, held: &held, room, now }.decide();
    wanted.iter().map(slot_to_api).collect()
}
