//! A policy as the server has it, before anybody understands it.
//!
//! A list of policies is read as a whole. One that cannot be read, say because it is nested a
//! thousand levels deep, would hide all the others, and an error about the list would
//! write it to a log, with every secret in it. So what people wrote is kept as text at first, and
//! each policy is read on its own.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::policy::{NodeNetworkConfigurationPolicy as Policy, PolicyStatus};

/// A policy whose spec and status are still text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredPolicy {
    #[serde(default = "api_version")]
    pub api_version: String,
    #[serde(default = "kind")]
    pub kind: String,
    #[serde(deserialize_with = "without_managers")]
    pub metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<Box<RawValue>>,
}

/// A spec that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the spec of the policy cannot be read: {why}")]
pub struct Unreadable {
    why: &'static str,
}

impl StoredPolicy {
    /// Reads it. A status that cannot be read is ignored: its writer replaces it.
    pub fn read(&self) -> Result<Policy, Unreadable> {
        let spec = match self.spec.as_deref().map(RawValue::get) {
            None | Some("null") => Default::default(),
            // The reader's message may quote the spec, and so a secret.
            Some(text) => serde_json::from_str(text).map_err(|_| Unreadable {
                why: "it is nested too deep, or a number is too large",
            })?,
        };
        Ok(Policy { spec, ..self.without_spec() })
    }

    /// The same with nothing in its spec.
    pub fn without_spec(&self) -> Policy {
        Policy {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            metadata: self.metadata.clone(),
            spec: Default::default(),
            status: self.status.as_deref().and_then(|it| serde_json::from_str(it.get()).ok()),
        }
    }

    /// The object by which this status is written. The server takes nothing else from it.
    pub fn of_status(
        metadata: &ObjectMeta,
        status: &PolicyStatus,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            api_version: api_version(),
            kind: kind(),
            metadata: metadata.clone(),
            spec: None,
            status: Some(serde_json::value::to_raw_value(status)?),
        })
    }
}

/// Managed fields are nested as deep as the object, and are not used here.
fn without_managers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Known {
        name: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
        finalizers: Option<Vec<String>>,
    }
    let known = Known::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: known.name,
        uid: known.uid,
        resource_version: known.resource_version,
        generation: known.generation,
        creation_timestamp: known.creation_timestamp,
        deletion_timestamp: known.deletion_timestamp,
        labels: known.labels,
        annotations: known.annotations,
        finalizers: known.finalizers,
        ..ObjectMeta::default()
    })
}

fn api_version() -> String {
    <Policy as k8s_openapi::Resource>::API_VERSION.to_owned()
}

fn kind() -> String {
    <Policy as k8s_openapi::Resource>::KIND.to_owned()
}

/// Without spec and status: they may hold secrets.
impl fmt::Debug for StoredPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredPolicy").field("name", &self.metadata.name).finish_non_exhaustive()
    }
}

impl k8s_openapi::Resource for StoredPolicy {
    const API_VERSION: &'static str = <Policy as k8s_openapi::Resource>::API_VERSION;
    const GROUP: &'static str = <Policy as k8s_openapi::Resource>::GROUP;
    const KIND: &'static str = <Policy as k8s_openapi::Resource>::KIND;
    const VERSION: &'static str = <Policy as k8s_openapi::Resource>::VERSION;
    const URL_PATH_SEGMENT: &'static str = <Policy as k8s_openapi::Resource>::URL_PATH_SEGMENT;
    type Scope = k8s_openapi::ClusterResourceScope;
}

impl k8s_openapi::Metadata for StoredPolicy {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &Self::Ty {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut Self::Ty {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(spec: &str) -> StoredPolicy {
        let text = format!(
            r#"{{"apiVersion":"nmstate.io/v1","kind":"NodeNetworkConfigurationPolicy",
                "metadata":{{"name":"a","generation":7,"managedFields":[{{"fieldsV1":{spec}}}]}},
                "spec":{spec},"status":{{"slots":"none"}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_policy_that_cannot_be_read_does_not_hide_the_others() {
        let deep = r#"{"desiredState":"#.repeat(2000) + "{}" + &"}".repeat(2000);
        let policy = stored(&deep);
        assert_eq!(policy.metadata.generation, Some(7));
        let error = policy.read().unwrap_err();
        assert!(error.to_string().contains("nested too deep"), "{error}");
        let deep = serde_json::to_string(&policy).unwrap();
        let list: Vec<StoredPolicy> =
            serde_json::from_str(&format!(r#"[{deep},{{"metadata":{{"name":"b"}}}}]"#)).unwrap();
        assert_eq!(list[1].read().unwrap(), Policy::new("b"));
    }

    #[test]
    fn what_is_read_is_what_was_written_and_a_strange_status_is_none() {
        let policy = stored(r#"{"maxUnavailable":3}"#).read().unwrap();
        assert_eq!(policy.spec.max_unavailable, Some(crate::IntOrText::Int(3)));
        assert_eq!(policy.status, None);
        assert_eq!(stored("null").read().unwrap().spec, Default::default());
    }

    #[test]
    fn neither_complaints_nor_debugging_quote_a_spec() {
        let secret = stored(r#"{"desiredState":"hunter2"}"#);
        let output = format!("{} {secret:?}", secret.read().unwrap_err());
        assert!(!output.contains("hunter2"), "{output}");
    }
}
