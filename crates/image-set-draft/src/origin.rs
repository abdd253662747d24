//! What the catalog of a cluster is called where it comes from.

use std::collections::BTreeSet;

use cluster_inventory::{Inventory, Subscription};
use oci::ImageRef;
use release::channel::Minor;

/// Where Red Hat's catalogs are, and what they are called.
const RED_HAT: &str = "registry.redhat.io/redhat";
const INDEXES: [&str; 4] = [
    "redhat-operator-index",
    "certified-operator-index",
    "community-operator-index",
    "redhat-marketplace-index",
];
/// The CatalogSources that every cluster starts with, and their catalogs.
const DEFAULT_SOURCES: [(&str, &str); 4] = [
    ("redhat-operators", "redhat-operator-index"),
    ("certified-operators", "certified-operator-index"),
    ("community-operators", "community-operator-index"),
    ("redhat-marketplace", "redhat-marketplace-index"),
];

/// Where a catalog is found on the connected side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Known {
        catalog: String,
        why: String,
    },
    /// An administrator of the site has to add it.
    Unknown {
        why: String,
    },
}

/// The catalog that a subscription is served from. `minor` is the minor version that the cluster is
/// to have, where that is known.
pub(crate) fn origin(
    subscription: &Subscription,
    inventory: &Inventory,
    minor: Option<Minor>,
) -> Origin {
    let Subscription { source, source_namespace, .. } = subscription;
    let held = inventory
        .catalog_sources
        .iter()
        .find(|held| held.name == *source && held.namespace == *source_namespace);
    let text = held.and_then(|held| held.image.as_deref());
    let image: Option<ImageRef> = text.and_then(|text| text.parse().ok());
    if let Some(image) = &image {
        let names = names_before(image, inventory);
        if let Some(index) = names.iter().find_map(|name| red_hat_index(name)) {
            return red_hat(index, minor, image_tag(image), "from its mirror set");
        }
        if let Some(index) = red_hat_index(&image.name()) {
            return red_hat(index, minor, image_tag(image), "its image has that name");
        }
        return elsewhere(image, &names, inventory);
    }
    let default = DEFAULT_SOURCES.iter().find(|(name, _)| name == source);
    match (default, held) {
        (Some((_, index)), None) => {
            red_hat(index, minor, None, "every cluster has a CatalogSource of that name")
        }
        (_, Some(_)) => {
            Origin::Unknown { why: format!("the CatalogSource {source} does not name an image") }
        }
        (None, None) => {
            Origin::Unknown { why: format!("the inventory has no CatalogSource {source}") }
        }
    }
}

/// One of Red Hat's catalogs, for the minor version that the cluster is to have.
fn red_hat(index: &str, minor: Option<Minor>, tag: Option<String>, why: &str) -> Origin {
    match minor.map(|minor| format!("v{minor}")).or(tag) {
        Some(tag) => {
            let (catalog, why) = (format!("{RED_HAT}/{index}:{tag}"), why.to_owned());
            Origin::Known { catalog, why }
        }
        None => Origin::Unknown {
            why: format!("it is {RED_HAT}/{index}, but for which minor version is not known"),
        },
    }
}

/// A catalog that is not Red Hat's.
fn elsewhere(image: &ImageRef, names: &BTreeSet<String>, inventory: &Inventory) -> Origin {
    let Some(tag) = image_tag(image) else {
        let why = format!("{image} has no tag, and a mirrored catalog has a digest of its own");
        return Origin::Unknown { why };
    };
    let known = |name: &str, why: &str| Origin::Known {
        catalog: format!("{name}:{tag}"),
        why: why.to_owned(),
    };
    let mut names = names.iter();
    match (names.next(), names.next()) {
        (Some(name), None) => known(name, "from its mirror set"),
        (Some(one), Some(other)) => Origin::Unknown {
            why: format!("{image} may be a mirror of {one} or of {other}: mirror sets name both"),
        },
        (None, _) if is_mirror(image, inventory) => Origin::Unknown {
            why: format!("{image} is in a registry of mirrors, and no mirror set names its source"),
        },
        (None, _) => known(&image.name(), "the cluster has it from there"),
    }
}

fn image_tag(image: &ImageRef) -> Option<String> {
    image.tag.as_ref().map(ToString::to_string)
}

fn red_hat_index(name: &str) -> Option<&'static str> {
    let last = name.rsplit('/').next()?;
    // Where paths may not be long, parts are joined by `-`.
    INDEXES.into_iter().find(|index| {
        last.strip_suffix(index).is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
    })
}

fn all_mirrors(inventory: &Inventory) -> impl Iterator<Item = (&str, &str)> {
    let entries = inventory.mirror_sets.iter().flat_map(|set| &set.mirrors);
    entries.flat_map(|entry| {
        entry.mirrors.iter().map(|mirror| (entry.source.as_str(), mirror.as_str()))
    })
}

