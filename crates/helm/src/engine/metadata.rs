//! `.Chart`: the content of Chart.yaml as Helm's struct, whose unknown fields are errors.

use std::collections::BTreeMap;

use go_template::{Kind, Value};

use super::record::Record;
use crate::functions::TextMap;

/// Texts by the name of their field and their key in the file.
const TEXTS: [(&str, &str); 11] = [
    ("Name", "name"),
    ("Home", "home"),
    ("Version", "version"),
    ("Description", "description"),
    ("Icon", "icon"),
    ("APIVersion", "apiVersion"),
    ("Condition", "condition"),
    ("Tags", "tags"),
    ("AppVersion", "appVersion"),
    ("KubeVersion", "kubeVersion"),
    ("Type", "type"),
];

/// The struct for a parsed Chart.yaml.
pub fn chart(metadata: &serde_json::Value, is_root: bool) -> Value {
    let text = |key: &str| text_of(&metadata[key]);
    let texts = |key: &str| {
        let items = metadata[key].as_array().map(Vec::as_slice).unwrap_or_default();
        Value::list(items.iter().map(|item| Value::from(text_of(item))).collect())
    };
    let mut fields: Vec<(&'static str, Value)> =
        TEXTS.iter().map(|(field, key)| (*field, Value::from(text(key)))).collect();
    fields.push(("Sources", texts("sources")));
    fields.push(("Keywords", texts("keywords")));
    fields.push(("Deprecated", metadata["deprecated"].as_bool().unwrap_or(false).into()));
    let annotations: BTreeMap<String, String> = metadata["annotations"]
        .as_object()
        .map(|entries| entries.iter().map(|(key, value)| (key.clone(), text_of(value))).collect())
        .unwrap_or_default();
    fields.push(("Annotations", Value::object(TextMap(annotations))));
    fields
        .push(("Maintainers", records(&metadata["maintainers"], "*chart.Maintainer", MAINTAINER)));
    fields.push((
        "Dependencies",
        records(&metadata["dependencies"], "*chart.Dependency", DEPENDENCY),
    ));
    let mut plain: BTreeMap<String, Value> =
        Value::from_json(metadata).entries().unwrap_or_default().into_iter().collect();
    let inner = Value::object(Record {
        type_name: "chart.Metadata",
        kind: Kind::Struct,
        fields: fields.clone(),
        plain: Value::map(plain.clone()),
        methods: Vec::new(),
        text: None,
    });
    plain.insert("IsRoot".to_owned(), is_root.into());
    fields.push(("IsRoot", is_root.into()));
    fields.push(("Metadata", inner));
    Value::object(Record {
        type_name: "struct { chart.Metadata; IsRoot bool }",
        kind: Kind::Struct,
        fields,
        plain: Value::map(plain),
        methods: Vec::new(),
        text: None,
    })
}

const MAINTAINER: &[(&str, &str)] = &[("Name", "name"), ("Email", "email"), ("URL", "url")];
const DEPENDENCY: &[(&str, &str)] = &[
    ("Name", "name"),
    ("Version", "version"),
    ("Repository", "repository"),
    ("Condition", "condition"),
    ("Alias", "alias"),
];

fn records(
    json: &serde_json::Value,
    type_name: &'static str,
    texts: &[(&'static str, &str)],
) -> Value {
    let items = json.as_array().map(Vec::as_slice).unwrap_or_default();
    let record = |item: &serde_json::Value| {
        let mut fields: Vec<(&'static str, Value)> =
            texts.iter().map(|(field, key)| (*field, Value::from(text_of(&item[*key])))).collect();
        if type_name == "*chart.Dependency" {
            // Only dependencies that are enabled are left when templates see them.
            fields.push(("Enabled", true.into()));
            fields.push(("Tags", Value::from_json(&item["tags"])));
            fields.push(("ImportValues", Value::from_json(&item["import-values"])));
        }
        let plain = Value::from_json(item);
        Value::object(Record {
            type_name,
            kind: Kind::Pointer,
            fields,
            plain,
            methods: Vec::new(),
            text: None,
        })
    };
    Value::list(items.iter().map(record).collect())
}

/// Numbers and booleans in places of texts are read as texts, as Helm does.
fn text_of(json: &serde_json::Value) -> String {
    match json {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    }
}
