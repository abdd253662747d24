//! `operators`: which catalogs to mirror, and which of their packages.

use std::ops::Not;
use std::path::PathBuf;

use oci::{Platform, Repository, Tag};
use serde::Serialize;

use located_yaml::{Meaning, Value};

use crate::finding::{EntryPosition, Problem};
use crate::image::{ImageSource, platform, target_path, target_tag};
use crate::section::{LocatedValue, Section, Unique};
use crate::version::{PackageVersion, package_range};

/// A catalog, and what is wanted of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operator {
    pub catalog: ImageSource,
    /// Repository of the catalog at the destination, where it is not its own path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_catalog: Option<Repository>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_tag: Option<Tag>,
    /// Every version of what is selected, not only the newest. Beside a range
    /// of versions it is a contradiction, but one that these files contain;
    /// the code that filters the catalog must resolve it.
    #[serde(skip_serializing_if = "Not::not")]
    pub full: bool,
    /// Has no effect: dependencies are only added where that is requested.
    #[serde(skip_serializing_if = "Not::not")]
    pub skip_dependencies: bool,
    /// Adds the packages that the selected ones need. An extension of ours.
    #[serde(skip_serializing_if = "Not::not")]
    pub include_dependencies: bool,
    /// A file to make the catalog's cluster resource from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_catalog_source_template: Option<PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
    /// Empty means all packages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    #[serde(skip)]
    pub at: EntryPosition,
}

/// A package of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_channel: Option<String>,
    /// Bounds for every channel; none of `channels` has its own then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_version: Option<PackageVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_version: Option<PackageVersion>,
    /// As many versions before the newest one. An extension of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_versions: Option<u32>,
    /// Empty means all channels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<PackageChannel>,
    #[serde(skip)]
    pub at: EntryPosition,
}

/// A channel of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageChannel {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_version: Option<PackageVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_version: Option<PackageVersion>,
    /// As many versions before the newest one. An extension of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_versions: Option<u32>,
    #[serde(skip)]
    pub at: EntryPosition,
}

const USE_VERSIONS: &str = "versions select bundles now; use minVersion and maxVersion";

impl Operator {
    pub(crate) fn read(place: LocatedValue<'_>, catalogs: &mut Unique) -> Option<Self> {
        let mut section = Section::open(place, |text| format!("write `catalog: {text}`"))?;
        let at = section.at;
        let text =
            section.required("catalog", "registry.redhat.io/redhat/redhat-operator-index:v4.18");
        let catalog = text.as_ref().and_then(|text| text.parse(ImageSource::parse));
        let target_catalog = section.text("targetCatalog").and_then(|text| text.parse(target_path));
        let target_tag = section.text("targetTag").and_then(|text| text.parse(target_tag));
        let full = section.flag("full");
        let skip_dependencies = section.flag("skipDependencies");
        let include_dependencies = section.flag("includeDependencies");
        let template = section.text("targetCatalogSourceTemplate");
        let platforms = section.list("platforms", platform);
        let mut names = Unique::new("package");
        let packages = section.list("packages", |place| Package::read(place, &mut names));
        section.refuse("targetName", "the catalog's name is part of its path; use targetCatalog");
        section.refuse("originalRef", "it has no effect; use targetCatalog to name the catalog");
        section.refuse("headsOnly", "the newest versions are the default; use full: true for all");
        section.finish();
        let operator = Self {
            catalog: catalog?,
            target_catalog,
            target_tag,
            full,
            skip_dependencies,
            include_dependencies,
            target_catalog_source_template: template.map(|text| text.text.into()),
            platforms,
            packages,
            at,
        };
        catalogs.check(&text?, &operator.name_at_destination());
        Some(operator)
    }

