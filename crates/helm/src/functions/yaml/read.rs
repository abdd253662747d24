//! The first document of a YAML text as a value, with the types that Helm's way through JSON gives:
//! every number is a float, every key a text.

use std::collections::BTreeMap;

use go_template::{Value, format_float};
use granit_parser::{Event, Parser, ScalarStyle, StrInput};

use super::resolve::{Scalar, resolve};

/// How deep lists and maps may be nested.
const MAX_DEPTH: usize = 128;
/// How many values aliases may repeat, all together.
const MAX_ALIASED: usize = 200_000;

/// A text that is not YAML, or not a document that JSON can express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("yaml: line {line}: {message}")]
    Syntax { line: usize, message: String },
    #[error("yaml: {0}")]
    Content(String),
}

/// Reads the first document.
pub fn read(text: &str) -> Result<Value, ReadError> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(text, options),
        anchors: BTreeMap::new(),
        aliased: 0,
    };
    loop {
        match reader.next()? {
            Some(Event::StreamStart | Event::DocumentStart(..)) => {}
            Some(Event::StreamEnd | Event::DocumentEnd) | None => return Ok(Value::Nil),
            Some(event) => {
                let root = reader.node(event)?.value;
                // What follows must be the end or another document.
                reader.next()?;
                reader.next()?;
                return Ok(root);
            }
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, Node>,
    aliased: usize,
}

#[derive(Clone)]
struct Node {
    value: Value,
    /// What the node is as a key; `None` for what cannot be one.
    key: Option<String>,
    is_merge: bool,
    /// Values inside, to bound aliases.
    size: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<Event<'a>>, ReadError> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok((event, _))) => Ok(Some(event)),
            Some(Err(error)) => {
                Err(ReadError::Syntax { line: error.marker().line(), message: error.info() })
            }
        }
    }

    fn node(&mut self, event: Event<'a>) -> Result<Node, ReadError> {
        let (node, anchor) = match event {
            Event::Alias(id) => return self.alias(id),
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.map(|tag| tag.to_string());
                (scalar(&text, style, tag.as_deref())?, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                let mut size = 1;
                loop {
                    match self.next()? {
                        Some(Event::SequenceEnd) | None => break,
                        Some(event) => {
                            let node = self.node(event)?;
                            size += node.size;
                            items.push(node.value);
                        }
                    }
                }
                (Node { value: Value::list(items), key: None, is_merge: false, size }, anchor)
            }
            Event::MappingStart(_, anchor, _) => (self.mapping()?, anchor),
            _ => return Ok(plain(Value::Nil, None)),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize) -> Result<Node, ReadError> {
        let Some(node) = self.anchors.get(&id).cloned() else {
            return Err(ReadError::Content("unknown anchor referenced".to_owned()));
        };
        self.aliased += node.size;
        if self.aliased > MAX_ALIASED {
            return Err(ReadError::Content("document contains excessive aliasing".to_owned()));
        }
        // Maps are changed in place; two places of a document must not share one.
        Ok(Node { value: copy(&node.value), ..node })
    }

    fn mapping(&mut self) -> Result<Node, ReadError> {
        let mut entries = BTreeMap::new();
        let mut merged: Vec<Value> = Vec::new();
        let mut size = 1;
        loop {
            let key = match self.next()? {
                Some(Event::MappingEnd) | None => break,
                Some(event) => self.node(event)?,
            };
            let Some(event) = self.next()? else { break };
            let value = self.node(event)?;
            size += key.size + value.size;
            if key.is_merge {
                match value.value {
                    Value::List(items) => merged.extend(items.iter().cloned()),
                    other => merged.push(other),
                }
                continue;
            }
            let Some(key) = key.key else {
                return Err(ReadError::Content("unsupported map key".to_owned()));
            };
            entries.insert(key, value.value);
        }
        for value in merged {
            let Value::Map(map) = value else {
                let message = "map merge requires map or sequence of maps as the value";
                return Err(ReadError::Content(message.to_owned()));
            };
            for (key, value) in map.borrow().iter() {
                entries.entry(key.clone()).or_insert_with(|| copy(value));
            }
        }
        Ok(Node { value: Value::map(entries), key: None, is_merge: false, size })
    }
}

fn copy(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::list(items.iter().map(copy).collect()),
        Value::Map(map) => {
            Value::map(map.borrow().iter().map(|(key, value)| (key.clone(), copy(value))).collect())
        }
        other => other.clone(),
    }
}

fn plain(value: Value, key: Option<String>) -> Node {
    Node { value, key, is_merge: false, size: 1 }
}

fn text_node(text: &str) -> Node {
    plain(Value::string(text), Some(text.to_owned()))
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&str>) -> Result<Node, ReadError> {
    let name = tag.map(|tag| tag.rsplit(['!', ':']).next().unwrap_or_default());
    if name == Some("str") || name.is_none() && !matches!(style, ScalarStyle::Plain) {
        return Ok(text_node(text));
    }
    if name == Some("binary") {
        return match crate::functions::encodings::decode_base64(text.as_bytes()) {
            Ok(bytes) => Ok(plain(Value::bytes(&bytes), None)),
            Err(_) => {
                Err(ReadError::Content("!!binary value contains invalid base64 data".to_owned()))
            }
        };
    }
    let found = resolve(text);
    let found = match (name, found) {
        (Some("float"), Scalar::Integer(number)) => Scalar::Float(number as f64),
        (Some(wanted @ ("int" | "float" | "bool" | "null")), found) => {
            let fits = matches!(
                (wanted, found),
                ("int", Scalar::Integer(_))
                    | ("float", Scalar::Float(_))
                    | ("bool", Scalar::Bool(_))
                    | ("null", Scalar::Null)
            );
            if !fits {
                let message = format!("cannot decode `{text}` as a !!{wanted}");
                return Err(ReadError::Content(message));
            }
            found
        }
        // Tags of others are read as text.
        (Some(other), _) if !other.is_empty() && other != "timestamp" => {
            return Ok(text_node(text));
        }
        (_, found) => found,
    };
    Ok(match found {
        Scalar::Null => plain(Value::Nil, None),
        Scalar::Bool(flag) => plain(Value::Bool(flag), Some(flag.to_string())),
        Scalar::Integer(number) => plain(Value::Float(number as f64), Some(number.to_string())),
        Scalar::Float(number) if !number.is_finite() => {
            let message = format!("json: unsupported value: {}", format_float(number, 'g', None));
            return Err(ReadError::Content(message));
        }
        Scalar::Float(number) => {
            // Keys are printed with the precision of 32 bits.
            let narrow: f64 = (number as f32).to_string().parse().unwrap_or(number);
            plain(Value::Float(number), Some(format_float(narrow, 'g', None)))
        }
        Scalar::Merge => Node { is_merge: true, ..text_node(text) },
        Scalar::Timestamp | Scalar::Text => text_node(text),
    })
}
