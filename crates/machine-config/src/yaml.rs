//! YAML as Kubernetes' tools read and write it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_saphyr::SerializerOptions;
use serde_saphyr::options::DuplicateKeyPolicy;

/// All documents of a text. JSON is YAML, too.
///
/// Numbers and booleans are those of YAML 1.1, which is what a cluster's tools read: `0644` is
/// octal. Nesting and aliases are bounded by the reader.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Almost all JSON is YAML; some control characters are not.
    if text.trim_start().starts_with('{')
        && let Ok(document) = serde_json::from_str(text)
    {
        return Ok(vec![document]);
    }
    let mut documents = Vec::new();
    for document in serde_saphyr::from_multiple_with_options::<Document>(text, options)? {
        if !document.0.is_null() {
            documents.push(document.0);
        }
    }
    Ok(documents)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Document(Value);

/// Why a value cannot be written.
pub type WriteError = serde_saphyr::ser::Error;

/// The text of a document of nmstate: every text on one line, in quotes where it needs them.
///
/// # Errors
/// If the value has something that YAML cannot express.
pub fn document(value: &impl Serialize) -> Result<String, WriteError> {
    write(value, serde_saphyr::ser_options! { prefer_block_scalars: false })
}

/// The text of an object for a cluster: texts of several lines as blocks, so that documents inside it
/// stay readable, and long lines kept whole.
///
/// # Errors
/// If the value has something that YAML cannot express.
pub fn manifest(value: &impl Serialize) -> Result<String, WriteError> {
    write(value, serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX })
}

fn write(value: &impl Serialize, options: SerializerOptions) -> Result<String, WriteError> {
    let mut text = String::new();
    serde_saphyr::to_fmt_writer_with_options(&mut text, value, options)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// The same as [`manifest`], with sorted keys.
pub(crate) fn sorted_manifest(mut object: Value) -> Result<String, WriteError> {
    // Whether maps keep the order of insertion depends on features that other crates enable.
    object.sort_all_objects();
    manifest(&object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_those_of_yaml_1_1() {
        let read = |text| documents(text).unwrap().remove(0);
        assert_eq!(read("mode: 0644"), json!({"mode": 420}));
        assert_eq!(read("mode: 0o644"), json!({"mode": 420}));
        assert_eq!(read("mode: 420"), json!({"mode": 420}));
        assert_eq!(read("{\"mode\": 420}"), json!({"mode": 420}));
        assert_eq!(read("version: 3.2.0"), json!({"version": "3.2.0"}));
    }

    #[test]
    fn several_documents_are_read_and_empty_ones_left_out() {
        let text = "---\n# nothing\n---\na: 1\n---\nb: &x [1]\nc: *x\n";
        assert_eq!(documents(text).unwrap(), [json!({"a": 1}), json!({"b": [1], "c": [1]})]);
        assert!(documents("").unwrap().is_empty());
    }

    #[test]
    fn a_key_given_twice_is_an_error() {
        assert!(documents("a: 1\na: 2\n").is_err());
    }

    #[test]
    fn long_lines_stay_whole_and_several_lines_are_a_block() {
        let text = sorted_manifest(json!({
            "source": format!("data:;base64,{}", "x".repeat(300)),
            "contents": "[Unit]\nDescription=some words that go on for longer than eighty columns, \
                         so that a careless writer would fold them into two\n",
            "mode": 420,
            "empty": "",
        }));
        let expected = format!(
            "contents: |\n  [Unit]\n  Description=some words that go on for longer than eighty \
             columns, so that a careless writer would fold them into two\nempty: \"\"\nmode: 420\n\
             source: data:;base64,{}\n",
            "x".repeat(300),
        );
        assert_eq!(text.unwrap(), expected);
    }
}
