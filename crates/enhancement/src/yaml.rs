//! The metadata as YAML: one map of strings and lists, with their positions.
//!
//! Metadata have no other shape. Deeper levels are skipped, so the parser does
//! not recurse and its memory is limited by the size of the text.

use std::collections::BTreeMap;
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Span, StrInput, Tag};

/// How many reserved characters at the start of a string are replaced, to
/// report all of them at once.
const MAX_REPAIRS: usize = 100;

/// A value. Positions are byte offsets in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Text(String),
    List(Vec<(usize, Value)>),
    /// A map, or a list inside a list.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_at: usize,
    pub(crate) at: usize,
    pub(crate) value: Rc<Value>,
}

/// Why the text is not valid metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("invalid YAML: {0}")]
    Syntax(String),
    #[error(
        "invalid YAML: a string cannot start with `{0}`; put it in quotes, for example {example}",
        example = if *.0 == '@' { "\"@name\"" } else { "\"`word`\"" }
    )]
    Reserved(char),
    #[error("expected `key: value` lines as metadata")]
    NotAMap,
}

/// The entries that could be parsed, and the problems.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<(usize, Problem)>,
}

/// Parses the only YAML document in `text`.
pub(crate) fn parse(text: &str) -> Parsed {
    let mut text = text.to_owned();
    let mut problems = Vec::new();
    loop {
        let options = granit_parser::options! { emit_comments: false };
        let mut reader = Reader {
            events: Parser::new_from_str_with_options(&text, options),
            anchors: BTreeMap::new(),
        };
        let (at, problem) = match reader.document() {
            Ok(entries) => return Parsed { entries, problems },
            Err(error) => error,
        };
        // A replacement of the same length keeps all positions and permits parsing the rest.
        let can_continue = problems.len() < MAX_REPAIRS
            && matches!(problem, Problem::Reserved(found) if text[at..].starts_with(found));
        problems.push((at, problem));
        if !can_continue {
            return Parsed { entries: Vec::new(), problems };
        }
        text.replace_range(at..=at, "x");
    }
}

/// Where parsing ended, and why.
type ParseError = (usize, Problem);

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    /// Complete values by the number of their anchor.
    anchors: BTreeMap<usize, Rc<Value>>,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Vec<Entry>, ParseError> {
        loop {
            match self.next()? {
                Some((Event::StreamStart | Event::DocumentStart(..), _)) => {}
                Some((Event::StreamEnd | Event::DocumentEnd, _)) | None => return Ok(Vec::new()),
                Some((Event::MappingStart(..), _)) => {
                    let entries = self.entries()?;
                    // The end of the text follows the map, or an error.
                    while self.next()?.is_some() {}
                    return Ok(entries);
                }
                Some((Event::Scalar(text, style, _, tag), _))
                    if is_null(&text, style, tag.as_deref()) =>
                {
                    return Ok(Vec::new());
                }
                Some((_, span)) => return Err((offset(&span.start), Problem::NotAMap)),
            }
        }
    }

    fn entries(&mut self) -> Result<Vec<Entry>, ParseError> {
        let mut entries = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::MappingEnd {
                break;
            }
            let key_at = offset(&span.start);
            let key = self.value(event)?;
            let Some((event, span)) = self.next()? else { break };
            let at = offset(&span.start);
            let value = self.value(event)?;
            if let Value::Text(key) = key.as_ref() {
                entries.push(Entry { key: key.clone(), key_at, at, value });
            }
        }
        Ok(entries)
    }

    fn value(&mut self, event: Event<'a>) -> Result<Rc<Value>, ParseError> {
        let (value, anchor) = match event {
            Event::Alias(id) => {
                return Ok(self.anchors.get(&id).cloned().unwrap_or(Rc::new(Value::Other)));
            }
            Event::Scalar(text, style, anchor, tag) => {
                (scalar(text.into_owned(), style, tag.as_deref()), anchor)
            }
            Event::SequenceStart(_, anchor, _) => (Value::List(self.items()?), anchor),
            Event::MappingStart(_, anchor, _) => {
                self.skip()?;
                (Value::Other, anchor)
            }
            _ => (Value::Null, 0),
        };
        let value = Rc::new(value);
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&value));
        }
        Ok(value)
    }

    fn items(&mut self) -> Result<Vec<(usize, Value)>, ParseError> {
        let mut items = Vec::new();
        while let Some((event, span)) = self.next()? {
            let value = match event {
                Event::SequenceEnd => break,
                Event::Scalar(text, style, anchor, tag) => {
                    let value = scalar(text.into_owned(), style, tag.as_deref());
                    if anchor != 0 {
                        self.anchors.insert(anchor, Rc::new(value.clone()));
                    }
                    value
                }
                Event::Alias(id) => match self.anchors.get(&id).map(Rc::as_ref) {
                    Some(Value::Text(text)) => Value::Text(text.clone()),
                    Some(Value::Null) => Value::Null,
                    _ => Value::Other,
                },
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    self.skip()?;
                    Value::Other
                }
                _ => Value::Null,
            };
            items.push((offset(&span.start), value));
        }
        Ok(items)
    }

    /// Skips the rest of a list or map whose start has been read.
    fn skip(&mut self) -> Result<(), ParseError> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Some((Event::SequenceStart(..) | Event::MappingStart(..), _)) => depth += 1,
                Some((Event::SequenceEnd | Event::MappingEnd, _)) => depth -= 1,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, ParseError> {
        self.events.next().transpose().map_err(|error| {
            let problem = match error.kind() {
                ErrorKind::UnexpectedCharacter { character: found @ ('@' | '`') } => {
                    Problem::Reserved(*found)
                }
                _ => Problem::Syntax(error.info()),
            };
            (offset(error.marker()), problem)
        })
    }
}

