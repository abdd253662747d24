//! The metadata of a document, and the checks of the community's linter.

use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::civil::Date;

use crate::finding::{Finding, Position};
use crate::rule::Rule;
use crate::source::Source;
use crate::web_address;
use crate::yaml::{self, Entry, Value};

/// The placeholder of the template.
const TBD: &str = "TBD";

/// A list that must contain people.
struct People {
    key: &'static str,
    remedy: &'static str,
}

const PEOPLE: [People; 4] = [
    People { key: "authors", remedy: "list the authors of the document" },
    People { key: "reviewers", remedy: "list the reviewers, and what each reviews" },
    People { key: "approvers", remedy: "name one person who approves the document" },
    People {
        key: "api-approvers",
        remedy: "name who approves the API change, or write None if there is none",
    },
];

const TRACKING_LINK: &str = "tracking-link";

/// Keys whose values are paths of other documents.
const RELATED: [&str; 3] = ["see-also", "replaces", "superseded-by"];

/// The YAML between the first two `---`.
#[derive(Debug)]
pub(crate) struct Metadata {
    entries: Vec<LocatedEntry>,
    /// The position of the second `---`.
    end: Position,
}

/// An entry with positions in the document.
#[derive(Debug)]
struct LocatedEntry {
    key: String,
    key_at: Position,
    at: Position,
    value: Rc<Value>,
    /// The positions of the items of a list.
    items_at: Vec<Position>,
}

/// A reference to another document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Related<'a> {
    pub(crate) key: &'static str,
    pub(crate) text: &'a str,
    pub(crate) at: Position,
}

impl Metadata {
    /// Parses the bytes `range` of `source`.
    pub(crate) fn parse(
        source: &Source<'_>,
        range: std::ops::Range<usize>,
        findings: &mut Vec<Finding>,
    ) -> Self {
        let position = |offset: usize| source.position(range.start + offset);
        let yaml::Parsed { entries, problems } = yaml::parse(&source.text[range.clone()]);
        for (offset, problem) in problems {
            findings.push(Finding::new(position(offset), Rule::Yaml, problem.to_string()));
        }
        let located = |Entry { key, key_at, at, value }: Entry| {
            let items_at = match value.as_ref() {
                Value::List(items) => items.iter().map(|(at, _)| position(*at)).collect(),
                _ => Vec::new(),
            };
            LocatedEntry { key, key_at: position(key_at), at: position(at), value, items_at }
        };
        let entries = entries.into_iter().map(located).collect();
        Self { entries, end: source.position(range.end) }
    }

    /// Performs the checks of the community's linter. `name` is the file name
    /// without `.md`. Missing keys are not reported if the YAML is invalid.
    pub(crate) fn check(&self, name: &str, findings: &mut Vec<Finding>) {
        if self.entries.is_empty() && findings.iter().any(|found| found.rule == Rule::Yaml) {
            return;
        }
        self.check_duplicates(findings);
        self.check_title(name, findings);
        for People { key, remedy } in PEOPLE {
            let has_entries = self.check_list(key, Rule::People, remedy, findings, |_| None);
            if !has_entries {
                let message = format!("`{key}` is empty; {remedy}");
                findings.push(Finding::new(self.position_of(key), Rule::People, message));
            }
        }
        let remedy = "link the issue or epic that tracks the work";
        let has_entries =
            self.check_list(TRACKING_LINK, Rule::TrackingLink, remedy, findings, |text| {
                let reason = web_address::check(text).err()?;
                Some(format!(
                    "invalid URL in `{TRACKING_LINK}`: {reason}, found {text:?}; {remedy}"
                ))
            });
        if !has_entries {
            let message = format!("`{TRACKING_LINK}` is empty; {remedy}");
            findings.push(Finding::new(
                self.position_of(TRACKING_LINK),
                Rule::TrackingLink,
                message,
            ));
        }
    }

    pub(crate) fn title(&self) -> Option<&str> {
        self.text("title").map(|(text, _)| text)
    }

    /// The value of a key, if it is a date.
    pub(crate) fn date(&self, key: &str) -> Option<Date> {
        self.text(key)?.0.parse().ok()
    }

