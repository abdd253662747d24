//! The image set configuration that mirrors back what was deleted.

use image_set::{
    AdditionalImage, EntryPosition, ImageSetConfiguration, ImageSource, Mirror, PlatformSection,
};
use mirror_plan::{Destination, Kind, Origin, Target};
use oci::{Digest, ImageRef, Platform, Repository};

/// An image that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    pub place: Destination,
    pub kind: Kind,
    pub origin: Origin,
    pub digest: Digest,
    /// The platforms that it was mirrored with; empty for all.
    pub platforms: Vec<Platform>,
}

/// The configuration, and the images that it cannot mirror back.
///
/// Every image is listed by its digest and with the name it had, whatever section it came from:
/// channels and catalogs may select something else by then.
pub fn undo(target: &Target, deleted: &[Deleted]) -> (ImageSetConfiguration, Vec<Destination>) {
    let mut mirror = Mirror::default();
    let mut lost = Vec::new();
    for image in deleted {
        if image.kind == Kind::Graph {
            mirror.platform.get_or_insert_with(PlatformSection::default).graph = true;
            continue;
        }
        let name = match &image.origin {
            Origin::Registry(origin) => {
                let digest = Some(image.digest);
                ImageSource::Registry(ImageRef { tag: None, digest, ..origin.clone() })
            }
            Origin::Layout(path) => ImageSource::Layout(path.clone()),
            Origin::Made(_) => {
                lost.push(image.place.clone());
                continue;
            }
        };
        let Some(repository) = below(&image.place.repository, target) else {
            lost.push(image.place.clone());
            continue;
        };
        mirror.additional_images.push(AdditionalImage {
            name,
            target_repo: Some(repository),
            target_tag: Some(image.place.tag.clone()),
            platforms: image.platforms.clone(),
            at: EntryPosition::default(),
        });
    }
    (ImageSetConfiguration { mirror, ..ImageSetConfiguration::default() }, lost)
}

/// A repository without the target's namespace.
fn below(repository: &Repository, target: &Target) -> Option<Repository> {
    match &target.namespace {
        None => Some(repository.clone()),
        Some(namespace) => {
            let rest = repository.as_str().strip_prefix(namespace.as_str())?;
            rest.strip_prefix('/')?.parse().ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_mirrored_back_by_digest_under_the_name_it_had() {
        let digest = Digest::of(b"x");
        let deleted = [
            Deleted {
                place: "ns/openshift/release:4.16.1-x86_64-api".parse().unwrap(),
                kind: Kind::ReleaseComponent,
                origin: Origin::Registry("quay.io/o/art:tag".parse().unwrap()),
                digest,
                platforms: Vec::new(),
            },
            Deleted {
                place: "ns/catalog:v1".parse().unwrap(),
                kind: Kind::Catalog,
                origin: Origin::Made("catalog/hash".parse().unwrap()),
                digest,
                platforms: Vec::new(),
            },
        ];
        let (set, lost) = undo(&"r.io/ns".parse().unwrap(), &deleted);
        let text = set.to_yaml().unwrap();
        let again = image_set::parse_image_set("undo.yaml", &text).unwrap();
        assert_eq!(again, set);
        let image = &again.mirror.additional_images[0];
        assert_eq!(image.name.to_string(), format!("quay.io/o/art@{digest}"));
        assert_eq!(image.target_repo.as_ref().unwrap().as_str(), "openshift/release");
        assert_eq!(image.target_tag.as_ref().unwrap().as_str(), "4.16.1-x86_64-api");
        assert_eq!(lost, ["ns/catalog:v1".parse().unwrap()]);
    }
}
