//! YAML as Helm writes and reads it: through JSON, with the scalars of YAML 1.1.

mod resolve;
mod write;

use std::collections::BTreeMap;

use go_template::{Arguments, Arity, Budget, FunctionError, Functions, Limits, Value};
use serde_json::Value as Json;

use super::json::wrong_kind;
use crate::yaml::{self, YamlError};

pub(super) fn register(functions: &mut Functions) {
    for (name, style) in [("toYaml", write::Style::Compact), ("toYamlPretty", write::Style::Pretty)]
    {
        functions.add(name, Arity::exactly(1), move |call, values| {
            match write::write(&values.any(0), style, call.budget()) {
                Ok(text) => call.text(text),
                // Helm hides errors of the encoder.
                Err(FunctionError::Failed(_)) => Ok("".into()),
                Err(error) => Err(error),
            }
        });
    }
    functions.add("fromYaml", Arity::exactly(1), |call, values| {
        let text = values.text(0)?;
        call.budget().spend(text.len() as u64 / 4)?;
        Ok(match read(&text) {
            Ok(value @ Value::Map(_)) => value,
            Ok(Value::Nil) => Value::map(BTreeMap::new()),
            Ok(other) => error_map(decoding(&other, "map[string]interface {}")),
            Err(error) => error_map(format!("error converting YAML to JSON: yaml: {error}")),
        })
    });
    functions.add("fromYamlArray", Arity::exactly(1), |call, values| {
        let text = values.text(0)?;
        call.budget().spend(text.len() as u64 / 4)?;
        Ok(match read(&text) {
            Ok(value @ Value::List(_)) => value,
            Ok(Value::Nil) => Value::list(Vec::new()),
            Ok(other) => Value::list(vec![decoding(&other, "[]interface {}").into()]),
            Err(error) => {
                Value::list(vec![format!("error converting YAML to JSON: yaml: {error}").into()])
            }
        })
    });
}

/// The first document of a text. Every number is a float, as in all that Helm reads as JSON.
pub fn read(text: &str) -> Result<Value, YamlError> {
    Ok(value(&yaml::read(text)?.to_json()))
}

fn value(json: &Json) -> Value {
    match json {
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or_default()),
        Json::Array(items) => Value::list(items.iter().map(value).collect()),
        Json::Object(entries) => {
            Value::map(entries.iter().map(|(key, item)| (key.clone(), value(item))).collect())
        }
        Json::Null | Json::Bool(_) | Json::String(_) => Value::from_json(json),
    }
}

fn decoding(value: &Value, wanted: &str) -> String {
    format!("error unmarshaling JSON: while decoding JSON: {}", wrong_kind(value, wanted))
}

fn error_map(message: String) -> Value {
    Value::map([("Error".to_owned(), Value::from(message))].into())
}

/// A value as `toYaml` prints it; empty where it cannot be written.
pub fn print(value: &Value) -> String {
    let mut budget = Budget::new(Limits::default());
    write::write(value, write::Style::Compact, &mut budget).unwrap_or_default()
}
