//! Texts: cutting, padding, searching, quoting.

use std::collections::{BTreeMap, BTreeSet};

use go_template::{Arguments, Arity, Call, Functions, Object, Value, quote};

use super::{Outcome, to_text};

pub(super) fn register(functions: &mut Functions) {
    functions.add("hello", Arity::exactly(0), |_, _| Ok("Hello!".into()));
    functions.add("trim", Arity::exactly(1), |call, values| {
        let text = values.text(0)?;
        call.text(text.trim().to_owned())
    });
    for name in ["trimAll", "trimall"] {
        functions.add(name, Arity::exactly(2), |call, values| {
            let (set, text) = (values.text(0)?, values.text(1)?);
            let set: BTreeSet<char> = set.chars().collect();
            call.text(text.trim_matches(|c| set.contains(&c)).to_owned())
        });
    }
    functions.add("trimSuffix", Arity::exactly(2), |call, values| {
        let (suffix, text) = (values.text(0)?, values.text(1)?);
        call.text(text.strip_suffix(&*suffix).unwrap_or(&text).to_owned())
    });
    functions.add("trimPrefix", Arity::exactly(2), |call, values| {
        let (prefix, text) = (values.text(0)?, values.text(1)?);
        call.text(text.strip_prefix(&*prefix).unwrap_or(&text).to_owned())
    });
    functions.add("contains", Arity::exactly(2), |_, values| {
        Ok(values.text(1)?.contains(&*values.text(0)?).into())
    });
    functions.add("hasPrefix", Arity::exactly(2), |_, values| {
        Ok(values.text(1)?.starts_with(&*values.text(0)?).into())
    });
    functions.add("hasSuffix", Arity::exactly(2), |_, values| {
        Ok(values.text(1)?.ends_with(&*values.text(0)?).into())
    });
    functions.add("replace", Arity::exactly(3), replace);
    functions.add("repeat", Arity::exactly(2), |call, values| {
        let (count, text) = (values.int(0)?, values.text(1)?);
        let count = usize::try_from(count).map_err(|_| "strings: negative Repeat count")?;
        call.allocate(count.saturating_mul(text.len()))?;
        Ok(Value::from(text.repeat(count)))
    });
    functions.add("plural", Arity::exactly(3), |_, values| {
        let (one, many, count) = (values.text(0)?, values.text(1)?, values.int(2)?);
        Ok(Value::String(if count == 1 { one } else { many }))
    });
    functions.add("toString", Arity::exactly(1), |call, values| {
        let value = values.any(0);
        Ok(match value {
            Value::Bytes(_) => value,
            value => Value::String(to_text(call, &value)?),
        })
    });
    functions.add("quote", Arity::at_least(0), |call, values| {
        words(call, values, |value, text| quote(value.as_bytes().unwrap_or(text.as_bytes())))
    });
    functions.add("squote", Arity::at_least(0), |call, values| {
        words(call, values, |_, text| format!("'{text}'"))
    });
    functions.add("cat", Arity::at_least(0), |call, values| {
        words(call, values, |_, text| text.to_owned())
    });
    functions.add("indent", Arity::exactly(2), |call, values| indent(call, values, ""));
    functions.add("nindent", Arity::exactly(2), |call, values| indent(call, values, "\n"));
    functions.add("trunc", Arity::exactly(2), |_, values| {
        let (count, text) = (values.int(0)?, values.bytes(1)?);
        let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(match count {
            ..0 if text.len() > size => Value::bytes(&text[text.len() - size..]),
            0.. if text.len() > size => Value::bytes(&text[..size]),
            _ => Value::bytes(&text),
        })
    });
    functions.add("substr", Arity::exactly(3), substring);
    functions.add("split", Arity::exactly(2), |call, values| {
        let (separator, text) = (values.text(0)?, values.text(1)?);
        numbered(call, split(&text, &separator))
    });
    functions.add("splitn", Arity::exactly(3), |call, values| {
        let (separator, count, text) = (values.text(0)?, values.int(1)?, values.text(2)?);
        numbered(call, split_at_most(&text, &separator, count))
    });
    functions.add("splitList", Arity::exactly(2), |call, values| {
        let (separator, text) = (values.text(0)?, values.text(1)?);
        let parts = split(&text, &separator);
        call.allocate(parts.len().saturating_mul(4))?;
        Ok(Value::list(parts.into_iter().map(Value::from).collect()))
    });
}

