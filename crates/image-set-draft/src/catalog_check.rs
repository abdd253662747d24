//! Whether the catalogs of a draft have what the cluster needs of them.

use catalog::upgrade::{PathQuery, find_paths};
use catalog::{Catalog, Package, nearest};
use semver::Version;

use crate::operators::{CatalogDraft, PackageDraft};

/// What is wrong with a draft, now that its catalog was opened. Each is for a person to decide.
pub fn check(draft: &CatalogDraft, catalog: &Catalog<'_>) -> Vec<String> {
    let place = draft.name.as_deref().unwrap_or("the catalog");
    let packages = draft.packages.iter();
    packages.flat_map(|package| check_package(package, place, catalog)).collect()
}

fn check_package(draft: &PackageDraft, place: &str, catalog: &Catalog<'_>) -> Vec<String> {
    let name = &draft.name;
    let Some(package) = catalog.packages.get(name.as_str()) else {
        let near = nearest(name, catalog.packages.keys().map(|name| &**name));
        let near = match near.is_empty() {
            true => "It may have been retired.".to_owned(),
            false => format!("The nearest names are {}.", near.join(", ")),
        };
        return vec![format!("{place} has no package {name}. {near}")];
    };
    let mut found = Vec::new();
    let all: Vec<(&str, Option<&Version>)> = match draft.channels.is_empty() {
        true => vec![(package.default_channel().unwrap_or_default(), draft.min_version.as_ref())],
        false => draft.channels.iter().map(|(name, min)| (name.as_str(), min.as_ref())).collect(),
    };
    for (channel, installed) in all {
        found.extend(check_channel(package, place, channel, installed));
    }
    found
}

fn check_channel(
    package: &Package<'_>,
    place: &str,
    channel: &str,
    installed: Option<&Version>,
) -> Vec<String> {
    let name = &package.name;
    if !package.channels.contains_key(channel) {
        let known: Vec<&str> = package.channels.keys().map(|name| &**name).collect();
        let default = match package.default_channel() {
            Some(default) => format!(", of which {default} is the default"),
            None => String::new(),
        };
        return vec![format!(
            "{name} has no channel {channel} in {place}. It has {}{default}: choose one, and set the Subscription to it.",
            known.join(", ")
        )];
    }
    let mut found = Vec::new();
    if let Some(why) = deprecation(package, channel) {
        found.push(format!("The channel {channel} of {name} is deprecated: {why}"));
    }
    if let Some(installed) = installed {
        // A head that is installed has no update, and needs none.
        if let Err(error) = find_paths(package, channel, &PathQuery::From(installed.clone())) {
            found.push(format!(
                "{name} {installed} cannot be updated with {place}: {error}. A catalog of a minor version between may be needed first."
            ));
        }
    }
    found
}

fn deprecation(package: &Package<'_>, channel: &str) -> Option<String> {
    let entries = &package.deprecations.as_ref()?.entries;
    let found = entries.iter().find(|entry| match &*entry.schema {
        "olm.package" => true,
        "olm.channel" => &*entry.name == channel,
        _ => false,
    });
    found.map(|entry| entry.message.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use catalog::Files;

    use super::*;

    const CATALOG: &str = r#"{"schema":"olm.package","name":"odf","defaultChannel":"stable-4.18"}
{"schema":"olm.channel","package":"odf","name":"stable-4.18","entries":[{"name":"odf.v4.18.1","skipRange":">=4.17.0 <4.18.1"}]}
{"schema":"olm.channel","package":"odf","name":"stable-4.17","entries":[{"name":"odf.v4.17.3"}]}
{"schema":"olm.bundle","package":"odf","name":"odf.v4.18.1","image":"q.io/x:1","properties":[{"type":"olm.package","value":{"packageName":"odf","version":"4.18.1"}}]}
{"schema":"olm.bundle","package":"odf","name":"odf.v4.17.3","image":"q.io/x:2","properties":[{"type":"olm.package","value":{"packageName":"odf","version":"4.17.3"}}]}
{"schema":"olm.deprecations","package":"odf","entries":[{"reference":{"schema":"olm.channel","name":"stable-4.17"},"message":"Go to 4.18."}]}
"#;

    fn found(package: &str, channel: &str, installed: Option<&str>) -> String {
        let min: Option<Version> = installed.map(|text| text.parse().unwrap());
        let draft = CatalogDraft {
            name: Some("a.io/index:v4.18".into()),
            reason: String::new(),
            packages: vec![PackageDraft {
                name: package.into(),
                channels: match channel {
                    "" => BTreeMap::new(),
                    channel => [(channel.to_owned(), min.clone())].into(),
                },
                min_version: min.filter(|_| channel.is_empty()),
                reasons: Vec::new(),
            }],
        };
        let files = Files::read([("c.json", CATALOG.as_bytes())]).unwrap();
        check(&draft, &Catalog::load(&files).unwrap()).join("\n")
    }

    #[test]
    fn a_complete_catalog_has_no_findings() {
        for (channel, installed) in [
            ("stable-4.18", Some("4.17.3")),
            // The head itself, nothing at all, and a channel that is left to the catalog.
            ("stable-4.18", Some("4.18.1")),
            ("stable-4.18", None),
            ("", Some("4.17.3")),
        ] {
            assert_eq!(found("odf", channel, installed), "", "{channel} {installed:?}");
        }
    }

    #[test]
    fn what_it_does_not_have_is_reported_with_what_it_has() {
        for (package, channel, installed, expected) in [
            ("ofd", "stable-4.18", None, "has no package ofd. The nearest names are odf."),
            ("quay", "stable-4.18", None, "has no package quay. It may have been retired."),
            ("odf", "stable-4.16", None, "stable-4.17, stable-4.18, of which stable-4.18 is"),
            ("odf", "stable-4.18", Some("4.16.0"), "odf 4.16.0 cannot be updated with a.io/index"),
            ("odf", "stable-4.17", Some("4.17.3"), "stable-4.17 of odf is deprecated: Go to 4.18."),
        ] {
            let message = found(package, channel, installed);
            assert!(message.contains(expected), "{expected} is not in {message}");
        }
    }
}
