//! `.Files`: the files of a chart that are not templates.

use std::collections::BTreeMap;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use go_template::{Arguments, FunctionError, Kind, Object, Value};

use super::globs;
use crate::functions::{path_base, yaml};

/// Files by their path in the chart.
#[derive(Debug, Clone, Default)]
pub struct Files(Rc<BTreeMap<String, Rc<[u8]>>>);

impl Files {
    pub fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self(Rc::new(files.into_iter().map(|(path, bytes)| (path, Rc::from(bytes))).collect()))
    }

    pub fn value(&self) -> Value {
        Value::object(self.clone())
    }

    fn bytes(&self, path: &str) -> &[u8] {
        self.0.get(path).map_or(&[], |bytes| bytes)
    }

    fn matching(&self, pattern: &str) -> Self {
        // Helm takes a malformed pattern for one that matches everything.
        let Some(glob) = globs::compile(pattern) else { return self.clone() };
        let found = self.0.iter().filter(|(path, _)| glob.is_match(path));
        Self(Rc::new(found.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()))
    }

    /// File names with texts, as the data of a ConfigMap or Secret.
    fn as_data(&self, text: impl Fn(&[u8]) -> String) -> Value {
        let entries = self.0.iter();
        let data = entries.map(|(path, bytes)| (path_base(path), Value::from(text(bytes))));
        Value::from(yaml::print(&Value::map(data.collect())))
    }

    fn lines(&self, path: &str) -> Value {
        let text = String::from_utf8_lossy(self.bytes(path));
        if text.is_empty() {
            return Value::list(Vec::new());
        }
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Value::list(text.split('\n').map(Value::from).collect())
    }
}

impl Object for Files {
    fn type_name(&self) -> String {
        "engine.files".to_owned()
    }

    fn kind(&self) -> Kind {
        Kind::Map
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::bytes(self.bytes(name)))
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, FunctionError>> {
        let argument = || arguments.text(0);
        Some(match name {
            "Get" | "GetBytes" => argument().map(|path| Value::bytes(self.bytes(&path))),
            "Glob" => argument().map(|pattern| self.matching(&pattern).value()),
            "Lines" => argument().map(|path| self.lines(&path)),
            "AsConfig" => Ok(self.as_data(|bytes| String::from_utf8_lossy(bytes).into_owned())),
            "AsSecrets" => Ok(self.as_data(|bytes| STANDARD.encode(bytes))),
            _ => return None,
        })
    }

    fn entries(&self) -> Option<Vec<(String, Value)>> {
        Some(self.0.iter().map(|(path, bytes)| (path.clone(), Value::bytes(bytes))).collect())
    }

    /// Encoders write bytes as base64.
    fn plain(&self) -> Value {
        let encoded = |bytes: &[u8]| Value::from(STANDARD.encode(bytes));
        Value::map(self.0.iter().map(|(path, bytes)| (path.clone(), encoded(bytes))).collect())
    }
}
