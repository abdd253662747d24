//! The first page.

use maud::{Markup, html};

use super::parts::{bytes, table};
use super::runs::{HEADINGS, live, row};
use crate::view::overview::Overview;

pub(crate) fn content(overview: &Overview) -> Markup {
    let Overview {
        now,
        runs,
        all_runs,
        chunks,
        resources,
        free,
        missing,
        more_missing,
        is_workspace,
    } = overview;
    html! {
        (live(now))
        section aria-labelledby="summary" {
            h2 id="summary" { "Workspace" }
            @if !is_workspace && *chunks == 0 {
                p { "This directory is empty. The first run creates a workspace in it." }
            }
            @if *all_runs == 0 { (first_steps(*chunks)) }
            dl .facts {
                div { dt { "Runs" } dd { a href="/runs" { (all_runs) } } }
                div { dt { "Archive files" } dd { a href="/archives" { (chunks) } } }
                div { dt { "Cluster resources" } dd { a href="/resources" { (resources) } } }
                div { dt { "Free space" } dd {
                    @match free { Some(free) => (bytes(*free)), None => "could not be determined" }
                } }
            }
        }
        @if !missing.is_empty() {
            section aria-labelledby="missing" {
                h2 id="missing" { "Missing after the newest run" }
                ul .errors {
                    @for image in missing { li { code { (image.origin) } ": " (image.error) } }
                }
                @if *more_missing > 0 { p { "and " (more_missing) " more" } }
            }
        }
        @if !runs.is_empty() {
            section aria-labelledby="recent" {
                h2 id="recent" { "Newest runs" }
                (table("List of the newest runs", &HEADINGS, &runs.iter().map(row).collect::<Vec<_>>()))
            }
        }
    }
}

/// What to do where nothing was done yet: on the connected side, or with transferred archives.
fn first_steps(chunks: usize) -> Markup {
    html! {
        p { "First steps:" }
        ol {
            @if chunks == 0 {
                li { a href="/configurations" { "Create a configuration" } ": empty, from an example, a file or the inventory of a cluster." }
                li { "Add " a href="/operators" { "operators" } ", " a href="/releases" { "releases" } ", " a href="/charts" { "charts" } " and images to it." }
                li { a href="/start" { "Start" } " mirror to disk, and transfer the archive across the air gap; or mirror to mirror." }
            } @else {
                li { a href="/configurations" { "Save the configuration in the newest archive" } "." }
                li { a href="/start" { "Start" } " disk to mirror." }
                li { "Apply the " a href="/resources" { "cluster resources" } "." }
            }
        }
    }
}
