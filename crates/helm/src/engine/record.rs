//! Structs of Go: fields by name, and another set of names for encoders.

use go_template::{FunctionError, Kind, Object, Value};

/// A struct. Reading a field that it does not have is an error.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) type_name: &'static str,
    pub(super) kind: Kind,
    pub(super) fields: Vec<(&'static str, Value)>,
    /// What encoders and printing see.
    pub(super) plain: Value,
    /// Methods without arguments that return a text.
    pub(super) methods: Vec<(&'static str, String)>,
    pub(super) text: Option<String>,
}

impl Object for Record {
    fn type_name(&self) -> String {
        self.type_name.to_owned()
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn field(&self, name: &str) -> Option<Value> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    fn call(&self, name: &str, _: &[Value]) -> Option<Result<Value, FunctionError>> {
        let (_, text) = self.methods.iter().find(|(known, _)| *known == name)?;
        Some(Ok(Value::string(text)))
    }

    fn plain(&self) -> Value {
        self.plain.clone()
    }

    fn text(&self) -> Option<String> {
        self.text.clone()
    }
}
