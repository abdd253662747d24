//! A document, parsed once, and its findings.

use diagnostic::Severity;
use jiff::civil::Date;

use crate::advice;
use crate::finding::Finding;
use crate::front_matter;
use crate::headings::{self, Heading};
use crate::links::{self, LinkResolver};
use crate::markdown::{self, Outline, Token};
use crate::metadata::Metadata;
use crate::rule::Group;
use crate::source::Source;
use crate::template_text::TemplateSentences;

/// An enhancement document.
#[derive(Debug)]
pub struct Document {
    /// The file name without `.md`.
    name: String,
    text: String,
    metadata: Option<Metadata>,
    /// Findings of the parser of the metadata.
    parse_findings: Vec<Finding>,
    /// The text with the content of comments replaced, and its elements.
    masked: String,
    outline: Outline,
}

/// Whether the community's linter accepts a new document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub metadata: bool,
    pub headings: bool,
}

impl Document {
    /// Parses a document. This cannot fail: every problem is a finding.
    pub fn parse(file_name: &str, text: String) -> Self {
        let mut parse_findings = Vec::new();
        let source = Source::new(&text);
        let metadata = front_matter::locate(&source, &mut parse_findings)
            .map(|found| Metadata::parse(&source, found.yaml, &mut parse_findings));
        let masked = markdown::mask(&text);
        let outline = Outline::parse(&Source::new(&masked));
        let name = file_name.strip_suffix(".md").unwrap_or(file_name).to_owned();
        Self { name, text, metadata, parse_findings, masked, outline }
    }

    /// All findings, in the order of the text.
    pub fn findings(&self, links: &dyn LinkResolver, template: &TemplateSentences) -> Vec<Finding> {
        let source = Source::new(&self.text);
        let masked = Source::new(&self.masked);
        let mut findings = self.parse_findings.clone();
        if let Some(metadata) = &self.metadata {
            metadata.check(&self.name, &mut findings);
            metadata.check_dates(&mut findings);
            links::check_related(&metadata.related(), links, &mut findings);
        }
        headings::check(&source, &mut findings);
        markdown::check(&masked, &self.outline, &mut findings);
        links::check(&masked, &self.outline, links, &mut findings);
        advice::check_sections(&masked, &self.outline, &mut findings);
        template.check(&masked, &self.outline, &mut findings);
        // The sort is stable: missing headings keep the order of the template.
        findings.sort_by_key(|finding| (finding.at, finding.rule));
        findings.dedup();
        findings
    }

    /// The required headings that it lacks.
    pub fn missing_headings(&self) -> Vec<Heading> {
        headings::missing(&Source::new(&self.text))
    }

    /// Its title: the first heading of level 1, else the title of the
    /// metadata, else the file name.
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

    /// The anchors that a link can contain after `#`.
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
