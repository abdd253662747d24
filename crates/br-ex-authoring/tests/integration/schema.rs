//! The schema for editors accepts and rejects the same as nmstate. It is read here as
//! its specification (JSON Schema, draft 7) requires, for the keywords that it uses.

use std::fs;
use std::path::Path;

use br_ex_authoring::document_schema::schema;
use data_tier::data_tier;
use serde_json::{Value, json};

/// Whether a value fits a schema.
fn fits(schema: &Value, value: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return schema.as_bool().unwrap_or(true) };
    schema.iter().all(|(keyword, expected)| match keyword.as_str() {
        "type" => match expected.as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.is_i64() || value.is_u64(),
            other => panic!("{other:?}"),
        },
        "enum" => expected.as_array().unwrap().contains(value),
        "const" => expected == value,
        "anyOf" => expected.as_array().unwrap().iter().any(|it| fits(it, value)),
        "allOf" => expected.as_array().unwrap().iter().all(|it| fits(it, value)),
        "items" => value.as_array().is_none_or(|list| list.iter().all(|it| fits(expected, it))),
        "contains" => value.as_array().is_none_or(|list| list.iter().any(|it| fits(expected, it))),
        "required" => {
            let keys = expected.as_array().unwrap();
            value
                .as_object()
                .is_none_or(|map| keys.iter().all(|key| map.contains_key(key.as_str().unwrap())))
        }
        "properties" => value.as_object().is_none_or(|map| {
            map.iter().all(|(key, inner)| expected.get(key).is_none_or(|it| fits(it, inner)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known = schema.get("properties");
            let is_known = |key: &str| known.is_some_and(|known| known.get(key).is_some());
            map.iter().filter(|(key, _)| !is_known(key)).all(|(_, inner)| fits(expected, inner))
        }),
        "if" => {
            let branch = if fits(expected, value) { "then" } else { "else" };
            schema.get(branch).is_none_or(|it| fits(it, value))
        }
        "then" | "else" | "$schema" | "title" | "description" => true,
        other => panic!("{other}"),
    })
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    located_yaml::load(&text, located_yaml::Keys::Exact).root.unwrap().to_json()
}

#[test]
fn every_example_of_this_repository_fits() {
    let schema = schema();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/br-ex");
    let mut number = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        assert!(fits(&schema, &read(&path)), "{}", path.display());
        number += 1;
    }
    assert!(number >= 6, "{number}");
}

#[test]
fn what_nmstate_refuses_does_not_fit() {
    let schema = schema();
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/br-ex/vlan-on-bond-static.yml");
    let good = read(&path);
    assert!(fits(&schema, &good));
    let place = |name: &str, kind: &str| {
        let list = good["interfaces"].as_array().unwrap();
        list.iter().position(|it| it["name"] == name && it["type"] == kind).unwrap()
    };
    let (bond, port) = (place("bond0", "bond"), place("br-ex", "ovs-interface"));
    for (pointer, value) in [
        (format!("/interfaces/{bond}/link-aggregation/mode"), json!("balance-slp")),
        (format!("/interfaces/{bond}/mtuu"), json!(9000)),
        (format!("/interfaces/{port}/ipv4/enabled"), json!([])),
        (format!("/interfaces/{port}/name"), json!("br-ey")),
        (format!("/interfaces/{port}/type"), json!("ovs-iface")),
        ("/interface".to_owned(), json!([])),
    ] {
        let mut bad = good.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        bad.pointer_mut(parent).unwrap()[key] = value;
        assert!(!fits(&schema, &bad), "{pointer}");
    }
}

/// A separate tier: the examples are nmstate's.
#[test]
fn every_example_of_nmstate_fits_but_for_br_ex() {
    let Some(folder) = data_tier("nmstate-golden/examples") else { return };
    let state = &schema()["else"]["allOf"][0];
    let mut wrong = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !fits(state, &read(&path)) {
            wrong.push(path.display().to_string());
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
