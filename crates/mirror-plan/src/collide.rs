//! Images that would overwrite each other, and images requested twice.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use oci::{Digest, Platform};

use crate::{Kind, Origin, Wanted};

/// Different images that would get one name `N`: a [`crate::Destination`], or a
/// whole [`oci::ImageRef`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision<N> {
    pub destination: N,
    /// Two or more, in order.
    pub origins: Vec<Origin>,
    /// What they are mirrored as; decides what can be done about it.
    pub kinds: BTreeSet<Kind>,
}

impl<N: fmt::Display> fmt::Display for Collision<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, origin) in self.origins.iter().enumerate() {
            match index {
                0 => write!(f, "{origin}")?,
                _ => write!(f, " and {origin}")?,
            }
        }
        let all = if self.origins.len() == 2 { "both" } else { "all" };
        write!(f, " would {all} be stored as {}: {}", self.destination, self.advice())
    }
}

impl<N> Collision<N> {
    /// How the images get different names, by what can be configured for them.
    fn advice(&self) -> &'static str {
        let any = |kinds: &[Kind]| self.kinds.iter().any(|kind| kinds.contains(kind));
        // One side with a name of its own is enough.
        if any(&[Kind::Additional]) {
            "give each additional image its own targetRepo or targetTag"
        } else if any(&[Kind::Catalog]) {
            "give each catalog its own targetCatalog or targetTag"
        } else if any(&[Kind::ReleasePayload, Kind::ReleaseComponent, Kind::KubeVirt]) {
            "release images have fixed names; mirror these releases in separate runs, each to its own namespace of the target registry"
        } else {
            "select only one of them, or exclude the other with blockedImages"
        }
    }
}

impl<N: fmt::Debug + fmt::Display> std::error::Error for Collision<N> {}

/// Finds every name that several images claim.
///
/// Origins that state the same digest may share a name, as they are the same
/// bytes: operators refer to one image under several registries.
pub fn collisions<N: Ord + Clone>(named: &[(Wanted, N)]) -> Vec<Collision<N>> {
    let mut claims: BTreeMap<&N, (BTreeSet<&Origin>, BTreeSet<Kind>)> = BTreeMap::new();
    for (wanted, destination) in named {
        let (origins, kinds) = claims.entry(destination).or_default();
        origins.insert(&wanted.origin);
        kinds.insert(wanted.kind);
    }
    let mut found = Vec::new();
    for (destination, (origins, kinds)) in claims {
        if origins.len() > 1 && !same_bytes(&origins) {
            let origins = origins.into_iter().cloned().collect();
            found.push(Collision { destination: destination.clone(), origins, kinds });
        }
    }
    found
}

fn same_bytes(origins: &BTreeSet<&Origin>) -> bool {
    let digests: BTreeSet<Option<Digest>> = origins
        .iter()
        .map(|origin| match origin {
            Origin::Registry(image) => image.digest,
            Origin::Layout(_) | Origin::Made(_) => None,
        })
        .collect();
    digests.len() == 1 && !digests.contains(&None)
}

/// Each image once per name, in the order of name and origin. Where an image
/// was requested several times, all platforms requested are taken, and the kind
/// whose failure weighs most stays.
pub fn deduplicated<N: Ord>(named: Vec<(Wanted, N)>) -> Vec<(Wanted, N)> {
    let mut kept: BTreeMap<(N, Origin), Wanted> = BTreeMap::new();
    for (wanted, destination) in named {
        match kept.entry((destination, wanted.origin.clone())) {
            Entry::Vacant(entry) => {
                entry.insert(wanted);
            }
            Entry::Occupied(mut entry) => {
                let first = entry.get_mut();
                first.kind = first.kind.min(wanted.kind);
                first.platforms = union(&first.platforms, &wanted.platforms);
            }
        }
    }
    kept.into_iter().map(|((destination, _), wanted)| (wanted, destination)).collect()
}

