//! The report as one HTML page. It does not load any other file.
//!
//! Documents are untrusted: maud escapes every value, and the policy of the
//! page permits its own style and script only.

use diagnostic::Severity;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{AreaSummary, Report, ReportEntry, plural};
use crate::finding::Finding;
use crate::rule::{Group, Rule};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// With the hashes of `page.css` and `page.js`. The tests compare them.
const POLICY: &str = "default-src 'none'; \
    style-src 'sha256-I6MxvGFYeEQlDw2nxFxa93OLzFvWHbu1xQI1+u4wUhs='; \
    script-src 'sha256-SRX9dByFoM5MpgNPMwn5TMRHZpnpmiQGAkX/ZTb8fSc='; \
    base-uri 'none'; form-action 'none'";

/// How many characters identify a commit for a reader.
const SHORT_COMMIT: usize = 10;

pub(super) fn render(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { "Enhancement documents" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Enhancement documents" }
                    p { (origin(report)) }
                }
                main {
                    (totals(report))
                    (areas(report))
                    (rules(report))
                    (skipped(report))
                    @if report.documents.is_empty() {
                        p { "No documents." }
                    } @else {
                        (controls())
                        section id="sorted" hidden {
                            h2 { "All areas" }
                            div class="documents" {}
                        }
                        @for (index, (area, entries)) in report.areas().enumerate() {
                            (area_section(index, area, entries))
                        }
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    let mut page = page.into_string();
    page.push('\n');
    page
}

/// The day of the report and the version of the documents.
fn origin(report: &Report) -> Markup {
    html! {
        "State of " time datetime=(report.today) { (report.today) }
        @if let Some(revision) = &report.revision {
            @let name = revision.repository.split_once("://").map_or("", |(_, name)| name);
            @let commit: String = revision.commit.chars().take(SHORT_COMMIT).collect();
            ", "
            a href={ (revision.repository) "/tree/" (revision.commit) } {
                (name) " at " code { (commit) }
            }
        }
    }
}

fn totals(report: &Report) -> Markup {
    let total = report.total();
    let problems = |count: usize| if count == 0 { "good" } else { "bad" };
    html! {
        dl class="totals" {
            (count("documents", total.documents, ""))
            (count("complete", total.complete, if total.complete > 0 { "good" } else { "" }))
            (count("metadata incomplete", total.with_metadata_problems, problems(total.with_metadata_problems)))
            (count("headings missing", total.with_missing_headings, problems(total.with_missing_headings)))
            (count("Markdown and link errors", total.other_errors, problems(total.other_errors)))
            (count("warnings", total.warnings, if total.warnings > 0 { "fair" } else { "good" }))
            @if !report.skipped.is_empty() {
                (count("skipped", report.skipped.len(), ""))
            }
        }
    }
}

fn count(label: &str, number: usize, class: &str) -> Markup {
    html! {
        div { dt { (label) } dd class=(class) { (number) } }
    }
}

fn areas(report: &Report) -> Markup {
    html! {
        @if !report.areas.is_empty() {
            details open {
                summary { h2 { "Areas" } span class="note" { (plural(report.areas.len(), "area")) } }
                div class="scroll" tabindex="0" role="region" aria-label="Areas" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Area" }
                                th scope="col" { "Documents" }
                                th scope="col" { "Complete" }
                                th scope="col" { "Metadata incomplete" }
                                th scope="col" { "Headings missing" }
                                th scope="col" { "Errors" }
                                th scope="col" { "Warnings" }
                            }
                        }
                        tbody {
                            @for (index, area) in report.areas.iter().enumerate() {
                                tr {
                                    th scope="row" { a href={ "#" (anchor(index)) } { (area.name()) } }
                                    td { (area.documents) }
                                    (number(area.complete))
                                    (number(area.with_metadata_problems))
                                    (number(area.with_missing_headings))
                                    (number(area.other_errors))
                                    (number(area.warnings))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A cell; zeros recede.
fn number(number: usize) -> Markup {
    html! {
        td class=[(number == 0).then_some("zero")] { (number) }
    }
}

fn rules(report: &Report) -> Markup {
    let counts = report.rule_counts();
    html! {
        @if !counts.is_empty() {
            details {
                summary {
                    h2 { "Findings by rule" }
                    span class="note" { (plural(counts.len(), "rule")) }
                }
                div class="scroll" tabindex="0" role="region" aria-label="Findings by rule" {
                    table class="rules" {
                        thead {
                            tr {
                                th scope="col" { "Rule" }
                                th class="text" scope="col" { "Requirement" }
                                th class="text" scope="col" { "Severity" }
                                th scope="col" { "Documents" }
                                th scope="col" { "Findings" }
                            }
                        }
                        tbody {
                            @for count in &counts {
                                tr {
                                    th scope="row" { code { (count.rule.id()) } }
                                    td class="text" { (with_code(count.rule.description())) }
                                    td class="text" { (count.rule.severity().to_string()) }
                                    td { (count.documents) }
                                    td { (count.findings) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn skipped(report: &Report) -> Markup {
    html! {
        @if !report.skipped.is_empty() {
            details {
                summary {
                    h2 { "Skipped documents" }
                    span class="note" { (plural(report.skipped.len(), "document")) }
                }
                ul {
                    @for skipped in &report.skipped {
                        li { code { (skipped.path) } ": " (skipped.reason) }
                    }
                }
            }
        }
    }
}

/// Shown by the script; without it, all documents are visible by area.
fn controls() -> Markup {
    html! {
        form id="controls" hidden role="search" {
            label {
                "Filter"
                input id="filter" type="search" placeholder="title, path or rule" autocomplete="off";
            }
            label {
                "Show"
                select id="state" {
                    option value="" { "all documents" }
                    option value="complete" { "complete" }
                    option value="incomplete" { "incomplete" }
                    option value="metadata" { "metadata incomplete" }
                    option value="headings" { "headings missing" }
                    option value="errors" { "Markdown or link errors" }
                    option value="warnings" { "warnings" }
                }
            }
            label {
                "Sort by"
                select id="order" {
                    option value="area" { "area" }
                    option value="title" { "title" }
                    option value="oldest" { "oldest first" }
                    option value="newest" { "newest first" }
                    option value="findings" { "most findings" }
                }
            }
            div class="buttons" {
                button type="button" id="expand" { "Expand all" }
                button type="button" id="collapse" { "Collapse all" }
            }
            output id="shown" for="filter state" {}
        }
    }
}

fn anchor(index: usize) -> String {
    format!("area-{}", index + 1)
}

fn area_section(index: usize, area: &AreaSummary, entries: &[ReportEntry]) -> Markup {
    html! {
        section class="area" id=(anchor(index)) {
            h2 { (area.name()) " " span class="note" { (plural(area.documents, "document")) } }
            div class="documents" {
                @for entry in entries { (document(entry)) }
            }
        }
    }
}

fn document(entry: &ReportEntry) -> Markup {
    html! {
        details class="document"
            data-states=(states(entry))
            data-created=[entry.created]
            data-findings=(entry.findings.len())
        {
            summary {
                span class="title" { (entry.title) }
                span class="badges" { (badges(entry)) }
            }
            div class="body" {
                p class="path" {
                    @match &entry.url {
                        Some(url) => a href=(url) { (entry.path) },
                        None => code { (entry.path) },
                    }
                }
                p class="dates" {
                    "Created " (ReportEntry::day(entry.created)) ", updated "
                    (ReportEntry::day(entry.updated)) "."
                }
                @if !entry.missing_headings.is_empty() {
                    h3 { "Missing headings" }
                    ul class="names" {
                        @for name in entry.missing_heading_names() { li { (name) } }
                    }
                }
                (findings(entry, "Metadata and title", |finding| {
                    finding.rule.group() == Group::Metadata || finding.rule == Rule::MissingTitleLine
                }))
                (findings(entry, "Markdown and links", |finding| {
                    matches!(finding.rule.group(), Group::Markdown | Group::Links)
                }))
                (findings(entry, "Warnings", |finding| {
                    finding.rule.severity() == Severity::Warning
                }))
                @if entry.findings.is_empty() {
                    p { "No findings." }
                }
            }
        }
    }
}

/// What the filter of the page selects by.
fn states(entry: &ReportEntry) -> String {
    let states = [
        (entry.is_complete(), "complete"),
        (!entry.is_complete(), "incomplete"),
        (!entry.metadata_passes, "metadata"),
        (!entry.headings_pass, "headings"),
        (entry.other_errors > 0, "errors"),
        (entry.warnings > 0, "warnings"),
    ];
    let selected = states.iter().filter(|(applies, _)| *applies).map(|(_, state)| *state);
    selected.collect::<Vec<_>>().join(" ")
}

fn badges(entry: &ReportEntry) -> Markup {
    html! {
        span class="age" { @if entry.created.is_none() { "age " } (entry.age()) }
        @if entry.is_complete() {
            span class="badge good both" { "complete" }
        }
        @if !entry.metadata_passes {
            span class="badge bad metadata" { "metadata: " (entry.metadata()) }
        }
        @if !entry.headings_pass {
            @let missing = entry.missing_headings.len().max(1);
            span class="badge bad headings" { (plural(missing, "heading")) " missing" }
        }
        @if entry.other_errors > 0 {
            span class="badge bad errors" { (plural(entry.other_errors, "error")) }
        }
        @if entry.warnings > 0 {
            span class="badge fair warnings" { (plural(entry.warnings, "warning")) }
        }
    }
}

fn findings(entry: &ReportEntry, title: &str, select: impl Fn(&Finding) -> bool) -> Markup {
    let selected: Vec<&Finding> = entry.findings.iter().filter(|found| select(found)).collect();
    html! {
        @if !selected.is_empty() {
            h3 { (title) }
            ul class="findings" {
                @for finding in selected {
                    li {
                        (line(entry, finding.at.line)) ": " (with_code(&finding.message)) " "
                        code class="rule" { (finding.rule.id()) }
                    }
                }
            }
        }
    }
}

fn line(entry: &ReportEntry, line: usize) -> Markup {
    html! {
        @match entry.url.as_ref().filter(|_| entry.has_line_anchors) {
            Some(url) => a href={ (url) "?plain=1#L" (line) } { "line " (line) },
            None => { "line " (line) }
        }
    }
}

/// A message with the text between backticks as code.
fn with_code(message: &str) -> Markup {
    let parts: Vec<&str> = message.split('`').collect();
    // An even number of parts has a backtick without a counterpart.
    let is_paired = parts.len() % 2 == 1;
    html! {
        @if is_paired {
            @for (index, part) in parts.iter().enumerate() {
                @if index % 2 == 1 { code { (part) } } @else { (part) }
            }
        } @else {
            (message)
        }
    }
}
