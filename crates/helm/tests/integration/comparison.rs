//! Real Helm, and the comparison of what it renders with what we render.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use helm::capabilities::{ApiSet, Capabilities};
use helm::chart::Chart;
use helm::discover::{self, Options};
use helm::images::Origin;
use helm::rendering::{Settings, render};
use helm::{dependencies, values};
use located_yaml::{Keys, load};
use oci::ImageRef;
use serde_json::{Map, Value};
use test_tools::Tool;

const KUBE_VERSION: &str = "1.34.0";

/// What a chart renders to: documents in the order of file and text, or why it does not.
pub(crate) type Outcome = Result<Vec<(String, Value)>, String>;

/// What `helm template` makes of a chart, for the APIs that it assumes.
pub(crate) fn reference(chart: &Path, values: &str) -> Outcome {
    reference_with(chart, values, &[])
}

/// The same, for these APIs, too.
pub(crate) fn reference_with(chart: &Path, values: &str, api_versions: &[String]) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("values.yaml");
    std::fs::write(&file, values).expect("a values file");
    let apis = api_versions.iter().flat_map(|version| ["--api-versions", version]);
    let output = Command::new(test_tools::path(Tool::Helm).expect("Helm is built"))
        .args(["template", "release-name"])
        .arg(chart)
        .args(["--kube-version", KUBE_VERSION, "--include-crds", "--skip-schema-validation"])
        .args(apis)
        .arg("-f")
        .arg(&file)
        .env("HELM_CACHE_HOME", folder.path())
        .env("HELM_CONFIG_HOME", folder.path())
        .env("HELM_DATA_HOME", folder.path())
        .output()
        .expect("helm runs");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(documents_of(&String::from_utf8_lossy(&output.stdout)))
}

fn documents_of(text: &str) -> Vec<(String, Value)> {
    let mut documents = Vec::new();
    let mut file = String::new();
    for part in format!("\n{text}").split("\n---") {
        let named =
            part.trim_start().lines().next().and_then(|line| line.strip_prefix("# Source: "));
        if let Some(named) = named {
            file = named.to_owned();
        }
        let value = json(part);
        if !value.is_null() {
            documents.push((file.clone(), value));
        }
    }
    sorted(documents)
}

fn json(text: &str) -> Value {
    let loaded = load(text, Keys::AsJson);
    loaded.root.unwrap_or_else(|| panic!("not YAML: {text}")).to_json()
}

fn sorted(mut documents: Vec<(String, Value)>) -> Vec<(String, Value)> {
    documents.sort_by_key(|(file, value)| (file.clone(), value.to_string()));
    documents
}

/// Loads a folder or an archive as the program does.
pub(crate) fn chart_at(path: &Path) -> Chart {
    if path.is_file() {
        return Chart::from_archive(&std::fs::read(path).expect("an archive")).expect("a chart");
    }
    let mut files = BTreeMap::new();
    read_folder(path, "", &mut files);
    Chart::from_folder(&files).expect("a chart")
}

fn read_folder(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            read_folder(&entry.path(), &format!("{name}/"), files);
        } else {
            files.insert(name, std::fs::read(entry.path()).expect("a file"));
        }
    }
}

/// What we make of a chart, for the APIs that `helm template` assumes.
pub(crate) fn ours(path: &Path, given: &str) -> Outcome {
    let mut chart = chart_at(path);
    let given = values::parse(given).map_err(|error| error.to_string())?;
    dependencies::process(&mut chart, &given).map_err(|error| error.to_string())?;
    let scope = values::coalesce(&chart, &given).map_err(|error| error.to_string())?;
    let capabilities = Capabilities::new(ApiSet::Plain, KUBE_VERSION).expect("a version");
    let rendering = render(&chart, &scope, &capabilities, &Settings::default());
    let failures: Vec<String> = rendering.failures.iter().map(ToString::to_string).collect();
    if !failures.is_empty() {
        return Err(failures.join("\n"));
    }
    let mut documents = Vec::new();
    for document in rendering.documents(&chart) {
        match document {
            Ok(document) => documents.push((document.file, document.root.to_json())),
            Err((_, helm::documents::DocumentError::Hook(_))) => {}
            Err((file, error)) => return Err(format!("{file}: {error}")),
        }
    }
    Ok(sorted(documents))
}

