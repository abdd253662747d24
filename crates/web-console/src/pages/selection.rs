//! What a configuration selects, with sizes, beside its text.

use command_line::quantity;
use maud::{Markup, html};

use super::parts::{bytes, time};
use crate::selection::{Item, ItemPlace};
use crate::sizes::measured::{Estimate, PartSize, Size};
use crate::sizes::parts::PartKind;

/// Items of a kind that are shown; the text has all.
const MAX_ITEMS: usize = 100;
/// Releases of channels and packages that are dependencies, that are shown.
const MAX_IMPLIED: usize = 40;
const GIB: u64 = 1 << 30;

/// What is shown of a text without errors.
#[derive(Debug)]
pub(crate) struct SelectionView {
    pub(crate) items: Vec<Item>,
    pub(crate) estimate: Estimate,
    /// Bytes that the filesystem has left.
    pub(crate) free: Option<u64>,
    /// In GiB, where the configuration has it.
    pub(crate) archive_size: Option<u64>,
}

/// The panel beside the text. Its buttons belong to the form of the editor.
pub(crate) fn panel(view: Option<&SelectionView>) -> Markup {
    let Some(view) = view else {
        return html! { p .note { "Shown when the text is an ImageSetConfiguration without errors." } };
    };
    if view.items.is_empty() {
        return html! { p .note { "Nothing is selected yet." } };
    }
    html! {
        (sums(view))
        @for (title, belongs) in GROUPS {
            @let items: Vec<&Item> = view.items.iter().filter(|item| belongs(item.place)).collect();
            @if !items.is_empty() { (group(title, &items, &view.estimate)) }
        }
        (actions(&view.estimate))
    }
}

type Belongs = fn(ItemPlace) -> bool;
const GROUPS: [(&str, Belongs); 4] = [
    ("Releases", |place| place.part() == PartKind::Releases),
    ("Operators", |place| matches!(place.part(), PartKind::Catalog(_))),
    ("Images", |place| place.part() == PartKind::Images),
    ("Charts", |place| place.part() == PartKind::Charts),
];

/// A sum that is a lower bound until everything was read.
pub(crate) fn at_least(count: u64, is_complete: bool) -> Markup {
    html! { @if !is_complete { "at least " } (bytes(count)) }
}

fn sums(view: &SelectionView) -> Markup {
    let SelectionView { estimate, free, archive_size, .. } = view;
    if !estimate.is_known() {
        return html! {};
    }
    let is_complete = estimate.is_complete();
    // Content, and the archive of it.
    let needed = estimate.missing.saturating_mul(2);
    let lacks = free.is_some_and(|free| needed > free);
    html! {
        dl .facts {
            div { dt { "Selected" } dd { (at_least(estimate.bytes, is_complete)) } }
            div { dt { "Not here yet" } dd { (at_least(estimate.missing, is_complete)) } }
            @if let Some(free) = free { div { dt { "Free space" } dd { (bytes(*free)) } } }
            @if let Some(size) = archive_size {
                @let limit = size.saturating_mul(GIB).max(1);
                div { dt { "Archive files" } dd {
                    @if !is_complete { "at least " }
                    (estimate.missing.div_ceil(limit)) " of up to " (bytes(limit))
                } }
            }
        }
        p .note { (quantity::count(estimate.images, "image")) "; shared content counts once. "
            "Mirror to disk writes content that is not here and an archive of it: "
            (at_least(needed, is_complete)) "." }
        @if lacks {
            p .fault role="alert" { "The free space is not enough to mirror this to disk: "
                (at_least(needed, is_complete)) " needed, " (bytes(free.unwrap_or_default())) " free." }
        }
    }
}

fn group(title: &str, items: &[&Item], estimate: &Estimate) -> Markup {
    let implied = implied(items, estimate);
    html! {
        div .table tabindex="0" role="region" aria-label=(title) {
            table .selection {
                caption { (title) }
                thead { tr { th scope="col" { "Selected" } th scope="col" { "Size" } th scope="col" { "Not shared" } th scope="col" { span .hidden { "Action" } } } }
                tbody {
                    @for item in items.iter().take(MAX_ITEMS) { (row(item, estimate)) }
                    @for (name, word, size) in implied.iter().take(MAX_IMPLIED) {
                        tr { th scope="row" .nested { (name) " " span .badge.active { (word) } } td { (bytes(size.bytes)) } td { (bytes(size.alone)) } td {} }
                    }
                }
            }
        }
        @if implied.len() > MAX_IMPLIED { p .note { "and " (implied.len() - MAX_IMPLIED) " more that these select" } }
        @if items.len() > MAX_ITEMS { p .note { "and " (items.len() - MAX_ITEMS) " more in the text" } }
        @for (part, size) in &estimate.parts {
            @if items.iter().any(|item| item.place.part() == *part) { (remarks(size)) }
        }
    }
}

