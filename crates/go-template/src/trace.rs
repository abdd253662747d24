//! Where the output of a template came from: the line that wrote it, and the data that was read for it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;

use crate::value::{Map, Value};

/// Templates are untrusted: what is noted about one run is bounded.
const MAX_PIECES: usize = 100_000;
const MAX_READS: usize = 500;

/// What maps are called, so that reads of their keys can be noted.
#[derive(Debug, Default)]
pub struct Names(HashMap<usize, (Map, String)>);

/// Keys that were read, as paths, with their text where they have one.
pub type Reads = BTreeMap<String, Option<String>>;

/// A part of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// In bytes of the output.
    pub output: Range<usize>,
    /// Where the text or the action begins in the template, in bytes.
    pub at: usize,
    /// Whether the template contains this text literally.
    pub is_text: bool,
    pub reads: Reads,
}

/// What was noted about one run. Parts that a template includes belong to the action that includes
/// them.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    names: Rc<Names>,
    pieces: Vec<Piece>,
    reads: Reads,
    assigned: Reads,
    level: usize,
}

impl Names {
    /// Names `root` and all maps below it by their paths: `image`, `list[0].image`.
    pub fn of(root: &Map) -> Rc<Self> {
        let mut names = Self::default();
        let mut open = vec![(Value::Map(root.clone()), String::new())];
        while let Some((value, path)) = open.pop() {
            match value {
                Value::Map(map) => {
                    if names.0.contains_key(&address(&map)) {
                        continue;
                    }
                    for (key, below) in map.borrow().iter() {
                        open.push((below.clone(), join(&path, key)));
                    }
                    names.0.insert(address(&map), (map, path));
                }
                Value::List(items) => {
                    let items = items.iter().enumerate();
                    open.extend(items.map(|(at, item)| (item.clone(), format!("{path}[{at}]"))));
                }
                _ => {}
            }
        }
        Rc::new(names)
    }
}

fn address(map: &Map) -> usize {
    Rc::as_ptr(map) as *const () as usize
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl Trace {
    pub fn new(names: Rc<Names>) -> Self {
        Self { names, ..Self::default() }
    }

    /// The pieces of the output in order, and what was read to set variables.
    pub fn into_parts(self) -> (Vec<Piece>, Reads) {
        (self.pieces, self.assigned)
    }

    pub(crate) fn enter(&mut self) {
        self.level += 1;
    }

    pub(crate) fn leave(&mut self) {
        self.level -= 1;
    }

    /// An action begins.
    pub(crate) fn begin(&mut self) {
        if self.level == 1 {
            self.reads.clear();
        }
    }

    /// An action ends, having set a variable.
    pub(crate) fn assign(&mut self) {
        if self.level == 1 {
            for (path, text) in std::mem::take(&mut self.reads) {
                note(&mut self.assigned, path, text);
            }
        }
    }

    /// A text or an action ends, having written `output`.
    pub(crate) fn write(&mut self, output: Range<usize>, at: usize, is_text: bool) {
        if self.level == 1 && !output.is_empty() && self.pieces.len() < MAX_PIECES {
            let reads = if is_text { Reads::new() } else { std::mem::take(&mut self.reads) };
            self.pieces.push(Piece { output, at, is_text, reads });
        }
    }

    /// A key of a map was read.
    pub(crate) fn read(&mut self, map: &Map, key: &str, value: &Value) {
        let Some((_, path)) = self.names.0.get(&address(map)) else { return };
        let text = match value {
            Value::String(text) => Some(text.to_string()),
            Value::Int(number) | Value::Int64(number) => Some(number.to_string()),
            Value::Float(number) => Some(crate::number::format_float(*number, 'g', None)),
            Value::Nil | Value::Absent | Value::Bool(_) => return,
            _ => None,
        };
        note(&mut self.reads, join(path, key), text);
    }
}

fn note(reads: &mut Reads, path: String, text: Option<String>) {
    if reads.len() < MAX_READS {
        reads.insert(path, text);
    }
}
