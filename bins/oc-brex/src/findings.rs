//! Findings for people, scripts and code hosts.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use br_ex::{Finding, RULES, Severity};
use command_line::quantity;
use command_line::sarif;
use serde::Serialize;

/// What the JSON form is, and its version.
const SCHEMA: &str = "oc-brex/findings";
const VERSION: u32 = 1;

/// A document and what was found in it.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) path: PathBuf,
    /// Its path on the node, when it is inside of a MachineConfig.
    pub(crate) inner: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) findings: Vec<Finding>,
}

impl Checked {
    /// Adds what was not found already.
    pub(crate) fn add(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
    }

    fn place(&self) -> String {
        match &self.inner {
            Some(inner) => format!("{}:{inner}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }
}

/// A line per finding, `path:line:column: severity: message [rule]`; below the first of
/// each rule why it is there and what to do.
pub(crate) fn text(checked: &[Checked]) -> String {
    let mut text = String::new();
    let mut explained = BTreeSet::new();
    for document in checked {
        for finding in &document.findings {
            let rule = finding.rule.rule();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}:{finding}", document.place());
            if !explained.insert(rule.id) {
                continue;
            }
            let _ = writeln!(text, "    why: {}", rule.reason);
            let _ = writeln!(text, "    do:  {}", rule.remedy);
        }
    }
    text
}

#[derive(Debug, Serialize)]
struct Log<'a> {
    schema: &'static str,
    version: u32,
    documents: Vec<DocumentLog<'a>>,
}

#[derive(Debug, Serialize)]
struct DocumentLog<'a> {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    inner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    findings: Vec<FindingLog<'a>>,
}

#[derive(Debug, Serialize)]
struct FindingLog<'a> {
    rule: &'static str,
    severity: &'static str,
    line: usize,
    column: usize,
    message: &'a str,
    reason: &'static str,
    remedy: &'static str,
}

/// The same facts as JSON.
pub(crate) fn json(checked: &[Checked]) -> Result<String> {
    let documents = checked.iter().map(|document| DocumentLog {
        path: document.path.display().to_string(),
        inner: document.inner.as_deref(),
        host: document.host.as_deref(),
        findings: document.findings.iter().map(finding_log).collect(),
    });
    let log = Log { schema: SCHEMA, version: VERSION, documents: documents.collect() };
    Ok(format!("{}\n", serde_json::to_string_pretty(&log)?))
}

fn finding_log(finding: &Finding) -> FindingLog<'_> {
    let rule = finding.rule.rule();
    FindingLog {
        rule: finding.rule.name(),
        severity: finding.severity.name(),
        line: finding.at.line,
        column: finding.at.column,
        message: &finding.message,
        reason: rule.reason,
        remedy: rule.remedy,
    }
}

/// The same facts as SARIF.
pub(crate) fn sarif(checked: &[Checked]) -> String {
    let rules: Vec<sarif::Rule> = RULES
        .iter()
        .map(|rule| sarif::Rule {
            id: rule.id.name(),
            about: rule.title,
            help: rule.remedy,
            severity: rule.severity,
            tag: "br-ex",
        })
        .collect();
    let messages: Vec<(&Checked, &Finding, String)> = checked
        .iter()
        .flat_map(|document| document.findings.iter().map(move |finding| (document, finding)))
        .map(|(document, finding)| (document, finding, message(document, finding)))
        .collect();
    let findings = messages.iter().map(|(document, finding, message)| {
        // A line of encoded contents is not a line of the file.
        let at = match document.inner {
            Some(_) => located_yaml::Position::START,
            None => finding.at,
        };
        sarif::Finding {
            rule: finding.rule.name(),
            severity: finding.severity,
            message,
            path: &document.path,
            at,
        }
    });
    sarif::log("oc-brex", env!("CARGO_PKG_VERSION"), &rules, findings)
}

fn message(document: &Checked, finding: &Finding) -> String {
    let text = format!("{}. {}", finding.message, finding.rule.rule().remedy);
    match &document.inner {
        Some(inner) => format!("{inner}, line {}: {text}", finding.at.line),
        None => text,
    }
}

/// How it went, in a line.
pub(crate) fn summary(checked: &[Checked]) -> String {
    let count = |severity| {
        let findings = checked.iter().flat_map(|document| &document.findings);
        findings.filter(|finding| finding.severity == severity).count()
    };
    format!(
        "{} checked: {}, {}, {}",
        quantity::count(checked.len(), "document"),
        quantity::count(count(Severity::Error), "error"),
        quantity::count(count(Severity::Warning), "warning"),
        quantity::count(count(Severity::Info), "remark"),
    )
}