/// What the image may have been called before it was mirrored: the nearest mirrors decide.
fn names_before(image: &ImageRef, inventory: &Inventory) -> BTreeSet<String> {
    let name = image.name();
    let below = |mirror: &str| {
        let rest = name.strip_prefix(mirror)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
    };
    let found: Vec<(usize, String)> = all_mirrors(inventory)
        // `*.redhat.io` does not determine which.
        .filter(|(source, _)| !source.contains('*'))
        .filter_map(|(source, mirror)| Some((mirror.len(), format!("{source}{}", below(mirror)?))))
        .collect();
    let nearest = found.iter().map(|(length, _)| *length).max();
    found.into_iter().filter(|(length, _)| Some(*length) == nearest).map(|found| found.1).collect()
}

/// Whether the registry of the image is one that mirrors are in.
fn is_mirror(image: &ImageRef, inventory: &Inventory) -> bool {
    let host = image.registry.as_str();
    all_mirrors(inventory).any(|(_, mirror)| mirror.split('/').next() == Some(host))
}

#[cfg(test)]
mod tests {
    use cluster_inventory::{CatalogSource, Mirror, MirrorSet};

    use super::*;

    fn subscription() -> Subscription {
        Subscription {
            namespace: "ns".into(),
            name: "s".into(),
            package: "p".into(),
            channel: None,
            source: "cat".into(),
            source_namespace: "openshift-marketplace".into(),
            installed_csv: None,
            current_csv: None,
            approval: None,
        }
    }

    fn inventory(image: Option<&str>, mirrors: &[(&str, &str)]) -> Inventory {
        let mirrors = mirrors.iter().map(|(source, mirror)| Mirror {
            source: (*source).to_owned(),
            mirrors: vec![(*mirror).to_owned()],
        });
        Inventory {
            catalog_sources: vec![CatalogSource {
                namespace: "openshift-marketplace".into(),
                name: "cat".into(),
                image: image.map(str::to_owned),
            }],
            mirror_sets: vec![MirrorSet {
                kind: "ImageTagMirrorSet".into(),
                name: "m".into(),
                mirrors: mirrors.collect(),
            }],
            ..Inventory::default()
        }
    }

    fn found(image: &str, mirrors: &[(&str, &str)]) -> Result<String, String> {
        let minor = Some(Minor { major: 4, minor: 18 });
        match origin(&subscription(), &inventory(Some(image), mirrors), minor) {
            Origin::Known { catalog, .. } => Ok(catalog),
            Origin::Unknown { why } => Err(why),
        }
    }

    const RELEASES: (&str, &str) = ("quay.io/openshift-release-dev", "reg:5000/ocp/openshift");

    #[test]
    fn red_hats_catalogs_are_known_by_their_names_and_follow_the_minor_version() {
        let expected = Ok("registry.redhat.io/redhat/redhat-operator-index:v4.18".to_owned());
        for image in [
            "reg:5000/ocp/redhat/redhat-operator-index:v4.16",
            "reg:5000/ocp-redhat-redhat-operator-index:v4.16",
            "registry.redhat.io/redhat/redhat-operator-index:v4.16",
        ] {
            assert_eq!(found(image, &[RELEASES]), expected, "{image}");
        }
        let mut by_default = subscription();
        by_default.source = "community-operators".into();
        let minor = Some(Minor { major: 4, minor: 18 });
        let known = origin(&by_default, &inventory(None, &[]), minor);
        assert!(matches!(known, Origin::Known { catalog, .. }
            if catalog == "registry.redhat.io/redhat/community-operator-index:v4.18"));
    }

    #[test]
    fn mirror_sets_lead_back_to_other_catalogs() {
        let mirrors = [RELEASES, ("quay.io/org", "reg:5000/ocp/org"), ("quay.io", "reg:5000/ocp")];
        assert_eq!(
            found("reg:5000/ocp/org/my-catalog:v1", &mirrors),
            Ok("quay.io/org/my-catalog:v1".into())
        );
        // A name that only begins alike is another one.
        assert_eq!(
            found("reg:5000/ocp/organisation/c:v1", &mirrors),
            Ok("quay.io/organisation/c:v1".into())
        );
        assert_eq!(found("ghcr.io/org/c:v1", &mirrors), Ok("ghcr.io/org/c:v1".into()));
    }

    #[test]
    fn what_is_unknown_is_not_guessed() {
        let both = [("quay.io/org", "reg:5000/org"), ("ghcr.io/org", "reg:5000/org")];
        let why = found("reg:5000/org/c:v1", &both).unwrap_err();
        assert!(why.contains("ghcr.io/org/c") && why.contains("quay.io/org/c"), "{why}");
        let why = found("reg:5000/x/c:v1", &[RELEASES]).unwrap_err();
        assert!(why.contains("no mirror set names its source"), "{why}");
        let digest = format!("quay.io/a/c@sha256:{}", "0".repeat(64));
        assert!(found(&digest, &[]).unwrap_err().contains("has no tag"));
        assert!(found("not an image", &[]).unwrap_err().contains("does not name an image"));
        let none = origin(&subscription(), &Inventory::default(), None);
        assert!(
            matches!(none, Origin::Unknown { why } if why.contains("has no CatalogSource cat"))
        );
    }
}
