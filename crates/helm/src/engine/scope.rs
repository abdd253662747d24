//! What the templates of one chart see as `.`.

use std::collections::BTreeMap;

use go_template::{Arguments, FunctionError, Kind, Map, Object, Value};

use super::capabilities::Capabilities;
use super::files::Files;
use super::metadata;
use crate::functions::yaml;

/// `.Release`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub name: String,
    pub namespace: String,
}

/// The parts of a scope.
#[derive(Debug)]
pub struct Scope<'a> {
    /// The chart's values, merged; sub-charts share the maps of their parents.
    pub values: Map,
    /// Chart.yaml.
    pub metadata: &'a serde_json::Value,
    pub is_root: bool,
    pub files: Files,
    pub release: &'a Release,
    pub capabilities: &'a Capabilities,
    /// Scopes of the sub-charts by their name.
    pub subcharts: BTreeMap<String, Value>,
}

impl Scope<'_> {
    /// The value of `.`.
    pub fn value(self) -> Value {
        let release: BTreeMap<String, Value> = [
            ("Name".to_owned(), Value::string(&self.release.name)),
            ("Namespace".to_owned(), Value::string(&self.release.namespace)),
            ("IsUpgrade".to_owned(), false.into()),
            ("IsInstall".to_owned(), true.into()),
            ("Revision".to_owned(), Value::Int(1)),
            ("Service".to_owned(), Value::from("Helm")),
        ]
        .into();
        let scope = [
            ("Values".to_owned(), Value::object(ValuesObject(self.values))),
            ("Chart".to_owned(), metadata::chart(self.metadata, self.is_root)),
            ("Files".to_owned(), self.files.value()),
            ("Release".to_owned(), Value::map(release)),
            ("Capabilities".to_owned(), self.capabilities.value()),
            ("Subcharts".to_owned(), Value::map(self.subcharts)),
        ];
        ValuesObject::of(scope.into())
    }
}

/// A map of Helm's own type, which has methods: `.Values` and `.` itself.
#[derive(Debug, Clone)]
pub struct ValuesObject(Map);

impl ValuesObject {
    pub fn new(map: Map) -> Self {
        Self(map)
    }

    /// A value of this type.
    pub fn of(entries: BTreeMap<String, Value>) -> Value {
        let map: Map = Map::default();
        *map.borrow_mut() = entries.into();
        Value::object(Self(map))
    }

    fn table(&self, path: &str) -> Result<Map, FunctionError> {
        let mut current = self.0.clone();
        for name in path.split('.') {
            let next = current.borrow().get(name).and_then(Value::as_map);
            current =
                next.ok_or_else(|| FunctionError::from(format!("{name:?} is not a table")))?;
        }
        Ok(current)
    }

    fn path_value(&self, path: &str) -> Result<Value, FunctionError> {
        if path.is_empty() {
            return Err("YAML path cannot be empty".into());
        }
        let (table, key) = match path.rsplit_once('.') {
            Some((table, key)) => (self.table(table), key),
            None => (Ok(self.0.clone()), path),
        };
        let found = table.ok().and_then(|table| table.borrow().get(key).cloned());
        let none = || FunctionError::from(format!("{key:?} is not a value"));
        found.filter(|value| !matches!(value, Value::Map(_))).ok_or_else(none)
    }
}

impl Object for ValuesObject {
    fn type_name(&self) -> String {
        "chartutil.Values".to_owned()
    }

    fn kind(&self) -> Kind {
        Kind::Map
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(self.0.borrow().get(name).cloned().unwrap_or(Value::Nil))
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, FunctionError>> {
        Some(match name {
            "AsMap" => Ok(Value::Map(self.0.clone())),
            "YAML" => Ok(format!("{}\n", yaml::print(&Value::Map(self.0.clone()))).into()),
            "Table" => arguments
                .text(0)
                .and_then(|path| self.table(&path))
                .map(|map| Value::object(Self(map))),
            "PathValue" => arguments.text(0).and_then(|path| self.path_value(&path)),
            _ => return None,
        })
    }

    fn entries(&self) -> Option<Vec<(String, Value)>> {
        Value::Map(self.0.clone()).entries()
    }

    fn as_map(&self) -> Option<Map> {
        Some(self.0.clone())
    }

    fn plain(&self) -> Value {
        Value::Map(self.0.clone())
    }
}