    /// Checks dates. The community's linter does not, but a report needs them.
    pub(crate) fn check_dates(&self, findings: &mut Vec<Finding>) {
        let [created, updated] = ["creation-date", "last-updated"].map(|key| {
            let date = self.date(key);
            if date.is_none() {
                let at = self.text(key).map_or_else(|| self.position_of(key), |(_, at)| at);
                let message = format!("`{key}` is not a date; write it as yyyy-mm-dd");
                findings.push(Finding::new(at, Rule::Dates, message));
            }
            date
        });
        if let (Some(created), Some(updated)) = (created, updated)
            && updated < created
        {
            let message = format!(
                "`last-updated` {updated} is before `creation-date` {created}; correct one of them"
            );
            findings.push(Finding::new(self.position_of("last-updated"), Rule::Dates, message));
        }
    }

    /// The references to other documents.
    pub(crate) fn related(&self) -> Vec<Related<'_>> {
        let of = |key| {
            self.get(key).into_iter().flat_map(move |entry| match entry.value.as_ref() {
                Value::Text(text) => vec![Related { key, text, at: entry.at }],
                Value::List(items) => items
                    .iter()
                    .zip(&entry.items_at)
                    .filter_map(|((_, value), at)| match value {
                        Value::Text(text) => Some(Related { key, text, at: *at }),
                        _ => None,
                    })
                    .collect(),
                _ => Vec::new(),
            })
        };
        RELATED.into_iter().flat_map(of).collect()
    }

    fn get(&self, key: &str) -> Option<&LocatedEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn text(&self, key: &str) -> Option<(&str, Position)> {
        let entry = self.get(key)?;
        match entry.value.as_ref() {
            Value::Text(text) => Some((text, entry.at)),
            _ => None,
        }
    }

    /// The position of a key, or the position where it would be added.
    fn position_of(&self, key: &str) -> Position {
        self.get(key).map_or(self.end, |entry| entry.key_at)
    }

    fn check_duplicates(&self, findings: &mut Vec<Finding>) {
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for LocatedEntry { key, key_at, .. } in &self.entries {
            if let Some(first) = lines.get(key.as_str()) {
                let message = format!("`{key}` is a duplicate of line {first}; remove one of them");
                findings.push(Finding::new(*key_at, Rule::Yaml, message));
            } else {
                lines.insert(key, key_at.line);
            }
        }
    }

    fn check_title(&self, name: &str, findings: &mut Vec<Finding>) {
        let (found, at) = match self.get("title").map(|entry| (entry.value.as_ref(), entry.at)) {
            Some((Value::Text(text), at)) => (text.as_str(), at),
            Some((Value::List(_) | Value::Other, at)) => {
                let message = format!("expected a string as `title`; write `title: {name}`");
                findings.push(Finding::new(at, Rule::Yaml, message));
                return;
            }
            Some((Value::Null, _)) | None => ("", self.position_of("title")),
        };
        if found != name {
            let message = match found {
                "" => format!("expected a title; write `title: {name}`, the file name without .md"),
                _ => format!(
                    "the title {found:?} does not match the file name {name}.md; write \
                     `title: {name}`, or rename the file"
                ),
            };
            findings.push(Finding::new(at, Rule::Title, message));
        }
    }

    /// Checks the entries of a list. Reports empty ones, TBD, and those for which
    /// `reject` returns a message. Returns whether the list has entries.
    fn check_list(
        &self,
        key: &str,
        rule: Rule,
        remedy: &str,
        findings: &mut Vec<Finding>,
        reject: impl Fn(&str) -> Option<String>,
    ) -> bool {
        let Some(entry) = self.get(key) else { return false };
        let items = match entry.value.as_ref() {
            Value::List(items) => items,
            Value::Null => return false,
            Value::Text(_) | Value::Other => {
                let message =
                    format!("expected a list as `{key}`; write each entry on a line `  - …`");
                findings.push(Finding::new(entry.at, Rule::Yaml, message));
                return true;
            }
        };
        for ((_, value), at) in items.iter().zip(&entry.items_at) {
            let mut report = |rule, message| findings.push(Finding::new(*at, rule, message));
            match value {
                // The community's linter ignores these.
                Value::Null => {}
                Value::List(_) | Value::Other => {
                    let message = format!(
                        "expected a string as an entry of `{key}`; put it in quotes if it contains \
                         a colon or a bracket"
                    );
                    report(Rule::Yaml, message);
                }
                Value::Text(text) if text == TBD => {
                    report(rule, format!("`{key}` is still {TBD}; {remedy}"));
                }
                Value::Text(text) if text.is_empty() => {
                    report(rule, format!("`{key}` has an empty entry; {remedy}"));
                }
                Value::Text(text) => {
                    if let Some(message) = reject(text) {
                        report(rule, message);
                    }
                }
            }
        }
        items.iter().any(|(_, value)| *value != Value::Null)
    }
}
