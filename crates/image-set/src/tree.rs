//! The first document of a YAML text as a tree whose nodes know their place.
//!
//! Aliases and merge keys are resolved here, within a bound: a few lines of
//! nested aliases can otherwise stand for more values than fit in memory.

use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput, Tag};

use crate::finding::{Finding, Position, Problem};
use crate::scalar::{Meaning, meaning};

/// How many values aliases may repeat, all together.
const MAX_ALIASED: usize = 100_000;
/// How deep lists and maps may be nested. The configuration needs 9.
const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) value: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Scalar { text: String, meaning: Meaning },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value, Value::Scalar { meaning: Meaning::Null, .. })
    }

    /// What this is, in a user's words.
    pub(crate) fn shape(&self) -> &'static str {
        match &self.value {
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Scalar { meaning, .. } => match meaning {
                Meaning::Null => "nothing",
                Meaning::Bool(_) => "a boolean",
                Meaning::Integer(_) | Meaning::Float => "a number",
                Meaning::Text => "text",
            },
        }
    }

    fn null(at: Position) -> Self {
        Self { at, value: Value::Scalar { text: String::new(), meaning: Meaning::Null } }
    }

    /// How many values this is, itself included.
    fn size(&self) -> usize {
        match &self.value {
            Value::Scalar { .. } => 1,
            Value::List(items) => 1 + items.iter().map(Self::size).sum::<usize>(),
            Value::Map(entries) => 1 + entries.iter().map(|e| 1 + e.value.size()).sum::<usize>(),
        }
    }
}

/// Reads the first document of `text`; those after it are not looked at.
/// `None` when it is no YAML; the reason is among `findings`, as is all else
/// that is wrong with the tree.
pub(crate) fn load(text: &str, findings: &mut Vec<Finding>) -> Option<Node> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    // A byte order mark is no content.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut loader = Loader {
        events: Parser::new_from_str_with_options(text, options),
        findings,
        anchors: BTreeMap::new(),
        aliased: 0,
    };
    match loader.document() {
        Ok(node) => Some(node),
        Err(Stop(finding)) => {
            findings.push(finding);
            None
        }
    }
}

/// A finding after which the rest cannot be read.
struct Stop(Finding);

struct Loader<'a> {
    events: Parser<'a, StrInput<'a>>,
    findings: &'a mut Vec<Finding>,
    /// Finished values by the number of their anchor.
    anchors: BTreeMap<usize, Node>,
    aliased: usize,
}

