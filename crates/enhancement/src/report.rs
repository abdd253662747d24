//! The state of all documents: age, missing parts and findings, by area.

mod html;
mod markdown;

use std::collections::{BTreeMap, BTreeSet};

use diagnostic::Severity;
use jiff::civil::Date;
use serde::Serialize;

use crate::document::{Document, Verdict};
use crate::finding::Finding;
use crate::rule::{Group, Rule};

/// Identifies the JSON format and its version.
const SCHEMA: &str = "enhance/report";
const VERSION: u32 = 1;

/// All documents, sorted by area, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    schema: &'static str,
    version: u32,
    /// The day from which ages are counted.
    today: Date,
    /// The version of the repository that links refer to.
    revision: Option<Revision>,
    areas: Vec<AreaSummary>,
    documents: Vec<ReportEntry>,
    skipped: Vec<SkippedDocument>,
}

/// One document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportEntry {
    /// Its directory below the one of the report; empty at the top.
    pub area: String,
    /// Its path below the directory of the report.
    pub path: String,
    /// The address at which it can be read.
    pub url: Option<String>,
    pub title: String,
    pub created: Option<Date>,
    pub updated: Option<Date>,
    /// Days since it was created.
    pub age_days: Option<i32>,
    /// Whether the community's linter accepts its metadata and its headings.
    pub metadata_passes: bool,
    pub headings_pass: bool,
    pub missing_headings: Vec<String>,
    /// The messages of the findings in its metadata.
    pub metadata_problems: Vec<String>,
    /// Errors in Markdown and links.
    pub other_errors: usize,
    pub warnings: usize,
    /// Whether the address accepts the number of a line.
    #[serde(skip)]
    has_line_anchors: bool,
    #[serde(skip)]
    findings: Vec<Finding>,
}

/// The documents of one directory in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AreaSummary {
    pub area: String,
    pub documents: usize,
    /// Documents with complete metadata and headings.
    pub complete: usize,
    pub with_metadata_problems: usize,
    pub with_missing_headings: usize,
    /// Errors in Markdown and links.
    pub other_errors: usize,
    pub warnings: usize,
}

/// A document that was not checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedDocument {
    pub path: String,
    pub reason: String,
}

/// A version of a repository on a Git host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Revision {
    /// The address of the repository's page.
    pub repository: String,
    pub commit: String,
}

/// How often a rule is violated.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RuleCount {
    rule: Rule,
    findings: usize,
    documents: usize,
}

impl ReportEntry {
    /// Summarizes a document. `path` is relative and separated by `/`.
    pub fn new(path: &str, document: &Document, findings: Vec<Finding>, today: Date) -> Self {
        let verdict = Verdict::of(&findings);
        let is_error = |finding: &&Finding| finding.rule.severity() == Severity::Error;
        let is_metadata = |finding: &&Finding| finding.rule.group() == Group::Metadata;
        let is_other =
            |finding: &&Finding| matches!(finding.rule.group(), Group::Markdown | Group::Links);
        let created = document.created();
        Self {
            area: path.rsplit_once('/').map_or("", |(area, _)| area).to_owned(),
            path: path.to_owned(),
            url: None,
            title: document.title().to_owned(),
            created,
            updated: document.updated(),
            age_days: created.map(|day| (today - day).get_days()),
            metadata_passes: verdict.metadata,
            headings_pass: verdict.headings,
            missing_headings: document.missing_headings().iter().map(ToString::to_string).collect(),
            metadata_problems: findings
                .iter()
                .filter(is_metadata)
                .map(|finding| finding.message.clone())
                .collect(),
            other_errors: findings.iter().filter(is_other).filter(is_error).count(),
            warnings: findings.iter().filter(|finding| !is_error(finding)).count(),
            has_line_anchors: false,
            findings,
        }
    }

    /// Adds the address of the document. With line anchors, `?plain=1#L7` can
    /// be appended to it.
    pub fn with_url(mut self, url: String, has_line_anchors: bool) -> Self {
        self.url = Some(url);
        self.has_line_anchors = has_line_anchors;
        self
    }

    fn is_complete(&self) -> bool {
        self.metadata_passes && self.headings_pass
    }

    fn missing(&self) -> String {
        if self.missing_headings.is_empty() {
            return "none".to_owned();
        }
        self.missing_heading_names().collect::<Vec<_>>().join(", ")
    }

