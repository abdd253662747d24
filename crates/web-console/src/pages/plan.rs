//! What a run would copy.

use maud::{Markup, html};

use super::parts::{bytes, mode, pager, table};
use crate::view::images::kind_name;
use crate::view::plan::{PlanQuery, PlanRow, PlanView};

pub(crate) fn content(plan: Option<&PlanView>, query: &PlanQuery, free: Option<u64>) -> Markup {
    let Some(plan) = plan else {
        return html! { p { "No plan found. " a href="/start" { "Start a run" } " with " em { "Plan only" } " to write one." } };
    };
    let PlanView { totals, images, unplanned, more_unplanned, .. } = plan;
    html! {
        dl .facts {
            div { dt { "Workflow" } dd { (mode(plan.mode)) } }
            @if let Some(target) = &plan.target { div { dt { "Target" } dd { code { (target) } } } }
            div { dt { "Images" } dd { (totals.images) } }
            div { dt { "To copy" } dd { (totals.images_to_copy) } }
            div { dt { "Size" } dd { (bytes(totals.bytes)) } }
            div { dt { "To transfer" } dd { (bytes(totals.bytes_to_move)) } }
            @if let Some(free) = free { div { dt { "Free space" } dd { (bytes(free)) } } }
        }
        p .note { "Shared content counts once. The plan is that of the newest dry run; " a href="/start" { "start the run" } " when it is what you want." }
        @if !unplanned.is_empty() {
            section aria-labelledby="unplanned" {
                h2 id="unplanned" { "Cannot be copied" }
                ul .errors { @for reason in unplanned { li { (reason) } } }
                @if *more_unplanned > 0 { p { "and " (more_unplanned) " more" } }
            }
        }
        section aria-labelledby="planned" {
            h2 id="planned" { "Images" }
            form method="get" action="/plan" role="search" {
                label for="q" { "Name" }
                input id="q" name="q" type="search" value=(query.words);
                button type="submit" { "Search" }
            }
            @let rows: Vec<Markup> = images.rows.iter().map(row).collect();
            (table("Images of the plan", &["Image", "Kind", "Action", "Size", "Name at the target"], &rows))
            (pager(images, "/plan", &[("q", &query.words)]))
        }
    }
}

fn row(row: &PlanRow) -> Markup {
    html! {
        tr {
            th scope="row" { code { (row.image) } }
            td { (kind_name(row.kind)) }
            td { @if row.is_present { span .badge.good { "Present" } } @else { span .badge.active { "Copy" } } }
            td { (bytes(row.bytes)) }
            td { code { (row.destination) } }
        }
    }
}
