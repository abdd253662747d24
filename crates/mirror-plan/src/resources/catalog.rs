//! The resources that make a cluster offer the operators of mirrored catalogs: a CatalogSource for
//! each, and a ClusterCatalog for clusters with the new operator lifecycle manager.

use std::collections::{BTreeMap, BTreeSet};

use oci::{Digest, ImageRef};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::document::{self, Annotations};
use super::{ResourceError, ResourceFile, ResourceOptions};

const CATALOG_SOURCE: (&str, &str) = ("operators.coreos.com/v1alpha1", "CatalogSource");
const CLUSTER_CATALOG: (&str, &str) = ("olm.operatorframework.io/v1", "ClusterCatalog");
const NAMESPACE: &str = "openshift-marketplace";
/// How much of a tag is part of a name.
const MAX_SUFFIX: usize = 12;
/// The longest label of a DNS name, which these names are.
const MAX_LABEL: usize = 63;

/// A catalog in the mirror.
#[derive(Debug, Clone, Copy)]
pub struct MirroredCatalog<'t> {
    pub destination: &'t ImageRef,
    pub template: Option<&'t CatalogSourceTemplate>,
}

/// A CatalogSource that a user wrote, to make others like it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CatalogSourceTemplate(Map<String, Value>);

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("it cannot be read as YAML")]
    Yaml(#[source] Box<serde_saphyr::Error>),
    #[error("it is not a CatalogSource of {}: set apiVersion and kind", CATALOG_SOURCE.0)]
    Kind,
    #[error("its {0} is not a map of settings")]
    Shape(&'static str),
    #[error(
        "its sourceType is {0:?}, but a mirrored catalog is served from its image: expected grpc"
    )]
    SourceType(String),
    #[error("it names a configMap, but a mirrored catalog is served from its image: remove that")]
    ConfigMap,
}

impl CatalogSourceTemplate {
    pub fn parse(yaml: &str) -> Result<Self, TemplateError> {
        let value: Value =
            serde_saphyr::from_str(yaml).map_err(|error| TemplateError::Yaml(Box::new(error)))?;
        let Value::Object(template) = value else { return Err(TemplateError::Kind) };
        let text = |key: &str| template.get(key).and_then(Value::as_str);
        if (text("apiVersion"), text("kind")) != (Some(CATALOG_SOURCE.0), Some(CATALOG_SOURCE.1)) {
            return Err(TemplateError::Kind);
        }
        for part in ["metadata", "spec"] {
            if !matches!(template.get(part), None | Some(Value::Null | Value::Object(_))) {
                return Err(TemplateError::Shape(part));
            }
        }
        let spec = template.get("spec").and_then(Value::as_object);
        let setting = |key: &str| spec.and_then(|spec| spec.get(key)).and_then(Value::as_str);
        match setting("sourceType") {
            None | Some("" | "grpc") => {}
            Some(other) => return Err(TemplateError::SourceType(other.to_owned())),
        }
        if setting("configMap").is_some_and(|name| !name.is_empty()) {
            return Err(TemplateError::ConfigMap);
        }
        Ok(Self(template))
    }
}

