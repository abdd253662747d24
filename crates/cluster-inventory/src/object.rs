//! Objects as a cluster has them: the parts that are read.

use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) labels: std::collections::BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
pub(crate) struct ClusterVersion {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: ClusterVersionSpec,
    #[serde(default)]
    pub(crate) status: ClusterVersionStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterVersionSpec {
    pub(crate) channel: Option<String>,
    pub(crate) upstream: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterVersionStatus {
    pub(crate) desired: Release,
    /// Null right after the installation.
    pub(crate) history: Option<Vec<Update>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Release {
    pub(crate) architecture: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Update {
    pub(crate) version: String,
    pub(crate) state: String,
    pub(crate) image: String,
}

#[derive(Deserialize)]
pub(crate) struct Node {
    #[serde(default)]
    pub(crate) status: NodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeStatus {
    pub(crate) node_info: NodeInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeInfo {
    pub(crate) architecture: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Subscription {
    pub(crate) metadata: Metadata,
    pub(crate) spec: SubscriptionSpec,
    #[serde(default)]
    pub(crate) status: SubscriptionStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionSpec {
    #[serde(rename = "name")]
    pub(crate) package: String,
    pub(crate) source: String,
    pub(crate) source_namespace: String,
    pub(crate) channel: Option<String>,
    pub(crate) install_plan_approval: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct SubscriptionStatus {
    #[serde(rename = "installedCSV")]
    pub(crate) installed_csv: Option<String>,
    #[serde(rename = "currentCSV")]
    pub(crate) current_csv: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct ClusterServiceVersion {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: ClusterServiceVersionSpec,
    #[serde(default)]
    pub(crate) status: ClusterServiceVersionStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterServiceVersionSpec {
    pub(crate) version: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterServiceVersionStatus {
    pub(crate) phase: Option<String>,
    pub(crate) reason: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct CatalogSource {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: CatalogSourceSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct CatalogSourceSpec {
    pub(crate) image: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct MirrorSet {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: MirrorSetSpec,
}

/// The three kinds differ in the name of their list alone.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MirrorSetSpec {
    pub(crate) image_digest_mirrors: Vec<crate::Mirror>,
    pub(crate) image_tag_mirrors: Vec<crate::Mirror>,
    pub(crate) repository_digest_mirrors: Vec<crate::Mirror>,
}
