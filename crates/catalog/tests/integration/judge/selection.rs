//! Random selections from a catalog, as a configuration would have them.

use std::collections::BTreeSet;

use catalog::Catalog;
use image_set::{Operator, parse_image_set};
use proptest::prelude::*;

/// A selection from `catalog`, as a configuration would have it.
pub(super) fn selection(catalog: &Catalog<'_>) -> impl Strategy<Value = String> + use<> {
    let packages: Vec<(String, Vec<String>, Vec<String>)> = catalog
        .packages
        .values()
        .map(|package| {
            let channels = package.channels.keys().map(|name| name.to_string()).collect();
            let versions = package.bundles.values().filter_map(|bundle| bundle.version.as_ref());
            (package.name.to_string(), channels, versions.map(|v| v.to_string()).collect())
        })
        .collect();
    let package = proptest::sample::select(packages).prop_flat_map(|(name, channels, versions)| {
        let bound = proptest::option::weighted(0.4, proptest::sample::select(versions));
        let count = channels.len();
        (
            Just(name),
            proptest::sample::subsequence(channels.clone(), 0..=count),
            proptest::option::of(proptest::sample::select(channels)),
            bound.clone(),
            bound,
            proptest::option::weighted(0.2, 0..4_u32),
        )
    });
    let full = proptest::bool::weighted(0.1);
    let dependencies = proptest::bool::weighted(0.3);
    (proptest::collection::vec(package, 0..4), full, dependencies).prop_map(
        |(packages, full, dependencies)| {
            let mut yaml = format!(
                "kind: ImageSetConfiguration\nmirror:\n  operators:\n  - catalog: q.io/c:1\n    \
                 full: {full}\n    includeDependencies: {dependencies}\n    packages:\n"
            );
            let mut seen = BTreeSet::new();
            for (name, channels, default, min, max, previous) in packages {
                if !seen.insert(name.clone()) {
                    continue;
                }
                yaml.push_str(&format!("    - name: {name:?}\n"));
                let default = default.filter(|it| channels.is_empty() || channels.contains(it));
                if let Some(default) = default {
                    yaml.push_str(&format!("      defaultChannel: {default:?}\n"));
                }
                let ordered = |min: &String, max: &String| {
                    let parse = |text: &String| semver::Version::parse(text).unwrap();
                    parse(min).cmp_precedence(&parse(max)).is_le()
                };
                let (min, max) = match (min, max) {
                    (Some(min), Some(max)) if !ordered(&min, &max) => (Some(max), Some(min)),
                    bounds => bounds,
                };
                if let Some(count) = previous.filter(|_| min.is_none() && max.is_none()) {
                    yaml.push_str(&format!("      previousVersions: {count}\n"));
                }
                for (key, bound) in [("minVersion", min), ("maxVersion", max)] {
                    if let Some(bound) = bound {
                        yaml.push_str(&format!("      {key}: {bound:?}\n"));
                    }
                }
                if !channels.is_empty() {
                    yaml.push_str("      channels:\n");
                }
                for channel in channels {
                    yaml.push_str(&format!("      - name: {channel:?}\n"));
                }
            }
            yaml
        },
    )
}

/// The operators section of a configuration.
pub(super) fn operator(yaml: &str) -> Operator {
    let mut set =
        parse_image_set("isc.yaml", yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"));
    set.mirror.operators.remove(0)
}