/// The files for the catalogs that the mirror holds, in the order of their names.
pub fn catalog_resources(
    catalogs: &[MirroredCatalog<'_>],
    options: &ResourceOptions,
) -> Result<Vec<ResourceFile>, ResourceError> {
    let mut files = Vec::new();
    for (name, catalog) in names(catalogs) {
        let image = catalog.destination.to_string();
        let source = catalog_source(&format!("cs-{name}"), &image, catalog.template, options);
        let cluster = cluster_catalog(&format!("cc-{name}"), &image, options);
        for (prefix, resource) in [("cs", source), ("cc", cluster)] {
            let file = format!("{prefix}-{name}.yaml");
            let mut yaml = String::new();
            if let Err(source) = document::write(&mut yaml, &sorted(resource)) {
                return Err(ResourceError { name: file, source });
            }
            files.push(ResourceFile { name: file, yaml });
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

fn catalog_source(
    name: &str,
    image: &str,
    template: Option<&CatalogSourceTemplate>,
    options: &ResourceOptions,
) -> Value {
    let mut resource = template.map(|template| template.0.clone()).unwrap_or_default();
    resource.insert("apiVersion".to_owned(), json!(CATALOG_SOURCE.0));
    resource.insert("kind".to_owned(), json!(CATALOG_SOURCE.1));
    resource.remove("status");
    let metadata = part(&mut resource, "metadata");
    metadata.remove("creationTimestamp");
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("namespace".to_owned(), json!(NAMESPACE));
    part(metadata, "annotations").extend(annotations(options));
    let spec = part(&mut resource, "spec");
    spec.insert("image".to_owned(), json!(image));
    spec.insert("sourceType".to_owned(), json!("grpc"));
    Value::Object(resource)
}

fn cluster_catalog(name: &str, image: &str, options: &ResourceOptions) -> Value {
    json!({
        "apiVersion": CLUSTER_CATALOG.0,
        "kind": CLUSTER_CATALOG.1,
        "metadata": {"annotations": annotations(options), "name": name},
        "spec": {"priority": 0, "source": {"image": {"ref": image}, "type": "Image"}},
    })
}

fn annotations(options: &ResourceOptions) -> Map<String, Value> {
    match serde_json::to_value(Annotations::new(options)) {
        Ok(Value::Object(annotations)) => annotations,
        _ => Map::new(),
    }
}

/// The map below `key`, made where there is none.
fn part<'m>(map: &'m mut Map<String, Value>, key: &str) -> &'m mut Map<String, Value> {
    let part = map.entry(key.to_owned()).or_insert_with(|| json!({}));
    if !part.is_object() {
        *part = json!({});
    }
    part.as_object_mut().expect("it was made one")
}

/// Keys in the order of the alphabet, as Kubernetes tools write them, whatever order they came in.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: BTreeMap<String, Value> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(map.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// A name for each catalog: `redhat-operator-index-v4-18`. Where two would have the same, a part
/// of a hash distinguishes them.
fn names<'c, 't>(catalogs: &'c [MirroredCatalog<'t>]) -> Vec<(String, &'c MirroredCatalog<'t>)> {
    let mut claims: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for catalog in catalogs {
        claims.entry(name(catalog)).or_default().insert(catalog.destination.to_string());
    }
    let mut seen = BTreeSet::new();
    let mut named = Vec::new();
    for catalog in catalogs {
        let destination = catalog.destination.to_string();
        if !seen.insert(destination.clone()) {
            continue;
        }
        let plain = name(catalog);
        let name = match claims.get(&plain).map(BTreeSet::len) {
            Some(2..) => {
                let hash = Digest::of(destination.as_bytes()).hex();
                let room = MAX_LABEL - "cs-".len() - 9;
                format!("{}-{}", trimmed(&plain, room), &hash[..8])
            }
            _ => plain,
        };
        named.push((name, catalog));
    }
    named
}

fn name(catalog: &MirroredCatalog<'_>) -> String {
    let plain = |text: &str| -> String {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        text.to_ascii_lowercase().chars().map(|c| if plain(c) { c } else { '-' }).collect()
    };
    let repository = catalog.destination.repository.components().next_back().unwrap_or_default();
    let tag = catalog.destination.tag.as_ref().map(|tag| tag.as_str()).unwrap_or_default();
    let suffix = plain(&tag[..tag.len().min(MAX_SUFFIX)]);
    let suffix = suffix.trim_end_matches('-');
    let suffix = if suffix.is_empty() { "0" } else { suffix };
    let room = MAX_LABEL - "cs-".len() - 1 - suffix.len();
    format!("{}-{suffix}", trimmed(&plain(repository), room))
}

/// The first `room` characters, as far as they make the beginning of a label.
fn trimmed(text: &str, room: usize) -> &str {
    text[..text.len().min(room)].trim_end_matches('-')
}

#[cfg(test)]
mod tests;
