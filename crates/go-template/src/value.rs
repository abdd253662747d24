//! Values of templates. Maps are shared and changed in place, as in Go: Sprig's `set` relies on it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use crate::function::FunctionError;

/// A value. Clones of lists, maps and objects share their content.
#[derive(Clone, Default)]
pub enum Value {
    /// No value at all, such as the result of a pipeline that ends in nil: Go's invalid
    /// `reflect.Value`. It prints as `<no value>`, and its fields are absent too.
    #[default]
    Absent,
    /// A nil interface, such as a key that a map does not have. Reading a field of it is an error.
    Nil,
    Bool(bool),
    /// Go's `int`: literals, lengths, indexes.
    Int(i64),
    /// Go's `int64`, which is not assignable to `int`: the results of Sprig's arithmetic.
    Int64(i64),
    Float(f64),
    String(Rc<str>),
    /// A Go string that is not UTF-8, such as a binary file of a chart.
    Bytes(Rc<[u8]>),
    List(Rc<Items<Vec<Value>>>),
    Map(Map),
    Object(Rc<dyn Object>),
}

/// A map that several values share.
pub type Map = Rc<RefCell<Items<BTreeMap<String, Value>>>>;

/// The content of a list or map. Dropping it is not recursive: a template can nest lists as deep as
/// it has steps, deeper than any stack.
#[derive(Clone, Default)]
pub struct Items<T: Children>(T);

/// A container of values.
pub trait Children: Default {
    fn drain_into(self, rest: &mut Vec<Value>);
}

impl Children for Vec<Value> {
    fn drain_into(mut self, rest: &mut Vec<Value>) {
        rest.append(&mut self);
    }
}

impl Children for BTreeMap<String, Value> {
    fn drain_into(self, rest: &mut Vec<Value>) {
        rest.extend(self.into_values());
    }
}

impl<T: Children> Deref for Items<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Children> DerefMut for Items<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Children> From<T> for Items<T> {
    fn from(content: T) -> Self {
        Self(content)
    }
}

impl<T: Children> Drop for Items<T> {
    fn drop(&mut self) {
        let mut rest = Vec::new();
        std::mem::take(&mut self.0).drain_into(&mut rest);
        while let Some(value) = rest.pop() {
            match value {
                Value::List(list) => {
                    if let Ok(mut items) = Rc::try_unwrap(list) {
                        std::mem::take(&mut items.0).drain_into(&mut rest);
                    }
                }
                Value::Map(map) => {
                    if let Ok(cell) = Rc::try_unwrap(map) {
                        std::mem::take(&mut cell.into_inner().0).drain_into(&mut rest);
                    }
                }
                _ => {}
            }
        }
    }
}

/// What Go's `reflect` calls the kind of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Invalid,
    Bool,
    Int,
    Int64,
    Float,
    String,
    Slice,
    Map,
    Struct,
    Pointer,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int64 => "int64",
            Self::Float => "float64",
            Self::String => "string",
            Self::Slice => "slice",
            Self::Map => "map",
            Self::Struct => "struct",
            Self::Pointer => "ptr",
        }
    }
}

/// A value with a type of its own: a struct, a type with methods, or a map that is not
/// `map[string]interface {}`.
pub trait Object {
    /// Name of the Go type, as `%T` prints it.
    fn type_name(&self) -> String;

    fn kind(&self) -> Kind;

    /// A field of a struct, or the value of a key in a map: for a key that is absent, the zero value
    /// of the map's elements. `None` where the type has no such field.
    fn field(&self, name: &str) -> Option<Value>;

    /// Calls a method. `None` where the type has no such method.
    fn call(&self, _name: &str, _arguments: &[Value]) -> Option<Result<Value, FunctionError>> {
        None
    }

    /// Keys and values in order, for a map.
    fn entries(&self) -> Option<Vec<(String, Value)>> {
        None
    }

    /// Elements, for a slice.
    fn items(&self) -> Option<Vec<Value>> {
        None
    }

    /// The map inside, where the type is assignable to `map[string]interface {}`.
    fn as_map(&self) -> Option<Map> {
        None
    }

    /// The value that encoders see.
    fn plain(&self) -> Value;

    /// The text of a type that prints itself; otherwise [`plain`](Self::plain) is printed.
    fn text(&self) -> Option<String> {
        None
    }

