//! Objects as deterministic YAML: keys in alphabetical order.

use serde_json::{Map, Value};

/// An object that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("writing {kind} {name} as YAML")]
pub struct YamlError {
    kind: String,
    name: String,
    source: serde_saphyr::ser_error::Error,
}

/// All objects as one stream of documents.
pub fn stream(objects: &[Value]) -> Result<String, YamlError> {
    let documents = objects.iter().map(document).collect::<Result<Vec<_>, _>>()?;
    Ok(documents.join("---\n"))
}

fn document(object: &Value) -> Result<String, YamlError> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let mut text = String::new();
    let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    serde_saphyr::to_fmt_writer_with_options(&mut text, &sorted(object), options).map_err(
        |source| YamlError {
            kind: text_of(&object["kind"]),
            name: text_of(&object["metadata"]["name"]),
            source,
        },
    )?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// A library elsewhere in the program may switch maps to the order of insertion.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries = entries.into_iter().map(|(key, value)| (key.clone(), sorted(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_letters_at_every_depth() {
        let text =
            stream(&[json!({ "b": { "d": 1, "c": 2 }, "a": [{ "f": 3, "e": 4 }] })]).unwrap();
        let places = ["a:", "e:", "f:", "b:", "c:", "d:"].map(|key| text.find(key).unwrap());
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn documents_are_parted_by_a_line_of_dashes() {
        let text = stream(&[json!({ "a": 1 }), json!({ "b": 2 })]).unwrap();
        assert_eq!(text, "a: 1\n---\nb: 2\n");
    }
}
