//! The documents of a YAML text as trees whose nodes have their position.
//!
//! Aliases and merge keys are resolved here, within a limit: a few lines of
//! nested aliases could otherwise expand to more values than fit in memory.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use diagnostic::Position;
use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Span, StrInput, Tag};

use crate::node::{Entry, Node, Value};
use crate::problem::{Located, Problem};
use crate::scalar::{Meaning, float, float_key, meaning};

/// How many values aliases may repeat, all together.
const MAX_ALIASED: usize = 100_000;
/// How deep lists and maps may be nested. No file of ours needs 20.
const MAX_DEPTH: usize = 64;
/// The same for files that are written for readers with larger limits.
const MAX_JSON_DEPTH: usize = 128;
/// The namespace of tags that start with `!!`.
const YAML_TAGS: &str = "tag:yaml.org,2002:";
/// How much of a text is read again to accept little indentation. Each such line costs one pass.
const MAX_REREAD_BYTES: usize = 16 << 20;

/// When two keys of a map are the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    Exact,
    /// For files whose other readers treat `Name` as `name`.
    IgnoreCase,
    /// For files whose other readers convert them to JSON first: of a repeated key the last value wins,
    /// and the unquoted keys `on` and `017` are `true` and `15`. What JSON cannot express is a problem.
    /// A value with an unknown tag is text.
    AsJson,
}

/// What was read.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// `None` if the text is not YAML.
    pub root: Option<Node>,
    /// Whether another document follows the one that was read.
    pub is_followed: bool,
    /// All errors in the tree, in the order of the text.
    pub problems: Vec<Located<Problem>>,
}

/// Reads the first document of `text`; those after it are not read.
/// Of a duplicate key, the first value is kept, except with [`Keys::AsJson`].
///
/// With [`Keys::AsJson`], lines of a quoted text may be indented as little as its key: other readers
/// of these files accept that.
pub fn load(text: &str, keys: Keys) -> Loaded {
    let mut text = Cow::Borrowed(text);
    let mut left = if keys == Keys::AsJson { MAX_REREAD_BYTES } else { 0 };
    loop {
        let loaded = Loader::new(&text, keys).load();
        let indented = match loaded.problems.last() {
            Some(Located { at, value: Problem::Indentation }) if text.len() <= left => {
                indented(&text, at.line)
            }
            _ => None,
        };
        let Some(indented) = indented else { return loaded };
        // The limit is in bytes, not in passes, since each pass makes the text longer.
        left -= text.len();
        text = Cow::Owned(indented);
    }
}

/// The text with one more blank before a line. Inside of a quoted text it has no meaning.
fn indented(text: &str, line: usize) -> Option<String> {
    let start = text.match_indices('\n').nth(line.checked_sub(2)?)?.0 + 1;
    let mut changed = text.to_owned();
    changed.insert(start, ' ');
    Some(changed)
}

/// Reads every document of `text`, with positions in the whole text. The last one may be unreadable:
/// reading ends where the text is not YAML.
pub fn load_all(text: &str, keys: Keys) -> Vec<Loaded> {
    let mut loader = Loader::new(text, keys);
    let mut all = Vec::new();
    loop {
        let loaded = loader.load();
        let is_last = !loaded.is_followed;
        all.push(loaded);
        if is_last {
            return all;
        }
    }
}

impl<'a> Loader<'a> {
    fn new(text: &'a str, keys: Keys) -> Self {
        let depth = if keys == Keys::AsJson { MAX_JSON_DEPTH } else { MAX_DEPTH };
        let options = granit_parser::options! {
            emit_comments: false,
            flow_nesting_limit: depth,
            block_nesting_limit: depth,
        };
        // A byte order mark is not content.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self {
            events: Parser::new_from_str_with_options(text, options),
            keys,
            problems: Vec::new(),
            anchors: BTreeMap::new(),
            aliased: 0,
            is_followed: false,
        }
    }

    /// The next document.
    fn load(&mut self) -> Loaded {
        // Anchors are known in their own document only.
        self.anchors.clear();
        self.is_followed = false;
        let root = match self.document() {
            Ok(node) => Some(node),
            Err(Stop(problem)) => {
                self.problems.push(problem);
                None
            }
        };
        let problems = std::mem::take(&mut self.problems);
        Loaded { root, is_followed: self.is_followed, problems }
    }
}

/// A problem after which the rest cannot be read.
struct Stop(Located<Problem>);

