//! Observes the cluster.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use nmstate_api::NMState;
use nmstate_deployment::cluster_operator::ClusterOperatorStatus;
use nmstate_deployment::decide::{Memory, Seen};
use nmstate_deployment::handover::{Record, RecordError, Scope};
use nmstate_deployment::names::{
    CLUSTER_OPERATOR, COMPONENT_LABEL, COORDINATOR, HANDLER, MEMORY, NAMESPACE, TAKEN_OVER,
};
use nmstate_deployment::platform::Platform;
use nmstate_deployment::rollout::{self, HandlerPod, Rollout};
use nmstate_deployment::tls_profile::TlsProfile;
use serde_json::Value;

use super::others::{self, known};
use super::watches::openshift;
use crate::requests::within;

/// Keys in the ConfigMap with our persistent state.
pub(super) const HAD_NMSTATE: &str = "hadNMState";
pub(super) const ROLLED_OUT: &str = "rolledOut";

/// Reads all objects that the decision depends on.
pub(super) async fn observe(client: &Client) -> Result<Seen> {
    let platform = platform(client).await?;
    let nmstates: Api<NMState> = Api::all(client.clone());
    let nmstates =
        within(nmstates.list(&ListParams::default())).await?.context("listing NMStates")?;
    let daemon_sets: Api<DaemonSet> = Api::namespaced(client.clone(), NAMESPACE);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let record = record(client).await?;
    let mut rollout = Rollout {
        handlers: within(daemon_sets.get_opt(HANDLER))
            .await?
            .with_context(|| format!("reading the DaemonSet {HANDLER}"))?,
        coordinator: within(deployments.get_opt(COORDINATOR))
            .await?
            .with_context(|| format!("reading the Deployment {COORDINATOR}"))?,
        ..Rollout::default()
    };
    // Reading all nodes and pods of a large cluster is expensive, so it is done only where it
    // matters.
    if rollout.is_incomplete() {
        handlers(client, &mut rollout).await?;
    }
    Ok(Seen {
        platform,
        nmstates: nmstates.items,
        memory: memory(client).await?,
        others: others::others(client, Scope::Running, &BTreeSet::new()).await?,
        record,
        adoption: None,
        hindrance: None,
        rollout,
        cluster_operator: cluster_operator(client).await?,
        tls: tls(client).await?,
    })
}

/// The platform of the cluster. If it is not reported, no defaults apply, as on a cluster that is
/// not OpenShift.
pub(super) async fn platform(client: &Client) -> Result<Platform> {
    let infrastructures: Api<DynamicObject> =
        Api::all_with(client.clone(), &openshift("Infrastructure", "infrastructures"));
    let found = known(within(infrastructures.get_opt("cluster")).await?)
        .context("reading the Infrastructure cluster")?;
    Ok(Platform::of(&found.flatten().map_or(Value::Null, |object| object.data)))
}

/// The handlers one by one, and which nodes are down.
async fn handlers(client: &Client, rollout: &mut Rollout) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let ours = ListParams::default().labels(&format!("{COMPONENT_LABEL}={HANDLER}"));
    let pods = within(pods.list(&ours)).await?.context("listing the pods of handlers")?;
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = within(nodes.list(&ListParams::default())).await?.context("listing nodes")?;
    rollout.pods = pods.items.iter().filter_map(HandlerPod::of).collect();
    rollout.down = rollout::down(&nodes.items);
    Ok(())
}

/// What was taken over from another operator.
pub(crate) async fn record(client: &Client) -> Result<Result<Option<Record>, RecordError>> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let map = within(maps.get_opt(TAKEN_OVER))
        .await?
        .with_context(|| format!("reading the ConfigMap {TAKEN_OVER}"))?;
    Ok(map.map(|map| Record::parse(&map.data.unwrap_or_default())).transpose())
}

/// Without a configured profile, the default profile applies.
async fn tls(client: &Client) -> Result<TlsProfile> {
    let servers: Api<DynamicObject> =
        Api::all_with(client.clone(), &openshift("APIServer", "apiservers"));
    let server = known(within(servers.get_opt("cluster")).await?)
        .context("reading the APIServer cluster")?
        .flatten();
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
    let object = known(within(operators.get_opt(CLUSTER_OPERATOR)).await?)
        .with_context(|| format!("reading the ClusterOperator {CLUSTER_OPERATOR}"))?
        .flatten();
    let status = object.map(|object| object.data["status"].clone()).unwrap_or_default();
    // Content that cannot be parsed is not ours, and is rewritten.
    Ok(serde_json::from_value(status).unwrap_or_default())
}
