//! Configurations with every tag nailed to the digest it had: a later run with
//! one gets the same bytes, whatever was pushed since.

use jiff::Timestamp;
use oci::{Digest, ImageRef, Tag};

/// What a configuration has for one image, and what a pinned one has instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    pub reference: ImageRef,
    /// The `targetTag` beside it.
    pub target_tag: Option<Tag>,
}

impl Pin {
    /// An image, nailed to `digest`: `name:tag@digest`.
    ///
    /// The tag stays, as both names and mirror sets are made from it: a pinned
    /// run stores the image where the run that was pinned did. What has a
    /// digest already is not changed.
    #[must_use]
    pub fn image(self, digest: &Digest) -> Self {
        let digest = self.reference.digest.or(Some(*digest));
        Self { reference: ImageRef { digest, ..self.reference }, ..self }
    }

    /// A catalog, nailed to `digest`: `name@digest`, with the tag as the
    /// `targetTag` unless there is one. This is the form in which catalogs are
    /// pinned everywhere, and their filter's identity depends on it.
    #[must_use]
    pub fn catalog(self, digest: &Digest) -> Self {
        let Self { reference, target_tag } = self;
        if reference.digest.is_some() {
            return Self { reference, target_tag };
        }
        let target_tag = target_tag.or(reference.tag);
        let reference = ImageRef { tag: None, digest: Some(*digest), ..reference };
        Self { reference, target_tag }
    }
}

/// The names of the pinned configurations of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedFiles {
    pub image_set: String,
    pub delete_image_set: String,
}

impl PinnedFiles {
    pub fn at(time: Timestamp) -> Self {
        let time = time.strftime("%Y-%m-%dT%H:%M:%SZ");
        Self {
            image_set: format!("isc_pinned_{time}.yaml"),
            delete_image_set: format!("disc_pinned_{time}.yaml"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(reference: &str, target_tag: Option<&str>) -> Pin {
        let target_tag = target_tag.map(|tag| tag.parse().unwrap());
        Pin { reference: reference.parse().unwrap(), target_tag }
    }

    #[test]
    fn an_image_keeps_its_tag_beside_the_digest() {
        let (digest, other) = (Digest::of(b"image"), Digest::of(b"other"));
        for (reference, pinned) in [
            ("quay.io/a/b:1", format!("quay.io/a/b:1@{digest}")),
            ("busybox:1", format!("docker.io/library/busybox:1@{digest}")),
            (&format!("quay.io/a/b@{other}"), format!("quay.io/a/b@{other}")),
            (&format!("quay.io/a/b:1@{other}"), format!("quay.io/a/b:1@{other}")),
        ] {
            let pin = pin(reference, Some("t")).image(&digest);
            assert_eq!(pin.reference.to_string(), pinned);
            assert_eq!(pin.target_tag.unwrap().as_str(), "t");
        }
    }

    #[test]
    fn a_catalog_keeps_its_tag_as_the_target_tag() {
        let (digest, other) = (Digest::of(b"catalog"), Digest::of(b"other"));
        let by_digest = format!("r.io/c@{other}");
        for (reference, target_tag, pinned, tag) in [
            ("r.io/c:v4", None, format!("r.io/c@{digest}"), Some("v4")),
            ("r.io/c:v4", Some("x"), format!("r.io/c@{digest}"), Some("x")),
            (by_digest.as_str(), None, by_digest.clone(), None),
        ] {
            let pin = pin(reference, target_tag).catalog(&digest);
            assert_eq!(pin.reference.to_string(), pinned);
            assert_eq!(pin.target_tag.as_ref().map(Tag::as_str), tag);
        }
    }

    #[test]
    fn files_are_named_by_the_second_the_run_began() {
        let files = PinnedFiles::at("2026-02-03T04:05:06.789Z".parse().unwrap());
        assert_eq!(files.image_set, "isc_pinned_2026-02-03T04:05:06Z.yaml");
        assert_eq!(files.delete_image_set, "disc_pinned_2026-02-03T04:05:06Z.yaml");
    }
}
