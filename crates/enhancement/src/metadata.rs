//! The metadata of a document, and what the community asks of them.

use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::civil::Date;

use crate::finding::{Finding, Position};
use crate::rule::Rule;
use crate::source::Source;
use crate::web_address;
use crate::yaml::{self, Entry, Value};

/// What nobody has decided yet.
const TBD: &str = "TBD";

/// A list of people that must be named.
struct People {
    key: &'static str,
    advice: &'static str,
}

const PEOPLE: [People; 4] = [
    People { key: "authors", advice: "name who writes the document" },
    People { key: "reviewers", advice: "name who reviews it, and for which part" },
    People { key: "approvers", advice: "name one person who decides" },
    People {
        key: "api-approvers",
        advice: "name who approves the change of the API, or write None when there is none",
    },
];

const TRACKING_LINK: &str = "tracking-link";

/// Keys whose values are other documents.
const RELATED: [&str; 3] = ["see-also", "replaces", "superseded-by"];

/// What stands between the first two `---`.
#[derive(Debug)]
pub(crate) struct Metadata {
    entries: Vec<Located>,
    /// The `---` behind them.
    end: Position,
}

/// An entry with places in the whole document.
#[derive(Debug)]
struct Located {
    key: String,
    key_at: Position,
    at: Position,
    value: Rc<Value>,
    /// Where the items of a list are.
    items_at: Vec<Position>,
}

/// A name of another document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Related<'a> {
    pub(crate) key: &'static str,
    pub(crate) text: &'a str,
    pub(crate) at: Position,
}

impl Metadata {
    /// Reads the bytes `range` of `source`.
    pub(crate) fn read(
        source: &Source<'_>,
        range: std::ops::Range<usize>,
        findings: &mut Vec<Finding>,
    ) -> Self {
        let position = |offset: usize| source.position(range.start + offset);
        let yaml::Read { entries, problems } = yaml::read(&source.text[range.clone()]);
        for (place, problem) in problems {
            findings.push(Finding::new(position(place), Rule::Yaml, problem.to_string()));
        }
        let located = |Entry { key, key_at, at, value }: Entry| {
            let items_at = match value.as_ref() {
                Value::List(items) => items.iter().map(|(at, _)| position(*at)).collect(),
                _ => Vec::new(),
            };
            Located { key, key_at: position(key_at), at: position(at), value, items_at }
        };
        let entries = entries.into_iter().map(located).collect();
        Self { entries, end: source.position(range.end) }
    }

    /// Checks what the community's linter checks. `due` is the file's name
    /// without `.md`. Nothing is said about absent keys when the YAML could
    /// not be read.
    pub(crate) fn check(&self, due: &str, findings: &mut Vec<Finding>) {
        if self.entries.is_empty() && findings.iter().any(|found| found.rule == Rule::Yaml) {
            return;
        }
        self.check_duplicates(findings);
        self.check_title(due, findings);
        for People { key, advice } in PEOPLE {
            let named = self.check_list(key, Rule::People, advice, findings, |_| None);
            if !named {
                let message = format!("`{key}` names nobody; {advice}");
                findings.push(Finding::new(self.place_of(key), Rule::People, message));
            }
        }
        let advice = "link the ticket or epic that tracks the work";
        let linked = self.check_list(TRACKING_LINK, Rule::TrackingLink, advice, findings, |text| {
            let why = web_address::check(text).err()?;
            Some(format!("`{TRACKING_LINK}` has {text:?}, which is no address: {why}; {advice}"))
        });
        if !linked {
            let message = format!("`{TRACKING_LINK}` has no address; {advice}");
            findings.push(Finding::new(self.place_of(TRACKING_LINK), Rule::TrackingLink, message));
        }
    }

    pub(crate) fn title(&self) -> Option<&str> {
        self.text("title").map(|(text, _)| text)
    }

    /// The day a key gives, when it gives one.
    pub(crate) fn date(&self, key: &str) -> Option<Date> {
        self.text(key)?.0.parse().ok()
    }

