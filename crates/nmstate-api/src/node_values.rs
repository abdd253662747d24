//! Values of one node that a policy for many nodes is completed with, such as its address.
//!
//! A ConfigMap has one entry per node: the name of the node, and a YAML mapping of names to scalars.
//! Values keep their types and are never read as YAML again, so no value can add a key or a list.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fingerprint::fingerprint;

/// Bytes of the entry of one node. The annotation that takes them to the node has room for more.
const MOST_BYTES: usize = 16 * 1024;

/// The values of one node, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeValues(BTreeMap<String, Value>);

/// An entry that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    #[error("its values take {0} bytes, more than the {MOST_BYTES} that are allowed")]
    TooLarge(usize),
    #[error("its values are not a YAML mapping: {0}")]
    Yaml(String),
    #[error("the name {0:?} must consist of letters, digits, - and _")]
    Name(String),
    #[error("the value of {name} is {found}; it must be a text, a number, or true or false")]
    NoScalar { name: String, found: &'static str },
}

impl NodeValues {
    /// Reads the entry of a node.
    pub fn parse(text: &str) -> Result<Self, ValuesError> {
        if text.len() > MOST_BYTES {
            return Err(ValuesError::TooLarge(text.len()));
        }
        // As YAML 1.2 has it: `no` is a text.
        let options = serde_saphyr::options! { strict_booleans: true };
        let read: Result<Option<BTreeMap<String, Value>>, _> =
            serde_saphyr::from_str_with_options(text, options);
        // The first line contains the error and its position; the others quote the text.
        let first_line = |error: serde_saphyr::Error| {
            error.to_string().lines().next().unwrap_or_default().to_owned()
        };
        let values = read.map_err(|error| ValuesError::Yaml(first_line(error)))?;
        let values = values.unwrap_or_default();
        for (name, value) in &values {
            if !is_name(name) {
                return Err(ValuesError::Name(name.chars().take(63).collect()));
            }
            let found = match value {
                Value::Null => "empty",
                Value::Array(_) => "a list",
                Value::Object(_) => "a mapping",
                Value::Bool(_) | Value::Number(_) | Value::String(_) => continue,
            };
            return Err(ValuesError::NoScalar { name: name.clone(), found });
        }
        Ok(Self(values))
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Values that differ when those of a node do.
    pub fn together<'a>(nodes: impl Iterator<Item = (&'a str, &'a Self)>) -> Self {
        let of =
            |(node, values): (&str, &Self)| (node.to_owned(), Value::String(values.fingerprint()));
        Self(nodes.map(of).collect())
    }

    /// Tells these values from others.
    pub fn fingerprint(&self) -> String {
        let texts: Vec<String> =
            self.0.iter().flat_map(|(name, value)| [name.clone(), value.to_string()]).collect();
        fingerprint(texts.iter().map(String::as_str))
    }
}

/// Whether a value can have this name.
pub fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_the_types_that_yaml_gives_them() {
        let text = "ip: 192.0.2.10\nvlan: 300\ndhcp: false\nmac: 52:54:00:12:34:56\n\
            answer: no\nquoted: \"300\"\nipv6: 2001:db8::1\n";
        let values = NodeValues::parse(text).unwrap();
        for (name, expected) in [
            ("ip", json!("192.0.2.10")),
            ("vlan", json!(300)),
            ("dhcp", json!(false)),
            ("mac", json!("52:54:00:12:34:56")),
            ("answer", json!("no")),
            ("quoted", json!("300")),
            ("ipv6", json!("2001:db8::1")),
        ] {
            assert_eq!(values.get(name), Some(&expected), "{name}");
        }
        assert_eq!(NodeValues::parse(""), Ok(NodeValues::default()));
    }

    #[test]
    fn whatever_is_not_a_scalar_is_refused_by_its_name() {
        for (text, words) in [
            ("ip: [192.0.2.1]", "the value of ip is a list"),
            ("ip: {a: b}", "the value of ip is a mapping"),
            ("ip:", "the value of ip is empty"),
            ("a b: 1", "the name \"a b\" must"),
            ("- 1", "not a YAML mapping"),
            ("ip: 192.0.2.1\nip: 192.0.2.2", "not a YAML mapping"),
        ] {
            let error = NodeValues::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let long = format!("a: {}", "x".repeat(MOST_BYTES));
        assert!(matches!(NodeValues::parse(&long), Err(ValuesError::TooLarge(_))));
    }

    #[test]
    fn other_values_have_another_fingerprint() {
        let of = |text| NodeValues::parse(text).unwrap().fingerprint();
        assert_eq!(of("a: 1\nb: 2"), of("b: 2\na: 1"));
        assert_ne!(of("a: 1"), of("a: '1'"));
        assert_ne!(of("a: 1"), of("b: 1"));
    }
}
