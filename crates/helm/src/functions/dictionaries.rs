//! Maps. They are shared: `set`, `unset` and `merge` change the map that others see.

use std::collections::{BTreeMap, BTreeSet};

use go_template::{Arguments, Arity, Call, FunctionError, Functions, Map, Value};

use super::merge::{Policy, merge};
use super::{Outcome, to_text};

pub(super) fn register(functions: &mut Functions) {
    functions.add("dict", Arity::at_least(0), dictionary);
    functions.add("get", Arity::exactly(2), |_, values| {
        let key = values.text(1)?;
        let found = values.map(0)?.and_then(|map| map.borrow().get(&*key).cloned());
        Ok(found.unwrap_or_else(|| Value::from("")))
    });
    functions.add("set", Arity::exactly(3), |call, values| {
        let key = values.text(1)?;
        let map = values.map(0)?.ok_or("assignment to entry in nil map")?;
        call.budget().spend(1)?;
        map.borrow_mut().insert(key.to_string(), values.any(2));
        Ok(Value::Map(map))
    });
    functions.add("unset", Arity::exactly(2), |_, values| {
        let key = values.text(1)?;
        let map = values.map(0)?.unwrap_or_default();
        map.borrow_mut().remove(&*key);
        Ok(Value::Map(map))
    });
    functions.add("hasKey", Arity::exactly(2), |_, values| {
        let key = values.text(1)?;
        Ok(values.map(0)?.is_some_and(|map| map.borrow().contains_key(&*key)).into())
    });
    functions.add("pluck", Arity::at_least(1), |call, values| {
        let key = values.text(0)?;
        let mut found = Vec::new();
        for index in 1..values.len() {
            found.extend(values.map(index)?.and_then(|map| map.borrow().get(&*key).cloned()));
        }
        call.list(found)
    });
    functions.add("keys", Arity::at_least(0), |call, values| {
        let mut keys = Vec::new();
        for index in 0..values.len() {
            if let Some(map) = values.map(index)? {
                keys.extend(map.borrow().keys().map(Value::string));
            }
        }
        call.list(keys)
    });
    functions.add("values", Arity::exactly(1), |call, values| {
        let found = match values.map(0)? {
            Some(map) => map.borrow().values().cloned().collect(),
            None => Vec::new(),
        };
        call.list(found)
    });
    functions.add("pick", Arity::at_least(1), |call, values| {
        let names = texts(&values[1..])?;
        select(call, values.map(0)?, |key| names.contains(key))
    });
    functions.add("omit", Arity::at_least(1), |call, values| {
        let names = texts(&values[1..])?;
        select(call, values.map(0)?, |key| !names.contains(key))
    });
    for (name, policy) in [
        ("merge", Policy::Keep),
        ("mustMerge", Policy::Keep),
        ("mergeOverwrite", Policy::Overwrite),
        ("mustMergeOverwrite", Policy::Overwrite),
    ] {
        functions.add(name, Arity::at_least(1), move |call, values| {
            let destination = values.map(0)?.unwrap_or_default();
            for index in 1..values.len() {
                if let Some(source) = values.map(index)? {
                    merge(&destination, &source, policy, 0, call.budget())?;
                }
            }
            Ok(Value::Map(destination))
        });
    }
    functions.add("dig", Arity::at_least(0), dig);
}

fn texts(values: &[Value]) -> Result<BTreeSet<String>, FunctionError> {
    (0..values.len()).map(|index| Ok(values.text(index)?.to_string())).collect()
}

fn select(call: &mut Call<'_>, map: Option<Map>, keep: impl Fn(&str) -> bool) -> Outcome {
    let map = map.unwrap_or_default();
    call.budget().spend(map.borrow().len() as u64)?;
    let selected: BTreeMap<String, Value> = map
        .borrow()
        .iter()
        .filter(|(key, _)| keep(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Ok(Value::map(selected))
}

fn dictionary(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let mut map = BTreeMap::new();
    for pair in values.chunks(2) {
        let key = to_text(call, &pair.any(0))?;
        let value = if pair.len() == 2 { pair.any(1) } else { Value::from("") };
        map.insert(key.to_string(), value);
    }
    call.allocate(map.len())?;
    Ok(Value::map(map))
}

fn dig(_: &mut Call<'_>, values: &[Value]) -> Outcome {
    let [keys @ .., default, start] = values else {
        return Err("dig needs at least three arguments".into());
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    let conversion = |value: &Value, wanted: &str| -> FunctionError {
        let kind = if value.is_nil() { "nil".to_owned() } else { value.type_name() };
        format!("interface conversion: interface {{}} is {kind}, not {wanted}").into()
    };
    let mut current = start.clone();
    for key in keys {
        let name = key.as_str().ok_or_else(|| conversion(key, "string"))?;
        // A type assertion: values of a named map type do not fit.
        let Value::Map(map) = &current else {
            return Err(conversion(&current, "map[string]interface {}"));
        };
        let found = map.borrow().get(name).cloned();
        match found {
            Some(value) => current = value,
            None => return Ok([default.clone()].any(0)),
        }
    }
    Ok(current)
}
