//! Runs: the list, one of them, and the one in progress.

use std::time::Duration;

use command_line::quantity;
use maud::{Markup, html};
use workspace::{RunProgress, RunRecord, RunStatus};

use super::parts::{OUTCOMES, bytes, mode, outcome, pager, status, status_name, table, time};
use crate::view::live::{MAX_BLOBS, Now, RunNow};
use crate::view::paging::Page;
use crate::view::runs::{RunDetail, RunQuery};

pub(crate) const HEADINGS: [&str; 6] =
    ["Run", "Workflow", "Started", "Duration", "Status", "Target"];

pub(crate) fn row(run: &RunRecord) -> Markup {
    html! {
        tr {
            th scope="row" { a href={ "/runs/" (run.number) } { (run.number) } }
            td { (mode(run.mode)) }
            td { (time(run.started)) }
            td { (duration(run)) }
            td { (status(run.status)) @if !run.failures.is_empty() { " " (quantity::count(run.failures.len(), "image")) " missing" } }
            td { @match &run.target { Some(target) => code { (target) }, None => "–" } }
        }
    }
}

fn duration(run: &RunRecord) -> String {
    let seconds = run.ended.map(|ended| ended.as_second() - run.started.as_second());
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or_else(|| "–".to_owned(), |seconds| quantity::time(Duration::from_secs(seconds)))
}

pub(crate) fn list(page: &Page<RunRecord>) -> Markup {
    html! {
        @if page.total == 0 { p { "No run is recorded." } } @else {
            (table("Runs", &HEADINGS, &page.rows.iter().map(row).collect::<Vec<_>>()))
            (pager(page, "/runs", &[]))
        }
    }
}

pub(crate) fn detail(detail: &RunDetail, query: &RunQuery, now: Option<&Now>) -> Markup {
    let RunDetail { record, progress, images, warnings, more_warnings, has_journal, .. } = detail;
    let path = format!("/runs/{}", record.number);
    let planned = progress.bytes_planned.max(progress.bytes_moved);
    let selected = query.outcome;
    let outcome_name =
        OUTCOMES.iter().find(|(known, ..)| Some(*known) == selected).map_or("", |(_, key, _)| key);
    html! {
        @if let Some(now) = now { (live(now)) }
        section aria-labelledby="facts" {
            h2 id="facts" { "Result" }
            dl .facts {
                div { dt { "Workflow" } dd { (mode(record.mode)) } }
                div { dt { "Status" } dd { (status(record.status)) } }
                div { dt { "Started" } dd { (time(record.started)) } }
                @if let Some(ended) = record.ended { div { dt { "Ended" } dd { (time(ended)) } } }
                @if let Some(target) = &record.target { div { dt { "Target" } dd { code { (target) } } } }
                div { dt { "Copied" } dd { (progress.copied) } }
                div { dt { "Already present" } dd { (progress.present) } }
                div { dt { "Failed" } dd { (progress.failed) } }
                div { dt { "Moved" } dd { @if record.status == RunStatus::Complete { (bytes(planned)) } @else { (bytes(progress.bytes_moved)) " of " (bytes(planned)) } } }
            }
        }
        @if !record.failures.is_empty() {
            section aria-labelledby="failures" {
                h2 id="failures" { "Missing images" }
                ul .errors { @for failure in record.failures.iter().take(100) {
                    li { code { (failure.origin) } ": " (failure.error) }
                } }
                @if record.failures.len() > 100 { p { "and " (record.failures.len() - 100) " more" } }
            }
        }
        @if !warnings.is_empty() {
            section aria-labelledby="warnings" {
                h2 id="warnings" { "Warnings" }
                ul .warnings { @for warning in warnings { li { (warning) } } }
                @if *more_warnings > 0 { p { "and " (more_warnings) " more in the journal" } }
            }
        }
        section aria-labelledby="images" {
            h2 id="images" { "Images" }
            @if !has_journal { p { "The journal of this run was removed: only the newest are kept." } } @else {
                form method="get" action=(path) role="search" {
                    label for="q" { "Name or digest" }
                    input id="q" name="q" type="search" value=(query.words);
                    label for="outcome" { "Outcome" }
                    select id="outcome" name="outcome" {
                        option value="" { "All" }
                        @for (known, key, name) in &OUTCOMES {
                            option value=(key) selected[Some(*known) == selected] { (name) }
                        }
                    }
                    button type="submit" { "Search" }
                }
                @let rows: Vec<Markup> = images.rows.iter().map(|image| html! {
                    tr {
                        th scope="row" { code { (image.source) } }
                        td { (outcome(image.outcome)) @if let Some(error) = &image.error { " " (error) } }
                        td { (bytes(image.bytes)) }
                        td { @if let Some(digest) = &image.digest { code .digest { (digest) } } }
                    }
                }).collect();
                (table("Images of the run", &["Image", "Outcome", "Size", "Digest"], &rows))
                (pager(images, &path, &[("q", &query.words), ("outcome", outcome_name)]))
            }
        }
        @if let Some(configuration) = &record.configuration {
            section aria-labelledby="configuration" {
                h2 id="configuration" { "Configuration" }
                p { code { (configuration.name) } ", " code .digest { (configuration.digest) } }
                details { summary { "Show the text" } pre tabindex="0" { code { (configuration.text) } } }
            }
        }
    }
}