/// Numbers and booleans are strings here: a title can be `2024`.
fn scalar(text: String, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    if is_null(&text, style, tag) { Value::Null } else { Value::Text(text) }
}

fn is_null(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    let is_null_word = matches!(text, "" | "~" | "null" | "Null" | "NULL");
    tag.is_none() && style == ScalarStyle::Plain && is_null_word
}

fn offset(marker: &Marker) -> usize {
    // The parser of a string always provides offsets.
    marker.byte_offset().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(value: &Value) -> String {
        match value {
            Value::Null => "null".to_owned(),
            Value::Text(text) => format!("{text:?}"),
            Value::List(items) => {
                format!("[{}]", items.iter().map(|(_, v)| flat(v)).collect::<Vec<_>>().join(" "))
            }
            Value::Other => "?".to_owned(),
        }
    }

    fn parse_to_text(text: &str) -> (String, Vec<String>) {
        let parsed = parse(text);
        let entries = parsed.entries.iter().map(|e| format!("{}={}", e.key, flat(&e.value)));
        let problems = parsed.problems.iter().map(|(at, problem)| format!("{at}: {problem}"));
        (entries.collect::<Vec<_>>().join(" "), problems.collect())
    }

    #[test]
    fn strings_and_lists_are_parsed_and_deeper_levels_are_skipped() {
        for (text, expected) in [
            ("title: a\nauthors:\n  - b # why\n  - 3\n", r#"title="a" authors=["b" "3"]"#),
            ("a: ~\nb:\nc: ''\nd: [null, '', x]\n", r#"a=null b=null c="" d=[null "" "x"]"#),
            ("a: {b: [c]}\nd: [[e], {f: g}, h]\n", r#"a=? d=[? ? "h"]"#),
            ("a: &x [b, &y c]\nd: *x\ne: [*y, *x]\n", r#"a=["b" "c"] d=["b" "c"] e=["c" ?]"#),
            ("a: 2023-06-29\n", r#"a="2023-06-29""#),
            ("", ""),
            ("# a comment\n", ""),
        ] {
            assert_eq!(parse_to_text(text), (expected.to_owned(), vec![]), "{text}");
        }
    }

    #[test]
    fn every_name_without_quotes_is_reported_and_the_rest_is_parsed() {
        let (entries, problems) = parse_to_text("authors:\n  - @ann\n  - @bob\ntitle: a\n");
        assert_eq!(entries, r#"authors=["xann" "xbob"] title="a""#);
        let message = "invalid YAML: a string cannot start with `@`; put it in quotes, for \
                       example \"@name\"";
        assert_eq!(problems, [format!("13: {message}"), format!("22: {message}")]);
    }

    #[test]
    fn text_that_is_not_a_map_is_reported_with_its_position() {
        for (text, message) in [
            ("a: [1\nb: 2\n", "invalid YAML: "),
            ("- a\n", "0: expected `key: value` lines"),
            ("a: b: c\n", "4: invalid YAML: "),
        ] {
            let (entries, problems) = parse_to_text(text);
            assert_eq!((entries.as_str(), problems.len()), ("", 1), "{text}: {problems:?}");
            assert!(problems[0].contains(message), "{text}: {problems:?}");
        }
    }

    #[test]
    fn deep_nesting_is_rejected() {
        for text in [format!("a: {}", "[".repeat(5000)), "- ".repeat(5000)] {
            assert_eq!(parse(&text).problems.len(), 1);
        }
    }
}