/// Both lists of platforms together, sorted; an empty one means all platforms.
fn union(left: &[Platform], right: &[Platform]) -> Vec<Platform> {
    if left.is_empty() || right.is_empty() {
        return vec![];
    }
    let both: BTreeSet<_> = left.iter().chain(right).collect();
    both.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Destination;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn named(origin: &str, platforms: &[&str]) -> (Wanted, Destination) {
        let wanted = Wanted {
            kind: Kind::Additional,
            origin: Origin::Registry(origin.parse().unwrap()),
            target_repository: None,
            target_tag: None,
            platforms: platforms.iter().map(|text| text.parse().unwrap()).collect(),
        };
        let destination = Destination::of(&wanted).unwrap();
        (wanted, destination)
    }

    #[test]
    fn two_origins_with_one_name_are_both_named_with_a_remedy() {
        let images = [named("quay.io/a/b:1", &[]), named("docker.io/a/b:1", &[])];
        let found = collisions(&images);
        assert_eq!(found.len(), 1);
        let text = found[0].to_string();
        assert_eq!(
            text,
            "docker.io/a/b:1 and quay.io/a/b:1 would both be stored as a/b:1: \
             give each additional image its own targetRepo or targetTag"
        );
    }

    #[test]
    fn the_advice_names_only_what_can_be_configured() {
        let advice = |kind: Kind| {
            let of = |origin: &str| {
                let (wanted, name) = named(origin, &[]);
                (Wanted { kind, ..wanted }, name)
            };
            collisions(&[of("quay.io/a/b:1"), of("docker.io/a/b:1")])[0].to_string()
        };
        assert!(advice(Kind::Additional).contains("targetRepo or targetTag"));
        assert!(advice(Kind::Catalog).contains("targetCatalog or targetTag"));
        for kind in [Kind::ReleasePayload, Kind::ReleaseComponent, Kind::KubeVirt] {
            let text = advice(kind);
            assert!(!text.contains("targetRepo") && text.contains("separate runs"), "{text}");
        }
        assert!(advice(Kind::RelatedImage).contains("blockedImages"));
    }

    #[test]
    fn one_origin_twice_or_one_digest_under_two_registries_is_not_a_collision() {
        let digest = |host: &str| named(&format!("{host}/a/b@sha256:{HEX}"), &[]);
        assert_eq!(collisions(&[named("quay.io/a/b:1", &[]), named("quay.io/a/b:1", &[])]), []);
        assert_eq!(collisions(&[digest("quay.io"), digest("docker.io")]), []);
        assert_eq!(collisions(&[named("quay.io/a/b:1", &[]), named("quay.io/a/b:2", &[])]), []);
    }

    #[test]
    fn a_tag_collides_with_the_same_tag_pinned_to_a_digest() {
        let pinned = format!("quay.io/a/b:1@sha256:{HEX}");
        assert_eq!(collisions(&[named("quay.io/a/b:1", &[]), named(&pinned, &[])]).len(), 1);
    }

    #[test]
    fn an_image_requested_twice_is_selected_once_for_all_requested_platforms() {
        let arm = named("quay.io/a/b:1", &["linux/arm64"]);
        let amd = named("quay.io/a/b:1", &["linux/amd64"]);
        let all = named("quay.io/a/b:1", &[]);
        let both = deduplicated(vec![arm.clone(), amd, arm.clone()]);
        let both: Vec<_> = both[0].0.platforms.iter().map(ToString::to_string).collect();
        assert_eq!(both, ["linux/amd64", "linux/arm64"]);
        for order in [vec![arm.clone(), all.clone()], vec![all, arm]] {
            let merged = deduplicated(order);
            assert_eq!(merged.len(), 1);
            assert!(merged[0].0.platforms.is_empty());
        }
    }

    #[test]
    fn an_image_under_two_names_stays_two_and_the_heavier_kind_wins() {
        let (mut renamed, _) = named("quay.io/a/b:1", &[]);
        renamed.target_tag = Some("x".parse().unwrap());
        let renamed = (renamed.clone(), Destination::of(&renamed).unwrap());
        let (mut related, name) = named("quay.io/a/b:1", &[]);
        related.kind = Kind::RelatedImage;
        let kept = deduplicated(vec![renamed, named("quay.io/a/b:1", &[]), (related, name)]);
        let kept: Vec<_> = kept.iter().map(|(w, d)| (w.kind, d.to_string())).collect();
        assert_eq!(
            kept,
            [(Kind::RelatedImage, "a/b:1".into()), (Kind::Additional, "a/b:x".into())]
        );
    }
}
