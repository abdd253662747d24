//! The metadata as YAML: one flat map of texts and lists, each with its place.
//!
//! That is all the shape metadata can have. What is nested deeper is noticed
//! and skipped, so no input makes this recurse or grow.

use std::collections::BTreeMap;
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Span, StrInput, Tag};

/// How many characters that may not begin a text are stepped over, to show
/// all of them at once.
const MAX_REPAIRS: usize = 100;

/// A value, no deeper than metadata go. Places are bytes of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Text(String),
    List(Vec<(usize, Value)>),
    /// A map, or whatever is below the items of a list.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_at: usize,
    pub(crate) at: usize,
    pub(crate) value: Rc<Value>,
}

/// Why something is no metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("not valid YAML: {0}")]
    Syntax(String),
    #[error(
        "not valid YAML: a text cannot begin with `{0}`; put the text in quotes, for example {example}",
        example = if *.0 == '@' { "\"@name\"" } else { "\"`word`\"" }
    )]
    Reserved(char),
    #[error("the metadata must be a list of `key: value` lines")]
    NoMap,
}

/// What was read, as far as it could be, and what is wrong with it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<(usize, Problem)>,
}

/// Reads the one document in `text`.
pub(crate) fn read(text: &str) -> Read {
    let mut text = text.to_owned();
    let mut problems = Vec::new();
    loop {
        let options = granit_parser::options! { emit_comments: false };
        let mut reader = Reader {
            events: Parser::new_from_str_with_options(&text, options),
            anchors: BTreeMap::new(),
        };
        let (at, problem) = match reader.document() {
            Ok(entries) => return Read { entries, problems },
            Err(stop) => stop,
        };
        // A stand-in of the same width lets the rest be read, and keeps all places.
        let can_go_on = problems.len() < MAX_REPAIRS
            && matches!(problem, Problem::Reserved(found) if text[at..].starts_with(found));
        problems.push((at, problem));
        if !can_go_on {
            return Read { entries: Vec::new(), problems };
        }
        text.replace_range(at..=at, "x");
    }
}

/// Where reading ended, and why.
type Stop = (usize, Problem);

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    /// Finished values by the number of their anchor.
    anchors: BTreeMap<usize, Rc<Value>>,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Vec<Entry>, Stop> {
        loop {
            match self.next()? {
                Some((Event::StreamStart | Event::DocumentStart(..), _)) => {}
                Some((Event::StreamEnd | Event::DocumentEnd, _)) | None => return Ok(Vec::new()),
                Some((Event::MappingStart(..), _)) => {
                    let entries = self.entries()?;
                    // Behind the end of the map comes the end of the text, or a mistake.
                    while self.next()?.is_some() {}
                    return Ok(entries);
                }
                Some((Event::Scalar(text, style, _, tag), _))
                    if is_null(&text, style, tag.as_deref()) =>
                {
                    return Ok(Vec::new());
                }
                Some((_, span)) => return Err((place(&span.start), Problem::NoMap)),
            }
        }
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Stop> {
        let mut entries = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::MappingEnd {
                break;
            }
            let key_at = place(&span.start);
            let key = self.value(event)?;
            let Some((event, span)) = self.next()? else { break };
            let at = place(&span.start);
            let value = self.value(event)?;
            if let Value::Text(key) = key.as_ref() {
                entries.push(Entry { key: key.clone(), key_at, at, value });
            }
        }
        Ok(entries)
    }

    fn value(&mut self, event: Event<'a>) -> Result<Rc<Value>, Stop> {
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

    fn items(&mut self) -> Result<Vec<(usize, Value)>, Stop> {
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
            items.push((place(&span.start), value));
        }
        Ok(items)
    }

    /// Steps over the rest of a list or map that was just entered.
    fn skip(&mut self) -> Result<(), Stop> {
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

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Stop> {
        self.events.next().transpose().map_err(|error| {
            let problem = match error.kind() {
                ErrorKind::UnexpectedCharacter { character: found @ ('@' | '`') } => {
                    Problem::Reserved(*found)
                }
                _ => Problem::Syntax(error.info()),
            };
            (place(error.marker()), problem)
        })
    }
}

/// Numbers and booleans are texts here: a title may be `2024`.
fn scalar(text: String, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    if is_null(&text, style, tag) { Value::Null } else { Value::Text(text) }
}

fn is_null(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    let written_so = matches!(text, "" | "~" | "null" | "Null" | "NULL");
    tag.is_none() && style == ScalarStyle::Plain && written_so
}

fn place(marker: &Marker) -> usize {
    // A parser of a whole text always knows.
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

    fn shown(text: &str) -> (String, Vec<String>) {
        let read = read(text);
        let entries = read.entries.iter().map(|e| format!("{}={}", e.key, flat(&e.value)));
        let problems = read.problems.iter().map(|(at, problem)| format!("{at}: {problem}"));
        (entries.collect::<Vec<_>>().join(" "), problems.collect())
    }

    #[test]
    fn texts_and_lists_are_read_and_deeper_things_are_stepped_over() {
        for (text, wanted) in [
            ("title: a\nauthors:\n  - b # why\n  - 3\n", r#"title="a" authors=["b" "3"]"#),
            ("a: ~\nb:\nc: ''\nd: [null, '', x]\n", r#"a=null b=null c="" d=[null "" "x"]"#),
            ("a: {b: [c]}\nd: [[e], {f: g}, h]\n", r#"a=? d=[? ? "h"]"#),
            ("a: &x [b, &y c]\nd: *x\ne: [*y, *x]\n", r#"a=["b" "c"] d=["b" "c"] e=["c" ?]"#),
            ("a: 2023-06-29\n", r#"a="2023-06-29""#),
            ("", ""),
            ("# a comment\n", ""),
        ] {
            assert_eq!(shown(text), (wanted.to_owned(), vec![]), "{text}");
        }
    }

    #[test]
    fn every_name_without_quotes_is_shown_and_the_rest_is_read() {
        let (entries, problems) = shown("authors:\n  - @ann\n  - @bob\ntitle: a\n");
        assert_eq!(entries, r#"authors=["xann" "xbob"] title="a""#);
        let said = "not valid YAML: a text cannot begin with `@`; put the text in quotes, for \
                    example \"@name\"";
        assert_eq!(problems, [format!("13: {said}"), format!("22: {said}")]);
    }

    #[test]
    fn what_is_no_map_is_said_with_its_place() {
        for (text, said) in [
            ("a: [1\nb: 2\n", "not valid YAML: "),
            ("- a\n", "0: the metadata must be"),
            ("a: b: c\n", "4: not valid YAML: "),
        ] {
            let (entries, problems) = shown(text);
            assert_eq!((entries.as_str(), problems.len()), ("", 1), "{text}: {problems:?}");
            assert!(problems[0].contains(said), "{text}: {problems:?}");
        }
    }

    #[test]
    fn nesting_without_end_is_refused() {
        for text in [format!("a: {}", "[".repeat(5000)), "- ".repeat(5000)] {
            assert_eq!(read(&text).problems.len(), 1);
        }
    }
}
