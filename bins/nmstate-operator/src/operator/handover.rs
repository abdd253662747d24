//! Performs the take-over from kubernetes-nmstate and the give-back. Whatever is removed was
//! recorded before; an object that replaced the observed one is not modified.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy,
};
use nmstate_deployment::handover::{Installer, InstallerKind, Plan, Record};
use nmstate_deployment::leftovers::{CONSOLE, CONSOLE_PLUGIN, Leftover, Stage};
use nmstate_deployment::names::{NAMESPACE, TAKEN_OVER};
use serde_json::json;

use super::notes;
use super::others::{api, network_addons, olm, resource};
use crate::requests::within;

/// The steps before ours is deployed or removed: the record, then all removals.
pub(crate) async fn begin(client: &Client, plan: &Plan, held: Option<&Record>) -> Result<()> {
    if let Some(record) = &plan.record
        && held != Some(record)
    {
        notes::write(client, TAKEN_OVER, record.data()).await?;
    }
    for installer in &plan.dismiss {
        tracing::info!("removing {installer}, to take over from kubernetes-nmstate");
        dismiss(client, installer).await.with_context(|| format!("removing {installer}"))?;
    }
    for left in &plan.clear {
        tracing::info!("removing {left}, which kubernetes-nmstate left");
        clear(client, left).await.with_context(|| format!("removing {left}"))?;
    }
    Ok(())
}

/// The steps after ours is deployed or removed.
pub(crate) async fn end(client: &Client, plan: &Plan, held: Option<&Record>) -> Result<()> {
    for installer in &plan.give_back {
        tracing::info!("restoring {installer}, to give back to kubernetes-nmstate");
        restore(client, installer).await.with_context(|| format!("restoring {installer}"))?;
    }
    if plan.record.is_none() && held.is_some() {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        settled(within(maps.delete(TAKEN_OVER, &DeleteParams::default())).await?)
            .with_context(|| format!("deleting the ConfigMap {TAKEN_OVER}"))?;
    }
    Ok(())
}

async fn dismiss(client: &Client, installer: &Installer) -> Result<()> {
    let (api, name) = (place(client, installer), installer.name());
    if installer.kind == InstallerKind::NetworkAddons {
        // The object configures other add-ons, too.
        let patch = Patch::Merge(json!({ "spec": { "nmstate": null } }));
        return Ok(settled(within(api.patch(name, &PatchParams::default(), &patch)).await?)?);
    }
    Ok(settled(within(api.delete(name, &only(&installer.uid))).await?)?)
}

async fn clear(client: &Client, left: &Leftover) -> Result<()> {
    let namespace = (!left.namespace.is_empty()).then_some(left.namespace.as_str());
    let api = api(client, &resource(left.kind), namespace);
    if *left.kind == CONSOLE {
        return unmention(&api).await;
    }
    let mut parameters = only(&left.uid);
    // A workload stays visible until its pods have ended: they need the objects that are deleted
    // after it.
    parameters.propagation_policy = Some(match left.kind.stage {
        Stage::Workload => PropagationPolicy::Foreground,
        Stage::Front | Stage::Rest => PropagationPolicy::Background,
    });
    Ok(settled(within(api.delete(&left.name, &parameters)).await?)?)
}

/// Removes the plugin from the console's list, and nothing that another client added in the
/// meantime.
async fn unmention(consoles: &Api<DynamicObject>) -> Result<()> {
    let Some(console) = within(consoles.get_opt("cluster")).await?? else { return Ok(()) };
    let mut plugins = console.data["spec"]["plugins"].as_array().cloned().unwrap_or_default();
    plugins.retain(|name| name != CONSOLE_PLUGIN);
    // Rejected if the list has changed since it was read.
    let patch = Patch::Merge(json!({
        "metadata": { "resourceVersion": console.metadata.resource_version },
        "spec": { "plugins": plugins },
    }));
    Ok(settled(within(consoles.patch("cluster", &PatchParams::default(), &patch)).await?)?)
}

async fn restore(client: &Client, installer: &Installer) -> Result<()> {
    let api = place(client, installer);
    if installer.kind == InstallerKind::NetworkAddons {
        let patch = Patch::Merge(json!({ "spec": installer.copy["spec"] }));
        let parameters = PatchParams::default();
        return Ok(settled(within(api.patch(installer.name(), &parameters, &patch)).await?)?);
    }
    let object: DynamicObject = serde_json::from_value(installer.copy.clone())?;
    match within(api.create(&PostParams::default(), &object)).await? {
        // It exists, or the removed one is still being deleted: the next reconciliation determines
        // that.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => Ok(result.map(drop)?),
    }
}

fn place(client: &Client, installer: &Installer) -> Api<DynamicObject> {
    let resource: ApiResource = match installer.kind {
        InstallerKind::Subscription => olm("Subscription", "subscriptions"),
        InstallerKind::ServiceVersion => olm("ClusterServiceVersion", "clusterserviceversions"),
        InstallerKind::NetworkAddons => network_addons(),
    };
    let namespace = installer.namespace();
    api(client, &resource, (!namespace.is_empty()).then_some(namespace))
}

/// Deletes this object and no other of its name.
fn only(uid: &str) -> DeleteParams {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

/// An object that does not exist need not be removed; its replacement is checked again.
fn settled<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        result => result.map(drop),
    }
}
