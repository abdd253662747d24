//! What the configuration selects, under the names it gets. Pure.

use std::collections::{BTreeMap, BTreeSet};

use image_set::{AdditionalImage, ImageSetConfiguration, ImageSource};
use mirror_plan::{
    Collision, Destination, Exit, Kind, Naming, Origin, Plan, PlannedImage, Wanted, blocked_by,
    collisions, deduplicated,
};
use regex::Regex;

use crate::report::Failure;
use crate::results::Lost;

/// Images to mirror, and what was kept out.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    /// With the place each gets at the target; without a target, below any registry.
    pub(crate) named: Vec<(Wanted, Destination)>,
    pub(crate) warnings: Vec<String>,
    /// Images that `blockedImages` keeps out.
    pub(crate) blocked: Vec<(Wanted, Destination)>,
    /// Images of operators and charts whose names others have.
    pub(crate) lost: Vec<Lost>,
    /// Images of operators and charts that cannot have a name.
    pub(crate) failures: Vec<Failure>,
}

/// Selects and names: what the configuration lists itself, and what its other
/// sections were `collected` to. Two origins with one name are an error: one
/// would silently overwrite the other. What users wrote they can correct;
/// for operators and charts they cannot, so of those only one is skipped.
pub(crate) fn select(
    set: &ImageSetConfiguration,
    collected: Vec<Wanted>,
    naming: Option<&Naming>,
) -> Result<Selected, Vec<Failure>> {
    let mut selected = Selected::default();
    let mut failures = Vec::new();
    let patterns: Vec<Regex> =
        set.mirror.blocked_images.iter().map(|blocked| blocked.pattern.clone()).collect();
    let listed = set.mirror.additional_images.iter().map(additional);
    for wanted in collected.into_iter().chain(listed) {
        let named = match naming {
            Some(naming) => naming.place(&wanted),
            None => Destination::of(&wanted),
        };
        let destination = match named {
            Ok(destination) => destination,
            Err(error) => {
                let failure = Failure::new(wanted.kind.exit(), crate::error_chain::chain(&error));
                if is_indirect(&wanted) { &mut selected.failures } else { &mut failures }
                    .push(failure);
                continue;
            }
        };
        if let Some(pattern) = blocked_by(&wanted.origin, &destination, &patterns) {
            let text =
                format!("{} is left out: blockedImages has {:?}", wanted.origin, pattern.as_str());
            selected.warnings.push(text);
            selected.blocked.push((wanted, destination));
            continue;
        }
        selected.named.push((wanted, destination));
    }
    for collision in collisions(&selected.named) {
        let claims = |(wanted, name): &(Wanted, Destination)| {
            *name == collision.destination && !is_indirect(wanted)
        };
        if selected.named.iter().any(claims) {
            let exit = collision_exit(&selected.named, &collision);
            failures.push(Failure::new(exit, collision.to_string()));
        } else {
            selected.give_up(&collision);
        }
    }
    selected.named = deduplicated(selected.named);
    if failures.is_empty() { Ok(selected) } else { Err(failures) }
}

/// Whether a bundle or a chart selects the image, and not the configuration.
fn is_indirect(wanted: &Wanted) -> bool {
    matches!(wanted.kind, Kind::Bundle | Kind::RelatedImage | Kind::Helm | Kind::Chart)
}

impl Selected {
    /// The first of several images gets the name; the others are lost.
    fn give_up(&mut self, collision: &Collision<Destination>) {
        let Some(first) = collision.origins.first() else { return };
        let beaten = |(wanted, name): &mut (Wanted, Destination)| {
            *name == collision.destination && wanted.origin != *first
        };
        for (wanted, name) in self.named.extract_if(.., beaten) {
            let why = format!("{first} is stored as {name}, and only one image can be");
            self.lost.push((wanted, name, why.into()));
        }
    }
}

/// The bits of all kinds that collide.
fn collision_exit(named: &[(Wanted, Destination)], collision: &Collision<Destination>) -> Exit {
    let colliding = named.iter().filter(|(_, destination)| *destination == collision.destination);
    Exit(colliding.fold(0, |bits, (wanted, _)| bits | wanted.kind.exit().0))
}

/// Every name that an origin gets. Releases share components, so that one image is stored under
/// many; only those are kept here, as most images have one name.
#[derive(Debug, Default)]
pub(crate) struct SharedNames(BTreeMap<Origin, BTreeSet<Destination>>);

impl SharedNames {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut by_origin: Vec<&PlannedImage> = plan.images.iter().collect();
        by_origin.sort_by_key(|image| &image.origin);
        let same = by_origin.chunk_by(|a, b| a.origin == b.origin);
        let shared = same.filter(|images| images.len() > 1).map(|images| {
            let names = images.iter().map(|image| image.destination.clone()).collect();
            (images[0].origin.clone(), names)
        });
        Self(shared.collect())
    }

    /// The names that the origin of an image gets.
    pub(crate) fn names(&self, image: &PlannedImage) -> BTreeSet<Destination> {
        let shared = self.0.get(&image.origin).cloned();
        shared.unwrap_or_else(|| BTreeSet::from([image.destination.clone()]))
    }
}

fn additional(image: &AdditionalImage) -> Wanted {
    Wanted {
        kind: Kind::Additional,
        origin: match &image.name {
            ImageSource::Registry(name) => Origin::Registry(name.clone()),
            ImageSource::Layout(path) => Origin::Layout(path.clone()),
        },
        target_repository: image.target_repo.clone(),
        target_tag: image.target_tag.clone(),
        platforms: image.platforms.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(kind: Kind, image: &str) -> Wanted {
        Wanted {
            kind,
            origin: Origin::Registry(image.parse().unwrap()),
            target_repository: None,
            target_tag: None,
            platforms: Vec::new(),
        }
    }

    #[test]
    fn of_operators_only_what_has_the_name_of_another_is_given_up() {
        let collected = vec![
            wanted(Kind::RelatedImage, "quay.io/a/b:1"),
            wanted(Kind::RelatedImage, "ghcr.io/a/b:1"),
            wanted(Kind::Bundle, "ghcr.io/a/c:1"),
        ];
        let set = ImageSetConfiguration::default();
        let selected = select(&set, collected, None).unwrap();
        let kept: Vec<String> =
            selected.named.iter().map(|(wanted, _)| wanted.origin.to_string()).collect();
        assert_eq!(kept, ["ghcr.io/a/b:1", "ghcr.io/a/c:1"]);
        let [(lost, name, why)] = &selected.lost[..] else { panic!("{:?}", selected.lost) };
        assert_eq!(
            (lost.origin.to_string(), name.to_string()),
            ("quay.io/a/b:1".into(), "a/b:1".into())
        );
        assert_eq!(why.text, "ghcr.io/a/b:1 is stored as a/b:1, and only one image can be");
    }

    #[test]
    fn what_users_can_correct_is_an_error() {
        let collected = vec![
            wanted(Kind::RelatedImage, "quay.io/a/b:1"),
            wanted(Kind::Additional, "ghcr.io/a/b:1"),
        ];
        let failures = select(&ImageSetConfiguration::default(), collected, None).unwrap_err();
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].exit, Exit(4 | 8));
    }
}
