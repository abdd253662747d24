//! The report as a page that needs nothing beside itself.

use std::fmt::Write as _;

use super::{Report, Row};

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>Enhancement documents</title>
<style>
:root { color-scheme: light dark; font: 1rem/1.4 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
td.open { font-weight: 600; }
caption { font-size: 1.2rem; font-weight: 600; padding: 1.5rem 0 .5rem; text-align: left; }
</style>
</head>
<body>
<h1>Enhancement documents</h1>
";

pub(super) fn render(report: &Report) -> String {
    let mut page = format!("{HEAD}<p>{}</p>\n", escaped(&report.summary()));
    // Writing to a String cannot fail, so the results of write! are dropped.
    for (area, rows) in report.areas() {
        let area = if area.is_empty() { "(no area)" } else { area };
        let _ = write!(page, "<table>\n<caption>{}</caption>\n<thead><tr>", escaped(area));
        for column in [
            "document",
            "created",
            "age",
            "updated",
            "metadata",
            "missing headings",
            "errors",
            "warnings",
        ] {
            let _ = write!(page, "<th scope=\"col\">{column}</th>");
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for row in rows {
            render_row(&mut page, row);
        }
        page.push_str("</tbody>\n</table>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn render_row(page: &mut String, row: &Row) {
    let class = |open: bool| if open { " class=\"open\"" } else { "" };
    let _ = writeln!(
        page,
        "<tr><th scope=\"row\"><a href=\"./{}\">{}</a></th><td>{}</td><td>{}</td><td>{}</td>\
         <td{}>{}</td><td{}>{}</td><td>{}</td><td>{}</td></tr>",
        address(&row.path),
        escaped(&row.title),
        Row::day(row.created),
        row.age(),
        Row::day(row.updated),
        class(!row.metadata_passes),
        row.metadata(),
        class(!row.headings_pass),
        escaped(&row.missing()),
        row.other_errors,
        row.warnings,
    );
}

/// A path as part of an address: everything that could be something else there
/// is written as `%xx`.
fn address(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn escaped(words: &str) -> String {
    words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
