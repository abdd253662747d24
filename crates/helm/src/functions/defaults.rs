//! Defaults and choices between values.

use go_template::{Arguments, Arity, Functions, Value};

use super::collections::{deep_copy, is_empty};

pub(super) fn register(functions: &mut Functions) {
    functions.add("default", Arity::at_least(1), |_, values| {
        let given = values.any(1);
        Ok(if values.len() < 2 || is_empty(&given) { values.any(0) } else { given })
    });
    functions.add("empty", Arity::exactly(1), |_, values| Ok(is_empty(&values.any(0)).into()));
    functions.add("coalesce", Arity::at_least(0), |_, values| {
        Ok(values.iter().find(|value| !is_empty(value)).cloned().unwrap_or(Value::Nil))
    });
    functions.add("all", Arity::at_least(0), |_, values| {
        Ok(values.iter().all(|value| !is_empty(value)).into())
    });
    functions.add("any", Arity::at_least(0), |_, values| {
        Ok(values.iter().any(|value| !is_empty(value)).into())
    });
    functions.add("ternary", Arity::exactly(3), |_, values| {
        Ok(if values.flag(2)? { values.any(0) } else { values.any(1) })
    });
    for name in ["deepCopy", "mustDeepCopy"] {
        functions.add(name, Arity::exactly(1), |call, values| {
            deep_copy(&values.any(0), 0, call.budget())
        });
    }
}
