//! Helm charts of a repository.

use maud::{Markup, html};
use serde::Deserialize;

use super::operators::add_form;
use super::parts::{address, pager, table};
use crate::view::configurations::ConfigurationRow;
use crate::view::paging::Page;

/// A line of `oc-mirror list charts`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ChartRow {
    name: String,
    version: String,
    #[serde(default, rename = "appVersion")]
    app_version: String,
    #[serde(default)]
    description: String,
    versions: usize,
}

/// The charts of `repository`, or the versions of `chart`.
pub(crate) fn content(
    repository: &str,
    chart: &str,
    found: Option<&Result<Page<ChartRow>, String>>,
    configurations: &[ConfigurationRow],
) -> Markup {
    html! {
        form method="get" action="/charts" {
            label for="repository" { "Repository" }
            input id="repository" name="repository" required size="50" value=(repository)
                placeholder="https://charts.example.com" spellcheck="false";
            button type="submit" { "Show" }
        }
        @match found {
            None => {},
            Some(Err(why)) => p .fault role="alert" { (why) },
            Some(Ok(page)) => {
                @let rows: Vec<Markup> = page.rows.iter().map(|row| line(repository, chart, row)).collect();
                @if chart.is_empty() {
                    (table("List of charts", &["Chart", "Newest", "App version", "Versions", "Description"], &rows))
                    (pager(page, "/charts", &[("repository", repository)]))
                } @else {
                    h2 { (cut(chart)) }
                    p { a href=(address("/charts", &[("repository", repository)])) { "All charts of the repository" } }
                    (table("List of versions", &["Version", "App version", "Description"], &rows))
                    (pager(page, "/charts", &[("repository", repository), ("chart", chart)]))
                    h2 { "Add to a configuration" }
                    (add_form(configurations, &html! {
                        input type="hidden" name="kind" value="chart";
                        input type="hidden" name="repository" value=(repository);
                        input type="hidden" name="package" value=(chart);
                        label for="version" { "Version" }
                        select id="version" name="version" {
                            @for row in &page.rows { option value=(row.version) { (cut(&row.version)) } }
                            option value="" { "The newest at each run" }
                        }
                    }))
                }
            },
        }
    }
}

fn line(repository: &str, chart: &str, row: &ChartRow) -> Markup {
    html! {
        tr {
            @if chart.is_empty() {
                th scope="row" { a href=(address("/charts", &[("repository", repository), ("chart", &row.name)])) { (cut(&row.name)) } }
                td { (cut(&row.version)) }
                td { (cut(&row.app_version)) }
                td { (row.versions) }
            } @else {
                th scope="row" { (cut(&row.version)) }
                td { (cut(&row.app_version)) }
            }
            td { (cut(&row.description)) }
        }
    }
}

/// Text of a repository, short enough for a table.
fn cut(text: &str) -> String {
    text.chars().take(300).collect()
}
