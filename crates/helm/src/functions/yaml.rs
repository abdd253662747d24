//! YAML as Helm writes and reads it: through JSON, with the scalars of YAML 1.1.

mod read;
mod resolve;
mod write;

use std::collections::BTreeMap;

use go_template::{Arguments, Arity, Budget, FunctionError, Functions, Limits, Value};

use super::json::wrong_kind;
pub use read::{ReadError, read};

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
            Err(error) => error_map(format!("error converting YAML to JSON: {error}")),
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
                Value::list(vec![format!("error converting YAML to JSON: {error}").into()])
            }
        })
    });
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