    /// Dates are not checked by the community; a report cannot do without.
    pub(crate) fn check_dates(&self, findings: &mut Vec<Finding>) {
        let [created, updated] = ["creation-date", "last-updated"].map(|key| {
            let date = self.date(key);
            if date.is_none() {
                let at = self.text(key).map_or_else(|| self.place_of(key), |(_, at)| at);
                let message = format!("`{key}` is no day; write it as yyyy-mm-dd");
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
            findings.push(Finding::new(self.place_of("last-updated"), Rule::Dates, message));
        }
    }

    /// The other documents that are named, one by one.
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

    fn get(&self, key: &str) -> Option<&Located> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn text(&self, key: &str) -> Option<(&str, Position)> {
        let entry = self.get(key)?;
        match entry.value.as_ref() {
            Value::Text(text) => Some((text, entry.at)),
            _ => None,
        }
    }

    /// Where a key is, or where it would be added.
    fn place_of(&self, key: &str) -> Position {
        self.get(key).map_or(self.end, |entry| entry.key_at)
    }

    fn check_duplicates(&self, findings: &mut Vec<Finding>) {
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for Located { key, key_at, .. } in &self.entries {
            if let Some(first) = lines.get(key.as_str()) {
                let message = format!("`{key}` is given twice, first on line {first}; keep one");
                findings.push(Finding::new(*key_at, Rule::Yaml, message));
            } else {
                lines.insert(key, key_at.line);
            }
        }
    }

    fn check_title(&self, due: &str, findings: &mut Vec<Finding>) {
        let (found, at) = match self.get("title").map(|entry| (entry.value.as_ref(), entry.at)) {
            Some((Value::Text(text), at)) => (text.as_str(), at),
            Some((Value::List(_) | Value::Other, at)) => {
                let message = format!("`title` must be a text; write `title: {due}`");
                findings.push(Finding::new(at, Rule::Yaml, message));
                return;
            }
            Some((Value::Null, _)) | None => ("", self.place_of("title")),
        };
        if found != due {
            let message = match found {
                "" => format!("there is no title; write `title: {due}`, as the file is named"),
                _ => format!(
                    "the title is {found:?} and the file is {due}.md; write `title: {due}`, or \
                     rename the file"
                ),
            };
            findings.push(Finding::new(at, Rule::Title, message));
        }
    }

    /// Checks the entries of a list one by one: neither nothing nor TBD nor what
    /// `refuse` has a reason against. Tells whether there was anything to check.
    fn check_list(
        &self,
        key: &str,
        rule: Rule,
        advice: &str,
        findings: &mut Vec<Finding>,
        refuse: impl Fn(&str) -> Option<String>,
    ) -> bool {
        let Some(entry) = self.get(key) else { return false };
        let items = match entry.value.as_ref() {
            Value::List(items) => items,
            Value::Null => return false,
            Value::Text(_) | Value::Other => {
                let message = format!("`{key}` must be a list; write each entry on a line `  - …`");
                findings.push(Finding::new(entry.at, Rule::Yaml, message));
                return true;
            }
        };
        for ((_, value), at) in items.iter().zip(&entry.items_at) {
            let mut refused = |rule, message| findings.push(Finding::new(*at, rule, message));
            match value {
                // The community's linter does not see these at all.
                Value::Null => {}
                Value::List(_) | Value::Other => {
                    let message = format!(
                        "an entry of `{key}` must be a text; put it in quotes when it has a colon \
                         or a bracket"
                    );
                    refused(Rule::Yaml, message);
                }
                Value::Text(text) if text == TBD => {
                    refused(rule, format!("`{key}` is still {TBD}; {advice}"));
                }
                Value::Text(text) if text.is_empty() => {
                    refused(rule, format!("`{key}` has an empty entry; {advice}"));
                }
                Value::Text(text) => {
                    if let Some(message) = refuse(text) {
                        refused(rule, message);
                    }
                }
            }
        }
        items.iter().any(|(_, value)| *value != Value::Null)
    }
}
