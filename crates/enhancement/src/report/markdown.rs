//! The report as Markdown.

use std::fmt::Write as _;

use super::{Report, Row};

pub(super) fn render(report: &Report) -> String {
    let mut text = format!("# Enhancement documents\n\n{}\n", report.summary());
    // Writing to a String cannot fail, so the results of write! are dropped.
    for (area, rows) in report.areas() {
        let area = if area.is_empty() { "(no area)" } else { area };
        let _ = write!(
            text,
            "\n## {}\n\n| document | created | age | updated | metadata | missing headings | other |\n\
             |---|---|---|---|---|---|---|\n",
            escaped(area)
        );
        for row in rows {
            let _ = writeln!(
                text,
                "| [{}](<{}>) | {} | {} | {} | {} | {} | {} |",
                escaped(&row.title),
                row.path.replace('<', "%3C").replace('>', "%3E").replace('\n', "%0A"),
                Row::day(row.created),
                row.age(),
                Row::day(row.updated),
                row.metadata(),
                escaped(&row.missing()),
                others(row),
            );
        }
    }
    text
}

fn others(row: &Row) -> String {
    match (row.other_errors, row.warnings) {
        (0, 0) => "nothing".to_owned(),
        (errors, 0) => format!("{errors} errors"),
        (0, warnings) => format!("{warnings} warnings"),
        (errors, warnings) => format!("{errors} errors, {warnings} warnings"),
    }
}

/// A document's words are not to become markup of the report.
fn escaped(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' => text.extend(['\\', c]),
            '\n' | '\r' => text.push(' '),
            _ => text.push(c),
        }
    }
    text
}
