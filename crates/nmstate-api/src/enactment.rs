//! `NodeNetworkConfigurationEnactment`: the status of one policy on one node.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::network_document::NetworkDocument;
use crate::object::cluster_object;
use crate::policy::{IntOrText, Integer};

/// The report of one node about one policy, written by that node's handler alone. It is named
/// after both: see [`crate::EnactmentName`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkConfigurationEnactment {
    #[serde(default = "api_version")]
    pub api_version: String,
    #[serde(default = "kind")]
    pub kind: String,
    pub metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EnactmentStatus>,
}

cluster_object!(NodeNetworkConfigurationEnactment, "v1beta1", "nodenetworkconfigurationenactments");

impl NodeNetworkConfigurationEnactment {
    fn empty() -> Self {
        Self {
            api_version: String::new(),
            kind: String::new(),
            metadata: ObjectMeta::default(),
            status: None,
        }
    }

    /// The conditions of its status; none if it was not written yet.
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

/// The result of the policy on one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnactmentStatus {
    /// Conditions of the policy on this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The policy's desired state as rendered for this node.
    #[serde(default, skip_serializing_if = "NetworkDocument::is_empty")]
    pub desired_state: NetworkDocument,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_state_meta_info: Option<MetaInfo>,
    /// The results of the policy's captures on this node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captured_states: BTreeMap<String, CapturedState>,
    /// The generation of the policy that this status refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_generation: Option<i64>,
    /// Features of NMState that the rendered state uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The number of attempts, by generation of the policy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Integer>")]
    pub retry_count: BTreeMap<String, i64>,
    /// The failure, in a form that programs can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Parts of the desired state that have no effect on this node, or not the expected one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// The policy's annotations when the attempts failed. Other annotations cause a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_with: Option<String>,
    /// `expires` of the slot that the node used last. The node does not use that slot again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_slot: Option<Time>,
    /// The state that reverts the policy, stored if the policy requests that.
    #[serde(default, skip_serializing_if = "NetworkDocument::is_empty")]
    pub revert_state: NetworkDocument,
    /// How many nodes may be reverted at the same time: the value of the policy when it was
    /// applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert_max_unavailable: Option<IntOrText>,
}

/// The result of one capture.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapturedState {
    #[serde(default, skip_serializing_if = "NetworkDocument::is_empty")]
    pub state: NetworkDocument,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_info: Option<MetaInfo>,
}

/// When something was found, and in which version of the format.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaInfo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// A failure in machine-readable form. The message of the condition contains the same as text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The kind of the failure.
    pub kind: String,
    /// The interface it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The probe that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
    /// The rule that was broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Whether only the API server did not respond: it may have been down itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub possible_outage: Option<bool>,
}

/// A part of a desired state that does not stop the policy, and may not be what its author expects.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// Where it is in the desired state of the policy, such as `interfaces[0].ipv6.address[1]`.
    pub path: String,
    /// The effect.
    pub reason: String,
}

/// The conditions of an enactment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnactmentConditionType {
    Available,
    Failing,
    Progressing,
    Pending,
    Aborted,
}

impl EnactmentConditionType {
    pub const ALL: [Self; 5] =
        [Self::Available, Self::Failing, Self::Progressing, Self::Pending, Self::Aborted];
}

impl From<EnactmentConditionType> for &'static str {
    fn from(type_: EnactmentConditionType) -> Self {
        match type_ {
            EnactmentConditionType::Available => "Available",
            EnactmentConditionType::Failing => "Failing",
            EnactmentConditionType::Progressing => "Progressing",
            EnactmentConditionType::Pending => "Pending",
            EnactmentConditionType::Aborted => "Aborted",
        }
    }
}

/// Why a condition of an enactment is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnactmentReason {
    SuccessfullyConfigured,
    FailedToConfigure,
    Retrying,
    MaxUnavailableLimitReached,
    ConfigurationProgressing,
    ConfigurationAborted,
}

impl From<EnactmentReason> for &'static str {
    fn from(reason: EnactmentReason) -> Self {
        match reason {
            EnactmentReason::SuccessfullyConfigured => "SuccessfullyConfigured",
            EnactmentReason::FailedToConfigure => "FailedToConfigure",
            EnactmentReason::Retrying => "Retrying",
            EnactmentReason::MaxUnavailableLimitReached => "MaxUnavailableLimitReached",
            EnactmentReason::ConfigurationProgressing => "ConfigurationProgressing",
            EnactmentReason::ConfigurationAborted => "ConfigurationAborted",
        }
    }
}
