//! The document: what is known of one cluster.

use semver::Version;
use serde::{Deserialize, Serialize};

/// The version of the format.
const SCHEMA: u32 = 1;
const KIND: &str = "ClusterInventory";
/// The largest document that is read. Real ones have a few hundred kilobytes.
pub const MAX_BYTES: usize = 32 << 20;

/// What a cluster has. The same cluster gives the same document: there is no time in it, and lists
/// are sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// `None` when it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// By namespace and name.
    #[serde(default)]
    pub subscriptions: Vec<Subscription>,
    /// Operators that are installed, by namespace and name.
    #[serde(default)]
    pub cluster_service_versions: Vec<Installed>,
    /// By namespace and name.
    #[serde(default)]
    pub catalog_sources: Vec<CatalogSource>,
    /// By kind and name.
    #[serde(default)]
    pub mirror_sets: Vec<MirrorSet>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

/// The cluster itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The release that was last reached completely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The release that it is being updated to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updating_to: Option<Version>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// `amd64`, or `multi` for releases with several architectures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The update service of the cluster, unless it is that of Red Hat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_service: Option<String>,
    /// Newest first.
    #[serde(default)]
    pub history: Vec<PastUpdate>,
}

/// A release that the cluster has or had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastUpdate {
    pub version: String,
    /// `Completed` or `Partial`.
    pub state: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
}

/// An operator that is subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    pub namespace: String,
    pub name: String,
    pub package: String,
    /// `None` means the default channel of the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The CatalogSource, and its namespace.
    pub source: String,
    pub source_namespace: String,
    /// The installed version.
    #[serde(default, rename = "installedCSV", skip_serializing_if = "Option::is_none")]
    pub installed_csv: Option<String>,
    /// The next version by the catalog.
    #[serde(default, rename = "currentCSV", skip_serializing_if = "Option::is_none")]
    pub current_csv: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
}

/// An installed operator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Installed {
    pub namespace: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// A catalog on the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSource {
    pub namespace: String,
    pub name: String,
    /// `None` for catalogs that are not an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// An object that defines where images are mirrored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MirrorSet {
    pub kind: String,
    pub name: String,
    /// As the object has them.
    pub mirrors: Vec<Mirror>,
}

/// A registry, a namespace or a repository, and where its images are, too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mirror {
    pub source: String,
    #[serde(default)]
    pub mirrors: Vec<String>,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unread {
    pub kind: String,
    pub reason: Reason,
    /// The message of the cluster, or the error in the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Why something could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// The cluster does not have this kind of objects.
    Missing,
    /// The account may not list it.
    Forbidden,
    /// An object does not have the fields of its kind.
    Malformed,
}

/// A text that is not an inventory.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    #[error("the document is larger than {} MiB", MAX_BYTES >> 20)]
    Large,
    #[error("the document is not valid JSON")]
    Json(#[source] serde_json::Error),
    #[error("expected kind {KIND}, found {}; `oc-mirror inventory` writes such a document", found(.0))]
    Kind(String),
    #[error(
        "expected schema {SCHEMA}, found {0}; use an oc-mirror that is at least as new as the one that wrote the document"
    )]
    Schema(u32),
    #[error("the inventory is not valid")]
    Content(#[source] serde_json::Error),
}

fn found(kind: &str) -> String {
    match kind {
        "" => "none".to_owned(),
        kind => format!("{kind:?}"),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    kind: serde_json::Value,
    schema: serde_json::Value,
}

#[derive(Serialize)]
struct Written<'a> {
    kind: &'static str,
    schema: u32,
    #[serde(flatten)]
    inventory: &'a Inventory,
}

impl Inventory {
    /// The document as JSON, the same every time.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let written = Written { kind: KIND, schema: SCHEMA, inventory: self };
        Ok(serde_json::to_string_pretty(&written)? + "\n")
    }

    /// Reads a document that was transferred.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        if bytes.len() > MAX_BYTES {
            return Err(ParseError::Large);
        }
        let head: serde_json::Value = serde_json::from_slice(bytes).map_err(ParseError::Json)?;
        let head = Head::deserialize(&head).unwrap_or_default();
        match head.kind.as_str() {
            Some(KIND) => {}
            other => return Err(ParseError::Kind(other.unwrap_or_default().to_owned())),
        }
        let schema = head.schema.as_u64().and_then(|number| u32::try_from(number).ok());
        match schema.unwrap_or_default() {
            SCHEMA => serde_json::from_slice(bytes).map_err(ParseError::Content),
            other => Err(ParseError::Schema(other)),
        }
    }
}

#[cfg(test)]
mod tests;
