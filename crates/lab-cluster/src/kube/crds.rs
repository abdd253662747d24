//! Loading CRDs, up to the moment when objects of their kinds can be created.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{ApiError, Client, FieldValidation, Persistence, send};

/// How long a loaded CRD may take until objects of its kind can be created.
pub(super) const DEADLINE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);

#[derive(Deserialize)]
struct Crd {
    metadata: CrdMetadata,
    spec: CrdSpec,
    #[serde(default)]
    status: CrdStatus,
}

#[derive(Deserialize)]
struct CrdMetadata {
    name: String,
}

#[derive(Deserialize)]
struct CrdSpec {
    group: String,
    names: CrdNames,
    versions: Vec<CrdVersion>,
}

#[derive(Deserialize)]
struct CrdNames {
    kind: String,
}

#[derive(Deserialize)]
struct CrdVersion {
    name: String,
    served: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CrdStatus {
    /// Null, not absent, right after the CRD was created.
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// A CRD that accepts any content, for kinds of which only a few fields matter: cluster-wide,
/// `v1`, with its own status. Columns are names and JSON paths.
pub fn open_crd(group: &str, kind: &str, plural: &str, columns: &[(&str, &str)]) -> Value {
    let columns: Vec<Value> = columns
        .iter()
        .map(|(name, path)| json!({ "name": name, "type": "string", "jsonPath": path }))
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "plural": plural,
                "singular": kind.to_lowercase(),
                "listKind": format!("{kind}List"),
            },
            "scope": "Cluster",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
                "subresources": { "status": {} },
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

impl Client {
    /// Loads the CRDs in the `*.yaml` files of a folder and waits until objects of their kinds
    /// can be created. Returns their names, sorted by file.
    pub async fn load_crds(&self, folder: &Path) -> Result<Vec<String>, ApiError> {
        let mut crds = Vec::new();
        for path in manifests(folder)? {
            let yaml = fs::read_to_string(&path)
                .map_err(|source| ApiError::Read { path: path.clone(), source })?;
            crds.extend(self.apply(&yaml, Persistence::Stored, FieldValidation::Strict).await?);
        }
        self.wait_until_served(crds).await
    }

    /// Loads the CRDs in a text; otherwise as [`Client::load_crds`].
    pub async fn load_crd_text(&self, yaml: &str) -> Result<Vec<String>, ApiError> {
        let crds = self.apply(yaml, Persistence::Stored, FieldValidation::Strict).await?;
        self.wait_until_served(crds).await
    }

    async fn wait_until_served(&self, crds: Vec<Value>) -> Result<Vec<String>, ApiError> {
        let mut names = Vec::new();
        for crd in crds {
            let crd: Crd = serde_json::from_value(crd)
                .map_err(|source| ApiError::Response { what: "loading a CRD".into(), source })?;
            let deadline = Instant::now() + DEADLINE;
            while !self.is_served(&crd).await? {
                if Instant::now() > deadline {
                    return Err(ApiError::NotEstablished { name: crd.metadata.name });
                }
                tokio::time::sleep(POLL).await;
            }
            names.push(crd.metadata.name);
        }
        Ok(names)
    }

    /// Established, and in the list of its group: the server updates the two one after the other.
    async fn is_served(&self, crd: &Crd) -> Result<bool, ApiError> {
        let name = &crd.metadata.name;
        let url = self.url([
            "apis",
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            name.as_str(),
        ]);
        let now: Crd = send(self.request(Method::GET, url), format!("reading CRD {name}")).await?;
        let established = now
            .status
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.kind == "Established" && condition.status == "True");
        if !established {
            return Ok(false);
        }
        for version in crd.spec.versions.iter().filter(|version| version.served) {
            let api_version = format!("{}/{}", crd.spec.group, version.name);
            if self.resource(&api_version, &crd.spec.names.kind).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn manifests(folder: &Path) -> Result<Vec<PathBuf>, ApiError> {
    let read = |source| ApiError::Read { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(ApiError::NoManifests { path: folder.to_owned() });
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_manifests_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("README.md"), "").unwrap();
        assert!(matches!(manifests(folder.path()), Err(ApiError::NoManifests { .. })));
    }
}
