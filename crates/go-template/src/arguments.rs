//! Typed reading of a function's arguments, with Go's messages for those that do not fit.

use std::rc::Rc;

use crate::function::FunctionError;
use crate::value::{Map, Value};

/// Reads arguments as Go's parameters of a type would accept them.
pub trait Arguments {
    /// A parameter of type `interface {}`: an absent value is nil.
    fn any(&self, index: usize) -> Value;
    /// A parameter of type `string`, where the text is UTF-8.
    fn text(&self, index: usize) -> Result<Rc<str>, FunctionError>;
    /// A parameter of type `string`, any bytes.
    fn bytes(&self, index: usize) -> Result<Rc<[u8]>, FunctionError>;
    /// A parameter of type `int`: an `int64` does not fit.
    fn int(&self, index: usize) -> Result<i64, FunctionError>;
    /// A parameter of type `float64`.
    fn float(&self, index: usize) -> Result<f64, FunctionError>;
    /// A parameter of type `bool`.
    fn flag(&self, index: usize) -> Result<bool, FunctionError>;
    /// A parameter of type `map[string]interface {}`; `None` for a nil map.
    fn map(&self, index: usize) -> Result<Option<Map>, FunctionError>;
}

fn wrong_type(value: Option<&Value>, expected: &str) -> FunctionError {
    FunctionError::Argument(match value {
        None | Some(Value::Absent) => format!("invalid value; expected {expected}"),
        Some(Value::Nil) => {
            format!("wrong type for value; expected {expected}; got interface {{}}")
        }
        Some(value) => {
            format!("wrong type for value; expected {expected}; got {}", value.type_name())
        }
    })
}

impl Arguments for [Value] {
    fn any(&self, index: usize) -> Value {
        match self.get(index) {
            None | Some(Value::Absent) => Value::Nil,
            Some(value) => value.clone(),
        }
    }

    fn text(&self, index: usize) -> Result<Rc<str>, FunctionError> {
        match self.get(index) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Bytes(bytes)) => Ok(Rc::from(String::from_utf8_lossy(bytes))),
            other => Err(wrong_type(other, "string")),
        }
    }

    fn bytes(&self, index: usize) -> Result<Rc<[u8]>, FunctionError> {
        match self.get(index) {
            Some(Value::String(text)) => Ok(Rc::from(text.as_bytes())),
            Some(Value::Bytes(bytes)) => Ok(bytes.clone()),
            other => Err(wrong_type(other, "string")),
        }
    }

    fn int(&self, index: usize) -> Result<i64, FunctionError> {
        match self.get(index) {
            Some(Value::Int(number)) => Ok(*number),
            other => Err(wrong_type(other, "int")),
        }
    }

    fn float(&self, index: usize) -> Result<f64, FunctionError> {
        match self.get(index) {
            Some(Value::Float(number)) => Ok(*number),
            Some(Value::Int(number)) => Ok(*number as f64),
            other => Err(wrong_type(other, "float64")),
        }
    }

    fn flag(&self, index: usize) -> Result<bool, FunctionError> {
        match self.get(index) {
            Some(Value::Bool(flag)) => Ok(*flag),
            other => Err(wrong_type(other, "bool")),
        }
    }

    fn map(&self, index: usize) -> Result<Option<Map>, FunctionError> {
        match self.get(index) {
            Some(Value::Absent) => Ok(None),
            Some(value) => match value.as_map() {
                Some(map) => Ok(Some(map)),
                None => Err(wrong_type(Some(value), "map[string]interface {}")),
            },
            None => Err(wrong_type(None, "map[string]interface {}")),
        }
    }
}