impl<'a> Loader<'a> {
    fn document(&mut self) -> Result<Node, Stop> {
        loop {
            match self.next()? {
                Some((Event::StreamStart | Event::DocumentStart(..), _)) => {}
                Some((Event::StreamEnd | Event::DocumentEnd, _)) | None => {
                    return Ok(Node::null(Position { line: 1, column: 1 }));
                }
                Some((event, span)) => {
                    let root = self.node(event, span)?;
                    // Behind its end comes the end of the text or the start of a
                    // next document. Anything else is a mistake in this one.
                    self.next()?;
                    self.next()?;
                    return Ok(root);
                }
            }
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Stop> {
        self.events.next().transpose().map_err(|error| {
            let problem = Problem::Yaml(error.info());
            Stop(Finding { at: position(error.marker()), problem })
        })
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Stop> {
        let at = position(&span.start);
        let (value, anchor) = match event {
            Event::Alias(id) => return self.alias(id, at),
            Event::Scalar(text, style, anchor, tag) => {
                let text = text.into_owned();
                let meaning = self.scalar_meaning(&text, style, tag.as_deref(), at);
                (Value::Scalar { text, meaning }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), at);
                let mut items = Vec::new();
                while let Some((event, span)) = self.next()? {
                    match event {
                        Event::SequenceEnd => break,
                        event => items.push(self.node(event, span)?),
                    }
                }
                (Value::List(items), anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), at);
                (Value::Map(self.entries()?), anchor)
            }
            _ => return Ok(Node::null(at)),
        };
        let node = Node { at, value };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Stop> {
        let mut written: Vec<Entry> = Vec::new();
        let mut merged: Vec<Node> = Vec::new();
        let mut first: BTreeMap<String, Position> = BTreeMap::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::MappingEnd {
                break;
            }
            let is_merge = matches!(
                &event,
                Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<"
            );
            let key = self.node(event, span)?;
            let value = match self.next()? {
                Some((event, span)) => self.node(event, span)?,
                None => Node::null(key.at),
            };
            let (at, shape) = (key.at, key.shape());
            match key.value {
                _ if is_merge => merged.push(value),
                Value::Scalar { text: key, .. } => match first.get(&key.to_ascii_lowercase()) {
                    Some(first) => self.report(at, Problem::DuplicateKey { key, first: *first }),
                    None => {
                        first.insert(key.to_ascii_lowercase(), at);
                        written.push(Entry { key, at, value });
                    }
                },
                Value::List(_) | Value::Map(_) => self.report(at, Problem::Key(shape)),
            }
        }
        let mut taken = first.into_keys().collect();
        for source in merged {
            self.merge(source, &mut taken, &mut written);
        }
        Ok(written)
    }

    /// Adds the keys of `source` that are not taken: what is written wins over
    /// what is merged, and what is merged first over what comes later.
    fn merge(&mut self, source: Node, taken: &mut BTreeSet<String>, into: &mut Vec<Entry>) {
        match source.value {
            Value::Map(entries) => into.extend(
                entries.into_iter().filter(|entry| taken.insert(entry.key.to_ascii_lowercase())),
            ),
            Value::List(maps) if maps.iter().all(|map| matches!(map.value, Value::Map(_))) => {
                for map in maps {
                    self.merge(map, taken, into);
                }
            }
            Value::List(_) => self.report(source.at, Problem::Merge("a list of other values")),
            Value::Scalar { .. } => self.report(source.at, Problem::Merge(source.shape())),
        }
    }

    fn alias(&mut self, id: usize, at: Position) -> Result<Node, Stop> {
        let Some(target) = self.anchors.get(&id) else {
            return Err(Stop(Finding { at, problem: Problem::Recursion }));
        };
        self.aliased += target.size();
        if self.aliased > MAX_ALIASED {
            return Err(Stop(Finding { at, problem: Problem::Aliases(MAX_ALIASED) }));
        }
        Ok(target.clone())
    }

    fn scalar_meaning(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        at: Position,
    ) -> Meaning {
        match tag {
            None if style == ScalarStyle::Plain => meaning(text),
            None => Meaning::Text,
            Some(tag) if tag.parts() == ("", "!") || tag.is_yaml_core_schema_tag("str") => {
                Meaning::Text
            }
            Some(tag) => {
                self.check_tag(Some(tag), at);
                meaning(text)
            }
        }
    }

    fn check_tag(&mut self, tag: Option<&Tag>, at: Position) {
        if let Some(tag) = tag.filter(|tag| tag.is_custom()) {
            self.report(at, Problem::Tag(format!("{}{}", tag.original_handle(), tag.suffix())));
        }
    }

    fn report(&mut self, at: Position, problem: Problem) {
        self.findings.push(Finding { at, problem });
    }
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree in one line, as JSON would write it.
    fn flat(node: &Node) -> String {
        match &node.value {
            Value::Scalar { text, meaning: Meaning::Text } => format!("{text:?}"),
            Value::Scalar { text, .. } => text.clone(),
            Value::List(items) => {
                format!("[{}]", items.iter().map(flat).collect::<Vec<_>>().join(","))
            }
            Value::Map(entries) => {
                let entry = |entry: &Entry| format!("{}:{}", entry.key, flat(&entry.value));
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","))
            }
        }
    }

    fn read(text: &str) -> (String, Vec<String>) {
        let mut findings = Vec::new();
        let tree = load(text, &mut findings).map(|node| flat(&node)).unwrap_or_default();
        (tree, findings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn aliases_and_merge_keys_are_resolved() {
        for (text, wanted) in [
            ("a: &x [1, b]\nc: *x\n", r#"{a:[1,"b"],c:[1,"b"]}"#),
            ("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  K: 3\n", "{a:{k:1,l:2},b:{K:3,l:2}}"),
            ("<<: [{a: 1, b: 1}, {b: 2, c: 2}]\nd: 4\n", "{d:4,a:1,b:1,c:2}"),
            ("'<<': 1\n", "{<<:1}"),
            ("a: 1\n---\na: [\n", "{a:1}"),
            ("\u{feff}a: 1\r\nb: 2\r\n", "{a:1,b:2}"),
            ("a: !!str 4\nb: ! 5\nc: !!int 6\n", r#"{a:"4",b:"5",c:6}"#),
            ("", ""),
            ("# only a comment\n", ""),
        ] {
            assert_eq!(read(text), (wanted.to_owned(), vec![]), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_tree_is_found_with_its_place() {
        for (text, wanted) in [
            ("a: 1\nb: 2\nA: 3\n", r#"3:1: duplicate key "A", first given on line 1; keep one"#),
            (
                "a:\n  - {b: 1, b: 2}\n",
                r#"2:12: duplicate key "b", first given on line 2; keep one"#,
            ),
            (
                "[1]: 2\n",
                "1:1: a key must be text, but this is a list; put text that starts with a bracket in \
                 quotes",
            ),
            (
                "a: &x\n  - *x\n",
                "2:5: the alias is inside the value that it names; write the value out",
            ),
            ("a: !x 1\n", "1:7: the tag !x means nothing here; remove it"),
            ("<<: 3\n", "1:5: `<<` takes a map or a list of maps, but this is a number"),
            (
                "<<: [3]\n",
                "1:5: `<<` takes a map or a list of maps, but this is a list of other values",
            ),
        ] {
            assert_eq!(read(text).1, [wanted], "{text}");
        }
    }

    #[test]
    fn text_that_is_no_yaml_is_one_finding_with_its_place() {
        for (text, place) in
            [("a: [1\nb: 2\n", "2:"), ("a: *x\n", "1:4:"), ("{a: 1}\nb: 2\n", "2:1:")]
        {
            let (tree, findings) = read(text);
            assert_eq!((tree.as_str(), findings.len()), ("", 1), "{text}: {findings:?}");
            assert!(findings[0].starts_with(place), "{text}: {findings:?}");
            assert!(findings[0].contains("not valid YAML: "), "{text}: {findings:?}");
        }
    }

    #[test]
    fn a_few_lines_of_aliases_cannot_fill_the_memory() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let below = format!("*a{}", level - 1);
            let items = [below.as_str(); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        let (_, findings) = read(&text);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("repeat more than 100000 values"), "{findings:?}");
    }

    #[test]
    fn nesting_without_end_is_refused() {
        for text in ["[".repeat(5000), "- ".repeat(5000)] {
            let (_, findings) = read(&text);
            assert_eq!(findings.len(), 1);
            assert!(findings[0].contains("not valid YAML"), "{findings:?}");
        }
    }
}
