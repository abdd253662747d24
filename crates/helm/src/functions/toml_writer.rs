//! TOML: written as the library of Helm does, sorted and with nested tables indented.

use std::collections::BTreeMap;

use go_template::{Arguments, Arity, Budget, FunctionError, Functions, Value, format_float};

/// Deeper values are refused: a map may contain itself.
const MAX_DEPTH: usize = 128;

pub(super) fn register(functions: &mut Functions) {
    functions.add("toToml", Arity::exactly(1), |call, values| {
        match document(&values.any(0), call.budget()) {
            Ok(text) => call.text(text),
            // Helm prints errors of the encoder.
            Err(FunctionError::Failed(message)) => call.text(message),
            Err(error) => Err(error),
        }
    });
    functions.add("fromToml", Arity::exactly(1), |call, values| {
        let text = values.text(0)?;
        call.budget().spend(text.len() as u64 / 4)?;
        Ok(match text.parse::<toml::Table>() {
            Ok(table) => from_table(&table),
            Err(error) => {
                let message = format!("toml: {}", error.message());
                Value::map([("Error".to_owned(), Value::from(message))].into())
            }
        })
    });
}

fn from_table(table: &toml::Table) -> Value {
    Value::map(table.iter().map(|(key, value)| (key.clone(), from_toml(value))).collect())
}

fn from_toml(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::string(text),
        toml::Value::Integer(number) => Value::Int64(*number),
        toml::Value::Float(number) => Value::Float(*number),
        toml::Value::Boolean(flag) => Value::Bool(*flag),
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(items) => Value::list(items.iter().map(from_toml).collect()),
        toml::Value::Table(table) => from_table(table),
    }
}

fn document(value: &Value, budget: &mut Budget) -> Result<String, FunctionError> {
    let mut writer = Writer { out: String::new(), budget };
    match plain(value) {
        Value::Map(map) => {
            let entries = map.borrow().clone();
            writer.table(&entries, &[], 0)?;
        }
        other => writer.out = inline(&other, 0)?,
    }
    Ok(writer.out)
}

fn plain(value: &Value) -> Value {
    match value {
        Value::Object(object) => object.as_map().map_or_else(|| object.plain(), Value::Map),
        other => other.clone(),
    }
}

struct Writer<'b> {
    out: String,
    budget: &'b mut Budget,
}

impl Writer<'_> {
    /// Values first, then tables.
    fn table(
        &mut self,
        entries: &BTreeMap<String, Value>,
        path: &[String],
        depth: usize,
    ) -> Result<(), FunctionError> {
        if depth > MAX_DEPTH {
            return Err("toml: the value is nested too deep".into());
        }
        self.budget.spend(1 + entries.len() as u64)?;
        if self.out.len() > self.budget.limits().value_size {
            self.budget.allocate(self.out.len())?;
        }
        let indent = "  ".repeat(path.len());
        let (tables, values): (Vec<_>, Vec<_>) = entries
            .iter()
            .map(|(key, value)| (key, plain(value)))
            .filter(|(_, value)| !value.is_nil())
            .partition(|(_, value)| is_table(value));
        for (key, value) in values {
            let value = inline(&value, depth)?;
            self.out.push_str(&format!("{indent}{} = {value}\n", quoted_key(key)));
        }
        for (key, value) in tables {
            let path: Vec<String> = path.iter().cloned().chain([quoted_key(key)]).collect();
            let indent = "  ".repeat(path.len() - 1);
            if path.len() == 1 && !self.out.is_empty() {
                self.out.push('\n');
            }
            match value {
                Value::Map(map) => {
                    self.out.push_str(&format!("{indent}[{}]\n", path.join(".")));
                    let entries = map.borrow().clone();
                    self.table(&entries, &path, depth + 1)?;
                }
                Value::List(items) => {
                    for (index, item) in items.iter().enumerate() {
                        if index > 0 {
                            self.out.push('\n');
                        }
                        let Value::Map(map) = plain(item) else {
                            return Err("toml: array of mixed types".into());
                        };
                        self.out.push_str(&format!("{indent}[[{}]]\n", path.join(".")));
                        let entries = map.borrow().clone();
                        self.table(&entries, &path, depth + 1)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_table(value: &Value) -> bool {
    match value {
        Value::Map(_) => true,
        Value::List(items) => {
            !items.is_empty() && items.iter().all(|item| matches!(plain(item), Value::Map(_)))
        }
        _ => false,
    }
}

fn quoted_key(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !key.is_empty() && key.bytes().all(bare) { key.to_owned() } else { quoted(key) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn inline(value: &Value, depth: usize) -> Result<String, FunctionError> {
    if depth > MAX_DEPTH {
        return Err("toml: the value is nested too deep".into());
    }
    Ok(match value {
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) | Value::Int64(number) => number.to_string(),
        Value::Float(number) => float(*number),
        Value::String(text) => quoted(text),
        Value::Bytes(bytes) => quoted(&String::from_utf8_lossy(bytes)),
        Value::List(items) => {
            let parts: Vec<String> = items
                .iter()
                .map(|item| match plain(item) {
                    item if item.is_nil() => {
                        Err("toml: cannot encode array with nil element".into())
                    }
                    item => inline(&item, depth + 1),
                })
                .collect::<Result<_, FunctionError>>()?;
            format!("[{}]", parts.join(", "))
        }
        Value::Map(map) => {
            let entries = map.borrow();
            let parts: Vec<String> = entries
                .iter()
                .map(|(key, value)| {
                    Ok(format!("{} = {}", quoted_key(key), inline(&plain(value), depth + 1)?))
                })
                .collect::<Result<_, FunctionError>>()?;
            format!("{{{}}}", parts.join(", "))
        }
        _ => return Err("toml: cannot encode nil".into()),
    })
}

/// A float always has a point or an exponent.
fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let text = format_float(number, 'g', None);
    if text.contains(['.', 'e']) { text } else { format!("{text}.0") }
}
