//! What the configuration selects, under the names it gets. Pure.

use image_set::{AdditionalImage, ImageSetConfiguration, ImageSource};
use mirror_plan::{
    Destination, Exit, Kind, Naming, Origin, Wanted, blocked_by, collisions, deduplicated,
};
use regex::Regex;

use crate::report::Failure;

/// Images to mirror, and what was kept out.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    /// With the place each gets at the target; without a target, below any registry.
    pub(crate) named: Vec<(Wanted, Destination)>,
    pub(crate) warnings: Vec<String>,
}

/// Selects and names. Two origins with one name are an error: one would
/// silently overwrite the other.
pub(crate) fn select(
    set: &ImageSetConfiguration,
    naming: Option<&Naming>,
) -> Result<Selected, Vec<Failure>> {
    let mut selected = Selected::default();
    let mut failures = Vec::new();
    let patterns: Vec<Regex> =
        set.mirror.blocked_images.iter().map(|blocked| blocked.pattern.clone()).collect();
    for wanted in set.mirror.additional_images.iter().map(additional) {
        let named = match naming {
            Some(naming) => naming.place(&wanted),
            None => Destination::of(&wanted),
        };
        let destination = match named {
            Ok(destination) => destination,
            Err(error) => {
                failures.push(Failure::new(wanted.kind.exit(), crate::chain::chain(&error)));
                continue;
            }
        };
        if let Some(pattern) = blocked_by(&wanted.origin, &destination, &patterns) {
            let text =
                format!("{} is left out: blockedImages has {:?}", wanted.origin, pattern.as_str());
            selected.warnings.push(text);
            continue;
        }
        selected.named.push((wanted, destination));
    }
    for collision in collisions(&selected.named) {
        failures.push(Failure::new(Exit::ADDITIONAL, collision.to_string()));
    }
    selected.named = deduplicated(selected.named);
    if failures.is_empty() { Ok(selected) } else { Err(failures) }
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