struct Loader<'a> {
    events: Parser<'a, StrInput<'a>>,
    keys: Keys,
    problems: Vec<Located<Problem>>,
    /// Finished values by the number of their anchor.
    anchors: BTreeMap<usize, Node>,
    aliased: usize,
    is_followed: bool,
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
                    // Its end is followed by the end of the text or the start of
                    // another document. Anything else is an error in this one.
                    self.next()?;
                    let following = self.next()?;
                    self.is_followed = matches!(following, Some((Event::DocumentStart(..), _)));
                    return Ok(root);
                }
            }
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Stop> {
        self.events.next().transpose().map_err(|error| {
            let problem = match error.kind() {
                ErrorKind::InvalidQuotedScalarIndent => Problem::Indentation,
                _ => Problem::Syntax(error.info()),
            };
            Stop(Located { at: position(error.marker()), value: problem })
        })
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Stop> {
        let at = position(&span.start);
        let (value, anchor) = match event {
            Event::Alias(id) => return self.alias(id, at),
            Event::Scalar(text, style, anchor, tag) => {
                let text = text.into_owned();
                let value = match self.keys {
                    Keys::AsJson => self.json_scalar(text, style, tag.as_deref(), at),
                    Keys::Exact | Keys::IgnoreCase => {
                        let meaning = self.scalar_meaning(&text, style, tag.as_deref(), at);
                        Value::Scalar { text, meaning }
                    }
                };
                (value, anchor)
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
        // The first position of each key, and its index in `written`.
        let mut first: BTreeMap<String, (Position, usize)> = BTreeMap::new();
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
                Value::Scalar { text, meaning } => {
                    if self.keys == Keys::AsJson && meaning == Meaning::Null {
                        self.report(at, Problem::Key(shape));
                    }
                    let key = match self.keys {
                        Keys::AsJson => json_key(text, meaning),
                        Keys::Exact | Keys::IgnoreCase => text,
                    };
                    self.entry(key, at, value, &mut first, &mut written);
                }
                Value::List(_) | Value::Map(_) => self.report(at, Problem::Key(shape)),
            }
        }
        let mut taken = first.into_keys().collect();
        for source in merged {
            self.merge(source, &mut taken, &mut written);
        }
        Ok(written)
    }

    fn entry(
        &mut self,
        key: String,
        at: Position,
        value: Node,
        first: &mut BTreeMap<String, (Position, usize)>,
        written: &mut Vec<Entry>,
    ) {
        match first.get(self.folded(&key).as_ref()) {
            Some((_, index)) if self.keys == Keys::AsJson => {
                written[*index] = Entry { key, at, value };
            }
            Some((first, _)) => self.report(at, Problem::DuplicateKey { key, first: *first }),
            None => {
                first.insert(self.folded(&key).into_owned(), (at, written.len()));
                written.push(Entry { key, at, value });
            }
        }
    }

    /// Adds the keys of `source` that are not taken: written keys take precedence
    /// over merged ones, and earlier merged ones over later ones.
    fn merge(&mut self, source: Node, taken: &mut BTreeSet<String>, into: &mut Vec<Entry>) {
        match source.value {
            Value::Map(entries) => into.extend(
                entries
                    .into_iter()
                    .filter(|entry| taken.insert(self.folded(&entry.key).into_owned())),
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

    /// The form in which keys are compared.
    fn folded<'k>(&self, key: &'k str) -> Cow<'k, str> {
        match self.keys {
            Keys::Exact | Keys::AsJson => Cow::Borrowed(key),
            Keys::IgnoreCase => Cow::Owned(key.to_ascii_lowercase()),
        }
    }

    fn alias(&mut self, id: usize, at: Position) -> Result<Node, Stop> {
        let Some(target) = self.anchors.get(&id) else {
            return Err(Stop(Located { at, value: Problem::Recursion }));
        };
        self.aliased += target.size();
        if self.aliased > MAX_ALIASED {
            return Err(Stop(Located { at, value: Problem::Aliases(MAX_ALIASED) }));
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

    /// A scalar as readers that convert YAML to JSON read it.
    fn json_scalar(
        &mut self,
        text: String,
        style: ScalarStyle,
        tag: Option<&Tag>,
        at: Position,
    ) -> Value {
        let Some(tag) = tag else {
            let is_word = style == ScalarStyle::Plain;
            let meaning = if is_word { meaning(&text) } else { Meaning::Text };
            return self.finite(text, meaning, at);
        };
        let name = tag.suffix_in_namespace(YAML_TAGS);
        let name = name.as_deref().unwrap_or_default();
        let meaning = match name {
            "int" | "float" | "bool" | "null" | "timestamp" => meaning(&text),
            "binary" => {
                let encoded: String = text.split_ascii_whitespace().collect();
                let Ok(bytes) = STANDARD.decode(encoded) else {
                    self.report(at, Problem::Binary);
                    return Value::Scalar { text, meaning: Meaning::Text };
                };
                let text = String::from_utf8_lossy(&bytes).into_owned();
                return Value::Scalar { text, meaning: Meaning::Text };
            }
            _ => return Value::Scalar { text, meaning: Meaning::Text },
        };
        let fits = match name {
            "int" => matches!(meaning, Meaning::Integer(_)),
            "float" => matches!(meaning, Meaning::Integer(_) | Meaning::Float),
            "bool" => matches!(meaning, Meaning::Bool(_)),
            "null" => meaning == Meaning::Null,
            _ => true,
        };
        if !fits {
            let tag = format!("!!{name}");
            self.report(at, Problem::TagMismatch { tag, text: text.clone() });
        }
        self.finite(text, meaning, at)
    }

    fn finite(&mut self, text: String, meaning: Meaning, at: Position) -> Value {
        // A number that is too large is text; the words for infinity are an error.
        if meaning == Meaning::Float && float(&text).is_none() {
            self.report(at, Problem::NotFinite(text.clone()));
        }
        Value::Scalar { text, meaning }
    }

    fn check_tag(&mut self, tag: Option<&Tag>, at: Position) {
        if let Some(tag) = tag.filter(|tag| tag.is_custom()) {
            self.report(at, Problem::Tag(format!("{}{}", tag.original_handle(), tag.suffix())));
        }
    }

    fn report(&mut self, at: Position, problem: Problem) {
        self.problems.push(Located { at, value: problem });
    }
}

fn json_key(text: String, meaning: Meaning) -> String {
    match meaning {
        Meaning::Bool(value) => value.to_string(),
        Meaning::Integer(value) => value.to_string(),
        Meaning::Float => float_key(&text).unwrap_or(text),
        Meaning::Null | Meaning::Text => text,
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
        let loaded = load(text, Keys::IgnoreCase);
        let tree = loaded.root.map(|node| flat(&node)).unwrap_or_default();
        (tree, loaded.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn aliases_and_merge_keys_are_resolved() {
        for (text, expected) in [
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
            assert_eq!(read(text), (expected.to_owned(), vec![]), "{text}");
        }
    }

    /// The results of `helm template` for the same values.
    #[test]
    fn values_are_read_as_readers_that_convert_to_json_read_them() {
        let text = "a: !mine yes\nb: !!binary aGVsbG8=\nc: 99999999999999999999\nd: 1_000.5\ne: 08\nf: 1e400\ng: \
                    !!float 3\na: !mine 5\n1e3: x\n2.123456789: z\n1e7: w\non: v\n0o17: u\n";
        let loaded = load(text, Keys::AsJson);
        let expected = serde_json::json!({
            "a": "5", "b": "hello", "c": 1e20, "d": 1000.5, "e": 8.0, "f": "1e400", "g": 3,
            "1000": "x", "2.1234567": "z", "1e+07": "w", "true": "v", "15": "u",
        });
        assert_eq!((loaded.root.unwrap().to_json(), loaded.problems), (expected, vec![]));
        for (text, problem) in [
            ("a: .inf\n", "1:4: JSON does not support the number .inf"),
            ("~: x\n", "1:1: expected text as a key, found nothing"),
            ("a: !!int abc\n", "the value \"abc\" is not a !!int"),
            ("a: !!bool 7\n", "the value \"7\" is not a !!bool"),
            ("a: !!binary '%'\n", "the value of !!binary is not base64 text"),
        ] {
            let problems: Vec<String> =
                load(text, Keys::AsJson).problems.iter().map(ToString::to_string).collect();
            assert!(problems.iter().any(|found| found.contains(problem)), "{text}: {problems:?}");
        }
    }

    #[test]
    fn errors_in_a_tree_are_found_with_their_position() {
        for (text, expected) in [
            ("a: 1\nb: 2\nA: 3\n", r#"3:1: duplicate key "A", first given on line 1; keep one"#),
            (
                "a:\n  - {b: 1, b: 2}\n",
                r#"2:12: duplicate key "b", first given on line 2; keep one"#,
            ),
            (
                "[1]: 2\n",
                "1:1: expected text as a key, found a list; put text that starts with a bracket in \
                 quotes",
            ),
            (
                "a: &x\n  - *x\n",
                "2:5: the alias is inside the value that it names; write the value out",
            ),
            ("a: !x 1\n", "1:7: the tag !x is not supported; remove it"),
            ("<<: 3\n", "1:5: expected a map or a list of maps for `<<`, found a number"),
            (
                "<<: [3]\n",
                "1:5: expected a map or a list of maps for `<<`, found a list of other values",
            ),
        ] {
            assert_eq!(read(text).1, [expected], "{text}");
        }
    }

    #[test]
    fn text_that_is_not_yaml_is_one_finding_with_its_position() {
        for (text, position) in
            [("a: [1\nb: 2\n", "2:"), ("a: *x\n", "1:4:"), ("{a: 1}\nb: 2\n", "2:1:")]
        {
            let (tree, findings) = read(text);
            assert_eq!((tree.as_str(), findings.len()), ("", 1), "{text}: {findings:?}");
            assert!(findings[0].starts_with(position), "{text}: {findings:?}");
            assert!(findings[0].contains("not valid YAML: "), "{text}: {findings:?}");
        }
    }

    #[test]
    fn exact_keys_that_differ_in_case_are_distinct() {
        let loaded = load("a: 1\nA: 2\n", Keys::Exact);
        assert_eq!(loaded.root.map(|node| flat(&node)).unwrap(), "{a:1,A:2}");
        assert_eq!(loaded.problems, []);
    }

    #[test]
    fn keys_are_those_of_json_for_readers_that_convert_to_it() {
        let loaded = load("a: 1\nb: 2\na: 3\non: 4\n'no': 5\n017: 6\n", Keys::AsJson);
        let flat = loaded.root.map(|node| flat(&node)).unwrap();
        // A repeated key stays where it is first written.
        assert_eq!(flat, "{a:3,b:2,true:4,no:5,15:6}");
        assert_eq!(loaded.problems, []);
    }

    #[test]
    fn a_document_that_follows_is_detected() {
        for (text, is_followed) in
            [("a: 1\n", false), ("a: 1\n---\n", true), ("---\na: 1\n", false)]
        {
            assert_eq!(load(text, Keys::Exact).is_followed, is_followed, "{text:?}");
        }
    }

    #[test]
    fn every_document_is_read_with_positions_in_the_whole_text() {
        let text = "a: &x 1\n---\n# second\nb: [2]\n---\n---\nc: *x\n";
        let all = load_all(text, Keys::Exact);
        let trees: Vec<Option<String>> =
            all.iter().map(|loaded| loaded.root.as_ref().map(flat)).collect();
        let some = |text: &str| Some(text.to_owned());
        // An anchor of the first document is not known in the last.
        assert_eq!(trees, [some("{a:1}"), some("{b:[2]}"), some("~"), None]);
        let second = all[1].root.as_ref().unwrap();
        assert_eq!(second.get("b").unwrap().at, Position { line: 4, column: 4 });
        assert_eq!(all[3].problems[0].at.line, 7);
        assert_eq!(load_all("", Keys::Exact).len(), 1);
    }

    #[test]
    fn nested_aliases_are_limited() {
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
    fn a_tab_may_precede_a_value() {
        for text in ["a: \tx\nb: 1\n", "a:\tx\nb: 1\n", "a: \t \tx\nb: 1\n"] {
            assert_eq!(read(text), ("{a:\"x\",b:1}".to_owned(), Vec::new()), "{text}");
        }
    }

    #[test]
    fn quoted_text_may_be_indented_as_little_as_its_key_for_readers_of_json() {
        let text = "a:\n  b: 'one\n  two\n  three'\n  c: \"x\n  y\"\nd: 1\n";
        let loaded = load(text, Keys::AsJson);
        assert_eq!(loaded.problems, []);
        let expected = r#"{a:{b:"one two three",c:"x y"},d:1}"#;
        assert_eq!(loaded.root.as_ref().map(flat).as_deref(), Some(expected));
        let (_, findings) = read(text);
        assert!(findings[0].contains("invalid indentation"), "{findings:?}");
    }

    #[test]
    fn deep_nesting_is_rejected() {
        for text in ["[".repeat(5000), "- ".repeat(5000)] {
            let (_, findings) = read(&text);
            assert_eq!(findings.len(), 1);
            assert!(findings[0].contains("not valid YAML"), "{findings:?}");
        }
    }
}
