//! Values: reading, merging, and coalescing with the defaults of charts, by Helm's rules.
//!
//! Helm's tables are Go maps: coalescing lets a sub-chart share tables below `global` with its
//! parent, so that defaults deep below `global` reach the parent, too. Tables are shared here as well.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::chart::Chart;
use crate::yaml::{self, YamlError};

const GLOBAL: &str = "global";

#[derive(Debug, thiserror::Error)]
pub enum ValuesError {
    #[error("the values cannot be read")]
    Yaml(#[source] YamlError),
    #[error("the values are {0}, expected a map")]
    NotAMap(&'static str),
    #[error(
        "the value {key:?} is {found}, expected a map, because it belongs to the sub-chart {key:?}"
    )]
    SubChart { key: String, found: &'static str },
}

/// Reads a values file.
pub fn parse(text: &str) -> Result<Map<String, Value>, ValuesError> {
    yaml::read_map(text).map_err(ValuesError::Yaml)?.map_err(ValuesError::NotAMap)
}

/// Values from several sources; each wins over those before it. A null stays: it removes a default
/// of the chart later.
pub fn merge(mut base: Map<String, Value>, over: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in over {
        let value = match (base.remove(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge(below, above).into(),
            (_, value) => value,
        };
        base.insert(key, value);
    }
    base
}

/// A value whose maps are shared.
#[derive(Debug, Clone)]
pub enum Tree {
    /// Everything but a map.
    Leaf(Value),
    Table(Table),
}

/// A shared map.
pub type Table = Rc<RefCell<BTreeMap<String, Tree>>>;

/// What happens to a null that meets a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// It removes the key.
    Remove,
    /// It stays, so that a later pass can remove the key.
    Keep,
}

impl Tree {
    pub fn new(value: &Value) -> Self {
        match value {
            Value::Object(entries) => Self::Table(table(entries)),
            other => Self::Leaf(other.clone()),
        }
    }

    pub fn to_json(&self) -> Value {
        match self {
            Self::Leaf(value) => value.clone(),
            Self::Table(table) => to_map(table).into(),
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Leaf(Value::Null))
    }

    fn table(&self) -> Option<Table> {
        match self {
            Self::Table(table) => Some(Rc::clone(table)),
            Self::Leaf(_) => None,
        }
    }
}

/// A table of its own with these entries.
pub fn table(entries: &Map<String, Value>) -> Table {
    let entries = entries.iter().map(|(key, value)| (key.clone(), Tree::new(value)));
    Rc::new(RefCell::new(entries.collect()))
}

pub fn to_map(table: &Table) -> Map<String, Value> {
    table.borrow().iter().map(|(key, value)| (key.clone(), value.to_json())).collect()
}

/// The values that the chart's templates see: `given`, completed by the defaults of the chart and
/// its sub-charts.
pub fn coalesce(chart: &Chart, given: &Map<String, Value>) -> Result<Table, ValuesError> {
    let values = table(given);
    coalesce_chart(chart, &values, Nulls::Remove)?;
    Ok(values)
}

/// As [`coalesce`], but nulls stay.
pub(crate) fn combine(chart: &Chart, given: &Map<String, Value>) -> Result<Table, ValuesError> {
    let values = table(given);
    coalesce_chart(chart, &values, Nulls::Keep)?;
    Ok(values)
}

fn coalesce_chart(chart: &Chart, values: &Table, nulls: Nulls) -> Result<(), ValuesError> {
    add_defaults(chart, values, nulls);
    for child in &chart.charts {
        let name = child.name();
        let existing = values.borrow().get(name).cloned();
        let below = match existing {
            Some(Tree::Table(table)) => table,
            Some(Tree::Leaf(other)) => {
                let found = shape(&other);
                return Err(ValuesError::SubChart { key: name.to_owned(), found });
            }
            None => Table::default(),
        };
        values.borrow_mut().insert(name.to_owned(), Tree::Table(Rc::clone(&below)));
        pass_globals(values, &below);
        coalesce_chart(child, &below, nulls)?;
    }
    Ok(())
}

fn add_defaults(chart: &Chart, values: &Table, nulls: Nulls) {
    for (key, default) in &chart.values {
        let existing = values.borrow().get(key).cloned();
        match (existing, default) {
            (None, default) => {
                values.borrow_mut().insert(key.clone(), Tree::new(default));
            }
            (Some(existing), _) if existing.is_null() && nulls == Nulls::Remove => {
                values.borrow_mut().remove(key);
            }
            (Some(Tree::Table(existing)), Value::Object(defaults)) => {
                // The nulls of a sub-chart's values are removed when that chart is coalesced.
                let is_child = chart.charts.iter().any(|child| child.name() == key);
                let nulls = if is_child { Nulls::Keep } else { nulls };
                complete(&existing, &table(defaults), nulls);
            }
            (Some(_), _) => {}
        }
    }
}

/// Gives a sub-chart what its parent has below `global`.
fn pass_globals(parent: &Table, child: &Table) {
    let own = |values: &Table| match values.borrow().get(GLOBAL) {
        None => Some(Table::default()),
        Some(global) => global.table(),
    };
    // Helm skips globals that are not a map.
    let (Some(to), Some(from)) = (own(child), own(parent)) else { return };
    let from: Vec<(String, Tree)> =
        from.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    for (key, value) in from {
        let existing = to.borrow().get(&key).cloned();
        let value = match (value, existing) {
            (Tree::Table(table), existing) => {
                // A copy of one level: what is deeper is shared.
                let copy = Rc::new(RefCell::new(table.borrow().clone()));
                match existing {
                    None => {}
                    Some(Tree::Table(below)) => complete(&copy, &below, Nulls::Keep),
                    Some(Tree::Leaf(_)) => continue,
                }
                Tree::Table(copy)
            }
            (Tree::Leaf(_), Some(Tree::Table(_))) => continue,
            (leaf, _) => leaf,
        };
        to.borrow_mut().insert(key, value);
    }
    child.borrow_mut().insert(GLOBAL.to_owned(), Tree::Table(to));
}

/// Adds to `into` what only `from` has; tables in both are completed the same way.
pub(crate) fn complete(into: &Table, from: &Table, nulls: Nulls) {
    if Rc::ptr_eq(into, from) {
        return;
    }
    let null_keys: Vec<String> = {
        let into = into.borrow();
        into.iter().filter(|(_, value)| value.is_null()).map(|(key, _)| key.clone()).collect()
    };
    let mut source = from.borrow().clone();
    let had_value = |key: &str| from.borrow().get(key).is_some_and(|value| !value.is_null());
    let removed: Vec<bool> = null_keys.iter().map(|key| had_value(key)).collect();
    for key in &null_keys {
        source.insert(key.clone(), Tree::Leaf(Value::Null));
        from.borrow_mut().insert(key.clone(), Tree::Leaf(Value::Null));
    }
    for (key, value) in source {
        let existing = into.borrow().get(&key).cloned();
        match existing {
            Some(existing) if existing.is_null() => {
                let was_set = null_keys.iter().zip(&removed).any(|(k, was)| *k == key && *was);
                if nulls == Nulls::Remove && was_set {
                    into.borrow_mut().remove(&key);
                }
            }
            None => {
                into.borrow_mut().insert(key, value);
            }
            Some(Tree::Table(existing)) => {
                if let Tree::Table(value) = value {
                    complete(&existing, &value, nulls);
                }
            }
            Some(Tree::Leaf(_)) => {}
        }
    }
}

/// The table at a path of keys.
pub(crate) fn table_at(values: &Table, path: &[&str]) -> Option<Table> {
    path.iter().try_fold(Rc::clone(values), |table, key| table.borrow().get(*key)?.table())
}

/// The value at a path such as `db.enabled`; `None` for a table.
pub(crate) fn leaf_at(values: &Table, path: &str) -> Option<Value> {
    let keys: Vec<&str> = path.split('.').collect();
    let (last, tables) = keys.split_last()?;
    match table_at(values, tables)?.borrow().get(*last)? {
        Tree::Leaf(value) => Some(value.clone()),
        Tree::Table(_) => None,
    }
}

pub(crate) fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chart(values: &str, charts: Vec<Chart>, name: &str) -> Chart {
        let files = [
            ("Chart.yaml".to_owned(), format!("name: {name}\nversion: 1.0.0\n").into_bytes()),
            ("values.yaml".to_owned(), values.as_bytes().to_vec()),
        ];
        let mut chart = Chart::from_folder(&files.into()).unwrap();
        chart.charts = charts;
        chart
    }

