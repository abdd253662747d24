//! Reading MachineConfigs from text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::contents::MAX_BYTES;
use crate::file::{File, FileError};
use crate::machine_config::{API_VERSION, KIND, MachineConfig, OperatingSystem, ROLE_LABEL};
use crate::name::NameError;
use crate::unit::Unit;
use crate::version::VersionError;
use crate::yaml;

/// The operator's prefix for what it renders for a pool.
const RENDERED: &str = "rendered-";
/// No text is larger: the API server refuses objects of a tenth of it.
const MAX_TEXT: usize = 32 << 20;
/// What all files of one text may expand to.
const MAX_EXPANDED: usize = 4 * MAX_BYTES;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("it has {0} bytes, more than any MachineConfig ({most} MiB)", most = MAX_TEXT >> 20)]
    TooLarge(usize),
    #[error("it is not YAML")]
    Yaml(#[source] serde_saphyr::Error),
    #[error("expected a MachineConfig, found none; {}", others(.0))]
    None(Vec<Skipped>),
    #[error("{0} MachineConfigs are in it, and one was expected; give each its own file")]
    Several(usize),
    #[error("{place}")]
    Problem { place: String, source: Box<Problem> },
    #[error(
        "its files expand to more than {} MiB; nothing that large belongs into a MachineConfig",
        MAX_EXPANDED >> 20
    )]
    Expanded,
}

/// What is wrong with one MachineConfig.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Shape(serde_json::Error),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error("`spec.config` has no `ignition.version`; is it the configuration of another tool?")]
    NoVersion,
    #[error("file {number}")]
    File { number: usize, source: FileError },
    #[error("unit {number}")]
    Unit { number: usize, source: serde_json::Error },
}

/// A document of the text that is not a MachineConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub kind: String,
    pub name: String,
}

/// What a text holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    pub machine_configs: Vec<MachineConfig>,
    pub skipped: Vec<Skipped>,
}

fn others(skipped: &[Skipped]) -> String {
    match skipped.first() {
        None => "it is empty".to_owned(),
        Some(Skipped { kind, .. }) if kind.is_empty() => {
            "its document has no `kind`; it may be an NMState document".to_owned()
        }
        Some(Skipped { kind, .. }) => format!("the first document is of kind {kind}"),
    }
}

/// Reads the one MachineConfig that a text holds.
pub fn parse(text: &str) -> Result<MachineConfig, ReadError> {
    let Text { mut machine_configs, skipped } = parse_all(text)?;
    match (machine_configs.pop(), machine_configs.len()) {
        (Some(config), 0) => Ok(config),
        (Some(_), others) => Err(ReadError::Several(others + 1)),
        (None, _) => Err(ReadError::None(skipped)),
    }
}

/// Reads every MachineConfig of a text: several documents, or a list as `oc get -o yaml` prints it.
pub fn parse_all(text: &str) -> Result<Text, ReadError> {
    if text.len() > MAX_TEXT {
        return Err(ReadError::TooLarge(text.len()));
    }
    let mut read = Text { machine_configs: Vec::new(), skipped: Vec::new() };
    let mut expanded = 0;
    for document in yaml::documents(text).map_err(ReadError::Yaml)? {
        let is_list = text_of(&document, "kind").is_some_and(|kind| kind.ends_with("List"));
        let objects = match document.get("items") {
            Some(Value::Array(items)) if is_list => items.as_slice(),
            _ => std::slice::from_ref(&document),
        };
        for object in objects {
            let kind = text_of(object, "kind").unwrap_or_default().to_owned();
            let api = text_of(object, "apiVersion").unwrap_or_default();
            let name = object.get("metadata").and_then(|it| text_of(it, "name"));
            let name = name.unwrap_or_default().to_owned();
            if kind != KIND || api != API_VERSION {
                read.skipped.push(Skipped { kind, name });
                continue;
            }
            let config = machine_config(object).map_err(|problem| {
                let place = format!("MachineConfig {name}");
                ReadError::Problem { place, source: Box::new(problem) }
            })?;
            expanded += config.files.iter().map(|file| file.contents.bytes().len()).sum::<usize>();
            if expanded > MAX_EXPANDED {
                return Err(ReadError::Expanded);
            }
            read.machine_configs.push(config);
        }
    }
    Ok(read)
}

