//! `NMState`: whether and how the handlers are deployed. There is one per cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::object::cluster_object;

/// Requests handlers on nodes, and configures them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NMState {
    #[serde(default = "api_version")]
    pub api_version: String,
    #[serde(default = "kind")]
    pub kind: String,
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: NMStateSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<NMStateStatus>,
}

cluster_object!(NMState, "v1", "nmstates");

impl NMState {
    /// The name of the object that is made by default, and the one in every example.
    pub const DEFAULT_NAME: &'static str = "nmstate";

    fn empty() -> Self {
        Self {
            api_version: String::new(),
            kind: String::new(),
            metadata: ObjectMeta::default(),
            spec: NMStateSpec::default(),
            status: None,
        }
    }
}

/// Where the handlers and their coordinator run, and how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NMStateSpec {
    /// Affinity of the handlers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Node selector of the handlers. Defaults to Linux nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Tolerations of the handlers. Defaults to all taints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Affinity of components that run once per cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra_affinity: Option<Affinity>,
    /// Node selector of components that run once per cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra_node_selector: Option<BTreeMap<String, String>>,
    /// Tolerations of components that run once per cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra_tolerations: Option<Vec<Toleration>>,
    /// Accepted and not used: there is no webhook, so there are no certificates to rotate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_sign_configuration: Option<SelfSignConfiguration>,
    /// The probes with which handlers check that a node is reachable after a change.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub probe_configuration: ProbeConfiguration,
    /// Where metrics are served.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub metrics_configuration: MetricsConfiguration,
    /// Log level of the handlers.
    #[serde(default)]
    #[schemars(extend("default" = "info"))]
    pub log_level: LogLevel,
}

/// Intervals of certificates, as Go writes durations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelfSignConfiguration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_rotate_interval: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_overlap_interval: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_rotate_interval: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_overlap_interval: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeConfiguration {
    /// The host name that name servers have to resolve.
    #[serde(default)]
    #[schemars(extend("default" = { "host": "root-servers.net" }))]
    pub dns: DnsProbe,
}

/// The host name that name servers have to resolve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DnsProbe {
    /// A host name that resolves.
    #[schemars(extend("default" = "root-servers.net"))]
    pub host: String,
}

impl Default for DnsProbe {
    fn default() -> Self {
        Self { host: "root-servers.net".to_owned() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsConfiguration {
    /// Address and port; `0` turns metrics off.
    #[serde(default = "default_bind_address")]
    pub bind_address: String,
}

impl Default for MetricsConfiguration {
    fn default() -> Self {
        Self { bind_address: default_bind_address() }
    }
}

fn default_bind_address() -> String {
    ":8089".to_owned()
}

/// How much is logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(extend("enum" = ["info", "debug"], "type" = "string"))]
pub enum LogLevel {
    #[default]
    Info,
    Debug,
}

/// The status of the deployment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NMStateStatus {
    /// Conditions of the deployment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The conditions of an `NMState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NMStateConditionType {
    Available,
    Progressing,
    Degraded,
    /// Ours: whether policies describe what nodes took from documents at their first boot.
    BrExAdopted,
}

impl From<NMStateConditionType> for &'static str {
    fn from(type_: NMStateConditionType) -> Self {
        match type_ {
            NMStateConditionType::Available => "Available",
            NMStateConditionType::Progressing => "Progressing",
            NMStateConditionType::Degraded => "Degraded",
            NMStateConditionType::BrExAdopted => "BrExAdopted",
        }
    }
}

/// Why a condition of an `NMState` is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NMStateReason {
    Deploying,
    SuccessfullyDeployed,
    InternalError,
    /// Clients lack a version or cipher of the cluster's TLS profile.
    TlsProfileNotFullyHonored,
    /// Ours: an annotation turned it off.
    TurnedOff,
    /// Ours: another operator owns the API in this cluster.
    OtherOperatorPresent,
    /// Ours: another operator makes way for ours.
    TakingOver,
    /// Ours: ours makes way for the operator that was here before.
    GivingBack,
    /// Ours: every node with a document has a policy.
    Adopted,
    /// Ours: a policy would change some nodes.
    NodesDiffer,
    /// Ours: some nodes did not report their network yet.
    WaitingForNodes,
    /// Ours: there is an older object, and one is enough.
    NotTheOldest,
    /// Ours: an annotation cannot be honoured.
    InvalidAnnotation,
    /// Ours: handlers do not run on some nodes that are ready.
    HandlersNotReady,
}

impl From<NMStateReason> for &'static str {
    fn from(reason: NMStateReason) -> Self {
        match reason {
            NMStateReason::Deploying => "Deploying",
            NMStateReason::SuccessfullyDeployed => "SuccessfullyDeployed",
            NMStateReason::InternalError => "InternalError",
            NMStateReason::TlsProfileNotFullyHonored => "TLSProfileNotFullyHonored",
            NMStateReason::TurnedOff => "TurnedOff",
            NMStateReason::OtherOperatorPresent => "OtherOperatorPresent",
            NMStateReason::TakingOver => "TakingOver",
            NMStateReason::GivingBack => "GivingBack",
            NMStateReason::Adopted => "Adopted",
            NMStateReason::NodesDiffer => "NodesDiffer",
            NMStateReason::WaitingForNodes => "WaitingForNodes",
            NMStateReason::NotTheOldest => "NotTheOldest",
            NMStateReason::InvalidAnnotation => "InvalidAnnotation",
            NMStateReason::HandlersNotReady => "HandlersNotReady",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_empty_object_leaves_out_has_the_defaults_of_the_api() {
        let nmstate: NMState = serde_json::from_str(r#"{"metadata":{"name":"nmstate"}}"#).unwrap();
        assert_eq!(nmstate.spec.probe_configuration.dns.host, "root-servers.net");
        assert_eq!(nmstate.spec.metrics_configuration.bind_address, ":8089");
        assert_eq!(nmstate.spec.log_level, LogLevel::Info);
        assert_eq!(nmstate, NMState::new(NMState::DEFAULT_NAME));
    }
}
