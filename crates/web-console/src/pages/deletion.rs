//! What a deletion would remove and keep.

use command_line::quantity;
use maud::{Markup, html};

use super::parts::{bytes, pager_of, table};
use crate::view::deletion::{Preview, PreviewQuery, PreviewRow};

pub(crate) fn content(
    preview: Option<&Preview>,
    query: &PreviewQuery,
    problem: Option<&str>,
) -> Markup {
    let Some(preview) = preview else {
        return html! { p { "No plan found. " a href="/start" { "Start one" } " from a delete configuration." } };
    };
    let Preview { digest, target, items, kept, images, bytes: size, warnings, .. } = preview;
    html! {
        @if let Some(problem) = problem { p .fault role="alert" { (problem) } }
        p { (quantity::count(*images, "image")) " would be deleted from " code { (target) } ", with " (bytes(*size)) " of content." }
        @for warning in warnings { p .fault { (warning) } }
        form method="get" action="/deletion" role="search" {
            label for="q" { "Name or reason" }
            input id="q" name="q" type="search" value=(query.words);
            button type="submit" { "Search" }
        }
        section aria-labelledby="deleted" {
            h2 id="deleted" { "Would be deleted" }
            @let rows: Vec<Markup> = items.rows.iter().map(row).collect();
            (table("Images that would be deleted", &["Image", "Reason", "Size"], &rows))
            (pager_of("Pages of what would be deleted", "page", items, "/deletion",
                &[("q", &query.words), ("kept", &kept.number.to_string())]))
        }
        section aria-labelledby="kept" {
            h2 id="kept" { "Would be kept" }
            @if kept.total == 0 { p { "Nothing that is selected is kept." } } @else {
                @let rows: Vec<Markup> = kept.rows.iter().map(row).collect();
                (table("Images that would be kept", &["Image", "Reason", "Size"], &rows))
                (pager_of("Pages of what would be kept", "kept", kept, "/deletion",
                    &[("q", &query.words), ("page", &items.number.to_string())]))
            }
        }
        @if *images > 0 {
            section aria-labelledby="confirm" {
                h2 id="confirm" { "Delete" }
                p { "This cannot be undone here. The run writes an undo file, which mirrors the images again." }
                form .stacked method="post" action="/deletion" {
                    input type="hidden" name="digest" value=(digest);
                    label for="confirm-target" { "Type the name of the target to confirm" }
                    input id="confirm-target" name="target" required autocomplete="off" spellcheck="false" aria-describedby="target-name";
                    p .wide id="target-name" { "The target is " code { (target) } }
                    button .danger type="submit" { "Delete " (quantity::count(*images, "image")) }
                }
            }
        }
    }
}

fn row(row: &PreviewRow) -> Markup {
    html! {
        tr {
            th scope="row" { code { (row.image) } }
            td { (row.reason) @if !row.shared_with.is_empty() { "; only the tag: also named by " (row.shared_with.join(", ")) } }
            td { @match row.bytes { Some(size) => (bytes(size)), None => "–" } }
        }
    }
}
