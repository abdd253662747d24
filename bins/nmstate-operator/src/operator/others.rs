//! Observes kubernetes-nmstate. A kind that the cluster does not serve has no objects.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt as _};
use nmstate_deployment::handover::{
    Installer, NETWORK_ADDONS, NETWORK_ADDONS_GROUP, OLM_GROUP, Others, Scope, is_version,
};
use nmstate_deployment::leftovers::{self, CONSOLE, CONSOLE_PLUGIN, Found, KINDS, Kind, Leftover};
use nmstate_deployment::names::NAMESPACE;
use serde_json::{Value, json};

use crate::requests::within;

/// On the operator, its pods, and on what it deploys.
const OPERATOR: &str = "app=kubernetes-nmstate-operator";
const OPERAND: &str = "app=kubernetes-nmstate";
/// The namespaces that it usually uses. Events are written in `default`, so it has a role there.
const USUAL_PLACES: [&str; 3] = ["default", "nmstate", "openshift-nmstate"];

/// Searches for it within the requested scope.
pub(crate) async fn others(
    client: &Client,
    scope: Scope,
    known: &BTreeSet<String>,
) -> Result<Others> {
    let mut others = glance(client).await?;
    if scope == Scope::Running {
        return Ok(others);
    }
    others.namespaces.extend(known.iter().cloned());
    installers(client, &mut others).await?;
    if scope == Scope::Everything {
        if others.running.is_empty() {
            others.running = pods(client).await?;
        }
        if others.running.is_empty() {
            what_is_left(client, &mut others).await?;
        }
    }
    leftovers::sort(&mut others.leftovers);
    others.namespaces.remove(NAMESPACE);
    Ok(others)
}

/// Whether anything of it runs, by the labels of its workloads.
async fn glance(client: &Client) -> Result<Others> {
    let mut others = Others::default();
    for kind in KINDS.iter().filter(|kind| matches!(kind.kind, "DaemonSet" | "Deployment")) {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
        if kind.kind == "Deployment" {
            for operator in labelled(&api, OPERATOR).await? {
                let namespace = operator.namespace().unwrap_or_default();
                others.running.push(format!("the operator {namespace}/{}", operator.name_any()));
                others.namespaces.insert(namespace);
            }
        }
        for object in labelled(&api, OPERAND).await? {
            let namespace = object.namespace().unwrap_or_default();
            if namespace == NAMESPACE {
                continue;
            }
            // The network add-ons of OpenShift Virtualization deploy handlers by themselves.
            match object.owner_references().iter().find(|owner| owner.kind != "NMState") {
                Some(owner) => {
                    others.running.push(format!(
                        "the {} {namespace}/{} of the {} {}",
                        kind.kind,
                        object.name_any(),
                        owner.kind,
                        owner.name
                    ));
                }
                None => others.leftovers.push(leftover(kind, &object.metadata)),
            }
            others.namespaces.insert(namespace);
        }
    }
    others.running.sort();
    leftovers::sort(&mut others.leftovers);
    Ok(others)
}

/// The pods of an operator outlive its Deployment for a while, and act until they end.
async fn pods(client: &Client) -> Result<Vec<String>> {
    let api: Api<Pod> = Api::all(client.clone());
    let list = within(api.list(&ListParams::default().labels(OPERATOR)))
        .await?
        .context("looking for pods of another operator")?;
    let runs = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        !matches!(phase, Some("Succeeded" | "Failed"))
    };
    let name =
        |pod: &Pod| format!("the pod {}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    Ok(list.items.iter().filter(runs).map(name).collect())
}

/// What installs it. OLM shows versions in every namespace of a cluster: only those are read
/// where a part of it is.
async fn installers(client: &Client, others: &mut Others) -> Result<()> {
    let subscriptions = api(client, &olm("Subscription", "subscriptions"), None);
    let found = known(within(subscriptions.list(&ListParams::default())).await?)
        .context("listing Subscriptions")?;
    let mut seen: Vec<Installer> = Vec::new();
    for object in found.into_iter().flat_map(|list| list.items) {
        seen.extend(Installer::of(&value(object, "Subscription")));
    }
    others.namespaces.extend(seen.iter().map(|installer| installer.namespace().to_owned()));
    for namespace in &others.namespaces {
        let resource = olm("ClusterServiceVersion", "clusterserviceversions");
        let versions = api(client, &resource, Some(namespace));
        let doing = || format!("listing ClusterServiceVersions in {namespace}");
        let found = within(versions.list_metadata(&ListParams::default())).await?;
        let names = known(found).with_context(doing)?.into_iter().flat_map(|list| list.items);
        for name in names.map(|version| version.name_any()).filter(|name| is_version(name)) {
            let version = within(versions.get_opt(&name)).await?.with_context(doing)?;
            let version = version.map(|object| value(object, "ClusterServiceVersion"));
            seen.extend(version.as_ref().and_then(Installer::of));
        }
    }
    let addons = known(within(api(client, &network_addons(), None).get_opt(NETWORK_ADDONS)).await?)
        .context("reading the NetworkAddonsConfig")?
        .flatten();
    others.has_network_addons = addons.is_some();
    let addons = addons.map(|object| value(object, "NetworkAddonsConfig"));
    seen.extend(addons.as_ref().and_then(Installer::of));
    seen.sort_by_key(|installer| {
        (installer.kind, installer.namespace().to_owned(), installer.name().to_owned())
    });
    others.installers = seen;
    Ok(())
}

