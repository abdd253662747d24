//! What lists and dictionaries share.

use go_template::{FunctionError, Value};

/// Values nested deeper are refused: a map may contain itself.
const MAX_DEPTH: usize = 256;

/// Elements of a list, or the error that Sprig gives for other types.
pub(super) fn elements(value: &Value, purpose: &str) -> Result<Vec<Value>, FunctionError> {
    match value.items() {
        Some(items) => Ok(items),
        None if value.is_nil() => {
            Err("runtime error: invalid memory address or nil pointer dereference".into())
        }
        None => Err(format!("Cannot {purpose} type {}", value.kind().name()).into()),
    }
}

/// A copy that shares nothing with the original. `budget` counts its values.
pub(super) fn deep_copy(
    value: &Value,
    depth: usize,
    budget: &mut go_template::Budget,
) -> Result<Value, FunctionError> {
    if depth > MAX_DEPTH {
        return Err("the value is nested too deep to be copied".into());
    }
    budget.spend(1)?;
    Ok(match value {
        Value::List(items) => Value::list(
            items
                .iter()
                .map(|item| deep_copy(item, depth + 1, budget))
                .collect::<Result<_, _>>()?,
        ),
        Value::Map(map) => {
            let entries: Vec<_> =
                map.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            let copies = entries
                .into_iter()
                .map(|(key, value)| Ok((key, deep_copy(&value, depth + 1, budget)?)))
                .collect::<Result<_, FunctionError>>()?;
            Value::map(copies)
        }
        Value::Object(object) => match object.as_map() {
            Some(map) => deep_copy(&Value::Map(map), depth + 1, budget)?,
            None => value.clone(),
        },
        other => other.clone(),
    })
}

/// Sprig's emptiness: the zero value of a type. Structs are never empty.
pub(super) fn is_empty(value: &Value) -> bool {
    !value.is_true()
}
