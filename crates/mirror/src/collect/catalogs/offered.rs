//! What a selection of a catalog offers to clusters, for the record of the target.

use std::collections::BTreeSet;

use catalog::{Filtered, KeptChannel, KeptPackage};
use mirror_plan::{CatalogContent, ChannelContent, PackageContent};

/// Packages, channels and bundles of a selection from the catalog `source`.
pub(crate) fn offered(filtered: &Filtered<'_, '_>, source: &str) -> CatalogContent {
    let packages = filtered.packages.iter();
    let packages = packages.map(|kept| (kept.package.name.to_string(), package(kept)));
    CatalogContent { source: source.to_owned(), packages: packages.collect() }
}

fn package(kept: &KeptPackage<'_, '_>) -> PackageContent {
    let versions = kept.bundles().into_iter().filter_map(|bundle| {
        Some((bundle.name.to_string(), kept.package.version_of(&bundle.name)?.to_string()))
    });
    PackageContent {
        default_channel: kept.default_channel.to_owned(),
        channels: kept
            .channels
            .iter()
            .map(|kept| (kept.channel.name.to_string(), channel(kept)))
            .collect(),
        versions: versions.collect(),
    }
}

fn channel(kept: &KeptChannel<'_, '_>) -> ChannelContent {
    let bundles: BTreeSet<String> = kept.entries().map(|entry| entry.name.to_string()).collect();
    let passed: BTreeSet<&str> = kept
        .entries()
        .flat_map(|entry| entry.replaces.iter().chain(&entry.skips).map(|name| &**name))
        .collect();
    let mut heads = bundles.iter().filter(|name| !passed.contains(name.as_str()));
    let head = match (heads.next(), heads.next()) {
        (Some(head), None) => Some(head.clone()),
        _ => None,
    };
    ChannelContent { head, bundles }
}
