//! `Sprintf`: directives of a format, and what Go prints for mistakes in it.

use super::{Flags, Printer};
use crate::budget::{Budget, Exceeded};
use crate::value::Value;

/// Widths and precisions beyond this are mistakes, as in Go.
const MAX_NUMBER: i64 = 1_000_000;

/// Go's `fmt.Sprintf`.
pub fn printf(format: &[u8], arguments: &[Value], budget: &mut Budget) -> Result<Value, Exceeded> {
    let mut run = Directives {
        printer: Printer::new(budget),
        format,
        at: 0,
        arguments,
        next: 0,
        reordered: false,
        good_index: true,
    };
    run.all()?;
    run.printer.finish(budget)
}

struct Directives<'a> {
    printer: Printer,
    format: &'a [u8],
    at: usize,
    arguments: &'a [Value],
    next: usize,
    /// An explicit index was used; surplus arguments are then no mistake.
    reordered: bool,
    good_index: bool,
}

impl Directives<'_> {
    fn all(&mut self) -> Result<(), Exceeded> {
        while self.at < self.format.len() {
            let rest = &self.format[self.at..];
            let literal = rest.iter().position(|byte| *byte == b'%').unwrap_or(rest.len());
            self.printer.push_bytes(&rest[..literal])?;
            self.at += literal;
            if self.at < self.format.len() {
                self.at += 1;
                self.directive()?;
            }
        }
        self.surplus()
    }

    fn directive(&mut self) -> Result<(), Exceeded> {
        self.good_index = true;
        let mut flags = Flags::default();
        while let Some(byte) = self.peek() {
            match byte {
                b'#' => flags.sharp = true,
                b'0' => flags.zero = true,
                b'+' => flags.plus = true,
                b'-' => flags.minus = true,
                b' ' => flags.space = true,
                _ => break,
            }
            self.at += 1;
        }
        let mut after_index = self.index();
        if self.peek() == Some(b'*') {
            self.at += 1;
            match self.star() {
                Some(width) => {
                    flags.minus |= width < 0;
                    flags.width = Some(width.unsigned_abs() as usize);
                }
                None => self.printer.push("%!(BADWIDTH)")?,
            }
            after_index = false;
        } else {
            flags.width = self.number();
            if after_index && flags.width.is_some() {
                self.good_index = false;
            }
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if after_index {
                self.good_index = false;
            }
            after_index = self.index();
            if self.peek() == Some(b'*') {
                self.at += 1;
                match self.star() {
                    Some(precision) if precision >= 0 => {
                        flags.precision = Some(precision as usize);
                    }
                    Some(_) => {}
                    None => self.printer.push("%!(BADPREC)")?,
                }
                after_index = false;
            } else {
                flags.precision = Some(self.number().unwrap_or(0));
            }
        }
        if !after_index {
            self.index();
        }
        if flags.minus {
            flags.zero = false;
        }
        self.verb(&flags)
    }

    fn verb(&mut self, flags: &Flags) -> Result<(), Exceeded> {
        let rest = String::from_utf8_lossy(&self.format[self.at..]).into_owned();
        let Some(verb) = rest.chars().next() else {
            return self.printer.push("%!(NOVERB)");
        };
        self.at += verb.len_utf8().min(self.format.len() - self.at);
        if verb == '%' {
            return self.printer.push("%");
        }
        if !self.good_index {
            return self.printer.push(&format!("%!{verb}(BADINDEX)"));
        }
        let Some(argument) = self.arguments.get(self.next) else {
            return self.printer.push(&format!("%!{verb}(MISSING)"));
        };
        self.next += 1;
        if verb == 'T' {
            let name = argument.type_name();
            return self.printer.scalar(&Value::from(name), 's', flags);
        }
        self.printer.value(argument, verb, flags, 0)
    }

    fn surplus(&mut self) -> Result<(), Exceeded> {
        if self.reordered || self.next >= self.arguments.len() {
            return Ok(());
        }
        self.printer.push("%!(EXTRA ")?;
        for (index, argument) in self.arguments[self.next..].iter().enumerate() {
            if index > 0 {
                self.printer.push(", ")?;
            }
            if argument.is_nil() {
                self.printer.push("<nil>")?;
            } else {
                self.printer.push(&format!("{}=", argument.type_name()))?;
                self.printer.value(argument, 'v', &Flags::default(), 0)?;
            }
        }
        self.printer.push(")")
    }

    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    /// Decimal digits, absent where there are none or too many.
    fn number(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.format[start..self.at]).unwrap_or_default();
        digits.parse::<i64>().ok().filter(|number| *number <= MAX_NUMBER).map(|n| n as usize)
    }

    /// The value of a `*`.
    fn star(&mut self) -> Option<i64> {
        let number = self.arguments.get(self.next).and_then(Value::as_integer);
        self.next += 1;
        number.filter(|number| number.abs() <= MAX_NUMBER)
    }

    /// An explicit argument index such as `[2]`.
    fn index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let rest = &self.format[self.at..];
        let Some(end) = rest.iter().position(|byte| *byte == b']') else {
            self.good_index = false;
            self.at += 1;
            return false;
        };
        let digits = std::str::from_utf8(&rest[1..end]).unwrap_or_default();
        match digits.parse::<usize>().ok().filter(|n| (1..=self.arguments.len()).contains(n)) {
            Some(number) => self.next = number - 1,
            None => self.good_index = false,
        }
        self.at += end + 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Limits;

    fn format(format: &str, arguments: &[Value]) -> String {
        let mut budget = Budget::new(Limits::default());
        let value = printf(format.as_bytes(), arguments, &mut budget).unwrap();
        value.as_str().unwrap().to_owned()
    }

    /// Expected texts were printed by Go's fmt.
    #[test]
    fn directives_print_as_in_go() {
        let (text, int) = (Value::from("hi"), Value::Int(42));
        for (directive, value, expected) in [
            ("%s", &text, "hi"),
            ("%5s|", &text, "   hi|"),
            ("%-5s|", &text, "hi   |"),
            ("%.1s", &text, "h"),
            ("%q", &text, "\"hi\""),
            ("%x", &text, "6869"),
            ("%d", &text, "%!d(string=hi)"),
            ("%05d", &int, "00042"),
            ("%+d", &int, "+42"),
            ("%x", &int, "2a"),
            ("%#x", &int, "0x2a"),
            ("%c", &int, "*"),
            ("%s", &int, "%!s(int=42)"),
            ("%T", &int, "int"),
            ("%d %d", &int, "42 %!d(MISSING)"),
            ("%", &int, "%!(NOVERB)%!(EXTRA int=42)"),
            ("%[1]d %[1]d", &int, "42 42"),
            ("%6.2f|", &Value::Float(3.456), "  3.46|"),
            ("%v", &Value::Float(1e6), "1e+06"),
            ("%v", &Value::Nil, "<nil>"),
            ("%s", &Value::Nil, "%!s(<nil>)"),
        ] {
            assert_eq!(format(directive, std::slice::from_ref(value)), expected, "{directive}");
        }
    }
}
