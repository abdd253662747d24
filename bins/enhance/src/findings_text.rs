//! Findings as text and as JSON.

use std::fmt::Write as _;

use anyhow::Result;
use enhancement::{Severity, SkippedDocument};
use serde::Serialize;

use crate::lint_command::{LintResult, LintedDocument};
use crate::repository::IGNORE_LIST;

/// Identifies the JSON format and its version.
const SCHEMA: &str = "enhance/findings";
const VERSION: u32 = 1;

#[derive(Debug, Serialize)]
struct Log<'a> {
    schema: &'static str,
    version: u32,
    documents: Vec<Document<'a>>,
    skipped: &'a [SkippedDocument],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    path: String,
    /// Whether the community's linter accepts the document.
    metadata_passes: bool,
    headings_pass: bool,
    findings: Vec<FindingEntry<'a>>,
}

#[derive(Debug, Serialize)]
struct FindingEntry<'a> {
    line: usize,
    column: usize,
    severity: String,
    group: &'static str,
    rule: &'static str,
    message: &'a str,
}

/// One line per finding: `path:line:column: severity: message [rule]`.
pub(crate) fn text(result: &LintResult) -> String {
    let mut text = String::new();
    for LintedDocument { path, findings, .. } in &result.documents {
        for finding in findings {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}:{finding}", path.display());
        }
    }
    text
}

/// The findings and the skipped documents as JSON.
pub(crate) fn json(result: &LintResult) -> Result<String> {
    let documents = result.documents.iter().map(document).collect();
    let log = Log { schema: SCHEMA, version: VERSION, documents, skipped: &result.skipped };
    Ok(format!("{}\n", serde_json::to_string_pretty(&log)?))
}

fn document(document: &LintedDocument) -> Document<'_> {
    Document {
        path: document.path.display().to_string(),
        metadata_passes: document.verdict.metadata,
        headings_pass: document.verdict.headings,
        findings: document.findings.iter().map(finding).collect(),
    }
}

fn finding(finding: &enhancement::Finding) -> FindingEntry<'_> {
    let enhancement::Finding { at, rule, message } = finding;
    FindingEntry {
        line: at.line,
        column: at.column,
        severity: rule.severity().to_string(),
        group: rule.group().name(),
        rule: rule.id(),
        message,
    }
}

/// The numbers of documents and findings, one or two lines.
pub(crate) fn summary(result: &LintResult) -> Vec<String> {
    let count =
        |severity| result.findings().filter(|found| found.rule.severity() == severity).count();
    let mut lines = vec![format!(
        "{} checked: {}, {}",
        plural(result.documents.len(), "document"),
        plural(count(Severity::Error), "error"),
        plural(count(Severity::Warning), "warning"),
    )];
    lines.extend(skipped(result.skipped.len(), "check"));
    lines
}

/// States how many documents were skipped, and why; `None` without any.
pub(crate) fn skipped(number: usize, action: &str) -> Option<String> {
    let (documents, are, them) = match number {
        0 => return None,
        1 => ("document", "it is", "it"),
        _ => ("documents", "they are", "them"),
    };
    Some(format!(
        "{number} {documents} skipped: {are} listed in {IGNORE_LIST}; use --no-ignore to {action} \
         {them}"
    ))
}

fn plural(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}
