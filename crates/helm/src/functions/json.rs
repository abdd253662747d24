//! JSON as Go writes and reads it.

use std::collections::BTreeMap;

use go_template::{Arguments, Arity, Budget, Call, FunctionError, Functions, Value, format_float};

/// Deeper values are refused: a map may contain itself.
const MAX_DEPTH: usize = 256;

/// How JSON is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// Two spaces for each level, one value per line.
    pub(super) pretty: bool,
    /// `<`, `>` and `&` as escapes.
    pub(super) html: bool,
}

pub(super) fn register(functions: &mut Functions) {
    let compact = Style { pretty: false, html: true };
    let pretty = Style { pretty: true, html: true };
    let raw = Style { pretty: false, html: false };
    // Those without "must" return an empty text on errors, except for the raw one.
    for (name, style, hides_errors) in [
        ("toJson", compact, true),
        ("mustToJson", compact, false),
        ("toPrettyJson", pretty, true),
        ("mustToPrettyJson", pretty, false),
        ("toRawJson", raw, false),
        ("mustToRawJson", raw, false),
    ] {
        functions.add(name, Arity::exactly(1), move |call, values| {
            match write(&values.any(0), style, call.budget()) {
                Ok(text) => call.text(text),
                Err(FunctionError::Failed(_)) if hides_errors => Ok("".into()),
                Err(error) => Err(error),
            }
        });
    }
    functions.add("fromJson", Arity::exactly(1), |call, values| {
        let result = read(call, &values.text(0)?).and_then(|value| match value {
            Value::Map(_) => Ok(value),
            Value::Nil => Ok(Value::map(BTreeMap::new())),
            other => Err(wrong_kind(&other, "map[string]interface {}")),
        });
        Ok(match result {
            Ok(value) => value,
            Err(message) => Value::map([("Error".to_owned(), Value::from(message))].into()),
        })
    });
    functions.add("fromJsonArray", Arity::exactly(1), |call, values| {
        let result = read(call, &values.text(0)?).and_then(|value| match value {
            Value::List(_) => Ok(value),
            Value::Nil => Ok(Value::list(Vec::new())),
            other => Err(wrong_kind(&other, "[]interface {}")),
        });
        Ok(match result {
            Ok(value) => value,
            Err(message) => Value::list(vec![Value::from(message)]),
        })
    });
    functions
        .add("mustFromJson", Arity::exactly(1), |call, values| Ok(read(call, &values.text(0)?)?));
}

pub(super) fn wrong_kind(value: &Value, wanted: &str) -> String {
    let name = match value {
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "number",
    };
    format!("json: cannot unmarshal {name} into Go value of type {wanted}")
}

fn read(call: &mut Call<'_>, text: &str) -> Result<Value, String> {
    call.budget().spend(text.len() as u64 / 4).map_err(|error| error.to_string())?;
    if text.trim().is_empty() {
        return Err("unexpected end of JSON input".to_owned());
    }
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(Value::from_json(&json))
}

pub(super) fn write(
    value: &Value,
    style: Style,
    budget: &mut Budget,
) -> Result<String, FunctionError> {
    let mut writer = Writer { out: String::new(), style, budget };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer<'b> {
    out: String,
    style: Style,
    budget: &'b mut Budget,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), FunctionError> {
        if depth > MAX_DEPTH {
            return Err("json: the value is nested too deep".into());
        }
        self.budget.spend(1)?;
        if self.out.len() > self.budget.limits().value_size {
            self.budget.allocate(self.out.len())?;
        }
        match value {
            Value::Absent | Value::Nil => self.out.push_str("null"),
            Value::Bool(flag) => self.out.push_str(if *flag { "true" } else { "false" }),
            Value::Int(number) | Value::Int64(number) => self.out.push_str(&number.to_string()),
            Value::Float(number) => self.out.push_str(&float(*number)?),
            Value::String(text) => self.string(text),
            Value::Bytes(bytes) => self.string(&String::from_utf8_lossy(bytes)),
            Value::List(items) => {
                self.group('[', ']', items.iter(), depth, |writer, item, depth| {
                    writer.value(item, depth)
                })?;
            }
            Value::Map(map) => {
                let entries: Vec<_> =
                    map.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                self.group('{', '}', entries.iter(), depth, |writer, (key, value), depth| {
                    writer.string(key);
                    writer.out.push_str(if writer.style.pretty { ": " } else { ":" });
                    writer.value(value, depth)
                })?;
            }
            Value::Object(object) => self.value(&object.plain(), depth + 1)?,
        }
        Ok(())
    }

    fn group<T>(
        &mut self,
        open: char,
        close: char,
        items: impl ExactSizeIterator<Item = T>,
        depth: usize,
        mut each: impl FnMut(&mut Self, T, usize) -> Result<(), FunctionError>,
    ) -> Result<(), FunctionError> {
        let empty = items.len() == 0;
        self.out.push(open);
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.line(depth + 1);
            each(self, item, depth + 1)?;
        }
        if !empty {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if self.style.pretty {
            self.out.push('\n');
            self.out.push_str(&"  ".repeat(depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{08}' => self.out.push_str("\\b"),
                '\u{0c}' => self.out.push_str("\\f"),
                '<' | '>' | '&' if self.style.html => {
                    self.out.push_str(&format!("\\u{:04x}", c as u32));
                }
                '\u{2028}' | '\u{2029}' => self.out.push_str(&format!("\\u{:04x}", c as u32)),
                c if (c as u32) < 0x20 => self.out.push_str(&format!("\\u{:04x}", c as u32)),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// Go writes an exponent only for very small and very large numbers.
pub(super) fn float(number: f64) -> Result<String, FunctionError> {
    if !number.is_finite() {
        let shown = format_float(number, 'g', None);
        return Err(format!("json: unsupported value: {shown}").into());
    }
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format_float(number, 'e', None);
        return Ok(text.replace("e-0", "e-"));
    }
    Ok(format_float(number, 'f', None))
}
