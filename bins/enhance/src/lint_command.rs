//! `enhance lint`.

use std::path::PathBuf;

use anyhow::Result;
use command_line::{Ending, print, print_message};
use enhancement::{Finding, Severity, SkippedDocument, Verdict};

use crate::arguments::{FindingsFormat, LintArguments};
use crate::check::{self, Selection};
use crate::{findings_text, sarif_log};

/// The result of a run.
#[derive(Debug)]
pub(crate) struct LintResult {
    pub(crate) documents: Vec<LintedDocument>,
    pub(crate) skipped: Vec<SkippedDocument>,
}

/// A document with its findings.
#[derive(Debug)]
pub(crate) struct LintedDocument {
    /// Relative to the current directory, as its directory was given.
    pub(crate) path: PathBuf,
    /// Relative to the top of its repository.
    pub(crate) path_in_repository: PathBuf,
    pub(crate) verdict: Verdict,
    pub(crate) findings: Vec<Finding>,
}

impl LintResult {
    pub(crate) fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.documents.iter().flat_map(|document| &document.findings)
    }
}

/// Checks documents and prints their findings.
pub(crate) fn lint(arguments: &LintArguments) -> Result<Ending> {
    let selection = Selection {
        paths: &arguments.paths,
        new_since: arguments.new_since.as_deref(),
        includes_ignored: arguments.no_ignore,
    };
    let mut documents = Vec::new();
    let skipped = check::check(&selection, |checked| {
        documents.push(LintedDocument {
            path: checked.path,
            path_in_repository: checked.path_in_repository,
            verdict: Verdict::of(&checked.findings),
            findings: checked.findings,
        });
        Ok(())
    })?;
    let result = LintResult { documents, skipped };
    match arguments.output {
        FindingsFormat::Text => print(findings_text::text(&result))?,
        FindingsFormat::Json => print(findings_text::json(&result)?)?,
        FindingsFormat::Sarif => print(sarif_log::log(&result))?,
    }
    for line in findings_text::summary(&result) {
        print_message(&line);
    }
    let fails =
        |finding: &Finding| arguments.deny_warnings || finding.rule.severity() == Severity::Error;
    Ok(if result.findings().any(fails) { Ending::Findings } else { Ending::Good })
}
