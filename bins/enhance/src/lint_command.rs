//! `enhance lint`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use command_line::{Ending, print, say};
use enhancement::{Finding, Severity, Verdict};

use crate::arguments::{FindingsFormat, LintArguments};
use crate::repository::{self, Known, Place};
use crate::{documents, findings_text, sarif_log};

/// A document and what was found in it.
#[derive(Debug)]
pub(crate) struct Linted {
    /// As its folder was given.
    pub(crate) path: PathBuf,
    /// From the top of its repository.
    pub(crate) path_in_repository: PathBuf,
    pub(crate) verdict: Verdict,
    pub(crate) findings: Vec<Finding>,
}

/// Checks documents and prints what is wrong with them.
pub(crate) fn lint(arguments: &LintArguments) -> Result<Ending> {
    let linted = look(arguments)?;
    match arguments.output {
        FindingsFormat::Text => print(findings_text::text(&linted))?,
        FindingsFormat::Json => print(findings_text::json(&linted)?)?,
        FindingsFormat::Sarif => print(sarif_log::log(&linted))?,
    }
    say(&findings_text::summary(&linted));
    let counts =
        |finding: &Finding| arguments.deny_warnings || finding.rule.severity() == Severity::Error;
    let found = linted.iter().flat_map(|linted| &linted.findings).any(counts);
    Ok(if found { Ending::Findings } else { Ending::Good })
}

fn look(arguments: &LintArguments) -> Result<Vec<Linted>> {
    let known = Known::default();
    let mut before: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    let mut linted = Vec::new();
    for path in documents::find(&arguments.paths)? {
        let place = Place::of(&path, &known)?;
        if let Some(revision) = &arguments.new_since {
            let files = match before.get(&place.top) {
                Some(files) => files,
                None => before
                    .entry(place.top.clone())
                    .or_insert(repository::files_at(&place.top, revision)?),
            };
            if files.contains(&place.path) {
                continue;
            }
        }
        let findings = documents::read(&path)?.findings(&place);
        let verdict = Verdict::of(&findings);
        linted.push(Linted { path, path_in_repository: place.path, verdict, findings });
    }
    Ok(linted)
}