fn text_of<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, Value>,
    #[serde(default)]
    annotations: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    config: Option<Map<String, Value>>,
    #[serde(rename = "osImageURL")]
    os_image_url: Option<String>,
    #[serde(rename = "baseOSExtensionsContainerImage")]
    extensions_image: Option<String>,
    kernel_arguments: Option<Vec<String>>,
    kernel_type: Option<String>,
    extensions: Option<Vec<String>>,
    fips: Option<bool>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

fn machine_config(object: &Value) -> Result<MachineConfig, Problem> {
    let Object { metadata, spec } = Object::deserialize(object).map_err(Problem::Shape)?;
    let Metadata { name, mut labels, mut annotations } = metadata;
    let role = match labels.remove(ROLE_LABEL) {
        Some(Value::String(role)) => Some(role.parse()?),
        Some(_) | None => None,
    };
    // What a server or `oc apply` adds to an object is not part of it.
    annotations.retain(|key, _| !key.starts_with("kubectl.kubernetes.io/"));
    let mut config = spec.config.unwrap_or_default();
    // One that only sets kernel arguments or the like has no Ignition at all.
    let ignition = match config.get("ignition").and_then(|it| text_of(it, "version")) {
        Some(version) => version.parse()?,
        None if config.is_empty() => crate::version::IgnitionVersion::WRITTEN,
        None => return Err(Problem::NoVersion),
    };
    let files = taken(&mut config, "storage", "files").into_iter().enumerate().map(|(at, file)| {
        File::from_value(&file).map_err(|source| Problem::File { number: at + 1, source })
    });
    let files = files.collect::<Result<_, _>>()?;
    let units = taken(&mut config, "systemd", "units").into_iter().enumerate().map(|(at, unit)| {
        Unit::deserialize(unit).map_err(|source| Problem::Unit { number: at + 1, source })
    });
    let units = units.collect::<Result<_, _>>()?;
    tidy(&mut config);
    Ok(MachineConfig {
        name: name.parse()?,
        role,
        labels,
        annotations,
        ignition,
        files,
        units,
        os: OperatingSystem {
            image: spec.os_image_url.filter(|text| !text.is_empty()),
            extensions_image: spec.extensions_image.filter(|text| !text.is_empty()),
            kernel_arguments: spec.kernel_arguments.unwrap_or_default(),
            kernel_type: spec.kernel_type.filter(|text| !text.is_empty()),
            extensions: spec.extensions.unwrap_or_default(),
            fips: spec.fips,
        },
        ignition_rest: config,
        spec_rest: spec.rest,
    })
}

/// The list at `section.key`, which is then removed from the configuration.
fn taken(config: &mut Map<String, Value>, section: &str, key: &str) -> Vec<Value> {
    let section = config.get_mut(section).and_then(Value::as_object_mut);
    match section.and_then(|section| section.remove(key)) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

/// Removes what has no effect, so that a configuration equals itself written another way.
fn tidy(config: &mut Map<String, Value>) {
    if let Some(ignition) = config.get_mut("ignition").and_then(Value::as_object_mut) {
        ignition.remove("version");
    }
    for value in config.values_mut() {
        prune(value);
    }
    config.retain(|_, value| !has_no_content(value));
}

fn prune(value: &mut Value) {
    if let Value::Object(map) = value {
        map.values_mut().for_each(prune);
        map.retain(|_, value| !has_no_content(value));
    }
}

fn has_no_content(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

impl MachineConfig {
    /// Whether the operator made it for a pool from all others of that pool.
    pub fn is_rendered(&self) -> bool {
        self.name.as_str().starts_with(RENDERED)
    }
}
