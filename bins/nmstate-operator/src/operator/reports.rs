//! The reports of handlers about nodes, removed once no handler writes them any more.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use nmstate_api::{NodeNetworkConfigurationEnactment, NodeNetworkState};
use nmstate_deployment::names::{COMPONENT_LABEL, HANDLER, NAMESPACE};

use crate::requests::within;

/// Deletes all reports, unless a handler still runs, which would recreate its own. Returns whether
/// they were deleted.
pub(super) async fn clear(client: &Client) -> Result<bool> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let handlers = ListParams::default().labels(&format!("{COMPONENT_LABEL}={HANDLER}")).limit(1);
    let left = within(pods.list_metadata(&handlers)).await?.context("looking for handlers")?;
    if !left.items.is_empty() {
        return Ok(false);
    }
    let (once, all) = (DeleteParams::default(), ListParams::default());
    let enactments: Api<NodeNetworkConfigurationEnactment> = Api::all(client.clone());
    within(enactments.delete_collection(&once, &all)).await?.context("deleting all enactments")?;
    let states: Api<NodeNetworkState> = Api::all(client.clone());
    within(states.delete_collection(&once, &all)).await?.context("deleting all node states")?;
    tracing::info!("the reports of handlers are cleared");
    Ok(true)
}
