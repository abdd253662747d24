//! Runs the same templates here and in Helm.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use go_template::{Limits, Value};
use helm::engine::{ApiVersions, Capabilities, Files, Options, Release, Scope, Template, render};
use helm::functions::Environment;
use serde_json::{Value as Json, json};
use test_tools::Tool;

/// The version of the cluster that both see.
const KUBE_VERSION: &str = "1.34.0";

pub(crate) fn metadata() -> Json {
    json!({
        "apiVersion": "v2", "name": "sample", "version": "1.2.3", "appVersion": "4.5",
        "description": "text", "keywords": ["a", "b"], "annotations": {"x/y": "z"},
        "maintainers": [{"name": "m", "email": "e"}],
    })
}

pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    vec![
        ("files/a.txt".to_owned(), b"first\nsecond\n".to_vec()),
        ("files/sub/b.bin".to_owned(), vec![0xff, 0, 1]),
        ("c.json".to_owned(), b"{\"k\": \"v\"}".to_vec()),
    ]
}

/// The output of a chart of these templates, or Helm's message.
pub(crate) fn with_helm(templates: &[(&str, &str)], values: &Json) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |path: &Path, content: &[u8]| {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, content).expect("a file");
    };
    let chart = folder.path();
    write(&chart.join("Chart.yaml"), metadata().to_string().as_bytes());
    write(&chart.join("values.yaml"), values.to_string().as_bytes());
    for (path, content) in files() {
        write(&chart.join(path), &content);
    }
    for (name, text) in templates {
        write(&chart.join("templates").join(name), text.as_bytes());
    }
    let output = Command::new(test_tools::path(Tool::Helm).expect("Helm is built"))
        .args(["template", "rel", "--namespace", "space", "--kube-version", KUBE_VERSION])
        .arg(chart)
        .env("TZ", "UTC")
        .output()
        .expect("helm starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// The same with our engine: all outputs in one text, or the first error.
pub(crate) fn with_ours(templates: &[(&str, &str)], values: &Json) -> Result<String, String> {
    let release = Release { name: "rel".to_owned(), namespace: "space".to_owned() };
    let capabilities = Capabilities {
        major: "1".to_owned(),
        minor: "34".to_owned(),
        version: format!("v{KUBE_VERSION}"),
        api_versions: ApiVersions::new(vec!["v1".to_owned(), "apps/v1".to_owned()]),
    };
    let scope = Scope {
        values: Value::from_json(values).as_map().expect("values are a map"),
        metadata: &metadata(),
        is_root: true,
        files: Files::new(files()),
        release: &release,
        capabilities: &capabilities,
        subcharts: BTreeMap::new(),
    };
    let scope = scope.value();
    let templates: Vec<Template> = templates
        .iter()
        .map(|(name, text)| Template {
            path: format!("sample/templates/{name}"),
            text: (*text).to_owned(),
            base_path: "sample/templates".to_owned(),
            scope: scope.clone(),
        })
        .collect();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let environment = Environment { now: now.expect("after 1970").as_nanos() as i128, seed: 1 };
    let options = Options {
        environment,
        limits: Limits { steps: 500_000_000, ..Limits::default() },
        stop: Default::default(),
    };
    let mut all = String::new();
    for rendered in render(&templates, &options) {
        all.push_str(&rendered.output.map_err(|error| error.to_string())?);
        all.push('\n');
    }
    Ok(all)
}

/// A template that writes the text of every expression as a line of JSON.
pub(crate) fn lines_of(expressions: &[&str]) -> String {
    let mut text = String::from("kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: x\n");
    for (index, expression) in expressions.iter().enumerate() {
        text.push_str(&format!(
            "{{{{- define \"e{index}\" }}}}{{{{ {expression} }}}}{{{{ end }}}}\n\
             v{index}: {{{{ include \"e{index}\" . | toJson }}}}\n"
        ));
    }
    text
}

/// The texts that [`lines_of`] wrote.
pub(crate) fn texts_in(output: &str) -> BTreeMap<usize, String> {
    output
        .lines()
        .filter_map(|line| {
            let (index, text) = line.strip_prefix('v')?.split_once(": ")?;
            Some((index.parse().ok()?, serde_json::from_str(text).ok()?))
        })
        .collect()
}
