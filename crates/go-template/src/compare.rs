//! Equality and order: Go's `==` for templates, and `reflect.DeepEqual`.

use std::rc::Rc;

use crate::budget::{Budget, Exceeded, Limits};
use crate::value::{Kind, Value};

/// Deeper values are different: comparing maps that contain themselves does not end.
const MAX_DEPTH: usize = 256;

/// Kinds that the comparison functions know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basic {
    Bool,
    Int,
    Float,
    String,
    Other,
}

fn basic(value: &Value) -> Basic {
    match value {
        Value::Bool(_) => Basic::Bool,
        Value::Int(_) | Value::Int64(_) => Basic::Int,
        Value::Float(_) => Basic::Float,
        Value::String(_) | Value::Bytes(_) => Basic::String,
        _ => Basic::Other,
    }
}

fn incompatible(left: &Value, right: &Value) -> String {
    format!("incompatible types for comparison: {} and {}", left.type_name(), right.type_name())
}

/// The function `eq` for two values.
pub fn equal(left: &Value, right: &Value) -> Result<bool, String> {
    let kinds = (basic(left), basic(right));
    if kinds.0 != kinds.1 {
        if left.is_nil() || right.is_nil() {
            return Ok(false);
        }
        return Err(incompatible(left, right));
    }
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        (Value::Float(left), Value::Float(right)) => Ok(left == right),
        _ if kinds.0 == Basic::Int => Ok(left.as_integer() == right.as_integer()),
        _ if kinds.0 == Basic::String => Ok(left.as_bytes() == right.as_bytes()),
        _ if left.is_nil() || right.is_nil() => Ok(left.is_nil() && right.is_nil()),
        _ if left.kind() != right.kind() => {
            Err(format!("non-comparable types {}: {}", left.type_name(), right.type_name()))
        }
        (Value::Object(left), Value::Object(right))
            if matches!(left.kind(), Kind::Struct | Kind::Pointer) =>
        {
            let mut budget = Budget::new(Limits { steps: 10_000, ..Limits::default() });
            Ok(Rc::ptr_eq(left, right)
                || left.kind() == Kind::Struct
                    && left.type_name() == right.type_name()
                    && is_same(&left.plain(), &right.plain(), &mut budget).unwrap_or(false))
        }
        _ => Err(format!("non-comparable type {}", right.type_name())),
    }
}

/// The function `lt`.
pub(crate) fn less(left: &Value, right: &Value) -> Result<bool, String> {
    let kinds = (basic(left), basic(right));
    if kinds.0 == Basic::Other || kinds.1 == Basic::Other {
        return Err("invalid type for comparison".to_owned());
    }
    if kinds.0 != kinds.1 {
        return Err(incompatible(left, right));
    }
    match (left, right) {
        (Value::Float(left), Value::Float(right)) => Ok(left < right),
        (Value::Bool(_), _) => Err("invalid type for comparison".to_owned()),
        _ if kinds.0 == Basic::Int => Ok(left.as_integer() < right.as_integer()),
        _ => Ok(left.as_bytes() < right.as_bytes()),
    }
}

/// Go's `reflect.DeepEqual`: the same types and the same content.
pub fn is_same(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, Exceeded> {
    same(left, right, 0, budget)
}

fn same(left: &Value, right: &Value, depth: usize, budget: &mut Budget) -> Result<bool, Exceeded> {
    // Values that share their parts can have more of them than there is time.
    budget.spend(1)?;
    if depth > MAX_DEPTH {
        return Ok(false);
    }
    Ok(match (left, right) {
        (left, right) if left.is_nil() || right.is_nil() => left.is_nil() && right.is_nil(),
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(left), Value::Int(right)) | (Value::Int64(left), Value::Int64(right)) => {
            left == right
        }
        (Value::Float(left), Value::Float(right)) => left == right,
        (Value::String(left), Value::String(right)) => left == right,
        (Value::Bytes(left), Value::Bytes(right)) => left == right,
        (Value::List(left), Value::List(right)) => {
            if Rc::ptr_eq(left, right) {
                return Ok(true);
            }
            if left.len() != right.len() {
                return Ok(false);
            }
            for (left, right) in left.iter().zip(right.iter()) {
                if !same(left, right, depth + 1, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(left), Value::Map(right)) => {
            if Rc::ptr_eq(left, right) {
                return Ok(true);
            }
            let (left, right) = (left.borrow(), right.borrow());
            if left.len() != right.len() {
                return Ok(false);
            }
            for (left, right) in left.iter().zip(right.iter()) {
                if left.0 != right.0 || !same(left.1, right.1, depth + 1, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Object(left), Value::Object(right)) => {
            Rc::ptr_eq(left, right)
                || left.type_name() == right.type_name()
                    && same(&left.plain(), &right.plain(), depth + 1, budget)?
        }
        _ => false,
    })
}
