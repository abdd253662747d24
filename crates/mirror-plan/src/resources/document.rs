//! The written form of the documents. Keys are in alphabetical order, as
//! Kubernetes tools write them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Resource, ResourceOptions};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    /// One key, whose name depends on the kind.
    spec: BTreeMap<&'static str, Vec<Entry>>,
}

#[derive(Debug, Serialize)]
struct Metadata {
    annotations: Annotations,
    name: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Annotations {
    #[serde(rename = "createdAt")]
    created_at: String,
    #[serde(rename = "createdBy")]
    created_by: &'static str,
    #[serde(rename = "oc-mirror_version")]
    version: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Entry {
    pub(super) mirrors: BTreeSet<String>,
    pub(super) source: String,
}

impl Document {
    pub(super) fn new(
        resource: Resource,
        name: String,
        entries: Vec<Entry>,
        options: &ResourceOptions,
    ) -> Self {
        let (api_version, kind, list) = match resource {
            Resource::DigestMirrorSet => {
                ("config.openshift.io/v1", "ImageDigestMirrorSet", "imageDigestMirrors")
            }
            Resource::TagMirrorSet => {
                ("config.openshift.io/v1", "ImageTagMirrorSet", "imageTagMirrors")
            }
            Resource::ContentSourcePolicy => (
                "operator.openshift.io/v1alpha1",
                "ImageContentSourcePolicy",
                "repositoryDigestMirrors",
            ),
        };
        let annotations = Annotations::new(options);
        Self {
            api_version,
            kind,
            metadata: Metadata { annotations, name },
            spec: [(list, entries)].into(),
        }
    }
}

impl Annotations {
    pub(super) fn new(options: &ResourceOptions) -> Self {
        Self {
            created_at: options.created_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            created_by: "oc-mirror v2",
            version: options.tool_version.clone(),
        }
    }
}

/// All documents, each after a `---`.
pub(super) fn yaml(documents: &[Document]) -> Result<String, serde_saphyr::ser::Error> {
    let mut text = String::new();
    for document in documents {
        text.push_str("---\n");
        write(&mut text, document)?;
    }
    Ok(text)
}

/// Adds one document.
pub(super) fn write(
    text: &mut String,
    document: &impl Serialize,
) -> Result<(), serde_saphyr::ser::Error> {
    // A long repository stays on its line: folded it would read as prose.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_fmt_writer_with_options(&mut *text, document, options)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(())
}
