//! Findings for people and for scripts.

use std::fmt::Write as _;

use anyhow::Result;
use enhancement::Severity;
use serde::Serialize;

use crate::lint_command::Linted;

/// What the JSON form is, and its version.
const SCHEMA: &str = "enhance/findings";
const VERSION: u32 = 1;

#[derive(Debug, Serialize)]
struct Log<'a> {
    schema: &'static str,
    version: u32,
    documents: Vec<Document<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    path: String,
    /// Whether the community's linter would take it.
    metadata_passes: bool,
    headings_pass: bool,
    findings: Vec<Finding<'a>>,
}

#[derive(Debug, Serialize)]
struct Finding<'a> {
    line: usize,
    column: usize,
    severity: String,
    group: &'static str,
    rule: &'static str,
    message: &'a str,
}

/// One line per finding: `path:line:column: severity: message [rule]`.
pub(crate) fn text(linted: &[Linted]) -> String {
    let mut text = String::new();
    for Linted { path, findings, .. } in linted {
        for finding in findings {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}:{finding}", path.display());
        }
    }
    text
}

/// The same facts as JSON.
pub(crate) fn json(linted: &[Linted]) -> Result<String> {
    let documents = linted.iter().map(document).collect();
    let log = Log { schema: SCHEMA, version: VERSION, documents };
    Ok(format!("{}\n", serde_json::to_string_pretty(&log)?))
}

fn document(linted: &Linted) -> Document<'_> {
    Document {
        path: linted.path.display().to_string(),
        metadata_passes: linted.verdict.metadata,
        headings_pass: linted.verdict.headings,
        findings: linted.findings.iter().map(finding).collect(),
    }
}

fn finding(found: &enhancement::Finding) -> Finding<'_> {
    let enhancement::Finding { at, rule, message } = found;
    Finding {
        line: at.line,
        column: at.column,
        severity: rule.severity().to_string(),
        group: rule.group().name(),
        rule: rule.id(),
        message,
    }
}

/// How it went, in a line.
pub(crate) fn summary(linted: &[Linted]) -> String {
    let count = |severity| {
        let findings = linted.iter().flat_map(|linted| &linted.findings);
        findings.filter(|finding| finding.rule.severity() == severity).count()
    };
    let plural = |number: usize, word: &str| match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    };
    format!(
        "{} checked: {}, {}",
        plural(linted.len(), "document"),
        plural(count(Severity::Error), "error"),
        plural(count(Severity::Warning), "warning"),
    )
}
