//! The permissions that handlers and the coordinator have in a cluster, and tokens of their pods.

use anyhow::{Context, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client, Config, ResourceExt as _};
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use nmstate_deployment::{names, operand, payload};
use serde_json::json;

/// Longer than a measurement takes.
const TOKEN_LIFE: i64 = 4 * 60 * 60;

/// Applies the CRDs, the admission policies and the permissions of the real deployment.
pub(crate) async fn install(server: &ApiServer) -> Result<()> {
    for file in payload::files() {
        let text = file.text()?;
        if file.name.contains("_crd-") {
            server.client().load_crd_text(&text).await?;
        } else if ["_namespace", "_admission"].iter().any(|part| file.name.contains(part)) {
            server.apply(&text, Persistence::Stored, FieldValidation::Strict).await?;
        }
    }
    let access =
        ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"].map(Some);
    for object in operand::everything(false) {
        if access.contains(&object["kind"].as_str()) {
            let text = object.to_string();
            server.apply(&text, Persistence::Stored, FieldValidation::Strict).await?;
        }
    }
    Ok(())
}

/// A configuration with the token of a handler's pod for each node.
pub(crate) async fn handlers(
    admin: &Client,
    config: &Config,
    nodes: &[String],
) -> Result<Vec<(String, Config)>> {
    let handlers = stream::iter(nodes).map(async |node: &String| -> Result<_> {
        let token = token(admin, names::HANDLER, &format!("handler-{node}"), Some(node)).await?;
        Ok((node.clone(), with_token(config, &token)))
    });
    handlers.buffered(16).try_collect().await
}

/// A token of the coordinator's pod.
pub(crate) async fn coordinator(admin: &Client) -> Result<String> {
    token(admin, names::COORDINATOR, "coordinator", None).await
}

async fn token(admin: &Client, account: &str, pod: &str, node: Option<&str>) -> Result<String> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": pod},
        "spec": {
            "nodeName": node, "serviceAccountName": account,
            "containers": [{"name": "c", "image": "i"}],
        },
    }))?;
    let pods: Api<Pod> = Api::namespaced(admin.clone(), names::NAMESPACE);
    let pod = pods.create(&PostParams::default(), &pod).await.context("creating a pod")?;
    let bound_object_ref = Some(BoundObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some(pod.name_any()),
        uid: pod.uid(),
    });
    let expiration_seconds = Some(TOKEN_LIFE);
    let spec = TokenRequestSpec { bound_object_ref, expiration_seconds, audiences: Vec::new() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), names::NAMESPACE);
    let response = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    Ok(response.status.context("the token is missing")?.token)
}

pub(crate) fn with_token(config: &Config, token: &str) -> Config {
    let mut config = config.clone();
    config.auth_info = kube::config::AuthInfo {
        token: Some(token.to_owned().into()),
        ..kube::config::AuthInfo::default()
    };
    config
}