    fn seen(chart: &Chart, given: &str) -> Value {
        Value::Object(to_map(&coalesce(chart, &parse(given).unwrap()).unwrap()))
    }

    #[test]
    fn values_that_are_not_a_map_are_an_error() {
        assert_eq!(
            parse("- a\n").unwrap_err().to_string(),
            "the values are a list, expected a map"
        );
        assert_eq!(parse("text").unwrap_err().to_string(), "the values are text, expected a map");
        assert!(parse("a: [").is_err());
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn later_values_win_and_maps_are_merged() {
        let merged =
            merge(parse("a: {b: 1, c: 2}\nd: [1]\n").unwrap(), parse("a: {b: ~}\nd: 2\n").unwrap());
        assert_eq!(Value::Object(merged), json!({"a": {"b": null, "c": 2}, "d": 2}));
    }

    #[test]
    fn a_null_removes_a_default_and_stays_where_there_is_none() {
        let chart = chart("a: 1\nb: {c: 2, d: 3}\ne: ~\n", vec![], "top");
        let values = seen(&chart, "a: ~\nb: {c: ~, x: ~}\n");
        assert_eq!(values, json!({"b": {"d": 3, "x": null}, "e": null}));
        // A list or text is replaced, and text is not completed by a map.
        assert_eq!(seen(&chart, "b: text\n")["b"], "text");
    }

    #[test]
    fn sub_charts_get_their_table_and_the_globals() {
        let sub = chart("port: 1\nhost: x\nglobal: {own: 1}\n", vec![], "sub");
        let top = chart("sub: {port: 2}\nglobal: {a: {b: 1}}\n", vec![sub], "top");
        let values = seen(&top, "global: {a: {c: 2}}\n");
        assert_eq!(values["global"], json!({"a": {"b": 1, "c": 2}}));
        let expected = json!({"port": 2, "host": "x", "global": {"a": {"b": 1, "c": 2}, "own": 1}});
        assert_eq!(values["sub"], expected);
    }

    #[test]
    fn a_null_reaches_the_defaults_of_a_sub_chart() {
        let sub = chart("port: 1\nhost: x\n", vec![], "sub");
        let top = chart("sub: {port: 2}\n", vec![sub], "top");
        let values = seen(&top, "sub: {port: ~}\n");
        assert_eq!(values["sub"], json!({"host": "x", "global": {}}));
    }

    #[test]
    fn a_sub_chart_whose_values_are_not_a_map_is_an_error() {
        let top = chart("", vec![chart("", vec![], "sub")], "top");
        let error = coalesce(&top, &parse("sub: 3\n").unwrap()).unwrap_err();
        assert!(error.to_string().contains("\"sub\" is a number, expected a map"), "{error}");
    }
}
