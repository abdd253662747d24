//! Booleans, numbers and strings under each verb of Go's `fmt`.

use super::{Flags, Printer};
use crate::budget::Exceeded;
use crate::number::format_float;
use crate::quote::{is_printable, quote_with};
use crate::value::Value;

impl Printer {
    pub(super) fn scalar(
        &mut self,
        value: &Value,
        verb: char,
        flags: &Flags,
    ) -> Result<(), Exceeded> {
        match value {
            Value::Bool(flag) if matches!(verb, 'v' | 't') => {
                self.pad(if *flag { b"true" } else { b"false" }, flags)
            }
            Value::Int(number) | Value::Int64(number) => self.integer(value, *number, verb, flags),
            Value::Float(number) => self.float(value, *number, verb, flags),
            Value::String(text) => self.string(value, text.as_bytes(), verb, flags),
            Value::Bytes(bytes) => self.string(value, bytes, verb, flags),
            other => self.bad_verb(other, verb),
        }
    }

    /// What Go prints for a verb that does not fit: `%!d(string=hi)`.
    fn bad_verb(&mut self, value: &Value, verb: char) -> Result<(), Exceeded> {
        self.push(&format!("%!{verb}({}=", value.type_name()))?;
        self.scalar(value, 'v', &Flags::default())?;
        self.push(")")
    }

    fn integer(
        &mut self,
        value: &Value,
        number: i64,
        verb: char,
        flags: &Flags,
    ) -> Result<(), Exceeded> {
        let size = number.unsigned_abs();
        let character = u32::try_from(number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
        let mut digits = match verb {
            'v' | 'd' => size.to_string(),
            'b' => format!("{size:b}"),
            'o' | 'O' => format!("{size:o}"),
            'x' => format!("{size:x}"),
            'X' => format!("{size:X}"),
            'c' => return self.pad(character.to_string().as_bytes(), flags),
            'q' => {
                let text = character.to_string();
                return self.pad(quote_with(text.as_bytes(), '\'', flags.plus).as_bytes(), flags);
            }
            'U' => {
                let mut text = format!("U+{number:04X}");
                if flags.sharp && is_printable(character) {
                    text.push_str(&format!(" '{character}'"));
                }
                return self.pad(text.as_bytes(), flags);
            }
            _ => return self.bad_verb(value, verb),
        };
        let sign = match number {
            ..0 => "-",
            _ if flags.plus => "+",
            _ if flags.space => " ",
            _ => "",
        };
        let prefix = match verb {
            'b' if flags.sharp => "0b",
            'o' if flags.sharp => "0",
            'O' => "0o",
            'x' if flags.sharp => "0x",
            'X' if flags.sharp => "0X",
            _ => "",
        };
        let mut flags = *flags;
        if let Some(precision) = flags.precision {
            if precision == 0 && number == 0 {
                return self.pad(b"", &Flags { zero: false, ..flags });
            }
            digits = format!("{digits:0>precision$}");
        } else if let Some(width) = flags.width.filter(|_| flags.zero && !flags.minus) {
            let width = width.saturating_sub(sign.len());
            digits = format!("{digits:0>width$}");
        }
        flags.zero = false;
        self.pad(format!("{sign}{prefix}{digits}").as_bytes(), &flags)
    }

    fn float(
        &mut self,
        value: &Value,
        number: f64,
        verb: char,
        flags: &Flags,
    ) -> Result<(), Exceeded> {
        let (format, precision) = match verb {
            'v' => ('g', None),
            'g' | 'G' => (verb, None),
            'e' | 'E' => (verb, Some(6)),
            'f' | 'F' => ('f', Some(6)),
            _ => return self.bad_verb(value, verb),
        };
        let text = format_float(number, format, flags.precision.or(precision));
        let (sign, digits) = match text.strip_prefix(['-', '+']) {
            Some(digits) => (if text.starts_with('-') { "-" } else { "+" }, digits),
            None => ("", text.as_str()),
        };
        let sign = match sign {
            "" if flags.plus => "+",
            "" if flags.space => " ",
            sign => sign,
        };
        let mut flags = *flags;
        let finite = number.is_finite();
        let missing = flags
            .width
            .filter(|_| flags.zero && !flags.minus && finite)
            .map_or(0, |width| width.saturating_sub(sign.len() + digits.len()));
        flags.zero = false;
        self.pad(format!("{sign}{}{digits}", "0".repeat(missing)).as_bytes(), &flags)
    }

    fn string(
        &mut self,
        value: &Value,
        bytes: &[u8],
        verb: char,
        flags: &Flags,
    ) -> Result<(), Exceeded> {
        let cut = |bytes: &[u8]| -> Vec<u8> {
            match flags.precision {
                Some(limit) => match std::str::from_utf8(bytes) {
                    Ok(text) => text.chars().take(limit).collect::<String>().into_bytes(),
                    Err(_) => bytes.iter().copied().take(limit).collect(),
                },
                None => bytes.to_vec(),
            }
        };
        match verb {
            'v' if flags.sharp => self.pad(quote_with(bytes, '"', false).as_bytes(), flags),
            'v' | 's' => self.pad(&cut(bytes), flags),
            'q' => {
                let text = cut(bytes);
                let raw = flags.sharp && !text.contains(&b'`') && text.iter().all(|b| *b >= b' ');
                if raw {
                    let text = [b"`", text.as_slice(), b"`"].concat();
                    return self.pad(&text, flags);
                }
                self.pad(quote_with(&text, '"', flags.plus).as_bytes(), flags)
            }
            'x' | 'X' => {
                let separator = if flags.space { " " } else { "" };
                let lead = if flags.sharp { if verb == 'x' { "0x" } else { "0X" } } else { "" };
                let limit = flags.precision.unwrap_or(bytes.len()).min(bytes.len());
                let mut text = String::new();
                for (index, byte) in bytes[..limit].iter().enumerate() {
                    if index > 0 {
                        text.push_str(separator);
                    }
                    if index == 0 || flags.space {
                        text.push_str(lead);
                    }
                    let digits =
                        if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") };
                    text.push_str(&digits);
                }
                self.pad(text.as_bytes(), flags)
            }
            _ => self.bad_verb(value, verb),
        }
    }
}
