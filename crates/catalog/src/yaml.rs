//! YAML documents written as JSON, so that all else reads one format.
//!
//! Event by event, without a tree: catalogs are large. Words mean what they mean in YAML 1.1, as
//! in OLM's own reader.

use std::collections::BTreeMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};

/// How deep lists and maps may be nested.
const MAX_DEPTH: usize = 256;
/// Aliases may make a document longer than it is written, but not by more than this.
const MAX_ALIASED_BYTES: usize = 16 << 20;
/// Repeated keys in one file. Each moves the text behind it once.
const MAX_REPEATED_KEYS: usize = 1000;

/// The documents of one YAML file.
#[derive(Debug, Default)]
pub(crate) struct Converted {
    /// The documents as JSON, one after the other, each on a line of its own.
    pub(crate) json: String,
    /// Where each document starts: in `json`, and its line in the YAML.
    pub(crate) starts: Vec<(usize, usize)>,
    /// Keys that a map has more than once, at each place after the first.
    pub(crate) repeated: Vec<RepeatedKey>,
}

/// A key that a map already had. Its value counts, as in OLM's own reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RepeatedKey {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) key: String,
}

/// Text that is not YAML, or cannot be a catalog.
#[derive(Debug)]
pub(crate) struct NotYaml {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) why: String,
}

/// Converts every document of `text`; empty ones are left out.
pub(crate) fn to_json(text: &str) -> Result<Converted, NotYaml> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut writer = Writer {
        events: Parser::new_from_str_with_options(text, options),
        out: Converted { json: String::with_capacity(text.len()), ..Converted::default() },
        anchors: BTreeMap::new(),
        aliased: 0,
    };
    writer.stream()?;
    Ok(writer.out)
}

struct Writer<'a> {
    events: Parser<'a, StrInput<'a>>,
    out: Converted,
    anchors: BTreeMap<usize, Anchored>,
    aliased: usize,
}

/// A finished value with an anchor.
enum Anchored {
    /// Where it is in the JSON.
    At(Range<usize>),
    /// Its text, when the place was removed because its key was repeated.
    Removed(String),
}

impl<'a> Writer<'a> {
    fn stream(&mut self) -> Result<(), NotYaml> {
        while let Some((event, span)) = self.next()? {
            match event {
                Event::DocumentStart(..) => self.anchors.clear(),
                Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => break,
                event if is_null(&event) => {}
                event => {
                    self.out.starts.push((self.out.json.len(), span.start.line()));
                    self.value(event, span)?;
                    self.out.json.push('\n');
                }
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, NotYaml> {
        self.events.next().transpose().map_err(|error| NotYaml {
            line: error.marker().line(),
            column: error.marker().col() + 1,
            why: error.info(),
        })
    }

    fn value(&mut self, event: Event<'a>, span: Span) -> Result<(), NotYaml> {
        let start = self.out.json.len();
        let anchor = match event {
            Event::Alias(id) => return self.alias(id, span),
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| {
                    tag.parts() == ("", "!") || tag.is_yaml_core_schema_tag("str")
                });
                let plain = style == ScalarStyle::Plain && !is_text;
                scalar(&text, plain, &mut self.out.json);
                anchor
            }
            Event::SequenceStart(_, anchor, _) => {
                self.sequence()?;
                anchor
            }
            Event::MappingStart(_, anchor, _) => {
                self.mapping()?;
                anchor
            }
            _ => return Err(wrong(span, "something that is not a value")),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, Anchored::At(start..self.out.json.len()));
        }
        Ok(())
    }

    fn sequence(&mut self) -> Result<(), NotYaml> {
        self.out.json.push('[');
        let mut first = true;
        while let Some((event, span)) = self.next()? {
            if event == Event::SequenceEnd {
                break;
            }
            if !std::mem::take(&mut first) {
                self.out.json.push(',');
            }
            self.value(event, span)?;
        }
        self.out.json.push(']');
        Ok(())
    }

