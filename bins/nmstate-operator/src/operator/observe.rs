//! What is seen of the cluster.

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use nmstate_api::NMState;
use nmstate_deployment::cluster_operator::ClusterOperatorStatus;
use nmstate_deployment::decide::{Leftover, LeftoverKind, Memory, Other, Seen};
use nmstate_deployment::names::{CLUSTER_OPERATOR, COORDINATOR, HANDLER, MEMORY, NAMESPACE};
use nmstate_deployment::platform::Platform;
use nmstate_deployment::rollout::Rollout;
use nmstate_deployment::tls_profile::TlsProfile;
use serde_json::Value;

use super::watches::openshift;
use crate::requests::within;

/// Keys in the ConfigMap that is our memory.
pub(super) const HAD_NMSTATE: &str = "hadNMState";
pub(super) const ROLLED_OUT: &str = "rolledOut";

/// Looks at everything that is decided by.
pub(super) async fn observe(client: &Client) -> Result<Seen> {
    let infrastructures: Api<DynamicObject> =
        Api::all_with(client.clone(), &openshift("Infrastructure", "infrastructures"));
    // A cluster that does not say what it is gets no defaults.
    let infrastructure = within(infrastructures.get_opt("cluster"))
        .await?
        .context("reading the Infrastructure cluster")?
        .map_or(Value::Null, |object| object.data);
    let nmstates: Api<NMState> = Api::all(client.clone());
    let nmstates =
        within(nmstates.list(&ListParams::default())).await?.context("listing NMStates")?;
    let daemon_sets: Api<DaemonSet> = Api::namespaced(client.clone(), NAMESPACE);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    Ok(Seen {
        platform: Platform::of(&infrastructure),
        nmstates: nmstates.items,
        memory: memory(client).await?,
        other: other(client).await?,
        rollout: Rollout {
            handlers: within(daemon_sets.get_opt(HANDLER))
                .await?
                .with_context(|| format!("reading the DaemonSet {HANDLER}"))?,
            coordinator: within(deployments.get_opt(COORDINATOR))
                .await?
                .with_context(|| format!("reading the Deployment {COORDINATOR}"))?,
        },
        cluster_operator: cluster_operator(client).await?,
        tls: tls(client).await?,
    })
}

/// A cluster that says nothing has the default profile.
async fn tls(client: &Client) -> Result<TlsProfile> {
    let servers: Api<DynamicObject> =
        Api::all_with(client.clone(), &openshift("APIServer", "apiservers"));
    let server =
        within(servers.get_opt("cluster")).await?.context("reading the APIServer cluster")?;
    Ok(server.map_or_else(TlsProfile::default, |object| TlsProfile::of(&object.data)))
}

async fn memory(client: &Client) -> Result<Memory> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let map = within(maps.get_opt(MEMORY))
        .await?
        .with_context(|| format!("reading the ConfigMap {MEMORY}"))?;
    let data = map.and_then(|map| map.data).unwrap_or_default();
    Ok(Memory {
        had_nmstate: data.get(HAD_NMSTATE).is_some_and(|text| text == "true"),
        rolled_out: data.get(ROLLED_OUT).cloned().unwrap_or_default(),
    })
}

async fn cluster_operator(client: &Client) -> Result<ClusterOperatorStatus> {
    let operators: Api<DynamicObject> =
        Api::all_with(client.clone(), &openshift("ClusterOperator", "clusteroperators"));
    let object = within(operators.get_opt(CLUSTER_OPERATOR))
        .await?
        .with_context(|| format!("reading the ClusterOperator {CLUSTER_OPERATOR}"))?;
    let status = object.map(|object| object.data["status"].clone()).unwrap_or_default();
    // What cannot be read is not ours, and is written anew.
    Ok(serde_json::from_value(status).unwrap_or_default())
}

/// kubernetes-nmstate, by the labels of its objects.
async fn other(client: &Client) -> Result<Other> {
    let labelled = |label: &str| ListParams::default().labels(label);
    let deployments: Api<Deployment> = Api::all(client.clone());
    let daemon_sets: Api<DaemonSet> = Api::all(client.clone());
    let operators = within(deployments.list(&labelled("app=kubernetes-nmstate-operator")))
        .await?
        .context("looking for another operator")?;
    if let Some(operator) = operators.items.first() {
        let namespace = operator.namespace().unwrap_or_default();
        let who = format!("The operator {namespace}/{}", operator.name_any());
        return Ok(Other::Running { who });
    }
    let handlers = within(daemon_sets.list(&labelled("app=kubernetes-nmstate")))
        .await?
        .context("looking for other handlers")?;
    let helpers = within(deployments.list(&labelled("app=kubernetes-nmstate")))
        .await?
        .context("looking for other webhooks")?;
    let mut left = Vec::new();
    for set in &handlers.items {
        // The network add-ons of OpenShift Virtualization deploy handlers of their own accord.
        let owner = set.owner_references().iter().find(|owner| owner.kind != "NMState");
        if let Some(owner) = owner {
            return Ok(Other::Running { who: format!("{} {}", owner.kind, owner.name) });
        }
        left.push(leftover(LeftoverKind::DaemonSet, set));
    }
    left.extend(helpers.items.iter().map(|object| leftover(LeftoverKind::Deployment, object)));
    left.retain(|left| left.namespace != NAMESPACE);
    left.sort();
    Ok(if left.is_empty() { Other::None } else { Other::Leftovers(left) })
}

fn leftover(kind: LeftoverKind, object: &impl kube::Resource) -> Leftover {
    let metadata = object.meta();
    Leftover {
        kind,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}
