//! The report as Markdown.

use std::fmt::Write as _;

use super::{Report, ReportEntry, plural};

pub(super) fn render(report: &Report) -> String {
    let mut text = format!("# Enhancement documents\n\n{}\n", report.summary());
    // Writing to a String cannot fail, so the results of write! are dropped.
    text.push_str(
        "\n| area | documents | complete | metadata problems | missing headings | errors | \
         warnings |\n|---|---|---|---|---|---|---|\n",
    );
    for area in &report.areas {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            escape(area.name()),
            area.documents,
            area.complete,
            area.with_metadata_problems,
            area.with_missing_headings,
            area.other_errors,
            area.warnings,
        );
    }
    for (area, entries) in report.areas() {
        let _ = write!(
            text,
            "\n## {}\n\n| document | created | age | updated | metadata | missing headings | other |\n\
             |---|---|---|---|---|---|---|\n",
            escape(area.name())
        );
        for entry in entries {
            // Relative: a Markdown report is stored beside the documents.
            let _ = writeln!(
                text,
                "| [{}](<{}>) | {} | {} | {} | {} | {} | {} |",
                escape(&entry.title),
                entry.path.replace('<', "%3C").replace('>', "%3E").replace('\n', "%0A"),
                ReportEntry::day(entry.created),
                entry.age(),
                ReportEntry::day(entry.updated),
                entry.metadata(),
                escape(&entry.missing()),
                other_findings(entry),
            );
        }
    }
    if !report.skipped.is_empty() {
        text.push_str("\n## Skipped documents\n\n");
        for skipped in &report.skipped {
            let path = skipped.path.replace(['`', '\n', '\r'], "?");
            let _ = writeln!(text, "- `{path}`: {}", escape(&skipped.reason));
        }
    }
    text
}

fn other_findings(entry: &ReportEntry) -> String {
    match (entry.other_errors, entry.warnings) {
        (0, 0) => "none".to_owned(),
        (errors, 0) => plural(errors, "error"),
        (0, warnings) => plural(warnings, "warning"),
        (errors, warnings) => {
            format!("{}, {}", plural(errors, "error"), plural(warnings, "warning"))
        }
    }
}

/// Prevents text of a document from becoming markup of the report.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' => escaped.extend(['\\', c]),
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(c),
        }
    }
    escaped
}
