//! Values from and to JSON, with the types that Go's decoder gives them.

use std::collections::BTreeMap;

use serde_json::Number;

use crate::value::Value;

/// Deeper values have no JSON: they may contain themselves.
const MAX_DEPTH: usize = 256;

/// A value that is nested too deep to be written, or contains itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value is nested deeper than 256 levels")]
pub struct TooDeep;

impl Value {
    /// As Go decodes into `interface {}`: every number is a float.
    pub fn from_json(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            serde_json::Value::String(text) => Self::string(text),
            serde_json::Value::Array(items) => {
                Self::list(items.iter().map(Self::from_json).collect())
            }
            serde_json::Value::Object(entries) => Self::map(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone(), Self::from_json(value)))
                    .collect::<BTreeMap<_, _>>(),
            ),
        }
    }

    /// As Go encodes it: a float without a fraction is written as an integer.
    pub fn to_json(&self) -> Result<serde_json::Value, TooDeep> {
        to_json(self, 0)
    }
}

fn to_json(value: &Value, depth: usize) -> Result<serde_json::Value, TooDeep> {
    if depth > MAX_DEPTH {
        return Err(TooDeep);
    }
    Ok(match value {
        Value::Absent | Value::Nil => serde_json::Value::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) | Value::Int64(number) => (*number).into(),
        Value::Float(number) => float(*number),
        Value::String(text) => (&**text).into(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
        Value::List(items) => serde_json::Value::Array(
            items.iter().map(|item| to_json(item, depth + 1)).collect::<Result<_, _>>()?,
        ),
        Value::Map(map) => serde_json::Value::Object(
            map.borrow()
                .iter()
                .map(|(key, value)| Ok((key.clone(), to_json(value, depth + 1)?)))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(object) => to_json(&object.plain(), depth + 1)?,
    })
}

fn float(number: f64) -> serde_json::Value {
    // Beyond this, Go writes an exponent, and integers are not exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(serde_json::Value::Null, serde_json::Value::Number)
}

impl From<&serde_json::Value> for Value {
    fn from(json: &serde_json::Value) -> Self {
        Self::from_json(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_floats_and_are_written_back_as_integers() {
        let json = serde_json::json!({"a": [1, 2.5, null], "b": {"c": "x"}});
        let value = Value::from_json(&json);
        let entries = value.entries().unwrap();
        assert!(matches!(entries[0].1.items().unwrap()[0], Value::Float(1.0)));
        assert_eq!(value.to_json().unwrap(), json);
    }

    #[test]
    fn a_map_that_contains_itself_has_no_json() {
        let value = Value::map(BTreeMap::new());
        let map = value.as_map().unwrap();
        map.borrow_mut().insert("self".to_owned(), value.clone());
        assert_eq!(value.to_json(), Err(TooDeep));
        map.borrow_mut().clear();
    }
}
