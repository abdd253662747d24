//! Images: the list and one of them.

use command_line::quantity;
use maud::{Markup, html};
use mirror_plan::Kind;

use super::parts::{address, bytes, pager, table};
use crate::view::images::{ImageDetail, ImageIndex, ImageQuery, ImageRow, KINDS, kind_name};
use crate::view::paging::Page;

/// Bundles that the page of an image names.
const MAX_USERS: usize = 50;

pub(crate) fn list(index: &ImageIndex, page: &Page<ImageRow>, query: &ImageQuery) -> Markup {
    let kinds = index.kinds();
    let kind =
        KINDS.iter().find(|(known, ..)| Some(*known) == query.kind).map_or("", |(_, key, _)| key);
    let row = |image: &ImageRow| {
        let origin = image.origin.to_string();
        html! {
            tr {
                th scope="row" { a href=(address("/image", &[("origin", &origin)])) { code { (origin) } } }
                td { (kind_name(image.kind)) @if !image.blobs_held { " (manifests only)" } }
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
            (table("Images", &["Image", "Kind", "Size", "Digest"], &rows))
            (pager(page, "/images", &[("q", &query.words), ("kind", kind)]))
        }
    }
}

pub(crate) fn detail(detail: &ImageDetail) -> Markup {
    let ImageDetail {
        row,
        manifests,
        attachments,
        names,
        users,
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
        (used_by(users.as_deref(), row.kind))
        h2 { "Manifests" }
        (table("Manifests", &["Digest", "Platform", "Media type", "Layers", "Size"], &manifest_rows))
        @if *left_out > 0 { p { (left_out) " manifests of other platforms are left out by the configuration." } }
        h2 { "Signatures and other attachments" }
        @if *attachments_unknown { p { "Not determined: a run was started with --remove-signatures." } }
        @else if attachment_rows.is_empty() { p { "None." } }
        @else { (table("Attachments", &["Name", "Digest", "Belongs to"], &attachment_rows)) }
    }
}

/// What needs an image: bundles by name, everything else by its kind.
fn used_by(users: Option<&[String]>, kind: Kind) -> Markup {
    let of_kind = match kind {
        Kind::ReleasePayload | Kind::ReleaseComponent | Kind::KubeVirt => "A release.",
        Kind::Graph => "The update service of a cluster.",
        Kind::Catalog => "The catalog source of a cluster.",
        Kind::Additional => "The configuration names it.",
        Kind::Helm => "A Helm chart.",
        Kind::Chart => "The configuration selects the chart.",
        Kind::Bundle | Kind::RelatedImage => "",
    };
    html! {
        @match users {
            _ if !of_kind.is_empty() => p { (of_kind) },
            None => p { "Not known here: no run of this workspace has planned it." },
            Some([]) => p { "No bundle that the newest run selects." },
            Some(users) => {
                ul { @for user in users.iter().take(MAX_USERS) { li { (user) } } }
                @if users.len() > MAX_USERS { p { "and " (users.len() - MAX_USERS) " more" } }
            },
        }
    }
}
