//! Quoted strings: written as Go's `strconv.Quote` does, and read from literals of templates.

/// The text in double quotes, with Go's escapes.
pub fn quote(bytes: &[u8]) -> String {
    quote_with(bytes, '"', false)
}

/// As [`quote`], in quotes of `mark`, and without characters beyond ASCII if `ascii`.
pub(crate) fn quote_with(bytes: &[u8], mark: char, ascii: bool) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push(mark);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_escaped(&mut out, c, mark, ascii);
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push(mark);
    out
}

fn push_escaped(out: &mut String, c: char, mark: char, ascii: bool) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\u{07}' => out.push_str("\\a"),
        '\u{08}' => out.push_str("\\b"),
        '\u{0c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{0b}' => out.push_str("\\v"),
        c if c == mark => {
            out.push('\\');
            out.push(c);
        }
        c if is_printable(c) && (c.is_ascii() || !ascii) => out.push(c),
        c if (c as u32) < 0x80 => out.push_str(&format!("\\x{:02x}", c as u32)),
        c if (c as u32) < 0x10000 => out.push_str(&format!("\\u{:04x}", c as u32)),
        c => out.push_str(&format!("\\U{:08x}", c as u32)),
    }
}

/// Go's `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    // The standard library escapes what is not printable, and marks that combine, which are.
    !c.is_whitespace()
        && !c.is_control()
        && (c.is_alphanumeric() || !c.escape_debug().to_string().starts_with("\\u{"))
}

/// The content of a string literal with its quotes, double or back.
pub(crate) fn unquote(literal: &str) -> Option<Vec<u8>> {
    if let Some(raw) = literal.strip_prefix('`') {
        // Carriage returns are not part of raw strings.
        return Some(raw.strip_suffix('`')?.bytes().filter(|byte| *byte != b'\r').collect());
    }
    let mut rest = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let (unit, tail) = unquote_unit(rest, '"')?;
        unit.push_to(&mut out);
        rest = tail;
    }
    Some(out)
}

/// The number of a character literal with its quotes.
pub(crate) fn unquote_character(literal: &str) -> Option<i64> {
    let (unit, tail) = unquote_unit(literal.strip_prefix('\'')?, '\'')?;
    (tail == "'").then(|| match unit {
        Unit::Byte(byte) => i64::from(byte),
        Unit::Character(c) => i64::from(c as u32),
    })
}

enum Unit {
    Byte(u8),
    Character(char),
}

impl Unit {
    fn push_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Byte(byte) => out.push(*byte),
            Self::Character(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

fn unquote_unit(text: &str, mark: char) -> Option<(Unit, &str)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first == mark || first == '\n' {
        return None;
    }
    if first != '\\' {
        return Some((Unit::Character(first), chars.as_str()));
    }
    let code = chars.next()?;
    let rest = chars.as_str();
    let plain = |c: char| Some((Unit::Character(c), rest));
    match code {
        'a' => plain('\u{07}'),
        'b' => plain('\u{08}'),
        'f' => plain('\u{0c}'),
        'n' => plain('\n'),
        'r' => plain('\r'),
        't' => plain('\t'),
        'v' => plain('\u{0b}'),
        '\\' => plain('\\'),
        c if c == mark => plain(c),
        'x' => {
            let digits = rest.get(..2)?;
            Some((Unit::Byte(hex(digits)? as u8), &rest[2..]))
        }
        'u' | 'U' => {
            let length = if code == 'u' { 4 } else { 8 };
            let digits = rest.get(..length)?;
            Some((Unit::Character(char::from_u32(hex(digits)?)?), &rest[length..]))
        }
        '0'..='7' => {
            let digits = text.get(1..4)?;
            let valid = digits.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
            let number = u32::from_str_radix(digits, 8).ok().filter(|_| valid)?;
            Some((Unit::Byte(u8::try_from(number).ok()?), &text[4..]))
        }
        _ => None,
    }
}

fn hex(digits: &str) -> Option<u32> {
    let valid = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_with_go_escapes() {
        assert_eq!(quote("a\"b\\\n\u{1}é\u{a0}".as_bytes()), r#""a\"b\\\n\x01é\u00a0""#);
        assert_eq!(quote(&[b'a', 0xff]), r#""a\xff""#);
    }

    #[test]
    fn literals_are_read_back() {
        assert_eq!(unquote(r#""a\x41\101\u00e9\"""#).unwrap(), "aAAé\"".as_bytes());
        assert_eq!(unquote("`a\\n\r`").unwrap(), b"a\\n");
        assert_eq!(unquote_character("'\\n'"), Some(10));
        assert!(unquote(r#""\q""#).is_none());
    }
}
