//! Whether the cluster was installed once. Until then no node's network is changed: a policy given
//! to the installer must not break the installation.

use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::requests::within;

const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Returns when the cluster's version was completed once, or when the cluster has no
/// ClusterVersion.
pub(crate) async fn wait(client: &Client) {
    let resource = ApiResource {
        group: "config.openshift.io".into(),
        version: "v1".into(),
        api_version: "config.openshift.io/v1".into(),
        kind: "ClusterVersion".into(),
        plural: "clusterversions".into(),
    };
    let versions: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut is_said = false;
    loop {
        match within(versions.list(&ListParams::default())).await {
            Ok(Ok(list)) if list.items.iter().any(|version| was_completed(&version.data)) => return,
            Ok(Ok(_)) if !is_said => {
                tracing::info!(
                    "the cluster is being installed; no policy is applied before that is over"
                );
                is_said = true;
            }
            Ok(Ok(_)) => {}
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => return,
            Ok(Err(error)) => tracing::warn!("asking whether the cluster is installed: {error}"),
            Err(error) => tracing::warn!("asking whether the cluster is installed: {error:#}"),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn was_completed(version: &Value) -> bool {
    let history = version.pointer("/status/history").and_then(Value::as_array);
    history.into_iter().flatten().any(|entry| entry["state"] == "Completed")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_completed_version_is_enough_and_a_partial_one_is_not() {
        let version = |states: &[&str]| {
            let history: Vec<Value> = states.iter().map(|it| json!({"state": it})).collect();
            json!({"status": {"history": history}})
        };
        assert!(was_completed(&version(&["Partial", "Completed"])));
        assert!(!was_completed(&version(&["Partial"])));
        assert!(!was_completed(&json!({})));
    }
}