/// All existing objects of it, of all kinds.
async fn what_is_left(client: &Client, others: &mut Others) -> Result<()> {
    let mut places: BTreeSet<&str> = others.namespaces.iter().map(String::as_str).collect();
    places.extend(USUAL_PLACES);
    places.remove(NAMESPACE);
    let mut left = Vec::new();
    for kind in &KINDS {
        let doing = || format!("looking for what another operator left: {}", kind.plural);
        let resource = resource(kind);
        let mut found: Vec<PartialObjectMeta<DynamicObject>> = Vec::new();
        match kind.found {
            Found::Cluster(_) if *kind == CONSOLE => {
                left.extend(console(client).await.with_context(doing)?);
            }
            Found::Cluster(names) => {
                let api = api(client, &resource, None);
                for name in names {
                    let object = known(within(api.get_metadata_opt(name)).await?);
                    found.extend(object.with_context(doing)?.flatten());
                }
            }
            Found::Named(names) => {
                for (place, name) in
                    places.iter().flat_map(|place| names.iter().map(move |name| (place, name)))
                {
                    let api = api(client, &resource, Some(place));
                    let object = known(within(api.get_metadata_opt(name)).await?);
                    found.extend(object.with_context(doing)?.flatten());
                }
            }
            Found::Owned => {
                for place in &places {
                    let api = api(client, &resource, Some(place));
                    let list = within(api.list_metadata(&ListParams::default())).await?;
                    found.extend(
                        known(list).with_context(doing)?.into_iter().flat_map(|it| it.items),
                    );
                }
            }
        }
        left.extend(
            found
                .iter()
                .filter(|it| is_theirs(&it.metadata))
                .map(|it| leftover(kind, &it.metadata)),
        );
    }
    others.leftovers.extend(left);
    Ok(())
}

/// The entry of its plugin in the console's list.
async fn console(client: &Client) -> Result<Option<Leftover>, anyhow::Error> {
    let console = within(api(client, &resource(&CONSOLE), None).get_opt("cluster")).await?;
    let console = known(console)?.flatten();
    let mentions = |object: &DynamicObject| {
        let plugins = object.data["spec"]["plugins"].as_array();
        plugins.is_some_and(|list| list.contains(&json!(CONSOLE_PLUGIN)))
    };
    let kind = leftovers::kind(CONSOLE.kind);
    Ok(console.filter(mentions).zip(kind).map(|(object, kind)| leftover(kind, &object.metadata)))
}

/// Whether it was deployed by kubernetes-nmstate: an `NMState` owns it, or it has the label. Ours
/// has neither.
fn is_theirs(metadata: &ObjectMeta) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let labels = metadata.labels.as_ref();
    owners
        .iter()
        .any(|owner| owner.kind == "NMState" && owner.api_version.starts_with("nmstate.io/"))
        || labels
            .and_then(|labels| labels.get("app"))
            .is_some_and(|app| app == "kubernetes-nmstate")
}

fn leftover(kind: &'static Kind, metadata: &ObjectMeta) -> Leftover {
    Leftover {
        kind,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        is_going: metadata.deletion_timestamp.is_some(),
    }
}

async fn labelled(
    api: &Api<DynamicObject>,
    label: &str,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>> {
    let list = within(api.list_metadata(&ListParams::default().labels(label)))
        .await?
        .with_context(|| format!("looking for another operator, by the label {label}"))?;
    Ok(list.items)
}

/// None for a kind that the server does not serve: the error is plain text, unlike that of a
/// missing object.
pub(super) fn known<T>(result: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        result => result.map(Some),
    }
}

/// The object as stored by the server. Items of a list do not contain their kind.
fn value(object: DynamicObject, kind: &str) -> Value {
    let api_version = match kind {
        "NetworkAddonsConfig" => network_addons().api_version,
        _ => olm("", "").api_version,
    };
    let mut value = object.data;
    value["apiVersion"] = json!(api_version);
    value["kind"] = json!(kind);
    value["metadata"] = json!(object.metadata);
    value
}

/// Where objects of a kind are on the server.
pub(super) fn api(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

pub(super) fn resource(kind: &Kind) -> ApiResource {
    named(kind.group, kind.version, kind.kind, kind.plural)
}

pub(super) fn olm(kind: &str, plural: &str) -> ApiResource {
    named(OLM_GROUP, "v1alpha1", kind, plural)
}

pub(super) fn network_addons() -> ApiResource {
    named(NETWORK_ADDONS_GROUP, "v1", "NetworkAddonsConfig", "networkaddonsconfigs")
}

fn named(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}
