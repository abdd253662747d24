//! The manifests that let a cluster use mirrored releases: the update service
//! that reads the mirrored graph, and the signatures of the releases.
//!
//! Same releases, same text: everything is sorted, and the time of making is the
//! caller's.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use oci::{Digest, ImageRef};
use serde::Serialize;

/// Who made a resource, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creator {
    pub created_at: Timestamp,
    /// The version of this program.
    pub tool_version: String,
}

/// A file for `cluster-resources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceFile {
    pub name: &'static str,
    pub text: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    #[error("the cluster resource {name} cannot be written as YAML")]
    Yaml { name: &'static str, source: serde_saphyr::ser::Error },
    #[error("the cluster resource {name} cannot be written as JSON")]
    Json { name: &'static str, source: serde_json::Error },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateService {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    spec: UpdateServiceSpec,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateServiceSpec {
    graph_data_image: String,
    releases: String,
    replicas: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMap {
    api_version: &'static str,
    binary_data: BTreeMap<String, String>,
    kind: &'static str,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Metadata {
    annotations: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'static str, &'static str>,
    name: &'static str,
    namespace: &'static str,
}

impl Creator {
    fn annotations(&self) -> BTreeMap<&'static str, String> {
        let time = self.created_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        [
            ("createdAt", time),
            ("createdBy", "oc-mirror v2".to_owned()),
            ("oc-mirror_version", self.tool_version.clone()),
        ]
        .into()
    }
}

/// `updateService.yaml`: an update service that serves the mirrored graph.
/// `payloads` is any mirrored payload, `graph` the mirrored image of the graph.
pub fn update_service(
    payloads: &ImageRef,
    graph: &ImageRef,
    maker: &Creator,
) -> Result<ResourceFile, ResourceError> {
    let service = UpdateService {
        api_version: "updateservice.operator.openshift.io/v1",
        kind: "UpdateService",
        metadata: Metadata {
            annotations: maker.annotations(),
            labels: BTreeMap::new(),
            name: "update-service-oc-mirror",
            namespace: "openshift-update-service",
        },
        spec: UpdateServiceSpec {
            graph_data_image: graph.to_string(),
            releases: payloads.name(),
            replicas: 2,
        },
    };
    yaml("updateService.yaml", &service)
}

/// `signature-configmap.json` and `.yaml`: the signatures by which a cluster verifies
/// releases it is updated to. Without signatures there are no files.
pub fn signature_config_map<'a>(
    signatures: impl IntoIterator<Item = (Digest, &'a [u8])>,
    maker: &Creator,
) -> Result<Vec<ResourceFile>, ResourceError> {
    let mut by_digest: BTreeMap<Digest, Vec<String>> = BTreeMap::new();
    for (digest, signature) in signatures {
        let encoded = STANDARD.encode(signature);
        let held = by_digest.entry(digest).or_default();
        if !held.contains(&encoded) {
            held.push(encoded);
        }
    }
    if by_digest.is_empty() {
        return Ok(Vec::new());
    }
    let numbered = by_digest.into_iter().flat_map(|(digest, signatures)| {
        let key = digest.as_tag_text();
        signatures.into_iter().zip(1..).map(move |(text, number)| (format!("{key}-{number}"), text))
    });
    let map = ConfigMap {
        api_version: "v1",
        binary_data: numbered.collect(),
        kind: "ConfigMap",
        metadata: Metadata {
            annotations: maker.annotations(),
            labels: [("release.openshift.io/verification-signatures", "")].into(),
            name: "mirrored-release-signatures",
            namespace: "openshift-config-managed",
        },
    };
    let name = "signature-configmap.json";
    let mut json = serde_json::to_string_pretty(&map)
        .map_err(|source| ResourceError::Json { name, source })?;
    json.push('\n');
    Ok(vec![ResourceFile { name, text: json }, yaml("signature-configmap.yaml", &map)?])
}

fn yaml(name: &'static str, document: &impl Serialize) -> Result<ResourceFile, ResourceError> {
    // A long reference or signature stays on its line: folded it would read as prose.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let mut text = "---\n".to_owned();
    serde_saphyr::to_fmt_writer_with_options(&mut text, document, options)
        .map_err(|source| ResourceError::Yaml { name, source })?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(ResourceFile { name, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maker() -> Creator {
        Creator {
            created_at: "2026-01-02T03:04:05Z".parse().unwrap(),
            tool_version: "v1.2.3".into(),
        }
    }

    #[test]
    fn an_update_service_names_the_mirrored_releases_and_graph() {
        let file = update_service(
            &"registry.lan:5000/mirror/openshift/release-images:4.16.3-x86_64".parse().unwrap(),
            &"registry.lan:5000/mirror/openshift/graph-image:latest".parse().unwrap(),
            &maker(),
        )
        .unwrap();
        assert_eq!(file.name, "updateService.yaml");
        let read: serde_json::Value = serde_saphyr::from_str(&file.text).unwrap();
        assert_eq!(
            read,
            serde_json::json!({
                "apiVersion": "updateservice.operator.openshift.io/v1",
                "kind": "UpdateService",
                "metadata": {
                    "annotations": {
                        "createdAt": "2026-01-02T03:04:05Z",
                        "createdBy": "oc-mirror v2",
                        "oc-mirror_version": "v1.2.3",
                    },
                    "name": "update-service-oc-mirror",
                    "namespace": "openshift-update-service",
                },
                "spec": {
                    "graphDataImage": "registry.lan:5000/mirror/openshift/graph-image:latest",
                    "releases": "registry.lan:5000/mirror/openshift/release-images",
                    "replicas": 2,
                },
            })
        );
    }

    #[test]
    fn signatures_are_numbered_by_image_and_both_files_agree() {
        let (one, other) = (Digest::of(b"1"), Digest::of(b"2"));
        let long = vec![0xa3_u8; 900];
        let files = signature_config_map(
            [(one, &long[..]), (other, b"o"), (one, b"second"), (other, b"o")],
            &maker(),
        )
        .unwrap();
        let [json, yaml] = &files[..] else { panic!("two files") };
        assert_eq!(
            (json.name, yaml.name),
            ("signature-configmap.json", "signature-configmap.yaml")
        );
        let read: serde_json::Value = serde_json::from_str(&json.text).unwrap();
        assert_eq!(read, serde_saphyr::from_str::<serde_json::Value>(&yaml.text).unwrap());
        let data = read["binaryData"].as_object().unwrap();
        assert_eq!(data.len(), 3);
        assert_eq!(data[&format!("sha256-{}-1", one.hex())], STANDARD.encode(&long));
        assert_eq!(data[&format!("sha256-{}-2", one.hex())], "c2Vjb25k");
        assert_eq!(data[&format!("sha256-{}-1", other.hex())], "bw==");
        assert_eq!(
            read["metadata"]["labels"],
            serde_json::json!({"release.openshift.io/verification-signatures": ""})
        );
        assert!(signature_config_map([], &maker()).unwrap().is_empty());
    }
}
