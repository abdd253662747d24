//! Operators of a catalog.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::parts::{address, pager, table};
use super::selection::{at_least, cut};
use crate::sizes::measured::{Estimate, PartSize};
use crate::view::configurations::{ConfigurationRow, Purpose};
use crate::view::operators::{CatalogView, PackageView};
use crate::view::paging::Page;

/// Which catalog a page is about, as in its address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CatalogAddress<'a> {
    pub(crate) catalog: &'a str,
    pub(crate) is_carried: bool,
}

impl<'a> CatalogAddress<'a> {
    fn query(&self) -> [(&'static str, &'a str); 2] {
        [("catalog", self.catalog), ("carried", if self.is_carried { "true" } else { "" })]
    }

    fn of_channel(&self, path: &str, package: &PackageView, channel: &str) -> String {
        let [first, second] = self.query();
        address(path, &[first, second, ("name", &package.name), ("channel", channel)])
    }

    fn with(&self, path: &str, name: &'static str, value: &str) -> String {
        let [first, second] = self.query();
        address(path, &[first, second, (name, value)])
    }
}

/// What is known of the sizes of a package that is added to an empty configuration.
#[derive(Debug)]
pub(crate) struct PackageSizes {
    /// With the newest version of every channel.
    pub(crate) all: Estimate,
    /// With one channel.
    pub(crate) channels: BTreeMap<String, Estimate>,
}

pub(crate) fn choose(at: CatalogAddress<'_>, carried: &[String], problem: Option<&str>) -> Markup {
    html! {
        @if let Some(problem) = problem { p .fault role="alert" { (problem) } }
        form method="get" action="/operators" {
            label for="catalog" { "Catalog image" }
            input id="catalog" name="catalog" required size="60" value=(at.catalog) spellcheck="false"
                placeholder="registry.redhat.io/redhat/redhat-operator-index:v4.20";
            button type="submit" { "Open" }
        }
        @if !carried.is_empty() {
            h2 { "Catalogs in this workspace" }
            ul { @for catalog in carried {
                li { a href=(CatalogAddress { catalog, is_carried: true }.with("/operators", "", "")) { code { (catalog) } } }
            } }
        }
    }
}

/// While a catalog is being read. The page loads itself again.
pub(crate) fn loading(at: CatalogAddress<'_>) -> Markup {
    html! {
        p role="status" data-reload { "Reading " code { (at.catalog) } ". Large catalogs take a minute." }
        p { a href=(at.with("/operators", "", "")) { "Reload" } }
    }
}

pub(crate) fn failed(at: CatalogAddress<'_>, why: &str) -> Markup {
    html! {
        p .fault role="alert" { (why) }
        p { a href=(at.with("/operators", "retry", "true")) { "Try again" } }
    }
}

pub(crate) fn list(
    at: CatalogAddress<'_>,
    view: &CatalogView,
    page: &Page<&PackageView>,
    words: &str,
) -> Markup {
    let row = |package: &&PackageView| {
        html! {
            tr {
                td { (icon(at, package)) }
                th scope="row" {
                @if package.has_plain_name() {
                    a href=(at.with("/operator", "name", &package.name)) { (package.shown_name()) }
                } @else { (package.shown_name()) }
            }
                td { (package.display_name) }
                td { (package.shown_default_channel()) }
                td { (package.channels.len()) }
                td { (package.bundles) }
            }
        }
    };
    let [first, second] = at.query();
    html! {
        p { code { (at.catalog) } ": " (view.packages.len()) " packages, " (view.bundles) " bundles, "
            code .digest { (view.digest) } @if at.is_carried { ", read from this workspace" } }
        @for notice in view.notices.iter().take(10) { p .note { (notice) } }
        form method="get" action="/operators" role="search" {
            input type="hidden" name="catalog" value=(at.catalog);
            @if at.is_carried { input type="hidden" name="carried" value="true"; }
            label for="q" { "Name or description" }
            input id="q" name="q" type="search" value=(words);
            button type="submit" { "Search" }
        }
        (table("Packages", &["Icon", "Package", "Name", "Default channel", "Channels", "Bundles"],
            &page.rows.iter().map(row).collect::<Vec<_>>()))
        (pager(page, "/operators", &[first, second, ("q", words)]))
        p { a href="/operators" { "Another catalog" } }
    }
}

fn icon(at: CatalogAddress<'_>, package: &PackageView) -> Markup {
    html! {
        @if package.icon.is_some() && package.has_plain_name() {
            img .icon src=(at.with("/operator/icon", "name", &package.name)) alt="" loading="lazy";
        }
    }
}

