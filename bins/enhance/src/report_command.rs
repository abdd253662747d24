//! `enhance report`.

use anyhow::{Context, Result, ensure};
use command_line::{Ending, print, print_message};
use enhancement::{Report, ReportEntry, SkippedDocument};
use jiff::civil::Date;

use crate::arguments::{ReportArguments, ReportFormat};
use crate::check::{self, Selection};
use crate::document_links::DocumentLinks;
use crate::findings_text;

/// Prints the state of the documents in a directory.
pub(crate) fn report(arguments: &ReportArguments, today: Date) -> Result<Ending> {
    let ReportArguments { dir, no_ignore, base_url, output } = arguments;
    ensure!(dir.is_dir(), "reading {}: expected a directory", dir.display());
    let links = match output {
        // Relative links need neither an address nor Git.
        ReportFormat::Markdown => None,
        ReportFormat::Json | ReportFormat::Html => {
            Some(DocumentLinks::new(dir, base_url.as_ref())?)
        }
    };
    let selection = Selection {
        paths: std::slice::from_ref(dir),
        new_since: None,
        includes_ignored: *no_ignore,
    };
    let mut entries = Vec::new();
    let skipped = check::check(&selection, |checked| {
        let path = checked.path.strip_prefix(dir).context("finding documents")?;
        let path = path.to_string_lossy();
        let mut entry = ReportEntry::new(&path, &checked.document, checked.findings, today);
        if let Some(links) = &links {
            let link = links.link(&checked.root, &checked.path_in_repository);
            entry = entry.with_url(link.url, link.has_line_anchors);
        }
        entries.push(entry);
        Ok(())
    })?;
    // Paths below the directory, like those of the other documents.
    let prefix = format!("{}/", dir.display().to_string().trim_end_matches('/'));
    let skipped: Vec<SkippedDocument> = skipped
        .into_iter()
        .map(|SkippedDocument { path, reason }| {
            let path = path.strip_prefix(&prefix).map_or(path.clone(), str::to_owned);
            SkippedDocument { path, reason }
        })
        .collect();
    let message = findings_text::skipped(skipped.len(), "include");
    let revision = links.and_then(DocumentLinks::into_revision);
    let report = Report::new(entries, skipped, revision, today);
    print(match output {
        ReportFormat::Markdown => report.to_markdown(),
        ReportFormat::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        ReportFormat::Html => report.to_html(),
    })?;
    if let Some(line) = message {
        print_message(&line);
    }
    Ok(Ending::Good)
}