/// The images that the program finds in the rendered documents of a chart, for one set of APIs. The
/// annotations of Chart.yaml do not count: Helm does not read them.
pub(crate) fn discovered(path: &Path, given: &str, apis: ApiSet) -> BTreeSet<String> {
    let given = values::parse(given).expect("values");
    let options = Options { api_sets: vec![apis], ..Options::default() };
    let found = discover::images(&chart_at(path), &given, &options).expect("a chart");
    let is_rendered = |origin: &Origin| matches!(origin, Origin::Document { .. });
    let rendered = found.images.into_iter().filter(|(_, o)| o.iter().any(is_rendered));
    rendered.map(|(image, _)| image.to_string()).collect()
}

/// The APIs of a set, as flags of Helm name them.
pub(crate) fn api_versions(set: ApiSet) -> Vec<String> {
    Capabilities::new(set, KUBE_VERSION).expect("a version").api_versions
}

/// The images of pods in documents, found without the code under test.
pub(crate) fn images_of(documents: &[(String, Value)]) -> BTreeSet<String> {
    fn visit(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| visit(item, found)),
            Value::Object(entries) => {
                for key in ["containers", "initContainers", "ephemeralContainers"] {
                    for container in
                        entries.get(key).and_then(Value::as_array).into_iter().flatten()
                    {
                        let image = container.get("image").and_then(Value::as_str);
                        found.extend(image.filter(|image| !image.is_empty()).map(|image| {
                            let parsed = image.parse::<ImageRef>();
                            parsed.map_or_else(|_| image.to_owned(), |image| image.to_string())
                        }));
                    }
                }
                entries.values().for_each(|value| visit(value, found));
            }
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    documents.iter().for_each(|(_, document)| visit(document, &mut found));
    found
}

/// Where two lists of documents differ; empty when they are the same but for values that differ
/// between two runs of Helm itself.
pub(crate) fn differences(
    expected: &[(String, Value)],
    again: &[(String, Value)],
    found: &[(String, Value)],
) -> Vec<String> {
    let mut differences = Vec::new();
    let count = |documents: &[(String, Value)]| {
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        documents.iter().for_each(|(file, _)| *count.entry(file.clone()).or_default() += 1);
        count
    };
    if count(expected) != count(found) {
        differences.push(format!("files: {:?} instead of {:?}", count(found), count(expected)));
        return differences;
    }
    for ((expected, again), found) in expected.iter().zip(again).zip(found) {
        let mut random = BTreeSet::new();
        compare(&expected.1, &again.1, &expected.0, &mut random);
        let mut different = BTreeSet::new();
        compare(&expected.1, &found.1, &expected.0, &mut different);
        let is_random = |place: &String| {
            let path = place.split(": ").next().unwrap_or_default();
            random.iter().any(|known: &String| known.split(": ").next() == Some(path))
        };
        differences.extend(different.into_iter().filter(|place| !is_random(place)));
    }
    differences
}

fn compare(expected: &Value, found: &Value, path: &str, into: &mut BTreeSet<String>) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let null = Value::Null;
                let (a, b) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
                compare(a, b, &format!("{path} {key}"), into);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(a, b, &format!("{path} [{index}]"), into);
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            into.insert(format!("{path}: {b} instead of {a}"));
        }
    }
}

/// Overrides that enable a third of what is off by default: of every `false` in the chart's own
/// values and those of its sub-charts, one of three. A chart with nothing to enable gets other
/// texts and numbers in their place.
pub(crate) fn switched_on(chart: &Chart, third: usize) -> String {
    let mut defaults = chart.values.clone();
    for child in &chart.charts {
        let below = defaults.entry(child.name()).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(below) = below {
            for (key, value) in &child.values {
                below.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    let switch = |value: &Value| matches!(value, Value::Bool(false)).then_some(Value::Bool(true));
    let switched = overrides(&defaults, &switch, &mut 0, third);
    let change = |value: &Value| match value {
        Value::String(text) => Some(Value::String(format!("{text}x{third}"))),
        Value::Number(_) => Some(Value::from(third + 2)),
        _ => None,
    };
    let changed = match switched.is_empty() {
        true => overrides(&defaults, &change, &mut 0, third),
        false => switched,
    };
    Value::Object(changed).to_string()
}

/// Every third value that `change` changes, at its place.
fn overrides(
    values: &Map<String, Value>,
    change: &dyn Fn(&Value) -> Option<Value>,
    number: &mut usize,
    third: usize,
) -> Map<String, Value> {
    let mut all = Map::new();
    for (key, value) in values {
        if let Value::Object(entries) = value {
            let below = overrides(entries, change, number, third);
            if !below.is_empty() {
                all.insert(key.clone(), below.into());
            }
        } else if let Some(changed) = change(value) {
            if *number % 3 == third {
                all.insert(key.clone(), changed);
            }
            *number += 1;
        }
    }
    all
}
