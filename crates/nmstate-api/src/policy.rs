//! `NodeNetworkConfigurationPolicy`: the desired network of matching nodes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::network_document::NetworkDocument;
use crate::object::cluster_object;

/// The desired network of all nodes that a selector matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkConfigurationPolicy {
    #[serde(default = "api_version")]
    pub api_version: String,
    #[serde(default = "kind")]
    pub kind: String,
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: PolicySpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PolicyStatus>,
}

cluster_object!(NodeNetworkConfigurationPolicy, "v1", "nodenetworkconfigurationpolicies");

impl NodeNetworkConfigurationPolicy {
    fn empty() -> Self {
        Self {
            api_version: String::new(),
            kind: String::new(),
            metadata: ObjectMeta::default(),
            spec: PolicySpec::default(),
            status: None,
        }
    }

    /// The conditions of its status; none if it was not written yet.
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

/// The desired network, and the nodes that it applies to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// Names for parts of a node's present network, found by expressions. The desired state may
    /// use them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capture: BTreeMap<String, String>,
    /// The desired network, in the format of NMState.
    #[serde(default, skip_serializing_if = "NetworkDocument::is_empty")]
    pub desired_state: NetworkDocument,
    /// How many nodes may be changed at the same time: a number, or a percentage of the nodes that
    /// match. Without it, 50%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrText>,
    /// Labels that a node must have, all of them, with these values. Without it, every node
    /// matches.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 256,
        "x-kubernetes-validations" = [{
            "message": "nodeSelector keys must be valid qualified names",
            "rule": "self.all(k, !format.qualifiedName().validate(k).hasValue())",
        }]
    ))]
    pub node_selector: BTreeMap<String, String>,
}

/// A number, or text that is hopefully a percentage. Any number that the API takes fits, so that
/// no policy can stop a reader from reading the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrText {
    Int(i64),
    Text(String),
}

impl JsonSchema for IntOrText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "IntOrText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "x-kubernetes-int-or-string": true,
        })
    }
}

/// The status of the policy on all matching nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// Conditions of the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the policy that the conditions refer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Nodes that may change their network now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Slot>,
    /// The generation of which a node was given a slot. Before that, every node checks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_generation: Option<i64>,
    /// The generation of which no further node is changed, as too many nodes failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted_generation: Option<i64>,
    /// The annotations when the attempts failed. Other annotations cause a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted_with: Option<String>,
    /// How many nodes are being changed, by generation of the policy. For clients that know
    /// kubernetes-nmstate; nothing is decided by it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Integer>")]
    pub unavailable_node_count_map: BTreeMap<String, i64>,
    /// Kept for clients of older versions; never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Integer>")]
    pub unavailable_node_count: Option<i64>,
    /// Kept for clients of older versions; never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_unavailable_node_count_update: Option<Time>,
}

/// The permission of one node to change its network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Slot {
    /// The node that holds the slot.
    pub node: String,
    /// The generation of the policy it was given for.
    pub generation: i64,
    /// Identifies the slot among those of its node. A holder that reports nothing until then is
    /// named in the conditions; it keeps the slot.
    pub expires: Time,
    /// The UID of the enactment it was given to. An enactment that was recreated needs another slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enactment: Option<String>,
}

/// An integer of which the schema does not tell the width.
pub(crate) struct Integer;

impl JsonSchema for Integer {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Integer".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer" })
    }
}

/// The conditions of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyConditionType {
    Available,
    Degraded,
    Progressing,
    Ignored,
    /// Ours, beside the others: parts of the desired state have no effect. Absent if there are none.
    Warning,
}

impl PolicyConditionType {
    /// Those that every policy has.
    pub const ALL: [Self; 4] = [Self::Available, Self::Degraded, Self::Progressing, Self::Ignored];
}

impl From<PolicyConditionType> for &'static str {
    fn from(type_: PolicyConditionType) -> Self {
        match type_ {
            PolicyConditionType::Available => "Available",
            PolicyConditionType::Degraded => "Degraded",
            PolicyConditionType::Progressing => "Progressing",
            PolicyConditionType::Ignored => "Ignored",
            PolicyConditionType::Warning => "Warning",
        }
    }
}

/// Why a condition of a policy is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyReason {
    SuccessfullyConfigured,
    FailedToConfigure,
    ConfigurationProgressing,
    NoMatchingNode,
    /// Ours: no handlers run in this cluster, so policies are not applied.
    OperandNotDeployed,
    /// Ours: an annotation of the policy cannot be honoured, so it is not acted on.
    InvalidAnnotation,
    /// Ours: the spec cannot be read, so it is not acted on.
    UnreadableSpec,
    /// Ours: the name cannot become the value of a label, so it is not acted on.
    InvalidName,
    /// Ours: values of nodes are missing, unreadable, or give two nodes the same address, so no
    /// node is changed.
    InvalidNodeValues,
    /// Ours, of the condition Warning.
    PartsWithoutEffect,
}

impl From<PolicyReason> for &'static str {
    fn from(reason: PolicyReason) -> Self {
        match reason {
            PolicyReason::SuccessfullyConfigured => "SuccessfullyConfigured",
            PolicyReason::FailedToConfigure => "FailedToConfigure",
            PolicyReason::ConfigurationProgressing => "ConfigurationProgressing",
            PolicyReason::NoMatchingNode => "NoMatchingNode",
            PolicyReason::OperandNotDeployed => "OperandNotDeployed",
            PolicyReason::InvalidAnnotation => "InvalidAnnotation",
            PolicyReason::UnreadableSpec => "UnreadableSpec",
            PolicyReason::InvalidName => "InvalidName",
            PolicyReason::InvalidNodeValues => "InvalidNodeValues",
            PolicyReason::PartsWithoutEffect => "PartsWithoutEffect",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_with_nothing_in_its_spec_is_read() {
        let text = r#"{"apiVersion":"nmstate.io/v1","kind":"NodeNetworkConfigurationPolicy",
            "metadata":{"name":"a"}}"#;
        let policy: NodeNetworkConfigurationPolicy = serde_json::from_str(text).unwrap();
        assert_eq!(policy, NodeNetworkConfigurationPolicy::new("a"));
    }

    #[test]
    fn a_limit_beyond_reason_does_not_stop_a_reader() {
        let spec: PolicySpec = serde_json::from_str(r#"{"maxUnavailable": 99999999999}"#).unwrap();
        assert_eq!(spec.max_unavailable, Some(IntOrText::Int(99_999_999_999)));
    }

    #[test]
    fn templates_in_place_of_lists_are_kept() {
        let text = r#"{"desiredState":{"interfaces":"{{ capture.all.interfaces }}"}}"#;
        let spec: PolicySpec = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    }
}