/// The section that is replaced while a run is in progress. A part is sent
/// again only if it changed, so that a button keeps its focus.
pub(crate) fn live(now: &Now) -> Markup {
    html! {
        section .live aria-labelledby="live-title" data-events="/events" {
            h2 id="live-title" { "Now" }
            div role="status" data-part="state" { (state(now)) }
            div data-part="progress" { (progress(now)) }
            div data-part="controls" { (controls(now)) }
        }
    }
}

/// One sentence, which changes only when a stage does.
pub(crate) fn state(now: &Now) -> Markup {
    let Some(run) = &now.run else {
        return html! { p { @match &now.holder {
            Some(holder) => { "In use by process " (holder.pid) " on " (holder.host) ": " code { (holder.command) } },
            None => "No run is in progress.",
        } } };
    };
    let RunNow { record, progress, .. } = run;
    let number = record.number;
    html! {
        p {
            @match (&now.holder, run.is_running()) {
                (_, true) => {
                    a href={ "/runs/" (number) } { "Run " (number) } " (" (mode(record.mode)) "): "
                    (stage(progress))
                    @if let Some(holder) = &now.holder { ", process " (holder.pid) " on " (holder.host) }
                },
                (Some(holder), false) => { "In use by process " (holder.pid) " on " (holder.host) ": " code { (holder.command) } },
                (None, false) => { "No run is in progress. " a href={ "/runs/" (number) } { "Run " (number) } ": " (status_name(record.status)) },
            }
        }
    }
}

fn stage(progress: &RunProgress) -> String {
    match (&progress.stage, &progress.pace) {
        _ if progress.is_paused => "paused".to_owned(),
        (_, Some(pace)) if progress.is_paused_by_timetable => pace.clone(),
        (Some(stage), _) => stage.clone(),
        (None, _) => "starting".to_owned(),
    }
}

pub(crate) fn progress(now: &Now) -> Markup {
    let Some(run) = now.run.as_ref().filter(|run| run.is_running()) else { return html! {} };
    let RunNow { progress, blobs, errors, .. } = run;
    let done = progress.copied + progress.present + progress.failed + progress.blocked;
    let (moved, planned) = (progress.bytes_moved, progress.bytes_planned.max(progress.bytes_moved));
    let waits = progress.is_paused || progress.is_paused_by_timetable;
    let rate = progress.rate().filter(|rate| *rate > 0 && !waits);
    html! {
        progress aria-label="Bytes moved" max=(planned.max(1)) value=(moved) {}
        dl .facts {
            div { dt { "Images" } dd { (done) " of " (progress.images.max(done)) } }
            div { dt { "Moved" } dd { (bytes(moved)) " of " (bytes(planned)) } }
            div { dt { "Rate" } dd { @match rate { Some(rate) => { (quantity::bytes(rate)) "/s" }, None => "–" } } }
            div { dt { "Remaining time" } dd {
                @match rate { Some(rate) => (quantity::time(Duration::from_secs(progress.bytes_left() / rate))), None => "–" }
            } }
            div { dt { "Failed images" } dd { (progress.failed) } }
            div { dt { "Warnings" } dd { (progress.warnings) } }
        }
        @if !blobs.is_empty() {
            h3 { "In progress" }
            ul .blobs {
                @for (digest, size) in blobs.iter().take(MAX_BLOBS) {
                    li { code .digest { (digest) } " " (bytes(*size)) }
                }
            }
            @if blobs.len() > MAX_BLOBS { p { "and " (quantity::count(blobs.len() - MAX_BLOBS, "blob")) " more" } }
        }
        @if !errors.is_empty() {
            h3 { "Last errors" }
            ul .errors { @for error in errors { li { (error) } } }
        }
    }
}

/// Buttons for the run in progress.
pub(crate) fn controls(now: &Now) -> Markup {
    let Some(run) = now.run.as_ref().filter(|run| run.is_running()) else { return html! {} };
    let button = |request: &str, text: &str| {
        html! { button type="submit" name="request" value=(request) { (text) } }
    };
    html! {
        form .controls method="post" action="/control" {
            @if run.progress.is_paused { (button("resume", "Resume")) } @else { (button("pause", "Pause")) }
            (button("stop", "Stop"))
            p .note { "A stopped run continues where it was when the same command runs again." }
        }
    }
}