    /// What must differ between catalogs: where each one ends up, its
    /// registry included.
    fn name_at_destination(&self) -> String {
        let (place, version) = match &self.catalog {
            ImageSource::Registry(image) => {
                let path = self.target_catalog.as_ref().unwrap_or(&image.repository);
                let version = image.pointer().map(|pointer| pointer.to_string());
                (format!("{}/{path}", image.registry), version)
            }
            ImageSource::Layout(_) => match &self.target_catalog {
                Some(path) => (path.to_string(), None),
                None => (self.catalog.to_string(), None),
            },
        };
        match self.target_tag.as_ref().map(Tag::to_string).or(version) {
            Some(version) if version.contains(':') => format!("{place}@{version}"),
            Some(version) => format!("{place}:{version}"),
            None => place,
        }
    }
}

impl Package {
    fn read(place: LocatedValue<'_>, names: &mut Unique) -> Option<Self> {
        let mut section = Section::open(place, |text| format!("write `name: {text}`"))?;
        let at = section.at;
        let name = section.required("name", "local-storage-operator");
        let default_channel = section.text("defaultChannel");
        let (min_version, max_version) = package_range(&mut section);
        let previous_versions = previous_versions(&mut section);
        let mut channel_names = Unique::new("channel");
        let channels =
            section.list("channels", |place| PackageChannel::read(place, &mut channel_names));
        section.refuse("bundles", USE_VERSIONS);
        section.refuse("selectedBundles", USE_VERSIONS);
        section.refuse("minBundle", USE_VERSIONS);
        section.refuse("startingVersion", "it is called minVersion now");
        let package = name.as_ref().map(|name| name.owned()).unwrap_or_default();
        let has_range =
            min_version.is_some() || max_version.is_some() || previous_versions.is_some();
        for channel in channels.iter().filter(|channel| has_range && channel.has_range()) {
            let (package, channel_name) = (package.clone(), channel.name.clone());
            section.report(channel.at, Problem::MixedRanges { package, channel: channel_name });
        }
        if let Some(default) = &default_channel
            && !channels.is_empty()
            && channels.iter().all(|channel| channel.name != default.text)
        {
            section.report(default.at, Problem::DefaultChannel { channel: default.owned() });
        }
        section.finish();
        let name = name?;
        names.check(&name, name.text);
        Some(Self {
            name: name.owned(),
            default_channel: default_channel.map(|channel| channel.owned()),
            min_version,
            max_version,
            previous_versions,
            channels,
            at,
        })
    }
}

impl PackageChannel {
    fn read(place: LocatedValue<'_>, names: &mut Unique) -> Option<Self> {
        let mut section = Section::open(place, |text| format!("write `name: {text}`"))?;
        let at = section.at;
        let name = section.required("name", "stable");
        let (min_version, max_version) = package_range(&mut section);
        let previous_versions = previous_versions(&mut section);
        section.refuse("minBundle", USE_VERSIONS);
        section.refuse("startingVersion", "it is called minVersion now");
        section.finish();
        let name = name?;
        names.check(&name, name.text);
        Some(Self { name: name.owned(), min_version, max_version, previous_versions, at })
    }

    fn has_range(&self) -> bool {
        self.min_version.is_some() || self.max_version.is_some() || self.previous_versions.is_some()
    }
}

/// Reads `previousVersions`, which excludes a range beside it.
fn previous_versions(section: &mut Section<'_>) -> Option<u32> {
    let has_range = section.has("minVersion") || section.has("maxVersion");
    let place = section.place("previousVersions")?;
    let Value::Scalar { text, meaning } = &place.node.value else {
        let (what, found) = (place.path.clone(), place.node.shape());
        place.report(Problem::Shape { what, expected: "a whole number", found, hint: None });
        return None;
    };
    if has_range {
        place.report(Problem::PreviousAndRange);
    }
    let count = match meaning {
        Meaning::Integer(count) => u32::try_from(*count).ok(),
        _ => None,
    };
    if count.is_none() {
        place.report(Problem::PreviousVersions { text: text.clone() });
    }
    count
}
