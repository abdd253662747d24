//! Images: the list and one of them.

use command_line::quantity;
use maud::{Markup, html};
use mirror_plan::Origin;

use super::parts::{address, bytes, pager, table};
use crate::view::images::{ImageDetail, ImageIndex, ImageQuery, ImageRow, KINDS, kind_name};
use crate::view::paging::Page;
use crate::view::users::{ImageUsers, Users};

/// Letters of the name of a user.
const MAX_LETTERS: usize = 200;

pub(crate) fn list(
    index: &ImageIndex,
    page: &Page<ImageRow>,
    query: &ImageQuery,
    users: &Users,
) -> Markup {
    let kinds = index.kinds();
    let kind =
        KINDS.iter().find(|(known, ..)| Some(*known) == query.kind).map_or("", |(_, key, _)| key);
    let row = |image: &ImageRow| {
        let origin = image.origin.to_string();
        html! {
            tr {
                th scope="row" { a href=(address("/image", &[("origin", &origin)])) { code { (origin) } } }
                td { (kind_name(image.kind)) @if matches!(image.origin, Origin::Made(_)) { ", built by oc-mirror" } @if !image.blobs_held { " (manifests only)" } }
                td { (first_user(users.of(&image.origin))) }
                td { (bytes(image.bytes)) }
                td { code .digest { (image.digest) } }
            }
        }
    };
    let rows: Vec<Markup> = page.rows.iter().map(row).collect();
    html! {
        @if index.rows.is_empty() { p { "There are no images here yet." } } @else {
            p { (quantity::count(index.rows.len(), "image")) ", " (bytes(index.unique_bytes)) " together; shared content counts once." }
            form method="get" action="/images" role="search" {
                label for="q" { "Name or digest" }
                input id="q" name="q" type="search" value=(query.words);
                label for="kind" { "Kind" }
                select id="kind" name="kind" {
                    option value="" { "All" }
                    @for (known, key, name) in &KINDS {
                        @if kinds.contains(known) { option value=(key) selected[*key == kind] { (name) } }
                    }
                }
                button type="submit" { "Search" }
            }
            (table("Images", &["Image", "Kind", "Used by", "Size", "Digest"], &rows))
            (pager(page, "/images", &[("q", &query.words), ("kind", kind)]))
        }
    }
}

pub(crate) fn detail(detail: &ImageDetail, users: Option<&ImageUsers>) -> Markup {
    let ImageDetail {
        row,
        manifests,
        attachments,
        names,
        left_out,
        attachments_unknown,
        layout: _,
    } = detail;
    let manifest_rows: Vec<Markup> = manifests
        .iter()
        .map(|manifest| {
            html! {
                tr {
                    th scope="row" { code .digest { (manifest.digest) } }
                    td { (manifest.platform.as_deref().unwrap_or("–")) }
                    td { code { (manifest.media_type) } }
                    td { (manifest.layers) }
                    td { (bytes(manifest.bytes)) }
                }
            }
        })
        .collect();
    let attachment_rows: Vec<Markup> = attachments
        .iter()
        .map(|attached| {
            html! {
                tr {
                    th scope="row" { code { (attached.name) } }
                    td { code .digest { (attached.digest) } }
                    td { code .digest { (attached.subject) } }
                }
            }
        })
        .collect();
    html! {
        dl .facts {
            div { dt { "Kind" } dd { (kind_name(row.kind)) } }
            div { dt { "Digest" } dd { code .digest { (row.digest) } } }
            div { dt { "Size" } dd { (bytes(row.bytes)) } }
            div { dt { "Content" } dd { @if row.blobs_held { "held" } @else { "manifests only" } } }
        }
        h2 { "Names at a target" }
        @if names.is_empty() { p { "That of its origin." } } @else {
            ul { @for name in names { li { code { (name) } } } }
        }
        h2 { "Used by" }
        (used_by(users))
        h2 { "Manifests" }
        (table("Manifests", &["Digest", "Platform", "Media type", "Layers", "Size"], &manifest_rows))
        @if *left_out > 0 { p { (left_out) " manifests of other platforms are left out by the configuration." } }
        h2 { "Signatures and other attachments" }
        @if *attachments_unknown { p { "Not determined: a run was started with --remove-signatures." } }
        @else if attachment_rows.is_empty() { p { "None." } }
        @else { (table("Attachments", &["Name", "Digest", "Belongs to"], &attachment_rows)) }
    }
}

/// What needs an image.
fn used_by(users: Option<&ImageUsers>) -> Markup {
    let Some(users) = users else {
        return html! { p { "Not known here: no recent run of this workspace has planned it." } };
    };
    html! {
        @if users.named.is_empty() { p { "Nothing that the newest run selects." } }
        ul { @for user in &users.named { li { (short(user)) } } }
        @if users.more > 0 { p { "and " (users.more) " more" } }
    }
}

/// The first of them, for the list.
fn first_user(users: Option<&ImageUsers>) -> Markup {
    let Some(users) = users else { return html! { "–" } };
    let others = users.named.len().saturating_sub(1) + users.more;
    html! {
        @if let Some(first) = users.named.first() { (short(first)) } @else { "–" }
        @if others > 0 { " and " (others) " more" }
    }
}

/// Names come from catalogs and charts, and may have any length.
fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
