//! What deleted bundles mean for the catalogs at a target: channels that keep them, channels that
//! lose their newest bundle, catalogs that still offer them.

use std::collections::{BTreeMap, BTreeSet};

use mirror_plan::{
    BundleUse, CatalogContent, ChannelContent, Destination, PackageContent, Target, TargetRecord,
};

use crate::choose::is_in;

/// The catalogs on record below a target.
pub(crate) struct Channels<'r>(Vec<(&'r Destination, &'r CatalogContent)>);

impl<'r> Channels<'r> {
    pub(crate) fn new(record: &'r TargetRecord, target: &Target) -> Self {
        let catalogs = record.images.iter().filter(|(place, _)| is_in(place, target));
        let content = |(place, image): (&'r Destination, &'r mirror_plan::RecordedImage)| {
            Some((place, image.details.as_ref()?.catalog.as_ref()?))
        };
        Self(catalogs.filter_map(content).collect())
    }

    /// A channel of a catalog at the target that has the bundle and of which it is not requested:
    /// bundle, channel, catalog.
    pub(crate) fn stays_in(
        &self,
        of: &BundleUse,
        requested: &[CatalogContent],
    ) -> Option<(String, String, String)> {
        let is_requested = |channel: &str| {
            let packages = requested.iter().filter_map(|content| content.packages.get(&of.package));
            let mut channels = packages.filter_map(|package| package.channels.get(channel));
            channels.any(|channel| channel.bundles.contains(&of.bundle))
        };
        self.0.iter().find_map(|(place, content)| {
            let package = content.packages.get(&of.package)?;
            let mut holding =
                package.channels.iter().filter(|(_, c)| c.bundles.contains(&of.bundle));
            let (channel, _) = holding.find(|(name, _)| !is_requested(name))?;
            Some((of.bundle.clone(), channel.clone(), place.to_string()))
        })
    }
}

/// A warning for each channel that keeps bundles and loses the newest.
pub(crate) fn lost_heads(
    record: &TargetRecord,
    target: &Target,
    deleted: &BTreeSet<BundleUse>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (place, content) in Channels::new(record, target).0 {
        for (package, name, channel) in channels(content) {
            let goes = |bundle: &String| is_deleted(deleted, package, bundle);
            let Some(head) = channel.head.as_ref().filter(|head| goes(head)) else { continue };
            let left = channel.bundles.iter().filter(|bundle| !goes(bundle)).count();
            if left > 0 {
                warnings.push(format!(
                    "the channel {name} of {package} in {place} loses its head {head}, and keeps {left} older"
                ));
            }
        }
    }
    warnings
}

fn channels(content: &CatalogContent) -> impl Iterator<Item = (&String, &String, &ChannelContent)> {
    content.packages.iter().flat_map(|(package, content)| {
        content.channels.iter().map(move |(name, channel)| (package, name, channel))
    })
}

fn is_deleted(deleted: &BTreeSet<BundleUse>, package: &str, bundle: &str) -> bool {
    // A set of pairs is not searched by references; packages have few deleted bundles.
    deleted.iter().any(|of| of.package == package && of.bundle == bundle)
}

/// A catalog at the target that offers bundles which are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowed {
    pub place: Destination,
    /// The catalog that it was selected from.
    pub source: String,
    pub bundles: BTreeSet<BundleUse>,
    /// An `operators` entry that selects what is left, as YAML below `mirror:`.
    pub operators: String,
}

/// The catalogs that offer deleted bundles, each with a configuration that selects the rest.
pub fn narrowed(
    record: &TargetRecord,
    target: &Target,
    deleted: &BTreeSet<BundleUse>,
    going: &BTreeSet<Destination>,
) -> Vec<Narrowed> {
    let mut found = Vec::new();
    for (place, content) in Channels::new(record, target).0 {
        if going.contains(place) {
            continue;
        }
        let mut offered = BTreeSet::new();
        for (package, _, channel) in channels(content) {
            for bundle in channel.bundles.iter().filter(|b| is_deleted(deleted, package, b)) {
                offered.insert(BundleUse { package: package.clone(), bundle: bundle.clone() });
            }
        }
        if !offered.is_empty() {
            let operators = operators(content, deleted);
            let (place, source) = (place.clone(), content.source.clone());
            found.push(Narrowed { place, source, bundles: offered, operators });
        }
    }
    found
}

/// An `operators` section that selects what is left of a catalog.
fn operators(content: &CatalogContent, deleted: &BTreeSet<BundleUse>) -> String {
    let mut text = format!("  operators:\n  - catalog: {}\n    packages:\n", content.source);
    for (name, package) in &content.packages {
        let left: BTreeMap<&String, Vec<&String>> = package
            .channels
            .iter()
            .map(|(channel, content)| {
                let left = content.bundles.iter().filter(|b| !is_deleted(deleted, name, b));
                (channel, left.collect::<Vec<_>>())
            })
            .filter(|(_, left)| !left.is_empty())
            .collect();
        if left.is_empty() {
            continue;
        }
        text.push_str(&format!("    - name: {name}\n"));
        // A package without its default channel needs another.
        if !left.contains_key(&package.default_channel)
            && let Some((first, _)) = left.first_key_value()
        {
            text.push_str(&format!("      defaultChannel: {first}\n"));
        }
        text.push_str("      channels:\n");
        for (channel, bundles) in left {
            text.push_str(&format!("      - name: {channel}\n"));
            if let Some((lowest, highest)) = bounds(package, &bundles) {
                text.push_str(&format!("        minVersion: {lowest:?}\n"));
                text.push_str(&format!("        maxVersion: {highest:?}\n"));
            }
        }
    }
    text
}

/// The lowest and the highest version of these bundles.
fn bounds(package: &PackageContent, bundles: &[&String]) -> Option<(String, String)> {
    let versions = bundles.iter().filter_map(|bundle| package.versions.get(*bundle));
    let mut versions: Vec<image_set::PackageVersion> =
        versions.filter_map(|text| image_set::PackageVersion::parse(text)).collect();
    versions.sort_by(|a, b| a.version().cmp(b.version()));
    let (lowest, highest) = (versions.first()?, versions.last()?);
    Some((lowest.to_string(), highest.to_string()))
}
