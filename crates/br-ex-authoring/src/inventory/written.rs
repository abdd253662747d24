//! A part of a document, written as a document of its own: keys keep their order, aliases and
//! merge keys are written out.

use located_yaml::{Meaning, Node, Value};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// The text. Text that was quoted stays text.
pub(super) fn yaml(node: &Node) -> String {
    // A document given as a block of text is one already.
    if let Value::Scalar { text, meaning: Meaning::Text } = &node.value {
        return text.clone();
    }
    // The tree came from YAML, so there is nothing in it that YAML could not express.
    machine_config::yaml::document(&Written(node)).unwrap_or_default()
}

struct Written<'a>(&'a Node);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.value {
            Value::Scalar { text, meaning } => match meaning {
                Meaning::Null => serializer.serialize_unit(),
                Meaning::Bool(value) => serializer.serialize_bool(*value),
                Meaning::Integer(value) => match i64::try_from(*value) {
                    Ok(value) => serializer.serialize_i64(value),
                    Err(_) => serializer.serialize_i128(*value),
                },
                Meaning::Float => match text.replace('_', "").parse::<f64>() {
                    Ok(value) => serializer.serialize_f64(value),
                    Err(_) => serializer.serialize_str(text),
                },
                Meaning::Text => serializer.serialize_str(text),
            },
            Value::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Written(item))?;
                }
                list.end()
            }
            Value::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for entry in entries {
                    map.serialize_entry(&entry.key, &Written(&entry.value))?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use located_yaml::{Keys, load};

    use super::*;

    #[test]
    fn what_is_written_reads_as_the_same_values() {
        let text = "b: &m {c: -2, a: '0644', d: 'yes'}\na:\n  - <<: *m\n    e: [1, 0.5, ~, true]\n  - \
                    'x: y'\nmac: 52:54:00:11:01:01\nn: '10'\nempty: ''\n";
        let root = load(text, Keys::Exact).root.unwrap();
        let again = load(&yaml(&root), Keys::Exact).root.unwrap();
        assert_eq!(again.to_json(), root.to_json());
        let keys = |node: &Node| node.entries().iter().map(|e| e.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&again), keys(&root));
    }

    #[test]
    fn a_block_of_text_is_the_document_itself() {
        let root = load("n: |\n  # kept\n  interfaces: []\n", Keys::Exact).root.unwrap();
        assert_eq!(yaml(root.get("n").unwrap()), "# kept\ninterfaces: []\n");
    }
}
