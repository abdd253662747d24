//! Pieces that several pages have.

use command_line::quantity;
use jiff::Timestamp;
use maud::{Markup, html};
use mirror_plan::Mode;
use url::form_urlencoded;
use workspace::{AuditedOutcome, RunStatus};

use crate::view::paging::Page;

pub(crate) fn bytes(count: u64) -> Markup {
    html! { span .number title={ (count) " bytes" } { (quantity::bytes(count)) } }
}

/// A time in UTC, to the second.
pub(crate) fn time(at: Timestamp) -> Markup {
    let text = at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time datetime=(at.to_string()) { (text) } }
}

pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::MirrorToDisk => "Mirror to disk",
        Mode::DiskToMirror => "Disk to mirror",
        Mode::MirrorToMirror => "Mirror to mirror",
        Mode::Delete => "Delete",
    }
}

pub(crate) fn status_name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "Running",
        RunStatus::Complete => "Complete",
        RunStatus::Partial => "Partial",
        RunStatus::Interrupted => "Interrupted",
        RunStatus::Paused => "Paused by --until",
        RunStatus::Failed => "Failed",
    }
}

/// A status: a word, and a color that repeats it.
pub(crate) fn status(status: RunStatus) -> Markup {
    let class = match status {
        RunStatus::Complete => "good",
        RunStatus::Running => "active",
        RunStatus::Partial | RunStatus::Interrupted | RunStatus::Paused => "warn",
        RunStatus::Failed => "bad",
    };
    html! { span .{ "badge " (class) } { (status_name(status)) } }
}

/// Every outcome, as query and for users.
pub(crate) const OUTCOMES: [(AuditedOutcome, &str, &str); 5] = [
    (AuditedOutcome::Copied, "copied", "Copied"),
    (AuditedOutcome::Present, "present", "Already present"),
    (AuditedOutcome::Blocked, "blocked", "Blocked"),
    (AuditedOutcome::Failed, "failed", "Failed"),
    (AuditedOutcome::NotReached, "notReached", "Not reached"),
];

pub(crate) fn outcome(of: AuditedOutcome) -> Markup {
    let name = OUTCOMES.iter().find(|(known, ..)| *known == of).map_or("", |(.., name)| name);
    let class = match of {
        AuditedOutcome::Copied | AuditedOutcome::Present => "good",
        AuditedOutcome::Failed => "bad",
        AuditedOutcome::Blocked | AuditedOutcome::NotReached => "warn",
    };
    html! { span .{ "badge " (class) } { (name) } }
}

/// The address of a page with a query. Empty values are left out.
pub(crate) fn address(path: &str, query: &[(&str, &str)]) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(query.iter().filter(|(_, value)| !value.is_empty()));
    match text.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// Which rows are shown, and links to the other pages.
pub(crate) fn pager<T>(page: &Page<T>, path: &str, query: &[(&str, &str)]) -> Markup {
    pager_of("Pages", "page", page, path, query)
}

/// The same for one of several lists on a page; `key` has the number of its page.
pub(crate) fn pager_of<T>(
    label: &str,
    key: &str,
    page: &Page<T>,
    path: &str,
    query: &[(&str, &str)],
) -> Markup {
    let (first, last) = page.range();
    let link = |number: usize| {
        let number = number.to_string();
        let query: Vec<(&str, &str)> = query.iter().copied().chain([(key, &*number)]).collect();
        address(path, &query)
    };
    html! {
        nav .pager aria-label=(label) {
            p { (first) "–" (last) " of " (page.total) }
            @if page.pages > 1 {
                ul {
                    @if page.number > 1 {
                        li { a href=(link(1)) { "First" } }
                        li { a rel="prev" href=(link(page.number - 1)) { "Previous" } }
                    }
                    li { span aria-current="page" { "Page " (page.number) " of " (page.pages) } }
                    @if page.number < page.pages {
                        li { a rel="next" href=(link(page.number + 1)) { "Next" } }
                        li { a href=(link(page.pages)) { "Last" } }
                    }
                }
            }
        }
    }
}

/// A table that scrolls by itself where the window is narrow.
pub(crate) fn table(caption: &str, headings: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div .table tabindex="0" role="region" aria-label=(caption) {
            table {
                caption .hidden { (caption) }
                thead { tr { @for heading in headings { th scope="col" { (heading) } } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded_and_empty_values_left_out() {
        let text = address("/images", &[("q", "a&b=c d"), ("kind", ""), ("page", "2")]);
        assert_eq!(text, "/images?q=a%26b%3Dc+d&page=2");
        assert_eq!(address("/images", &[("q", "")]), "/images");
    }
}
