//! `enhance report`.

use anyhow::{Context, Result, ensure};
use command_line::{Ending, print};
use enhancement::{Report, Row};
use jiff::civil::Date;

use crate::arguments::{ReportArguments, TableFormat};
use crate::documents;
use crate::repository::{Known, Place};

/// Prints a table of the documents in a folder.
pub(crate) fn report(arguments: &ReportArguments, today: Date) -> Result<Ending> {
    let ReportArguments { dir, output } = arguments;
    ensure!(dir.is_dir(), "{} is no folder; name the one with the documents", dir.display());
    let known = Known::default();
    let mut rows = Vec::new();
    for path in documents::find(std::slice::from_ref(dir))? {
        let document = documents::read(&path)?;
        let findings = document.findings(&Place::of(&path, &known)?);
        let inner = path.strip_prefix(dir).context("finding documents")?;
        rows.push(Row::new(&inner.to_string_lossy(), &document, &findings, today));
    }
    let report = Report::new(rows, today);
    print(match output {
        TableFormat::Markdown => report.to_markdown(),
        TableFormat::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        TableFormat::Html => report.to_html(),
    })?;
    Ok(Ending::Good)
}
