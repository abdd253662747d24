//! A configuration in parts whose sizes are determined one by one. Pure.
//!
//! A part is a configuration of its own: the releases, one catalog, the images, the charts. What
//! changes in one part leaves the sizes of the others as they are.

use image_set::{ImageSetConfiguration, Mirror};
use oci::Digest;

/// Which part of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PartKind {
    Releases,
    /// By its place among the catalogs.
    Catalog(usize),
    Images,
    Charts,
}

/// A part, and the configuration that selects it alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) kind: PartKind,
    pub(crate) text: String,
}

impl Part {
    /// What sizes are kept under.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }
}

/// The parts that select something.
pub(crate) fn split(set: &ImageSetConfiguration) -> Result<Vec<Part>, String> {
    let Mirror { platform, operators, additional_images, helm, blocked_images, samples: _ } =
        &set.mirror;
    let empty = || Mirror { blocked_images: blocked_images.clone(), ..Mirror::default() };
    let mut parts = Vec::new();
    if platform.is_some() {
        parts.push((PartKind::Releases, Mirror { platform: platform.clone(), ..empty() }));
    }
    for (place, operator) in operators.iter().enumerate() {
        let operators = vec![operator.clone()];
        parts.push((PartKind::Catalog(place), Mirror { operators, ..empty() }));
    }
    if !additional_images.is_empty() {
        let additional_images = additional_images.clone();
        parts.push((PartKind::Images, Mirror { additional_images, ..empty() }));
    }
    if helm.is_some() {
        parts.push((PartKind::Charts, Mirror { helm: helm.clone(), ..empty() }));
    }
    let part = |(kind, mirror)| {
        let set = ImageSetConfiguration { mirror, ..ImageSetConfiguration::default() };
        let text = set.to_yaml().map_err(|error| error.to_string())?;
        Ok(Part { kind, text })
    };
    parts.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\n";

    fn parts(text: &str) -> Vec<Part> {
        let set = image_set::parse_image_set("isc.yaml", &format!("{HEAD}{text}")).unwrap();
        split(&set).unwrap()
    }

    #[test]
    fn each_part_selects_what_no_other_does_and_changes_alone() {
        let text = "archiveSize: 4\nmirror:\n  platform:\n    channels:\n    - name: stable-4.20\n  operators:\n  - catalog: q.io/c:1\n  - catalog: q.io/d:1\n  additionalImages:\n  - name: q.io/a:1\n  blockedImages:\n  - name: q.io/b\n";
        let before = parts(text);
        let kinds: Vec<PartKind> = before.iter().map(|part| part.kind).collect();
        use PartKind::{Catalog, Images, Releases};
        assert_eq!(kinds, [Releases, Catalog(0), Catalog(1), Images]);
        for part in &before {
            assert!(part.text.contains("blockedImages"), "{}", part.text);
            assert!(!part.text.contains("archiveSize"), "{}", part.text);
        }
        let after = parts(&text.replace("q.io/a:1", "q.io/a:2").replace("Size: 4", "Size: 8"));
        assert_eq!(before[..3], after[..3]);
        assert_ne!(before[3].digest(), after[3].digest());
        assert!(parts("mirror: {}\n").is_empty());
    }
}
