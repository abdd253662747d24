//! Archives.

use maud::{Markup, html};
use workspace::archive::ArchiveStatus;

use super::parts::{bytes, pager, table, time};
use crate::view::archives::{ArchiveList, ArchiveRow};
use crate::view::paging::Page;

pub(crate) fn content(list: &ArchiveList, page: &Page<ArchiveRow>) -> Markup {
    html! {
        @for problem in &list.problems { p .fault role="alert" { (problem) } }
        @for note in &list.notes { p .note { (note) } }
        @if list.archives.is_empty() {
            p { "There are no archives in this directory." }
        } @else {
            p { "An archive has what its base does not have. The disconnected side needs an archive and all archives that it builds on." }
            (table("Archives", &["Run", "Base", "Created", "Status", "Images", "Size", "Files"],
                &page.rows.iter().map(row).collect::<Vec<_>>()))
            (pager(page, "/archives", &[]))
        }
    }
}

fn row(archive: &ArchiveRow) -> Markup {
    let (class, status) = match archive.status {
        ArchiveStatus::Complete => ("good", "Complete"),
        ArchiveStatus::Partial => ("warn", "Partial"),
        ArchiveStatus::Paused => ("warn", "Paused"),
    };
    html! {
        tr {
            th scope="row" { (archive.run) }
            td { @match archive.base {
                None => "none",
                Some(base) => { "run " (base) @if !archive.has_base { " " span .badge.warn { "not here" } } },
            } }
            td { (time(archive.created)) }
            td { span .{ "badge " (class) } { (status) } @if archive.failed > 0 { " " (archive.failed) " missing" } }
            td { (archive.images) }
            td { (bytes(archive.bytes)) }
            td { ul .plain { @for chunk in archive.chunks.iter().take(20) {
                li { code { (chunk.name) } @if !chunk.is_present { " " span .badge.bad { "missing" } } }
            } @if archive.chunks.len() > 20 { li { "and " (archive.chunks.len() - 20) " more" } } } }
        }
    }
}