fn row(item: &Item, estimate: &Estimate) -> Markup {
    let is_nested = matches!(item.place, ItemPlace::Package(..) | ItemPlace::Chart(..));
    html! {
        tr {
            th scope="row" .nested[is_nested] {
                @match item.place {
                    ItemPlace::Image(_) | ItemPlace::Catalog(_) | ItemPlace::Repository(_) | ItemPlace::Release => code { (cut(&item.name)) },
                    _ => (cut(&item.name)),
                }
                @if !item.detail.is_empty() { br; span .note { (cut(&item.detail)) } }
            }
            (size_cells(item, estimate))
            td { button .quiet type="submit" formaction="/configuration/change" formnovalidate name="change"
                value={ "remove " (item.place) " " (item.name) } aria-label={ "Remove " (cut(&item.name)) } { "Remove" } }
        }
    }
}

/// The size of an item, as far as it is known.
fn size_cells(item: &Item, estimate: &Estimate) -> Markup {
    let part = estimate.parts.get(&item.place.part());
    let known = match part {
        Some(PartSize::Known { size, rows, groups, .. }) => match item.place {
            // What they select is a part of its own.
            ItemPlace::Catalog(_) | ItemPlace::Release => Some(*size),
            ItemPlace::Channel(_) => groups.get(&item.name).copied(),
            ItemPlace::Repository(_) => groups.get(&item.place.to_string()).copied(),
            ItemPlace::Chart(..) | ItemPlace::LocalChart(_) => {
                rows.get(&item.place.to_string()).copied()
            }
            ItemPlace::Package(..) | ItemPlace::Image(_) => rows.get(&item.name).copied(),
        },
        _ => None,
    };
    match (known, part) {
        (Some(Size { bytes: all, alone }), _) => {
            html! { td { (bytes(all)) } td { (bytes(alone)) } }
        }
        (None, Some(PartSize::Waiting)) => html! { td { "being determined" } td {} },
        (None, Some(PartSize::Failed(_) | PartSize::Known { .. })) => {
            html! { td { "unknown" } td {} }
        }
        (None, Some(PartSize::Unknown) | None) => html! { td {} td {} },
    }
}

/// Rows of what the items select without naming it, with a word for each.
fn implied(items: &[&Item], estimate: &Estimate) -> Vec<(String, &'static str, Size)> {
    let releases = match estimate.parts.get(&PartKind::Releases) {
        Some(PartSize::Known { rows, .. })
            if items.iter().any(|item| item.place.part() == PartKind::Releases) =>
        {
            rows.iter().map(|(release, size)| (cut(release), "release", *size)).collect()
        }
        _ => Vec::new(),
    };
    let packages = added(items, estimate).into_iter();
    packages.map(|(package, size)| (package, "dependency", size)).chain(releases).collect()
}

/// Packages that are mirrored because others need them.
fn added(items: &[&Item], estimate: &Estimate) -> Vec<(String, Size)> {
    let mut added = Vec::new();
    for (part, size) in &estimate.parts {
        let (PartKind::Catalog(catalog), PartSize::Known { rows, .. }) = (part, size) else {
            continue;
        };
        let of_catalog =
            |item: &&&Item| matches!(item.place, ItemPlace::Package(at, _) if at == *catalog);
        let named: Vec<&str> =
            items.iter().filter(of_catalog).map(|item| item.name.as_str()).collect();
        // Without names all packages are selected.
        if !named.is_empty() {
            let others = rows.iter().filter(|(label, _)| !named.contains(&label.as_str()));
            added.extend(others.map(|(label, size)| (cut(label), *size)));
        }
    }
    added
}

fn remarks(size: &PartSize) -> Markup {
    match size {
        PartSize::Unknown => html! {},
        PartSize::Waiting => html! { p .note data-pending { "The size is being determined." } },
        PartSize::Failed(why) => {
            html! { p .fault { "The size could not be determined: " (cut(why)) } }
        }
        PartSize::Known { at, problems, more_problems, .. } => html! {
            p .note { "Determined " (time(*at)) }
            @if !problems.is_empty() {
                p { "Not part of the size:" }
                ul .errors { @for problem in problems { li { (cut(problem)) } } }
                @if *more_problems > 0 { p { "and " (more_problems) " more" } }
            }
        },
    }
}

fn actions(estimate: &Estimate) -> Markup {
    html! {
        @if estimate.is_waiting() {
            p .note { "Sizes are determined in the background; you can continue." }
        } @else {
            button .quiet type="submit" formaction="/configuration/measure" formnovalidate {
                @if estimate.is_known() { "Determine the sizes again" } @else { "Determine the sizes" }
            }
        }
    }
}

/// The size alone, for lists.
pub(crate) fn total(estimate: &Estimate) -> Markup {
    match (estimate.is_known(), estimate.is_waiting()) {
        (true, _) => at_least(estimate.bytes, estimate.is_complete()),
        (false, true) => html! { "being determined" },
        (false, false) => html! { "–" },
    }
}

/// Text of a configuration or a registry, short enough for the panel.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
