//! A document: read once, then asked what is wrong with it.

use jiff::civil::Date;

use crate::advice;
use crate::finding::Finding;
use crate::front_matter;
use crate::headings::{self, Heading};
use crate::links::{self, Surroundings};
use crate::markdown::{self, Outline, Token};
use crate::metadata::Metadata;
use crate::rule::{Group, Severity};
use crate::source::Source;

/// An enhancement document.
#[derive(Debug)]
pub struct Document {
    /// The file's name without `.md`.
    name: String,
    text: String,
    metadata: Option<Metadata>,
    /// What was wrong with the metadata before anything was asked of them.
    unreadable: Vec<Finding>,
    /// The text without the words of its comments, and what it consists of.
    masked: String,
    outline: Outline,
}

/// What the community's linter would say of a new document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub metadata: bool,
    pub headings: bool,
}

impl Document {
    /// Reads a document. It cannot fail: whatever is wrong is a finding.
    pub fn parse(file_name: &str, text: String) -> Self {
        let mut unreadable = Vec::new();
        let source = Source::new(&text);
        let metadata = front_matter::locate(&source, &mut unreadable)
            .map(|found| Metadata::read(&source, found.yaml, &mut unreadable));
        let masked = markdown::mask(&text);
        let outline = Outline::read(&Source::new(&masked));
        let name = file_name.strip_suffix(".md").unwrap_or(file_name).to_owned();
        Self { name, text, metadata, unreadable, masked, outline }
    }

    /// Everything that is wrong, in the order of the text.
    pub fn findings(&self, surroundings: &dyn Surroundings) -> Vec<Finding> {
        let source = Source::new(&self.text);
        let masked = Source::new(&self.masked);
        let mut findings = self.unreadable.clone();
        if let Some(metadata) = &self.metadata {
            metadata.check(&self.name, &mut findings);
            metadata.check_dates(&mut findings);
            links::check_related(&metadata.related(), surroundings, &mut findings);
        }
        headings::check(&source, &mut findings);
        markdown::check(&masked, &self.outline, &mut findings);
        links::check(&masked, &self.outline, surroundings, &mut findings);
        advice::check_sections(&masked, &self.outline, &mut findings);
        // Stable: what is missing keeps the order of the template.
        findings.sort_by_key(|finding| (finding.at, finding.rule));
        findings.dedup();
        findings
    }

    /// The required headings it lacks.
    pub fn missing_headings(&self) -> Vec<Heading> {
        headings::missing(&Source::new(&self.text))
    }

    /// What it is called: the first heading of level 1, else the title of the
    /// metadata, else the name of the file.
    pub fn title(&self) -> &str {
        let heading = self.outline.tokens.iter().find_map(|token| match token {
            Token::Heading { level: 1, words, .. } => Some(words.trim()),
            _ => None,
        });
        heading
            .filter(|words| !words.is_empty())
            .or_else(|| self.metadata.as_ref()?.title())
            .unwrap_or(&self.name)
    }

    pub fn created(&self) -> Option<Date> {
        self.metadata.as_ref()?.date("creation-date")
    }

    pub fn updated(&self) -> Option<Date> {
        self.metadata.as_ref()?.date("last-updated")
    }

    /// The names that links may give behind `#`.
    pub fn anchors(&self) -> std::collections::BTreeSet<String> {
        links::anchors_of(&Source::new(&self.masked), &self.outline)
    }
}

impl Verdict {
    pub fn of(findings: &[Finding]) -> Self {
        let passes = |group| {
            !findings.iter().any(|found| {
                found.rule.group() == group && found.rule.severity() == Severity::Error
            })
        };
        Self { metadata: passes(Group::Metadata), headings: passes(Group::Headings) }
    }
}
