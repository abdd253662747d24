//! What is in a catalog, for people to choose from.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::document::{Document, Map};
use crate::model::{Bundle, Catalog, Channel, Package};
use crate::rules::chain;
use crate::text::Text;

/// A line of the list of packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageRow {
    pub name: String,
    /// Empty if the catalog does not contain it.
    pub display_name: String,
    pub default_channel: String,
}

/// A line of the list of channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRow {
    pub package: String,
    pub channel: String,
    /// The bundle at its head; empty when the channel has no single one.
    pub head: String,
}

/// All packages, in the order of their names.
pub fn packages(catalog: &Catalog<'_>) -> Vec<PackageRow> {
    let row = |package: &Package<'_>| PackageRow {
        name: package.name.to_string(),
        display_name: display_name(package).unwrap_or_default(),
        default_channel: package.default_channel().unwrap_or_default().to_owned(),
    };
    catalog.packages.values().filter(|package| package.definition.is_some()).map(row).collect()
}

/// The channels of a package, in the order of their names.
pub fn channels(package: &Package<'_>) -> Vec<ChannelRow> {
    let row = |channel: &Channel<'_>| ChannelRow {
        package: package.name.to_string(),
        channel: channel.name.to_string(),
        head: chain(&channel.entries.iter().collect::<Vec<_>>())
            .map(|chain| chain[0].name.to_string())
            .unwrap_or_default(),
    };
    package.channels.values().map(row).collect()
}

/// The versions in a channel, in the order of their bundles' names.
pub fn versions(package: &Package<'_>, channel: &Channel<'_>) -> Vec<String> {
    let mut names: Vec<&str> = channel.entries.iter().map(|entry| &*entry.name).collect();
    names.sort_unstable();
    names.iter().filter_map(|name| package.version_of(name)).map(ToString::to_string).collect()
}

/// The name for people, as the newest bundle gives it.
pub fn display_name(package: &Package<'_>) -> Option<String> {
    let newest = package.bundles.values().max_by_key(|bundle| bundle.version.as_ref())?;
    name_of(newest)
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, rename = "displayName", default)]
    display_name: Text<'a>,
}

#[derive(Deserialize)]
struct Object {
    data: String,
}

#[derive(Deserialize)]
struct ClusterServiceVersion<'a> {
    #[serde(borrow, default)]
    kind: Text<'a>,
    #[serde(borrow)]
    spec: Option<Metadata<'a>>,
}

fn name_of(bundle: &Bundle<'_>) -> Option<String> {
    let Map(document): Map<Document<'_>> = serde_json::from_str(bundle.blob.0).ok()?;
    document.properties.0.iter().find_map(|property| {
        let value = property.value.map(RawValue::get)?;
        let name = match &*property.kind {
            "olm.csv.metadata" => {
                serde_json::from_str::<Metadata<'_>>(value).ok()?.display_name.to_string()
            }
            // Older catalogs have the bundle's objects inside.
            "olm.bundle.object" => {
                let data = serde_json::from_str::<Object>(value).ok()?.data;
                let object = STANDARD.decode(data).ok()?;
                let version: ClusterServiceVersion<'_> = serde_json::from_slice(&object).ok()?;
                let is_version = &*version.kind == "ClusterServiceVersion";
                version.spec.filter(|_| is_version)?.display_name.to_string()
            }
            _ => return None,
        };
        (!name.is_empty()).then_some(name)
    })
}