/// The values that are not nil, each written by `each`, with spaces between.
fn words(call: &mut Call<'_>, values: &[Value], each: impl Fn(&Value, &str) -> String) -> Outcome {
    let mut joined = String::new();
    for (index, value) in values.iter().filter(|value| !value.is_nil()).enumerate() {
        let text = to_text(call, value)?;
        if index > 0 {
            joined.push(' ');
        }
        call.extend(&mut joined, &each(value, &text))?;
    }
    call.text(joined)
}

fn replace(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let (old, new, text) = (values.text(0)?, values.text(1)?, values.text(2)?);
    let count = if old.is_empty() { text.len() + 1 } else { text.matches(&*old).count() };
    call.allocate(text.len().saturating_add(count.saturating_mul(new.len())))?;
    Ok(Value::from(text.replace(&*old, &new)))
}

fn indent(call: &mut Call<'_>, values: &[Value], lead: &str) -> Outcome {
    let (spaces, text) = (values.int(0)?, values.text(1)?);
    let spaces = usize::try_from(spaces).map_err(|_| "strings: negative Repeat count")?;
    let lines = 1 + text.bytes().filter(|byte| *byte == b'\n').count();
    call.allocate(text.len().saturating_add(lines.saturating_mul(spaces)))?;
    let pad = " ".repeat(spaces);
    let mut out = String::with_capacity(lead.len() + text.len() + lines * spaces);
    out.push_str(lead);
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.push_str(&pad);
        out.push_str(line);
    }
    Ok(Value::from(out))
}

fn substring(_: &mut Call<'_>, values: &[Value]) -> Outcome {
    let (start, end, text) = (values.int(0)?, values.int(1)?, values.bytes(2)?);
    let range = match (usize::try_from(start), usize::try_from(end)) {
        (Err(_), Ok(end)) => 0..end,
        (Ok(start), Ok(end)) if end <= text.len() => start..end,
        (Ok(start), _) => start..text.len(),
        (Err(_), Err(_)) => return Err("runtime error: slice bounds out of range".into()),
    };
    match text.get(range) {
        Some(part) => Ok(Value::bytes(part)),
        None => Err("runtime error: slice bounds out of range".into()),
    }
}

/// Go's `strings.Split`: an empty separator splits into characters.
pub(super) fn split<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    split_at_most(text, separator, -1)
}

/// Go's `strings.SplitN`.
fn split_at_most<'t>(text: &'t str, separator: &str, count: i64) -> Vec<&'t str> {
    let Ok(limit) = usize::try_from(count) else {
        return if separator.is_empty() {
            text.split("").filter(|part| !part.is_empty()).collect()
        } else {
            text.split(separator).collect()
        };
    };
    if limit == 0 {
        return Vec::new();
    }
    if !separator.is_empty() {
        return text.splitn(limit, separator).collect();
    }
    let mut parts: Vec<&str> = text.split("").filter(|part| !part.is_empty()).collect();
    if parts.len() > limit {
        let kept: usize = parts[..limit - 1].iter().map(|part| part.len()).sum();
        parts.truncate(limit - 1);
        parts.push(&text[kept..]);
    }
    parts
}

fn numbered(call: &mut Call<'_>, parts: Vec<&str>) -> Outcome {
    call.allocate(parts.len().saturating_mul(4))?;
    let named = parts.into_iter().enumerate().map(|(n, part)| (format!("_{n}"), part.to_owned()));
    Ok(Value::object(TextMap(named.collect())))
}

/// A map of Go's type `map[string]string`: a key that it does not have is an empty text.
#[derive(Debug, Clone, Default)]
pub struct TextMap(pub BTreeMap<String, String>);

impl Object for TextMap {
    fn type_name(&self) -> String {
        "map[string]string".to_owned()
    }

    fn kind(&self) -> go_template::Kind {
        go_template::Kind::Map
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::string(self.0.get(name).map_or("", String::as_str)))
    }

    fn entries(&self) -> Option<Vec<(String, Value)>> {
        Some(self.0.iter().map(|(key, text)| (key.clone(), Value::string(text))).collect())
    }

    fn plain(&self) -> Value {
        Value::map(self.entries().unwrap_or_default().into_iter().collect())
    }
}