    fn mapping(&mut self) -> Result<(), NotYaml> {
        self.out.json.push('{');
        // Each key, and where it is with its value and the comma behind it.
        let mut keys: Vec<(Box<str>, Range<usize>)> = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::MappingEnd {
                break;
            }
            let Event::Scalar(key, style, ..) = event else {
                return Err(wrong(span, "a key that is not text"));
            };
            if key == "<<" && style == ScalarStyle::Plain {
                return Err(wrong(span, "a merge key (`<<`), which catalogs do not use"));
            }
            // Few keys per map: a linear search is cheaper than a tree.
            if let Some(index) = keys.iter().position(|(known, _)| **known == *key) {
                self.repeated(&key, span)?;
                let (_, removed) = keys.remove(index);
                for (_, range) in keys.iter_mut().filter(|(_, range)| range.start >= removed.end) {
                    *range = range.start - removed.len()..range.end - removed.len();
                }
                self.remove(removed, span)?;
            }
            let start = self.out.json.len();
            quote(&key, &mut self.out.json);
            self.out.json.push(':');
            match self.next()? {
                Some((event, span)) => self.value(event, span)?,
                None => self.out.json.push_str("null"),
            }
            self.out.json.push(',');
            keys.push((key.into(), start..self.out.json.len()));
        }
        if !keys.is_empty() {
            self.out.json.pop();
        }
        self.out.json.push('}');
        Ok(())
    }

    fn repeated(&mut self, key: &str, span: Span) -> Result<(), NotYaml> {
        if self.out.repeated.len() == MAX_REPEATED_KEYS {
            return Err(wrong(span, &format!("more than {MAX_REPEATED_KEYS} repeated keys")));
        }
        self.out.repeated.push(RepeatedKey {
            line: span.start.line(),
            column: span.start.col() + 1,
            key: key.to_owned(),
        });
        Ok(())
    }

    /// Removes text of the map that is being written, and keeps anchors valid.
    fn remove(&mut self, removed: Range<usize>, span: Span) -> Result<(), NotYaml> {
        for anchored in self.anchors.values_mut() {
            let Anchored::At(range) = anchored else { continue };
            if range.start >= removed.end {
                *range = range.start - removed.len()..range.end - removed.len();
            } else if range.start >= removed.start {
                // Values inside each other are copied once each.
                self.aliased += range.len();
                *anchored = Anchored::Removed(self.out.json[range.clone()].to_owned());
            }
            if self.aliased > MAX_ALIASED_BYTES {
                return Err(wrong(span, "aliases that repeat more than 16 MiB"));
            }
        }
        self.out.json.replace_range(removed, "");
        Ok(())
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), NotYaml> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(wrong(span, "an alias inside the value that it names"));
        };
        self.aliased += match anchored {
            Anchored::At(range) => range.len(),
            Anchored::Removed(text) => text.len(),
        };
        if self.aliased > MAX_ALIASED_BYTES {
            return Err(wrong(span, "aliases that repeat more than 16 MiB"));
        }
        match anchored {
            Anchored::At(range) => self.out.json.extend_from_within(range.clone()),
            Anchored::Removed(text) => self.out.json.push_str(text),
        }
        Ok(())
    }
}

fn wrong(span: Span, what: &str) -> NotYaml {
    NotYaml { line: span.start.line(), column: span.start.col() + 1, why: format!("found {what}") }
}

fn is_null(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::Scalar(text, ScalarStyle::Plain, 0, None)
            if matches!(&**text, "" | "~" | "null" | "Null" | "NULL")
    )
}

/// Writes one scalar; only an unquoted one can be anything but text.
fn scalar(text: &str, plain: bool, json: &mut String) {
    if !plain {
        return quote(text, json);
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => json.push_str("null"),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            json.push_str("true");
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            json.push_str("false");
        }
        word => match number(word) {
            Some(number) => json.push_str(&number),
            None => quote(word, json),
        },
    }
}

/// An unquoted word as a JSON number.
fn number(word: &str) -> Option<String> {
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let digits = unsigned.replace('_', "");
    let sign = if word.starts_with('-') { "-" } else { "" };
    if let Some(whole) = whole(&digits) {
        return Some(format!("{sign}{whole}"));
    }
    let value: f64 = digits.parse().ok().filter(|value: &f64| value.is_finite())?;
    // As Go writes it: a whole number has no fraction.
    Some(format!("{sign}{value}"))
}

fn whole(digits: &str) -> Option<u64> {
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // Rust takes a sign here, which would be a second one.
    digits.starts_with(|c: char| c.is_ascii_alphanumeric()).then_some(())?;
    u64::from_str_radix(digits, radix).ok()
}

