//! Rust types as the structural schemas that a CRD may hold.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of `T`, without references, without titles, and with optional fields that may be
/// absent but not null.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    structural(&mut schema);
    schema
}

/// Makes every list and selector below `schema` atomic, as Kubernetes' own types have it: appliers
/// replace them as a whole.
pub(crate) fn make_atomic(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    if object.get("type") == Some(&json!("array")) {
        object.insert("x-kubernetes-list-type".into(), json!("atomic"));
    }
    if is_selector(object) {
        object.insert("x-kubernetes-map-type".into(), json!("atomic"));
    }
    for_each_subschema(object, &mut make_atomic);
}

/// Node selectors, their terms and label selectors, recognized by their fields.
fn is_selector(object: &Map<String, Value>) -> bool {
    let has = |name: &str| object.get("properties").and_then(|list| list.get(name)).is_some();
    has("nodeSelectorTerms") || has("matchExpressions")
}

fn structural(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    for unwanted in ["$schema", "title", "nullable"] {
        object.remove(unwanted);
    }
    // `Option<T>` is `T` or null; the API server drops nulls of fields that may not have them.
    if let Some(Value::Array(ways)) = object.get_mut("anyOf") {
        ways.retain(|way| way.get("type") != Some(&json!("null")));
        if let [only] = &mut ways[..] {
            let only = only.take();
            object.remove("anyOf");
            if let Value::Object(only) = only {
                for (key, value) in only {
                    object.entry(key).or_insert(value);
                }
            }
        }
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = &mut types[..] {
            let only = only.take();
            object.insert("type".into(), only);
        }
    }
    for_each_subschema(object, &mut structural);
}

fn for_each_subschema(object: &mut Map<String, Value>, act: &mut impl FnMut(&mut Value)) {
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(&mut *act);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = object.get_mut(key) {
            act(schema);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is looked at")]
    struct Ship {
        name: String,
        cargo: Option<Vec<Option<Crate>>>,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is looked at")]
    struct Crate {
        weight: Option<i32>,
    }

    #[test]
    fn optional_parts_may_be_absent_and_not_null_and_nothing_is_referred_to() {
        assert_eq!(
            of::<Ship>(),
            json!({
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": { "type": "string" },
                    "cargo": { "type": "array", "items": {
                        "type": "object",
                        "properties": { "weight": { "type": "integer", "format": "int32" } },
                    }},
                },
            })
        );
    }

    #[test]
    fn lists_and_selectors_are_made_atomic() {
        let mut schema = json!({ "type": "object", "properties": {
            "terms": { "type": "array", "items": {
                "type": "object", "properties": { "matchExpressions": { "type": "array" } },
            }},
        }});
        make_atomic(&mut schema);
        let terms = &schema["properties"]["terms"];
        assert_eq!(terms["x-kubernetes-list-type"], "atomic");
        assert_eq!(terms["items"]["x-kubernetes-map-type"], "atomic");
        assert_eq!(schema.get("x-kubernetes-map-type"), None);
    }
}
