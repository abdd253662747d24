//! YAML as the library prints it that Helm uses: block style, keys in natural order, lists in maps
//! not indented, long texts broken at 80 columns. Charts embed and parse this text again.

mod order;
mod scalar;

use go_template::{Budget, FunctionError, Value};

use super::super::json;
use order::sort_keys;
use scalar::Context;

/// Deeper values are refused: a map may contain itself.
const MAX_DEPTH: usize = 256;
/// Keys longer than this, or of several lines, are written with a question mark.
const MAX_SIMPLE_KEY: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `toYaml`
    Compact,
    /// `toYamlPretty`: lists in maps are indented, long texts are not broken.
    Pretty,
}

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    Root,
    Item,
    Entry,
}

/// The text of a value, without a line break at its end.
pub(super) fn write(
    value: &Value,
    style: Style,
    budget: &mut Budget,
) -> Result<String, FunctionError> {
    let mut writer = Writer { out: String::new(), style, budget };
    writer.value(value, None, Parent::Root, 0)?;
    let mut out = writer.out;
    if out.ends_with('\n') {
        out.pop();
    }
    Ok(out)
}

struct Writer<'b> {
    out: String,
    style: Style,
    budget: &'b mut Budget,
}

impl Writer<'_> {
    /// Starts a line, unless one has just begun, and indents it.
    fn line(&mut self, indent: usize) {
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        self.out.push_str(&" ".repeat(indent));
    }

    fn column(&self) -> usize {
        let line = self.out.rfind('\n').map_or(0, |at| at + 1);
        self.out[line..].chars().count()
    }

    /// Separates a value from the `:` or `-` before it.
    fn space(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
    }

    /// `indent` is that of the parent; `None` at the root.
    fn value(
        &mut self,
        value: &Value,
        indent: Option<usize>,
        parent: Parent,
        depth: usize,
    ) -> Result<(), FunctionError> {
        if depth > MAX_DEPTH {
            return Err("the value is nested too deep".into());
        }
        self.budget.spend(1)?;
        if self.out.len() > self.budget.limits().value_size {
            self.budget.allocate(self.out.len())?;
        }
        match value {
            Value::Map(map) => {
                let mut entries: Vec<(String, Value)> =
                    map.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                sort_keys(&mut entries);
                self.map(&entries, indent, parent, depth)
            }
            Value::List(items) => self.list(items, indent, parent, depth),
            Value::Object(object) => self.value(&object.plain(), indent, parent, depth + 1),
            scalar => {
                let indent = indent.map_or(2, |indent| indent + 2);
                self.space();
                let text = match scalar {
                    Value::Bool(flag) => flag.to_string(),
                    Value::Int(number) | Value::Int64(number) => number.to_string(),
                    Value::Float(number) => float(*number)?,
                    Value::String(text) => {
                        self.text(text, indent, Context::Value);
                        return Ok(());
                    }
                    Value::Bytes(bytes) => {
                        self.text(&String::from_utf8_lossy(bytes), indent, Context::Value);
                        return Ok(());
                    }
                    _ => "null".to_owned(),
                };
                self.out.push_str(&text);
                Ok(())
            }
        }
    }

    fn map(
        &mut self,
        entries: &[(String, Value)],
        indent: Option<usize>,
        parent: Parent,
        depth: usize,
    ) -> Result<(), FunctionError> {
        if entries.is_empty() {
            self.space();
            self.out.push_str("{}");
            return Ok(());
        }
        let indent = indent.map_or(0, |indent| indent + 2);
        for (index, (key, value)) in entries.iter().enumerate() {
            if index == 0 && parent == Parent::Item {
                self.space();
            } else {
                self.line(indent);
            }
            if key.len() > MAX_SIMPLE_KEY || key.contains('\n') {
                self.out.push_str("? ");
                self.text(key, indent + 2, Context::Value);
                self.line(indent);
                self.out.push(':');
                // Behind the sign, as behind that of a list.
                self.value(value, Some(indent), Parent::Item, depth + 1)?;
                continue;
            }
            self.text(key, indent + 2, Context::Key);
            self.out.push(':');
            self.value(value, Some(indent), Parent::Entry, depth + 1)?;
        }
        Ok(())
    }

    fn list(
        &mut self,
        items: &[Value],
        indent: Option<usize>,
        parent: Parent,
        depth: usize,
    ) -> Result<(), FunctionError> {
        if items.is_empty() {
            self.space();
            self.out.push_str("[]");
            return Ok(());
        }
        let indent = match (indent, parent, self.style) {
            (None, _, _) => 0,
            (Some(indent), Parent::Entry, Style::Compact) => indent,
            (Some(indent), _, _) => indent + 2,
        };
        for (index, item) in items.iter().enumerate() {
            if index == 0 && parent == Parent::Item {
                self.space();
            } else {
                self.line(indent);
            }
            self.out.push('-');
            self.value(item, Some(indent), Parent::Item, depth + 1)?;
        }
        Ok(())
    }
}

/// A float passes through JSON, where one without a fraction is an integer.
fn float(number: f64) -> Result<String, FunctionError> {
    let text = json::float(number)?;
    if text == "-0" {
        return Ok("0".to_owned());
    }
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return Ok(text);
    }
    Ok(go_template::format_float(number, 'g', None))
}
