//! Performs decisions. Every action is idempotent; nothing is written that is already there.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use nmstate_api::{NMState, StoredPolicy};
use nmstate_deployment::decide::{Decision, Memory, Operand, Seen, ignored};
use nmstate_deployment::names::{CLUSTER_OPERATOR, MEMORY, NAMESPACE, OPERATOR};
use nmstate_deployment::operand;
use serde_json::{Value, json};

use super::observe::{HAD_NMSTATE, ROLLED_OUT};
use super::others::known;
use super::reports;
use super::watches::openshift;
use crate::requests::within;

/// Performs decisions, and caches what it did last.
pub(super) struct Performer {
    client: Client,
    is_hosted: bool,
    done: Option<Done>,
    /// Whether the reports of handlers were deleted since there were any.
    is_cleared: bool,
}

/// The last action on the operand.
#[derive(PartialEq)]
enum Done {
    Deployed {
        objects: Vec<Value>,
        /// The version of each of them at that time.
        versions: Vec<Version>,
    },
    Removed,
}

/// Identifies whether an object was deleted or edited.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    uid: Option<String>,
    /// The generation for objects with a status, as the status changes by itself; for others the
    /// resource version.
    edit: Option<String>,
}

impl Version {
    fn of(metadata: &ObjectMeta) -> Self {
        let generation = metadata.generation.map(|it| it.to_string());
        let edit = generation.or_else(|| metadata.resource_version.clone());
        Self { uid: metadata.uid.clone(), edit }
    }
}

impl Performer {
    pub(super) fn new(client: Client, is_hosted: bool) -> Self {
        Self { client, is_hosted, done: None, is_cleared: false }
    }

    /// Performs a decision.
    pub(super) async fn perform(&mut self, decision: &Decision) -> Result<()> {
        if decision.make_default {
            self.make_default().await?;
        }
        match &decision.operand {
            Operand::Deploy(objects) => self.deploy(objects).await?,
            Operand::Remove => {
                self.remove().await?;
                if decision.clear_reports && !self.is_cleared {
                    self.is_cleared = reports::clear(&self.client).await?;
                }
            }
            Operand::Leave => {}
        }
        Ok(())
    }

    /// Reports to the cluster, and caches the report.
    pub(super) async fn report(
        &self,
        seen: &Seen,
        decision: &Decision,
        now: Timestamp,
    ) -> Result<()> {
        if decision.memory != seen.memory {
            self.remember(&decision.memory).await?;
        }
        for nmstate in &seen.nmstates {
            self.report_nmstate(nmstate, decision).await?;
        }
        self.report_cluster(seen, decision).await?;
        match &decision.policies {
            Some(message) => self.report_policies(message, now).await,
            None => Ok(()),
        }
    }

    async fn make_default(&self) -> Result<()> {
        let nmstates: Api<NMState> = Api::all(self.client.clone());
        let nmstate = NMState::new(NMState::DEFAULT_NAME);
        tracing::info!("making the default NMState of this platform");
        match within(nmstates.create(&PostParams::default(), &nmstate)).await? {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            result => result.map(drop).context("making the default NMState"),
        }
    }

    async fn deploy(&mut self, objects: &[Value]) -> Result<()> {
        if let Some(Done::Deployed { objects: held, versions }) = &self.done
            && held == objects
        {
            if self.versions(objects).await? == *versions {
                return Ok(());
            }
            tracing::info!("objects were deleted or edited; restoring them");
        }
        self.is_cleared = false;
        let parameters = PatchParams::apply(OPERATOR).force();
        let mut versions = Vec::new();
        for object in objects {
            let (api, name) = self.place(object);
            let doing = || format!("applying {} {name}", object["kind"]);
            let applied = within(api.patch(&name, &parameters, &Patch::Apply(object)))
                .await
                .with_context(doing)?
                .with_context(doing)?;
            versions.push(Version::of(&applied.metadata));
        }
        // Objects for clusters of another topology: this cluster may have had that topology before.
        let place = |object: &Value| (object["kind"].clone(), object["metadata"]["name"].clone());
        let kept: Vec<_> = objects.iter().map(place).collect();
        for object in
            operand::everything(self.is_hosted).iter().filter(|it| !kept.contains(&place(it)))
        {
            self.take_away(object).await?;
        }
        tracing::info!(objects = objects.len(), "deployed");
        self.done = Some(Done::Deployed { objects: objects.to_vec(), versions });
        Ok(())
    }

    /// The current versions of these objects.
    async fn versions(&self, objects: &[Value]) -> Result<Vec<Version>> {
        let mut versions = Vec::new();
        for object in objects {
            let (api, name) = self.place(object);
            let doing = || format!("reading {} {name}", object["kind"]);
            let found = within(api.get_metadata_opt(&name)).await.with_context(doing)?;
            let found = found.with_context(doing)?;
            versions.push(Version::of(&found.map(|it| it.metadata).unwrap_or_default()));
        }
        Ok(versions)
    }

