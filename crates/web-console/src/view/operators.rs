//! A catalog to select from: packages, channels, versions, descriptions, icons, dependencies. Pure.
//!
//! Everything in a catalog is untrusted. Texts are cut, icons are limited in size and kind.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::{Catalog, Package, Requirement};
use semver::Version;
use serde::Deserialize;

use super::paging::{Page, matches};

/// Letters of a name that are shown.
const MAX_NAME: usize = 120;
const MAX_DESCRIPTION: usize = 4000;
const MAX_ICON: usize = 512 << 10;
/// Kinds of icons that are served.
const ICONS: [&str; 5] = ["image/svg+xml", "image/png", "image/jpeg", "image/gif", "image/webp"];

/// What is kept of a catalog once it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CatalogView {
    pub(crate) digest: String,
    pub(crate) packages: Vec<PackageView>,
    pub(crate) bundles: usize,
    pub(crate) notices: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackageView {
    pub(crate) name: String,
    pub(crate) display_name: String,
    pub(crate) default_channel: String,
    pub(crate) description: String,
    pub(crate) icon: Option<Icon>,
    pub(crate) channels: Vec<ChannelView>,
    /// What the newest version of the default channel needs, a line each.
    pub(crate) requires: Vec<String>,
    pub(crate) bundles: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChannelView {
    pub(crate) name: String,
    pub(crate) head: String,
    /// Newest first.
    pub(crate) versions: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Icon {
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl CatalogView {
    pub(crate) fn of(catalog: &Catalog<'_>, digest: &str) -> Self {
        let known = catalog.packages.values().filter(|package| package.definition.is_some());
        let packages: Vec<PackageView> = known.map(PackageView::of).collect();
        Self {
            digest: digest.to_owned(),
            bundles: packages.iter().map(|package| package.bundles).sum(),
            packages,
            notices: catalog.notices().map(|notice| short(&notice, MAX_DESCRIPTION)).collect(),
        }
    }

    pub(crate) fn find(&self, words: &str, page: usize) -> Page<&PackageView> {
        let found = self.packages.iter().filter(|package| {
            matches(
                &format!("{} {} {}", package.name, package.display_name, package.description),
                words,
            )
        });
        Page::of(found.collect(), page)
    }

    pub(crate) fn package(&self, name: &str) -> Option<&PackageView> {
        self.packages.iter().find(|package| package.name == name)
    }
}

/// The parts of a package's own document that people see.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Document {
    description: Option<String>,
    icon: Option<IconDocument>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct IconDocument {
    base64data: String,
    mediatype: String,
}

impl PackageView {
    fn of(package: &Package<'_>) -> Self {
        let document = package.definition.as_ref().map(|definition| definition.blob.json());
        let document: Document =
            document.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        let default_channel = package.default_channel().unwrap_or_default().to_owned();
        let heads = catalog::channels(package);
        let channels = package.channels.values().zip(&heads).map(|(channel, row)| ChannelView {
            name: channel.name.to_string(),
            head: short(&row.head, MAX_NAME),
            versions: newest_first(catalog::versions(package, channel)),
        });
        let head = heads.iter().find(|row| row.channel == default_channel);
        let head = head.and_then(|row| package.bundles.get(row.head.as_str()));
        let mut requires: Vec<String> =
            head.iter().flat_map(|bundle| &bundle.requires).map(requirement).collect();
        requires.sort();
        requires.dedup();
        Self {
            name: package.name.to_string(),
            display_name: short(&catalog::display_name(package).unwrap_or_default(), MAX_NAME),
            description: short(
                document.description.as_deref().unwrap_or_default(),
                MAX_DESCRIPTION,
            ),
            icon: document.icon.as_ref().and_then(Icon::of),
            channels: channels.collect(),
            requires,
            bundles: package.bundles.len(),
            default_channel,
        }
    }

    pub(crate) fn shown_default_channel(&self) -> String {
        short(&self.default_channel, MAX_NAME)
    }

    /// Whether its name is one that a cluster accepts, and an address has room for.
    pub(crate) fn has_plain_name(&self) -> bool {
        self.name.len() <= MAX_NAME
    }

    /// The name as a page shows it.
    pub(crate) fn shown_name(&self) -> String {
        short(&self.name, MAX_NAME)
    }
}

impl Icon {
    fn of(document: &IconDocument) -> Option<Self> {
        let kind = ICONS.into_iter().find(|kind| *kind == document.mediatype)?;
        // Four letters of base64 are three bytes.
        if document.base64data.len() > MAX_ICON / 3 * 4 {
            return None;
        }
        let bytes = STANDARD.decode(document.base64data.trim()).ok()?;
        Some(Self { kind, bytes })
    }
}

fn newest_first(versions: Vec<String>) -> Vec<String> {
    let mut parsed: Vec<(Option<Version>, String)> =
        versions.into_iter().map(|text| (Version::parse(&text).ok(), text)).collect();
    parsed.sort_by(|a, b| b.cmp(a));
    parsed.into_iter().map(|(_, text)| text).collect()
}

fn requirement(of: &Requirement<'_>) -> String {
    let joined = |list: &[Requirement<'_>], word: &str| {
        list.iter().map(requirement).collect::<Vec<_>>().join(word)
    };
    match of {
        Requirement::Package { name, range } => short(&format!("package {name} {range}"), MAX_NAME),
        Requirement::Api(api) => {
            short(&format!("API {}/{} {}", api.group, api.version, api.kind), MAX_NAME)
        }
        Requirement::All(list) => joined(list, " and "),
        Requirement::Any(list) => joined(list, " or "),
        Requirement::Unsupported(kind) => short(&format!("constraint {kind}"), MAX_NAME),
    }
}

/// Text up to `letters`; an ellipsis tells that there is more.
fn short(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_images_are_icons() {
        let icon = |mediatype: &str, bytes: usize| {
            let base64data = STANDARD.encode(vec![0; bytes]);
            Icon::of(&IconDocument { base64data, mediatype: mediatype.to_owned() })
        };
        assert_eq!(icon("image/svg+xml", 9).unwrap().bytes.len(), 9);
        assert_eq!(icon("text/html", 9), None);
        assert_eq!(icon("image/svg+xml; charset=x", 9), None);
        assert_eq!(icon("image/png", MAX_ICON + 10), None);
        let broken = IconDocument { base64data: "<svg>".into(), mediatype: "image/png".into() };
        assert_eq!(Icon::of(&broken), None);
    }

    #[test]
    fn versions_are_ordered_as_versions_and_texts_are_cut() {
        let versions = ["1.9.0", "1.10.0", "1.2.0"].map(str::to_owned).to_vec();
        assert_eq!(newest_first(versions), ["1.10.0", "1.9.0", "1.2.0"]);
        assert_eq!(short("äöü", 2), "äö…");
        assert_eq!(short(&"x".repeat(1 << 20), MAX_NAME).chars().count(), MAX_NAME + 1);
    }
}