/// A package; the updates of the channel `shown` as a diagram.
pub(crate) fn detail(
    at: CatalogAddress<'_>,
    package: &PackageView,
    shown: &str,
    sizes: Option<&PackageSizes>,
    configurations: &[ConfigurationRow],
) -> Markup {
    let size = |channel: &str| {
        let estimate = sizes.and_then(|sizes| sizes.channels.get(channel));
        html! { @if let Some(estimate) = estimate { (size_or_button(at, package, channel, estimate)) } @else { "–" } }
    };
    let rows: Vec<Markup> = package.channels.iter().map(|channel| html! {
        tr {
            th scope="row" { (channel.name) @if channel.name == package.default_channel { " " span .badge.good { "default" } } }
            td { code { (channel.head) } }
            td { @if channel.versions.len() > 12 {
                (channel.versions[..12].join(", "))
                details { summary { (channel.versions.len() - 12) " more" } (channel.versions[12..].join(", ")) }
            } @else { (channel.versions.join(", ")) } }
            td { (size(&channel.name)) }
            td { a href={ (at.of_channel("/operator", package, &channel.name)) "#diagram" } { "Upgrade diagram" } }
        }
    }).collect();
    html! {
        p { (icon(at, package)) " " strong { (package.display_name) } " in "
            a href=(at.with("/operators", "", "")) { code { (at.catalog) } } }
        @if !package.description.is_empty() { p .prose { (package.description) } }
        h2 { "Channels" }
        (table("Channels", &["Channel", "Head", "Versions, newest first", "Size of the newest", "Diagram"], &rows))
        @if let Some(sizes) = sizes {
            div { "All channels, the newest version of each: " (size_or_button(at, package, "", &sizes.all)) }
            p .note { "Sizes are those of bundles and operator images, without dependencies. They are determined on request, in the background, and kept." }
        }
        @if let Some(channel) = package.channels.iter().find(|known| known.name == shown) {
            h2 id="diagram" { "Updates in " (channel.name) }
            div .diagram tabindex="0" role="region" aria-label="Diagram of the channel" {
                img src=(at.of_channel("/operator/diagram", package, &channel.name))
                    alt="The versions of the channel, as in the table above, and the updates between them";
            }
        }
        h2 { "Needs" }
        @if package.requires.is_empty() { p { "The newest version of the default channel states no dependencies." } } @else {
            p { "The newest version of the default channel needs:" }
            ul { @for line in &package.requires { li { (line) } } }
            p .note { code { "includeDependencies: true" } " of the catalog adds packages that provide them." }
        }
        h2 { "Add to a configuration" }
        (add_form(configurations, &html! {
            input type="hidden" name="kind" value="package";
            input type="hidden" name="catalog" value=(at.catalog);
            @if at.is_carried { input type="hidden" name="carried" value="true"; }
            input type="hidden" name="package" value=(package.name);
            label for="channel" { "Channel" }
            select id="channel" name="channel" {
                option value="" { "All: the newest version of each" }
                @for channel in &package.channels { option value=(channel.name) { (channel.name) } }
            }
            p .wide.note { "A catalog needs a default channel. Without " code { (package.shown_default_channel()) }
                ", the first channel that you add becomes the default (" code { "defaultChannel" } ")." }
        }))
    }
}

/// The size of a channel, or of all with an empty name; a button where it is not known.
fn size_or_button(
    at: CatalogAddress<'_>,
    package: &PackageView,
    channel: &str,
    estimate: &Estimate,
) -> Markup {
    if estimate.is_waiting() {
        return html! { span data-reload { "being determined" } };
    }
    let mut failure = None;
    for part in estimate.parts.values() {
        match part {
            PartSize::Failed(why) => failure = Some(why.as_str()),
            PartSize::Known { rows, problems, .. } => match rows.get(&package.name) {
                Some(size) => return at_least(size.bytes, problems.is_empty()),
                None => failure = problems.first().map(String::as_str),
            },
            PartSize::Unknown | PartSize::Waiting => {}
        }
    }
    let word = if failure.is_some() { "Try again" } else { "Determine" };
    let of = if channel.is_empty() { "all channels" } else { channel };
    html! {
        @if let Some(why) = failure { span { "unknown: " (cut(why)) } }
        form .inline method="post" action="/operator/measure" {
            @for (name, value) in at.query() { input type="hidden" name=(name) value=(if value.is_empty() { "false" } else { value }); }
            input type="hidden" name="name" value=(package.name);
            input type="hidden" name="channel" value=(channel);
            button .quiet type="submit" aria-label={ (word) ": size of " (of) } { (word) }
        }
    }
}

/// A form that adds a selection to a configuration, and opens it in the editor.
pub(crate) fn add_form(configurations: &[ConfigurationRow], fields: &Markup) -> Markup {
    let usable: Vec<&ConfigurationRow> =
        configurations.iter().filter(|row| row.checked.purpose == Some(Purpose::Mirror)).collect();
    html! {
        form .stacked method="post" action="/configuration/add" {
            (fields)
            label for="config" { "Configuration" }
            select id="config" name="name" {
                @for row in usable { option value=(row.name) { (row.name) } }
                option value="" { "A new one" }
            }
            button type="submit" { "Add" }
        }
    }
}
