//! A systemd unit that a MachineConfig adds, enables or masks.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

/// A unit: its text, whether it is enabled or masked, and what is dropped into it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Unit {
    pub name: String,
    #[serde(alias = "enable")]
    pub enabled: Option<bool>,
    pub mask: Option<bool>,
    pub contents: Option<String>,
    #[serde(default)]
    pub dropins: Vec<DropIn>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// A file in the `.d` folder of a unit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DropIn {
    pub name: String,
    pub contents: Option<String>,
}

impl Unit {
    /// A unit of our own, started at boot.
    pub fn enabled(name: &str, contents: &str) -> Self {
        Self { enabled: Some(true), contents: Some(contents.to_owned()), ..Self::named(name) }
    }

    /// A unit of others that is never to start.
    pub fn masked(name: &str) -> Self {
        Self { enabled: Some(false), mask: Some(true), ..Self::named(name) }
    }

    /// A unit of others with more settings.
    pub fn extended(name: &str, drop_in: DropIn) -> Self {
        Self { dropins: vec![drop_in], ..Self::named(name) }
    }

    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            enabled: None,
            mask: None,
            contents: None,
            dropins: Vec::new(),
            rest: BTreeMap::new(),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut unit = json!(self.rest);
        unit["name"] = json!(self.name);
        if let Some(enabled) = self.enabled {
            unit["enabled"] = json!(enabled);
        }
        if let Some(mask) = self.mask {
            unit["mask"] = json!(mask);
        }
        if let Some(contents) = &self.contents {
            unit["contents"] = json!(contents);
        }
        if !self.dropins.is_empty() {
            unit["dropins"] = self.dropins.iter().map(DropIn::to_value).collect();
        }
        unit
    }
}

impl DropIn {
    fn to_value(&self) -> Value {
        match &self.contents {
            Some(contents) => json!({"contents": contents, "name": self.name}),
            None => json!({"name": self.name}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_written_as_it_was_read() {
        for value in [
            json!({"name": "a.service", "enabled": true, "contents": "[Unit]\n"}),
            json!({"name": "a.service", "mask": true}),
            json!({"name": "a.service", "dropins": [{"name": "x.conf", "contents": "[Unit]\n"}]}),
            json!({"name": "a.service", "something": 1}),
        ] {
            assert_eq!(Unit::deserialize(&value).unwrap().to_value(), value);
        }
    }

    #[test]
    fn the_old_word_for_enabled_is_understood() {
        let unit = Unit::deserialize(&json!({"name": "a.service", "enable": true})).unwrap();
        assert_eq!(unit.enabled, Some(true));
    }
}
