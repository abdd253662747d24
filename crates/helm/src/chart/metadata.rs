//! `Chart.yaml`, and `requirements.yaml` of charts of the first format.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ChartError;
use crate::version::{VersionError, version};
use crate::yaml::{self, YamlError};

/// The content of `Chart.yaml`. The order of the fields is that of Helm's own serialisation, which
/// is the configuration of a chart in a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub home: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub icon: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tags: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// `None` when the key is absent: then Helm does not process the sub-charts of sub-charts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<Dependency>>,
    #[serde(rename = "type", skip_serializing_if = "Kind::is_unset")]
    pub kind: Kind,
}

/// The type of a chart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// Not stated: an application.
    #[default]
    #[serde(rename = "")]
    Unset,
    Application,
    Library,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Maintainer {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// A sub-chart that a chart declares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dependency {
    /// The name, or the alias once dependencies are processed.
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    pub repository: String,
    /// Paths of values, separated by commas; the first that is a boolean decides.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    #[serde(rename = "import-values", skip_serializing_if = "Vec::is_empty")]
    pub import_values: Vec<ImportValue>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias: String,
}

/// Which values of a sub-chart its parent takes over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ImportValue {
    /// What the sub-chart has below `exports.NAME`.
    Export(String),
    Table {
        child: String,
        parent: String,
    },
    /// Helm ignores what has another shape.
    Other(Value),
}

#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error(transparent)]
    Yaml(YamlError),
    #[error("expected a map, found {0}")]
    Shape(&'static str),
    #[error("a field has another type than expected")]
    Field(#[source] serde_json::Error),
    #[error("the chart has no {0}")]
    Missing(&'static str),
    #[error("{0:?} cannot be the name of a chart")]
    Name(String),
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error(
        "the dependency {0:?} has an alias with characters other than letters, digits, - and _"
    )]
    Alias(String),
    #[error("more than one dependency has the name or alias {0:?}")]
    Duplicate(String),
}

impl MetadataError {
    pub(super) fn in_file(self, file: &'static str) -> ChartError {
        match self {
            Self::Yaml(source) => ChartError::Yaml { file, source },
            source => ChartError::Metadata { file, source },
        }
    }
}

impl Kind {
    fn is_unset(&self) -> bool {
        *self == Self::Unset
    }
}

impl Metadata {
    /// Reads a `Chart.yaml`; [`check`](Self::check) checks whether it is complete.
    pub fn parse(text: &str) -> Result<Self, MetadataError> {
        let mut metadata: Self = fields(text)?;
        if metadata.api_version.is_empty() {
            metadata.api_version = "v1".to_owned();
        }
        Ok(metadata)
    }

    /// Reads the entry of an index, which has the fields of a `Chart.yaml` and more.
    pub fn from_json(mut value: Value) -> Result<Self, MetadataError> {
        drop_nulls(&mut value);
        let metadata: Self = serde_json::from_value(value).map_err(MetadataError::Field)?;
        if metadata.name.is_empty() {
            return Err(MetadataError::Missing("name"));
        }
        Ok(metadata)
    }

    pub(super) fn add_requirements(&mut self, text: &str) -> Result<(), MetadataError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Requirements {
            dependencies: Option<Vec<Dependency>>,
        }
        let requirements: Requirements = fields(text)?;
        self.dependencies = requirements.dependencies.or(self.dependencies.take());
        Ok(())
    }

    /// Of the format that keeps dependencies in `requirements.yaml`.
    pub fn is_v1(&self) -> bool {
        self.api_version == "v1"
    }

    /// What Helm requires of every chart.
    pub fn check(&self) -> Result<(), MetadataError> {
        if self.name.is_empty() {
            return Err(MetadataError::Missing("name"));
        }
        if self.name.contains('/') || matches!(self.name.as_str(), "." | "..") {
            return Err(MetadataError::Name(self.name.clone()));
        }
        if self.version.is_empty() {
            return Err(MetadataError::Missing("version"));
        }
        version(&self.version)?;
        let mut names = BTreeSet::new();
        for dependency in self.dependencies.iter().flatten() {
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if !dependency.alias.chars().all(is_word) {
                return Err(MetadataError::Alias(dependency.name.clone()));
            }
            let name = dependency.effective_name();
            if !names.insert(name) {
                return Err(MetadataError::Duplicate(name.to_owned()));
            }
        }
        Ok(())
    }
}

impl Dependency {
    pub fn effective_name(&self) -> &str {
        if self.alias.is_empty() { &self.name } else { &self.alias }
    }
}

fn fields<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, MetadataError> {
    let entries = yaml::read_map(text).map_err(MetadataError::Yaml)?;
    let mut value = Value::Object(entries.map_err(MetadataError::Shape)?);
    drop_nulls(&mut value);
    serde_json::from_value(value).map_err(MetadataError::Field)
}

/// A key without a value counts as absent.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|_, value| !value.is_null());
            entries.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