    /// For functions that need the object behind a value.
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }
}

impl Value {
    pub fn string(text: impl AsRef<str>) -> Self {
        Self::String(Rc::from(text.as_ref()))
    }

    /// A Go string of any bytes.
    pub fn bytes(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::string(text),
            Err(_) => Self::Bytes(Rc::from(bytes)),
        }
    }

    pub fn list(items: Vec<Value>) -> Self {
        Self::List(Rc::new(items.into()))
    }

    pub fn map(entries: BTreeMap<String, Value>) -> Self {
        Self::Map(Rc::new(RefCell::new(entries.into())))
    }

    pub fn object(object: impl Object + 'static) -> Self {
        Self::Object(Rc::new(object))
    }

    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil | Self::Absent)
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes of a Go string.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::String(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// An integer of any size.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Int(number) | Self::Int64(number) => Some(*number),
            _ => None,
        }
    }

    /// The map, where the value is assignable to `map[string]interface {}`.
    pub fn as_map(&self) -> Option<Map> {
        match self {
            Self::Map(map) => Some(map.clone()),
            Self::Object(object) => object.as_map(),
            _ => None,
        }
    }

    /// Elements of a list of any type.
    pub fn items(&self) -> Option<Vec<Value>> {
        match self {
            Self::List(list) => Some(list.to_vec()),
            Self::Object(object) => object.items(),
            _ => None,
        }
    }

    /// Keys and values of a map of any type, in order.
    pub fn entries(&self) -> Option<Vec<(String, Value)>> {
        match self {
            Self::Map(map) => {
                Some(map.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect())
            }
            Self::Object(object) => object.entries(),
            _ => None,
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Absent | Self::Nil => Kind::Invalid,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) => Kind::Int,
            Self::Int64(_) => Kind::Int64,
            Self::Float(_) => Kind::Float,
            Self::String(_) | Self::Bytes(_) => Kind::String,
            Self::List(_) => Kind::Slice,
            Self::Map(_) => Kind::Map,
            Self::Object(object) => object.kind(),
        }
    }

    /// Name of the Go type, as `%T` prints it.
    pub fn type_name(&self) -> String {
        match self {
            Self::Absent | Self::Nil => "<nil>".to_owned(),
            Self::List(_) => "[]interface {}".to_owned(),
            Self::Map(_) => "map[string]interface {}".to_owned(),
            Self::Object(object) => object.type_name(),
            other => other.kind().name().to_owned(),
        }
    }

    /// Go's truth: everything but the zero value of a type. Structs and pointers are true.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Absent | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(number) | Self::Int64(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::String(text) => !text.is_empty(),
            Self::Bytes(bytes) => !bytes.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.borrow().is_empty(),
            Self::Object(object) => match object.kind() {
                Kind::Map => object.entries().is_some_and(|entries| !entries.is_empty()),
                Kind::Slice => object.items().is_some_and(|items| !items.is_empty()),
                _ => true,
            },
        }
    }

    /// Length of a string, list or map; `None` for other types.
    pub fn length(&self) -> Option<usize> {
        match self {
            Self::String(text) => Some(text.len()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(list) => Some(list.len()),
            Self::Map(map) => Some(map.borrow().len()),
            Self::Object(object) => match object.kind() {
                Kind::Map => object.entries().map(|entries| entries.len()),
                Kind::Slice => object.items().map(|items| items.len()),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::string(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(Rc::from(text))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::list(items)
    }
}

/// One level only: values may be large, deep or cyclic.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("Absent"),
            Self::Nil => f.write_str("Nil"),
            Self::Bool(value) => write!(f, "Bool({value})"),
            Self::Int(number) => write!(f, "Int({number})"),
            Self::Int64(number) => write!(f, "Int64({number})"),
            Self::Float(number) => write!(f, "Float({number})"),
            Self::String(text) => write!(f, "String({text:?})"),
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::List(list) => write!(f, "List({} items)", list.len()),
            Self::Map(map) => match map.try_borrow() {
                Ok(map) => write!(f, "Map({} entries)", map.len()),
                Err(_) => f.write_str("Map"),
            },
            Self::Object(object) => write!(f, "Object({})", object.type_name()),
        }
    }
}

impl<T: Children> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Items")
    }
}
