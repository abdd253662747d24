//! `NodeNetworkState`: the current network of one node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::network_document::NetworkDocument;
use crate::object::cluster_object;

/// The network of the node of the same name, written by that node's handler alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkState {
    #[serde(default = "api_version")]
    pub api_version: String,
    #[serde(default = "kind")]
    pub kind: String,
    pub metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<NodeNetworkStateStatus>,
}

cluster_object!(NodeNetworkState, "v1beta1", "nodenetworkstates");

impl NodeNetworkState {
    fn empty() -> Self {
        Self {
            api_version: String::new(),
            kind: String::new(),
            metadata: ObjectMeta::default(),
            status: None,
        }
    }
}

/// The state that the handler observed on its node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkStateStatus {
    /// The network as reported by NMState, without values that change continuously.
    #[serde(default, skip_serializing_if = "NetworkDocument::is_empty")]
    pub current_state: NetworkDocument,
    /// The time of the last change of the reported state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_successful_update_time: Option<Time>,
    /// The version of the node's NetworkManager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_network_manager_version: Option<String>,
    /// The version of NMState in the handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_nmstate_version: Option<String>,
    /// Kept for clients that know kubernetes-nmstate; the handler has no NetworkManager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_network_manager_version: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_with_its_kind() {
        let text = serde_json::to_string(&NodeNetworkState::new("worker-0")).unwrap();
        assert_eq!(
            text,
            r#"{"apiVersion":"nmstate.io/v1beta1","kind":"NodeNetworkState","metadata":{"name":"worker-0"}}"#
        );
    }
}
