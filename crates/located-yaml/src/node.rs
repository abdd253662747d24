//! A value and its position.

use diagnostic::Position;
use serde_json::{Map, Number};

use crate::scalar::{Meaning, float};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub at: Position,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Scalar {
        text: String,
        meaning: Meaning,
    },
    List(Vec<Node>),
    /// In the order of the text; keys that are merged in come last.
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub at: Position,
    pub value: Node,
}

impl Node {
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Scalar { meaning: Meaning::Null, .. })
    }

    /// The type of the value, for messages.
    pub fn shape(&self) -> &'static str {
        match &self.value {
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Scalar { meaning, .. } => match meaning {
                Meaning::Null => "nothing",
                Meaning::Bool(_) => "a boolean",
                Meaning::Integer(_) | Meaning::Float => "a number",
                Meaning::Text => "text",
            },
        }
    }

    /// The entries of a map; none for anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            Value::Scalar { .. } | Value::List(_) => &[],
        }
    }

    /// The items of a list; none for anything else.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            Value::Scalar { .. } | Value::Map(_) => &[],
        }
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value of a key that has one: `key:` and `key: null` have none.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value).filter(|value| !value.is_null())
    }

    /// A scalar as it is written, whatever it means; `None` for nothing.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { meaning: Meaning::Null, .. } | Value::List(_) | Value::Map(_) => None,
            Value::Scalar { text, .. } => Some(text),
        }
    }

    /// A boolean, also one that is written as text.
    pub fn boolean(&self) -> Option<bool> {
        match &self.value {
            Value::Scalar { meaning: Meaning::Bool(value), .. } => Some(*value),
            Value::Scalar { text, meaning: Meaning::Text } => text.parse().ok(),
            _ => None,
        }
    }

    /// An integer, also one that is written as text.
    pub fn integer(&self) -> Option<i128> {
        match &self.value {
            Value::Scalar { meaning: Meaning::Integer(value), .. } => Some(*value),
            Value::Scalar { text, meaning: Meaning::Text } => text.parse().ok(),
            _ => None,
        }
    }

    /// How many values this is, itself included.
    pub fn size(&self) -> usize {
        match &self.value {
            Value::Scalar { .. } => 1,
            Value::List(items) => 1 + items.iter().map(Self::size).sum::<usize>(),
            Value::Map(entries) => 1 + entries.iter().map(|e| 1 + e.value.size()).sum::<usize>(),
        }
    }

    /// The same value without positions.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                let entries = entries.iter();
                entries.map(|e| (e.key.clone(), e.value.to_json())).collect::<Map<_, _>>().into()
            }
            Value::Scalar { text, meaning } => scalar_to_json(text, *meaning),
        }
    }

    pub(crate) fn null(at: Position) -> Self {
        Self { at, value: Value::Scalar { text: String::new(), meaning: Meaning::Null } }
    }
}

fn scalar_to_json(text: &str, meaning: Meaning) -> serde_json::Value {
    match meaning {
        Meaning::Null => serde_json::Value::Null,
        Meaning::Bool(value) => value.into(),
        Meaning::Integer(value) => match Number::from_i128(value) {
            Some(number) => number.into(),
            // Too large for an integer; other readers convert it to a float, too.
            None => Number::from_f64(value as f64).map_or_else(|| text.into(), Into::into),
        },
        Meaning::Float => match float(text).and_then(Number::from_f64) {
            Some(number) => number.into(),
            None => text.into(),
        },
        Meaning::Text => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Keys, load};

    #[test]
    fn values_are_found_by_key_and_read_as_what_they_mean() {
        let root = load("a: {b: [x, 7, '8', yes, 'true']}\nn: ~\n", Keys::Exact).root.unwrap();
        let items = root.get("a").unwrap().get("b").unwrap().items();
        assert_eq!((items[0].text(), items[0].integer()), (Some("x"), None));
        assert_eq!((items[1].integer(), items[2].integer()), (Some(7), Some(8)));
        assert_eq!((items[3].boolean(), items[4].boolean()), (Some(true), Some(true)));
        assert_eq!((items[1].at.line, items[1].at.column), (1, 12));
        assert!(root.get("n").is_none() && root.entry("n").is_some());
    }

    #[test]
    fn a_tree_becomes_json_of_the_same_values() {
        let text = "a: [1, 0.5, 'x', true, ~]\nb: &m {c: -2}\nd:\n  <<: *m\n  e: f\n";
        let expected =
            json!({"a": [1, 0.5, "x", true, null], "b": {"c": -2}, "d": {"c": -2, "e": "f"}});
        assert_eq!(load(text, Keys::Exact).root.unwrap().to_json(), expected);
    }
}