    /// Removes everything that was ever deployed, workloads before their permissions.
    async fn remove(&mut self) -> Result<()> {
        if self.done == Some(Done::Removed) {
            return Ok(());
        }
        // Beside a hosted control plane the coordinator and its leases stay.
        let leases = (!self.is_hosted).then(operand::leases);
        let leases = leases.iter().flatten();
        for object in operand::everything(self.is_hosted).iter().rev().chain(leases) {
            self.take_away(object).await?;
        }
        self.done = Some(Done::Removed);
        Ok(())
    }

    /// Whether some work remains for when the last handler has ended.
    pub(super) fn waits_for_handlers(&self, decision: &Decision) -> bool {
        decision.clear_reports && !self.is_cleared
    }

    async fn take_away(&self, object: &Value) -> Result<()> {
        let (api, name) = self.place(object);
        let doing = || format!("removing {} {name}", object["kind"]);
        let deleted = within(api.delete(&name, &DeleteParams::background())).await;
        gone(deleted.with_context(doing)?).with_context(doing)
    }

    /// The path of an object of ours on the server.
    fn place(&self, object: &Value) -> (Api<DynamicObject>, String) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let api = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        (api, text(&object["metadata"]["name"]))
    }

    async fn remember(&self, memory: &Memory) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let data = BTreeMap::from([
            (HAD_NMSTATE.to_owned(), memory.had_nmstate.to_string()),
            (ROLLED_OUT.to_owned(), memory.rolled_out.clone()),
        ]);
        let doing = || format!("writing the ConfigMap {MEMORY}");
        // Another version may have stored further keys, which must be kept.
        let patch = Patch::Merge(json!({ "data": data }));
        match within(maps.patch(MEMORY, &PatchParams::default(), &patch)).await? {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let metadata =
                    ObjectMeta { name: Some(MEMORY.to_owned()), ..ObjectMeta::default() };
                let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
                let parameters = PostParams::default();
                within(maps.create(&parameters, &map)).await?.with_context(doing)?;
            }
            result => drop(result.with_context(doing)?),
        }
        Ok(())
    }

    async fn report_nmstate(&self, nmstate: &NMState, decision: &Decision) -> Result<()> {
        let name = nmstate.name_any();
        let Some(conditions) = decision.nmstates.get(&name) else { return Ok(()) };
        if nmstate.status.as_ref().is_some_and(|status| status.conditions == *conditions) {
            return Ok(());
        }
        let nmstates: Api<NMState> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
        gone(within(nmstates.patch_status(&name, &PatchParams::default(), &patch)).await?)
            .with_context(|| format!("writing the status of the NMState {name}"))
    }

    async fn report_cluster(&self, seen: &Seen, decision: &Decision) -> Result<()> {
        if seen.cluster_operator == decision.cluster_operator {
            return Ok(());
        }
        let resource = openshift("ClusterOperator", "clusteroperators");
        let operators: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let patch = Patch::Merge(json!({ "status": decision.cluster_operator }));
        let doing = || format!("writing the ClusterOperator {CLUSTER_OPERATOR}");
        let parameters = PatchParams::default();
        let write = || operators.patch_status(CLUSTER_OPERATOR, &parameters, &patch);
        match within(write()).await? {
            // It was deleted; we create it.
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let mut object = DynamicObject::new(CLUSTER_OPERATOR, &resource);
                object.data = json!({ "spec": {} });
                // Clusters other than OpenShift do not have the kind.
                let created = within(operators.create(&PostParams::default(), &object)).await?;
                if known(created).with_context(doing)?.is_none() {
                    return Ok(());
                }
                within(write()).await?.map(drop).with_context(doing)
            }
            result => result.map(drop).with_context(doing),
        }
    }

    async fn report_policies(&self, message: &str, now: Timestamp) -> Result<()> {
        // An object that cannot be parsed gets the status, too.
        let policies: Api<StoredPolicy> = Api::all(self.client.clone());
        let list =
            within(policies.list(&ListParams::default())).await?.context("listing policies")?;
        for policy in &list.items {
            let Some(status) = ignored(&policy.without_spec(), message, now) else { continue };
            let name = policy.name_any();
            // The other fields that the coordinator wrote are invalid now.
            let patch = Patch::Merge(json!({ "status": {
                "conditions": status.conditions,
                "observedGeneration": status.observed_generation,
                "slots": null,
                "unavailableNodeCountMap": null,
            }}));
            gone(within(policies.patch_status(&name, &PatchParams::default(), &patch)).await?)
                .with_context(|| format!("writing the status of the policy {name}"))?;
        }
        Ok(())
    }
}

/// An object that does not exist need not be removed or updated.
fn gone<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result.map(drop),
    }
}
