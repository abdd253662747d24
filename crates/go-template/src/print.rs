//! Printing as Go's `fmt` does: `Sprint`, `Sprintf` and their verbs.

mod directive;
mod scalar;

pub use directive::printf;

use crate::budget::{Budget, Exceeded};
use crate::value::{Kind, Value};

/// Deeper values are cut: a map may contain itself.
const MAX_DEPTH: usize = 256;

/// Flags of a directive such as `%-08.3f`.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// Text that may not grow beyond a limit.
struct Printer {
    out: Vec<u8>,
    limit: usize,
}

/// Go's `fmt.Sprint`: a space between operands where neither is a string.
pub fn print_all(values: &[Value], budget: &mut Budget) -> Result<Value, Exceeded> {
    let mut printer = Printer::new(budget);
    for (index, value) in values.iter().enumerate() {
        let is_string = |value: &Value| value.kind() == Kind::String;
        if index > 0 && !is_string(value) && !is_string(&values[index - 1]) {
            printer.push(" ")?;
        }
        printer.value(value, 'v', &Flags::default(), 0)?;
    }
    printer.finish(budget)
}

/// Appends the text of one value, as an action of a template prints it.
pub(crate) fn print_into(out: &mut Vec<u8>, value: &Value, limit: usize) -> Result<(), Exceeded> {
    match value {
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        Value::Bytes(bytes) => out.extend_from_slice(bytes),
        Value::Absent => out.extend_from_slice(b"<no value>"),
        value => {
            let mut printer = Printer { out: std::mem::take(out), limit };
            let result = printer.value(value, 'v', &Flags::default(), 0);
            *out = printer.out;
            result?;
        }
    }
    if out.len() > limit { Err(Exceeded::Output(limit)) } else { Ok(()) }
}

impl Printer {
    fn new(budget: &Budget) -> Self {
        Self { out: Vec::new(), limit: budget.limits().value_size }
    }

    fn finish(self, budget: &mut Budget) -> Result<Value, Exceeded> {
        budget.allocate(self.out.len())?;
        Ok(match String::from_utf8(self.out) {
            Ok(text) => Value::from(text),
            Err(error) => Value::bytes(error.as_bytes()),
        })
    }

    fn push(&mut self, text: &str) -> Result<(), Exceeded> {
        self.push_bytes(text.as_bytes())
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), Exceeded> {
        if self.out.len() + bytes.len() > self.limit {
            return Err(Exceeded::Value(self.limit));
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Text in the width of the directive.
    fn pad(&mut self, bytes: &[u8], flags: &Flags) -> Result<(), Exceeded> {
        let length = String::from_utf8_lossy(bytes).chars().count();
        let missing = flags.width.map_or(0, |width| width.saturating_sub(length));
        if missing == 0 {
            return self.push_bytes(bytes);
        }
        if flags.minus {
            self.push_bytes(bytes)?;
            return self.push(&" ".repeat(missing));
        }
        self.push(&if flags.zero { "0" } else { " " }.repeat(missing))?;
        self.push_bytes(bytes)
    }

    fn value(
        &mut self,
        value: &Value,
        verb: char,
        flags: &Flags,
        depth: usize,
    ) -> Result<(), Exceeded> {
        if depth > MAX_DEPTH {
            return self.push("...");
        }
        let go_syntax = verb == 'v' && flags.sharp;
        match value {
            Value::Absent | Value::Nil => match verb {
                'v' if go_syntax && depth > 0 => self.push("interface {}(nil)"),
                'v' => self.pad(b"<nil>", flags),
                'T' => self.pad(b"<nil>", flags),
                _ => self.push(&format!("%!{verb}(<nil>)")),
            },
            Value::List(list) => self.list(value, &list[..], verb, flags, depth),
            Value::Map(map) => {
                let entries: Vec<_> =
                    map.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                self.map(value, &entries, verb, flags, depth)
            }
            Value::Object(object) => {
                if let Some(text) = object.text().filter(|_| !go_syntax && "vsqxX".contains(verb)) {
                    return self.scalar(&Value::from(text), verb, flags);
                }
                match object.kind() {
                    Kind::Map => {
                        let entries = object.entries().unwrap_or_default();
                        self.map(value, &entries, verb, flags, depth)
                    }
                    Kind::Slice => {
                        let items = object.items().unwrap_or_default();
                        self.list(value, &items, verb, flags, depth)
                    }
                    _ => self.value(&object.plain(), verb, flags, depth + 1),
                }
            }
            scalar => self.scalar(scalar, verb, flags),
        }
    }

    fn list(
        &mut self,
        value: &Value,
        items: &[Value],
        verb: char,
        flags: &Flags,
        depth: usize,
    ) -> Result<(), Exceeded> {
        let go_syntax = verb == 'v' && flags.sharp;
        if go_syntax {
            self.push(&value.type_name())?;
        }
        self.push(if go_syntax { "{" } else { "[" })?;
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.push(if go_syntax { ", " } else { " " })?;
            }
            self.value(item, verb, flags, depth + 1)?;
        }
        self.push(if go_syntax { "}" } else { "]" })
    }

    fn map(
        &mut self,
        value: &Value,
        entries: &[(String, Value)],
        verb: char,
        flags: &Flags,
        depth: usize,
    ) -> Result<(), Exceeded> {
        let go_syntax = verb == 'v' && flags.sharp;
        if go_syntax {
            self.push(&value.type_name())?;
        }
        self.push(if go_syntax { "{" } else { "map[" })?;
        for (index, (key, value)) in entries.iter().enumerate() {
            if index > 0 {
                self.push(if go_syntax { ", " } else { " " })?;
            }
            self.scalar(&Value::string(key), verb, flags)?;
            self.push(":")?;
            self.value(value, verb, flags, depth + 1)?;
        }
        self.push(if go_syntax { "}" } else { "]" })
    }
}
