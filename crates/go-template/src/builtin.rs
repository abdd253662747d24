//! The functions of `text/template` itself.

mod escape;

use std::rc::Rc;

use crate::arguments::Arguments;
use crate::compare::{equal, less};
use crate::function::{Arity, Call, FunctionError, Functions, Lazy};
use crate::print::{print_all, printf};
use crate::value::{Kind, Value};

type Outcome = Result<Value, FunctionError>;

pub(crate) fn register(functions: &mut Functions) {
    let never = || Rc::new(|_: &mut Call<'_>, _: &[Value]| -> Outcome { Ok(Value::Absent) });
    functions.insert("and", Arity::at_least(1), Some(Lazy::And), never());
    functions.insert("or", Arity::at_least(1), Some(Lazy::Or), never());
    functions.add("not", Arity::exactly(1), |_, values| Ok((!values.any(0).is_true()).into()));
    functions.add("eq", Arity::at_least(1), |_, values| equal_any(values));
    functions.add("ne", Arity::exactly(2), |_, values| {
        Ok((!equal(&values.any(0), &values.any(1))?).into())
    });
    functions
        .add("lt", Arity::exactly(2), |_, values| Ok(less(&values.any(0), &values.any(1))?.into()));
    functions.add("le", Arity::exactly(2), |_, values| Ok(less_or_equal(values)?.into()));
    functions.add("gt", Arity::exactly(2), |_, values| Ok((!less_or_equal(values)?).into()));
    functions.add("ge", Arity::exactly(2), |_, values| {
        Ok((!less(&values.any(0), &values.any(1))?).into())
    });
    functions.add("len", Arity::exactly(1), |_, values| length(&values.any(0)));
    functions.add("index", Arity::at_least(1), |_, values| index(values));
    functions.add("slice", Arity::at_least(1), |_, values| slice(values));
    functions
        .add("print", Arity::at_least(0), |call, values| Ok(print_all(values, call.budget())?));
    functions.add("println", Arity::at_least(0), println);
    functions.add("printf", Arity::at_least(1), |call, values| {
        Ok(printf(&values.bytes(0)?, &values[1..], call.budget())?)
    });
    functions.add("html", Arity::at_least(0), |call, values| {
        let text = joined(call, values)?;
        call.text(escape::html(&text))
    });
    functions.add("js", Arity::at_least(0), |call, values| {
        let text = joined(call, values)?;
        call.text(escape::javascript(&text))
    });
    functions.add("urlquery", Arity::at_least(0), |call, values| {
        let text = joined(call, values)?;
        call.text(escape::url_query(&text))
    });
    functions.add("call", Arity::at_least(1), |_, values| match values.any(0) {
        Value::Nil => Err("call of nil".into()),
        other => Err(format!("non-function of type {}", other.type_name()).into()),
    });
}

fn equal_any(values: &[Value]) -> Outcome {
    let [first, others @ ..] = values else { return Err("missing argument for comparison".into()) };
    if others.is_empty() {
        return Err("missing argument for comparison".into());
    }
    for other in others {
        if equal(first, other)? {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

fn less_or_equal(values: &[Value]) -> Result<bool, FunctionError> {
    let (left, right) = (values.any(0), values.any(1));
    Ok(less(&left, &right)? || equal(&left, &right)?)
}

fn length(value: &Value) -> Outcome {
    match value.length() {
        Some(length) => Ok(Value::Int(length as i64)),
        None if value.is_nil() => Err("len of nil pointer".into()),
        None => Err(format!("len of type {}", value.type_name()).into()),
    }
}

fn index_in(index: &Value, length: usize) -> Result<usize, FunctionError> {
    match index.as_integer() {
        Some(number) => usize::try_from(number)
            .ok()
            .filter(|at| *at <= length)
            .ok_or_else(|| format!("index out of range: {number}").into()),
        None if index.is_nil() => Err("cannot index slice/array with nil".into()),
        None => Err(format!("cannot index slice/array with type {}", index.type_name()).into()),
    }
}

fn index(values: &[Value]) -> Outcome {
    let mut item = values.any(0);
    if item.is_nil() {
        return Err("index of untyped nil".into());
    }
    for index in &values[1..] {
        item = match item.kind() {
            Kind::Invalid => return Err("index of nil pointer".into()),
            Kind::Slice => element(&item.items().unwrap_or_default(), index)?,
            Kind::String => {
                let bytes: Vec<Value> = item
                    .as_bytes()
                    .unwrap_or_default()
                    .iter()
                    .map(|byte| Value::Int(i64::from(*byte)))
                    .collect();
                element(&bytes, index)?
            }
            Kind::Map => entry(&item, index)?,
            _ => return Err(format!("can't index item of type {}", item.type_name()).into()),
        };
    }
    Ok(item)
}

fn element(items: &[Value], index: &Value) -> Outcome {
    let at = index_in(index, items.len())?;
    items.get(at).cloned().ok_or_else(|| "reflect: slice index out of range".into())
}

fn entry(map: &Value, key: &Value) -> Outcome {
    let Some(name) = key.as_str() else {
        let kind = key.type_name();
        return Err(if key.is_nil() {
            "value is nil; should be of type string".into()
        } else {
            format!("value has type {kind}; should be string").into()
        });
    };
    Ok(match map {
        Value::Map(map) => map.borrow().get(name).cloned().unwrap_or(Value::Nil),
        Value::Object(object) => match object.as_map() {
            Some(map) => map.borrow().get(name).cloned().unwrap_or(Value::Nil),
            None => object.field(name).unwrap_or(Value::Nil),
        },
        _ => Value::Nil,
    })
}

fn slice(values: &[Value]) -> Outcome {
    let item = values.any(0);
    if item.is_nil() {
        return Err("slice of untyped nil".into());
    }
    let indexes = &values[1..];
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()).into());
    }
    let length = match item.kind() {
        Kind::String if indexes.len() == 3 => return Err("cannot 3-index slice a string".into()),
        Kind::String | Kind::Slice => item.length().unwrap_or(0),
        _ => return Err(format!("can't slice item of type {}", item.type_name()).into()),
    };
    let mut bounds = [0, length, length];
    for (slot, index) in bounds.iter_mut().zip(indexes) {
        *slot = index_in(index, length)?;
    }
    let [start, end, capacity] = bounds;
    if start > end {
        return Err(format!("invalid slice index: {start} > {end}").into());
    }
    if end > capacity {
        return Err(format!("invalid slice index: {end} > {capacity}").into());
    }
    Ok(match item.as_bytes() {
        Some(bytes) => Value::bytes(&bytes[start..end]),
        None => Value::list(item.items().unwrap_or_default()[start..end].to_vec()),
    })
}

fn println(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let mut line = String::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            line.push(' ');
        }
        let text = call.print(value)?;
        call.extend(&mut line, &text)?;
    }
    line.push('\n');
    call.text(line)
}

/// Arguments as `print` writes them.
fn joined(call: &mut Call<'_>, values: &[Value]) -> Result<String, FunctionError> {
    if let [Value::Absent] = values {
        return Ok("<no value>".to_owned());
    }
    let text = print_all(values, call.budget())?;
    Ok(String::from_utf8_lossy(text.as_bytes().unwrap_or_default()).into_owned())
}
