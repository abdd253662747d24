//! Reading a map of the configuration key by key.
//!
//! A section records which keys were read. Whatever else it holds is
//! unknown, so there is no second list of keys that could disagree.

use std::cell::RefCell;
use std::collections::BTreeMap;

use located_yaml::{Entry, Meaning, Node, Value};

use crate::finding::{EntryPosition, Finding, Problem, nearest};

/// Where readers add their findings; reading continues after each.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    mistakes: RefCell<Vec<Finding>>,
    warnings: RefCell<Vec<Finding>>,
}

impl Sink {
    pub(crate) fn report(&self, at: impl Into<EntryPosition>, problem: Problem) {
        self.mistakes.borrow_mut().push(Finding { at: at.into(), problem });
    }

    /// Reports something that does not prevent the document from being used.
    pub(crate) fn warn(&self, at: impl Into<EntryPosition>, problem: Problem) {
        self.warnings.borrow_mut().push(Finding { at: at.into(), problem });
    }

    /// The mistakes, and the warnings.
    pub(crate) fn into_findings(self) -> (Vec<Finding>, Vec<Finding>) {
        (self.mistakes.into_inner(), self.warnings.into_inner())
    }
}

/// A value, and the path to it from the root: `mirror.operators[0]`.
#[derive(Debug, Clone)]
pub(crate) struct LocatedValue<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: String,
    pub(crate) sink: &'a Sink,
}

impl<'a> LocatedValue<'a> {
    pub(crate) fn report(&self, problem: Problem) {
        self.sink.report(self.node.at, problem);
    }

    /// The value as text: quoted, or a word that cannot be taken for a number
    /// or a boolean. `None` for nothing and for empty text, too.
    pub(crate) fn text(self) -> Option<Text<'a>> {
        let key = self.path.rsplit('.').next().unwrap_or_default().to_owned();
        match &self.node.value {
            Value::Scalar { meaning: Meaning::Null, .. } => None,
            Value::Scalar { text, meaning: Meaning::Text } => (!text.is_empty()).then_some(Text {
                text,
                key,
                at: self.node.at.into(),
                sink: self.sink,
            }),
            Value::Scalar { text, meaning } => {
                let found = if matches!(meaning, Meaning::Bool(_)) { "boolean" } else { "number" };
                self.report(Problem::NotText { key, text: text.clone(), found });
                None
            }
            _ => {
                let found = self.node.shape();
                self.report(Problem::Shape { what: key, expected: "text", found, hint: None });
                None
            }
        }
    }
}

/// A text value that is still to be parsed.
#[derive(Debug, Clone)]
pub(crate) struct Text<'a> {
    pub(crate) text: &'a str,
    /// The key it was given for.
    pub(crate) key: String,
    pub(crate) at: EntryPosition,
    sink: &'a Sink,
}

impl<'a> Text<'a> {
    /// Parses the text; a failure is reported at its place.
    pub(crate) fn parse<T>(
        &self,
        parse: impl FnOnce(String, &'a str) -> Result<T, Problem>,
    ) -> Option<T> {
        parse(self.key.clone(), self.text)
            .map_err(|problem| self.sink.report(self.at, problem))
            .ok()
    }

    pub(crate) fn owned(&self) -> String {
        self.text.to_owned()
    }
}

/// A map whose keys are being read.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    pub(crate) at: EntryPosition,
    path: String,
    sink: &'a Sink,
    entries: &'a [Entry],
    known_keys: Vec<&'static str>,
    refused: Vec<&'static str>,
    missing: Vec<(&'static str, &'static str)>,
}

impl<'a> Section<'a> {
    /// `None`, with a finding, if the value is not a map. `hint` states what to
    /// write in place of a text.
    pub(crate) fn open(place: LocatedValue<'a>, hint: impl FnOnce(&str) -> String) -> Option<Self> {
        let Value::Map(entries) = &place.node.value else {
            let hint = match &place.node.value {
                // Text that could control a terminal is not printed unchanged.
                Value::Scalar { text, meaning: Meaning::Text }
                    if !text.contains(char::is_control) =>
                {
                    Some(hint(text))
                }
                _ => None,
            };
            let (what, found) = (name_of(&place.path), place.node.shape());
            place.report(Problem::Shape { what, expected: "a map", found, hint });
            return None;
        };
        Some(Self {
            at: place.node.at.into(),
            path: place.path,
            sink: place.sink,
            entries,
            known_keys: Vec::new(),
            refused: Vec::new(),
            missing: Vec::new(),
        })
    }

    pub(crate) fn report(&self, at: impl Into<EntryPosition>, problem: Problem) {
        self.sink.report(at, problem);
    }

    /// Reports at a key of this section, or at its start when the key is absent.
    pub(crate) fn report_key(&self, key: &str, problem: Problem) {
        self.report(self.entry(key).map_or(self.at, |entry| entry.at.into()), problem);
    }

    /// Warns at a key of this section.
    pub(crate) fn warn_key(&self, key: &str, problem: Problem) {
        self.sink.warn(self.entry(key).map_or(self.at, |entry| entry.at.into()), problem);
    }

    fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key.eq_ignore_ascii_case(key))
    }

    /// Whether the key is written, be it without a value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// The value of `key`; `None` when it is absent or null.
    pub(crate) fn place(&mut self, key: &'static str) -> Option<LocatedValue<'a>> {
        if !self.known_keys.contains(&key) {
            self.known_keys.push(key);
        }
        let node = &self.entry(key)?.value;
        let path =
            if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        (!node.is_null()).then_some(LocatedValue { node, path, sink: self.sink })
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Option<Text<'a>> {
        self.place(key)?.text()
    }

    /// Text that must be there; `example` is what the finding suggests.
    pub(crate) fn required(
        &mut self,
        key: &'static str,
        example: &'static str,
    ) -> Option<Text<'a>> {
        let Some(place) = self.place(key) else {
            self.missing.push((key, example));
            return None;
        };
        let is_empty = matches!(&place.node.value, Value::Scalar { text, .. } if text.is_empty());
        if is_empty {
            self.missing.push((key, example));
        }
        place.text()
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> bool {
        let Some(place) = self.place(key) else { return false };
        match &place.node.value {
            Value::Scalar { meaning: Meaning::Bool(value), .. } => return *value,
            Value::Scalar { text, .. } => {
                place.report(Problem::NotBool { key: key.to_owned(), text: text.clone() });
            }
            _ => {
                let (what, found) = (key.to_owned(), place.node.shape());
                place.report(Problem::Shape { what, expected: "true or false", found, hint: None });
            }
        }
        false
    }

    /// The items of a list; none when the key is absent or null.
    pub(crate) fn items(&mut self, key: &'static str) -> Vec<LocatedValue<'a>> {
        let Some(place) = self.place(key) else { return Vec::new() };
        let Value::List(items) = &place.node.value else {
            let hint = Some("start each item with `- `".to_owned());
            let found = place.node.shape();
            place.report(Problem::Shape {
                what: place.path.clone(),
                expected: "a list",
                found,
                hint,
            });
            return Vec::new();
        };
        let item = |(index, node)| {
            let path = format!("{}[{index}]", place.path);
            LocatedValue { node, path, sink: place.sink }
        };
        items.iter().enumerate().map(item).collect()
    }

    /// Reads every item of a list. Those that cannot be read are left out,
    /// which is harmless: each has left a finding.
    pub(crate) fn list<T>(
        &mut self,
        key: &'static str,
        read: impl FnMut(LocatedValue<'a>) -> Option<T>,
    ) -> Vec<T> {
        let mut list: Vec<T> = self.items(key).into_iter().filter_map(read).collect();
        // Kept for the whole run, and may have thousands of items.
        list.shrink_to_fit();
        list
    }

    /// A key that is known, but not valid here; `instead` states what to do.
    pub(crate) fn refuse(&mut self, key: &'static str, instead: &'static str) {
        self.refused.push(key);
        if let Some(entry) = self.entry(key) {
            let (key, section) = (entry.key.clone(), name_of(&self.path));
            self.report(entry.at, Problem::RefusedKey { key, section, instead });
        }
    }

    /// A key that must be written, although its value may be null.
    pub(crate) fn require_key(&mut self, key: &'static str, example: &'static str) {
        if !self.has(key) {
            self.missing.push((key, example));
        }
    }

    /// Reports the keys that were not read, and those that are missing. A
    /// key that is only misspelt does not count as missing, too.
    pub(crate) fn finish(mut self) {
        for entry in self.entries {
            let is = |key: &&str| entry.key.eq_ignore_ascii_case(key);
            if self.known_keys.iter().any(is) || self.refused.iter().any(is) {
                continue;
            }
            let nearest = nearest(&entry.key, &self.known_keys);
            self.missing.retain(|(key, _)| !nearest.iter().any(|near| near == key));
            let known = self.known_keys.iter().map(|key| (*key).to_owned()).collect();
            let (key, section) = (entry.key.clone(), name_of(&self.path));
            self.report(entry.at, Problem::UnknownKey { key, section, nearest, known });
        }
        for (key, example) in &self.missing {
            let section = name_of(&self.path);
            self.report(self.at, Problem::MissingKey { key, section, example });
        }
    }
}

/// Names that must differ from each other.
#[derive(Debug)]
pub(crate) struct Unique {
    what: &'static str,
    first: BTreeMap<String, EntryPosition>,
}

impl Unique {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, first: BTreeMap::new() }
    }

    /// Reports `text` when `name` came before. The name is not always the text
    /// itself: it may be what the text comes to.
    pub(crate) fn check(&mut self, text: &Text<'_>, name: &str) {
        match self.first.get(name) {
            Some(&first) => {
                let (what, name) = (self.what, name.to_owned());
                text.sink.report(text.at, Problem::Duplicate { what, name, first });
            }
            None => {
                self.first.insert(name.to_owned(), text.at);
            }
        }
    }
}

fn name_of(path: &str) -> String {
    if path.is_empty() { "the configuration".to_owned() } else { path.to_owned() }
}