    fn missing_heading_names(&self) -> impl Iterator<Item = &str> {
        self.missing_headings.iter().map(|heading| heading.trim_start_matches(['#', ' ']))
    }

    fn age(&self) -> String {
        match self.age_days {
            None => "unknown".to_owned(),
            Some(1) => "1 day".to_owned(),
            Some(days) if days.abs() < 60 => format!("{days} days"),
            Some(days) if days < 730 => format!("{} months", days / 30),
            Some(days) => format!("{} years", days / 365),
        }
    }

    fn day(day: Option<Date>) -> String {
        day.map_or_else(|| "unknown".to_owned(), |day| day.to_string())
    }

    fn metadata(&self) -> String {
        match self.metadata_problems.len() {
            0 => "complete".to_owned(),
            number => plural(number, "problem"),
        }
    }
}

impl AreaSummary {
    fn add(&mut self, entry: &ReportEntry) {
        self.documents += 1;
        self.complete += usize::from(entry.is_complete());
        self.with_metadata_problems += usize::from(!entry.metadata_passes);
        self.with_missing_headings += usize::from(!entry.headings_pass);
        self.other_errors += entry.other_errors;
        self.warnings += entry.warnings;
    }

    /// The name of the area as it is printed.
    fn name(&self) -> &str {
        if self.area.is_empty() { "(no area)" } else { &self.area }
    }
}

impl Report {
    /// Sorts and summarizes documents.
    pub fn new(
        mut documents: Vec<ReportEntry>,
        skipped: Vec<SkippedDocument>,
        revision: Option<Revision>,
        today: Date,
    ) -> Self {
        // Documents without a date are last.
        documents.sort_by(|a, b| {
            let key = |entry: &ReportEntry| {
                (entry.area.clone(), entry.created.is_none(), entry.created, entry.path.clone())
            };
            key(a).cmp(&key(b))
        });
        let areas = documents
            .chunk_by(|a, b| a.area == b.area)
            .map(|entries| {
                let area = entries[0].area.clone();
                let mut summary = AreaSummary { area, ..AreaSummary::default() };
                entries.iter().for_each(|entry| summary.add(entry));
                summary
            })
            .collect();
        Self { schema: SCHEMA, version: VERSION, today, revision, areas, documents, skipped }
    }

    /// Renders the report as Markdown.
    pub fn to_markdown(&self) -> String {
        markdown::render(self)
    }

    /// Renders the report as an HTML page that does not load any other file.
    pub fn to_html(&self) -> String {
        html::render(self)
    }

    /// The areas in their order, each with its documents.
    fn areas(&self) -> impl Iterator<Item = (&AreaSummary, &[ReportEntry])> {
        self.areas.iter().zip(self.documents.chunk_by(|a, b| a.area == b.area))
    }

    /// The numbers of all areas.
    fn total(&self) -> AreaSummary {
        let mut total = AreaSummary::default();
        self.documents.iter().for_each(|entry| total.add(entry));
        total
    }

    /// The rules that are violated, those in the most documents first.
    fn rule_counts(&self) -> Vec<RuleCount> {
        let mut counts: BTreeMap<Rule, (usize, usize)> = BTreeMap::new();
        for entry in &self.documents {
            for finding in &entry.findings {
                counts.entry(finding.rule).or_default().0 += 1;
            }
            let rules: BTreeSet<Rule> = entry.findings.iter().map(|found| found.rule).collect();
            for rule in rules {
                counts.entry(rule).or_default().1 += 1;
            }
        }
        let count = |(rule, (findings, documents))| RuleCount { rule, findings, documents };
        let mut counts: Vec<RuleCount> = counts.into_iter().map(count).collect();
        counts.sort_by_key(|count| (std::cmp::Reverse(count.documents), count.rule));
        counts
    }

    fn summary(&self) -> String {
        let total = self.total();
        let mut summary = format!(
            "{} on {}; {} with complete metadata and headings",
            plural(total.documents, "document"),
            self.today,
            total.complete
        );
        if !self.skipped.is_empty() {
            summary.push_str(&format!("; {} skipped", self.skipped.len()));
        }
        summary.push('.');
        summary
    }
}

/// A number with its noun.
fn plural(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests;
