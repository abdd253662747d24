//! The reports of this node about policies: created, updated and deleted.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, ResourceExt};
use nmstate_api::{
    ACCEPTED_GENERATION, CapturedState, EnactmentName, EnactmentStatus, Failure, IntOrText,
    NODE_LABEL, NetworkDocument, NodeName, NodeNetworkConfigurationEnactment as Enactment,
    POLICY_LABEL, PolicyName, Warning, condition,
};
use node_policy::Phase;

use crate::requests::{now, within};

/// The client that writes them.
#[derive(Clone)]
pub(crate) struct Enactments {
    api: Api<Enactment>,
    node: NodeName,
}

/// A new status of the report on a policy.
#[derive(Debug, Clone)]
pub(crate) struct StatusUpdate {
    pub(crate) generation: i64,
    pub(crate) phase: Phase,
    pub(crate) message: String,
    pub(crate) failure: Option<Failure>,
    /// The annotations that the attempt used, if they matter.
    pub(crate) tried_with: Option<String>,
    pub(crate) details: Details,
}

/// The state of the policy on this node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    pub(crate) desired: NetworkDocument,
    pub(crate) captured: BTreeMap<String, CapturedState>,
    pub(crate) features: Vec<String>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) attempts: u32,
    pub(crate) revert: NetworkDocument,
    /// How many nodes may be reverted at the same time.
    pub(crate) revert_limit: Option<IntOrText>,
}

impl Enactments {
    pub(crate) fn new(client: Client, node: NodeName) -> Self {
        Self { api: Api::all(client), node }
    }

    /// Creates the report, for a node that accepts this generation of the policy. An existing
    /// report is used.
    pub(crate) async fn create(
        &self,
        policy: &str,
        owner: &OwnerReference,
        accepted: i64,
    ) -> Result<Enactment> {
        let doing = || format!("creating the report about policy {policy}");
        let policy: PolicyName = policy.parse().with_context(doing)?;
        let name = EnactmentName::new(&self.node, &policy);
        let labels = [(POLICY_LABEL, policy.as_str()), (NODE_LABEL, self.node.as_str())];
        let own = [
            ("app.kubernetes.io/managed-by", "nmstate-operator"),
            ("app.kubernetes.io/part-of", "nmstate"),
        ];
        let labels = labels.into_iter().chain(own);
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut enactment = Enactment::new(name.as_str());
        enactment.metadata = ObjectMeta {
            name: Some(name.as_str().to_owned()),
            labels: Some(labels),
            annotations: Some([(ACCEPTED_GENERATION.to_owned(), accepted.to_string())].into()),
            owner_references: Some(vec![owner.clone()]),
            ..ObjectMeta::default()
        };
        match within(self.api.create(&PostParams::default(), &enactment))
            .await
            .with_context(doing)?
        {
            Ok(created) => Ok(created),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                within(self.api.get(name.as_str())).await.with_context(doing)?.with_context(doing)
            }
            Err(error) => Err(error).with_context(doing),
        }
    }

    /// Writes a status. Nothing is written if it is unchanged.
    /// The last report about a change contains the slot that it used.
    pub(crate) async fn write_status(
        &self,
        held: Enactment,
        update: &StatusUpdate,
        slot: Option<&Time>,
    ) -> Result<Enactment> {
        let slot = slot.filter(|_| update.phase.is_settled());
        self.update(held, |held| status(update, held, slot)).await
    }

    /// Reports that a slot is not needed.
    pub(crate) async fn return_slot(&self, held: Enactment, slot: Time) -> Result<Enactment> {
        let with_slot = |held: Option<&EnactmentStatus>| EnactmentStatus {
            used_slot: Some(slot.clone()),
            ..held.cloned().unwrap_or_default()
        };
        self.update(held, with_slot).await
    }

    async fn update(
        &self,
        held: Enactment,
        change: impl Fn(Option<&EnactmentStatus>) -> EnactmentStatus,
    ) -> Result<Enactment> {
        let name = held.name_any();
        let doing = || format!("writing the status of {name}");
        let mut held = held;
        for is_last in [false, true] {
            let status = change(held.status.as_ref());
            if held.status.as_ref() == Some(&status) {
                return Ok(held);
            }
            let mut wanted = held.clone();
            wanted.status = Some(status);
            let parameters = PostParams::default();
            let written = within(self.api.replace_status(&name, &parameters, &wanted));
            match written.await.with_context(doing)? {
                Ok(written) => return Ok(written),
                // Another client changed labels or owners.
                Err(kube::Error::Api(status)) if status.code == 409 && !is_last => {
                    held = within(self.api.get(&name))
                        .await
                        .with_context(doing)?
                        .with_context(doing)?;
                }
                Err(error) => return Err(error).with_context(doing),
            }
        }
        Ok(held)
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        let doing = || format!("deleting {name}");
        match within(self.api.delete(name, &DeleteParams::default())).await.with_context(doing)? {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).with_context(doing),
        }
    }
}

fn status(
    update: &StatusUpdate,
    held: Option<&EnactmentStatus>,
    slot: Option<&Time>,
) -> EnactmentStatus {
    let used = slot.or_else(|| held.and_then(|held| held.used_slot.as_ref()));
    let conditions = held.map(|held| held.conditions.as_slice()).unwrap_or_default();
    let wanted = update.phase.conditions(&update.message);
    let details = update.details.clone();
    let mut retry_count = BTreeMap::new();
    if details.attempts > 0 {
        retry_count.insert(update.generation.to_string(), i64::from(details.attempts));
    }
    EnactmentStatus {
        conditions: condition::stamped(wanted, conditions, &Time(now())),
        desired_state: details.desired,
        desired_state_meta_info: None,
        captured_states: details.captured,
        policy_generation: Some(update.generation),
        features: details.features,
        warnings: details.warnings,
        retry_count,
        failure: update.failure.clone(),
        tried_with: update.tried_with.clone(),
        // It is also reported that no slot was used yet: older handlers do not report anything.
        used_slot: Some(used.cloned().unwrap_or(Time(jiff::Timestamp::UNIX_EPOCH))),
        revert_max_unavailable: details.revert_limit.filter(|_| !details.revert.is_empty()),
        revert_state: details.revert,
    }
}