/// Writes `text` as a JSON string.
pub(crate) fn quote(text: &str, json: &mut String) {
    json.push('"');
    let mut copied = 0;
    for (index, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        json.push_str(&text[copied..index]);
        copied = index + 1;
        match byte {
            b'"' => json.push_str("\\\""),
            b'\\' => json.push_str("\\\\"),
            b'\n' => json.push_str("\\n"),
            b'\t' => json.push_str("\\t"),
            b'\r' => json.push_str("\\r"),
            control => json.push_str(&format!("\\u{control:04x}")),
        }
    }
    json.push_str(&text[copied..]);
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        to_json(text).unwrap_or_else(|error| panic!("{text}: {error:?}")).json
    }

    #[test]
    fn documents_become_lines_of_json() {
        for (yaml, expected) in [
            ("---\nschema: x\n---\na: [1, b]\n", "{\"schema\":\"x\"}\n{\"a\":[1,\"b\"]}\n"),
            ("---\n# nothing\n---\na: 1\n...\n", "{\"a\":1}\n"),
            ("a: &x {b: c}\nd: *x\n", "{\"a\":{\"b\":\"c\"},\"d\":{\"b\":\"c\"}}\n"),
            ("{\"a\": \"\\u00e9\\n\"}\n", "{\"a\":\"é\\n\"}\n"),
            ("a: |\n  one\n  two\n", "{\"a\":\"one\\ntwo\\n\"}\n"),
            ("", ""),
        ] {
            assert_eq!(json(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn unquoted_words_mean_what_yaml_1_1_defines() {
        for (word, expected) in [
            ("yes", "true"),
            ("Off", "false"),
            ("'yes'", "\"yes\""),
            ("~", "null"),
            ("4", "4"),
            ("-4", "-4"),
            ("0x1f", "31"),
            ("017", "15"),
            ("1_000", "1000"),
            ("1.10", "1.1"),
            ("4.0", "4"),
            ("1e3", "1000"),
            (".5", "0.5"),
            ("4.18.1", "\"4.18.1\""),
            (".inf", "\".inf\""),
            ("inf", "\"inf\""),
            ("v1", "\"v1\""),
            ("!!str 4", "\"4\""),
            ("<0.2.0", "\"<0.2.0\""),
        ] {
            assert_eq!(json(&format!("a: {word}\n")), format!("{{\"a\":{expected}}}\n"), "{word}");
        }
    }

    #[test]
    fn the_last_of_repeated_keys_counts_and_each_repetition_is_named() {
        for (yaml, expected) in [
            ("a: 1\na: 2\n", "{\"a\":2}\n"),
            ("a: 1\nb: x\na: 2\nc: 3\n", "{\"b\":\"x\",\"a\":2,\"c\":3}\n"),
            ("a: 1\na: 2\na: {b: 1, b: 2}\n", "{\"a\":{\"b\":2}}\n"),
            // An anchor outlives the value that it was set at, and those behind it move.
            ("a: &x [1]\nb: &y [2]\na: *x\nc: *y\n", "{\"b\":[2],\"a\":[1],\"c\":[2]}\n"),
        ] {
            assert_eq!(json(yaml), expected, "{yaml}");
        }
        let converted = to_json("a: 1\nb: 1\n---\nc: 1\n\nc: 2\n").unwrap();
        let repeated = RepeatedKey { line: 6, column: 1, key: "c".to_owned() };
        assert_eq!(converted.repeated, [repeated]);
        let endless = "a: 1\n".repeat(MAX_REPEATED_KEYS + 2);
        assert!(to_json(&endless).unwrap_err().why.contains("repeated keys"));
    }

    #[test]
    fn a_document_has_its_line() {
        let converted = to_json("a: 1\n---\n\nb: 2\n").unwrap();
        assert_eq!(converted.starts, [(0, 1), (8, 4)]);
    }

    #[test]
    fn what_cannot_be_a_catalog_is_refused_with_its_place() {
        for (text, line, why) in [
            ("a: [1\nb: 2\n", 2, ""),
            ("[1]: 2\n", 1, "a key that is not text"),
            ("a: &x\n  - *x\n", 2, "an alias inside the value"),
            ("<<: {a: 1}\n", 1, "a merge key"),
        ] {
            let error = to_json(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error:?}");
            assert!(error.why.contains(why), "{text}: {error:?}");
        }
        for text in ["[".repeat(5000), "- ".repeat(5000)] {
            assert!(to_json(&text).is_err());
        }
    }

    #[test]
    fn a_few_lines_of_aliases_cannot_fill_the_memory() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let items = [format!("*a{}", level - 1).as_str(); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        assert!(to_json(&text).unwrap_err().why.contains("16 MiB"));
    }
}
