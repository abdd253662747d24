//! Where the list of an image's referrers may be kept in a registry that does
//! not keep it itself.

use std::collections::BTreeSet;

use oci::{Digest, Repository, Tag};

use crate::Destination;

/// The names that a run gives to images.
///
/// A registry without the referrers API finds what is attached to a manifest
/// under the tag `sha256-<hex>` of the same repository. An image known only by
/// digest gets that very tag, and clients that pull it must find the image there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names<'a>(BTreeSet<&'a Destination>);

impl<'a> Names<'a> {
    pub fn new(destinations: impl IntoIterator<Item = &'a Destination>) -> Self {
        Self(destinations.into_iter().collect())
    }

    /// The tag for the list of referrers of `subject`, or `None` where an image
    /// has it: then referrers are pushed by digest only, and the report lists them.
    pub fn fallback_tag(&self, repository: &Repository, subject: &Digest) -> Option<Tag> {
        let name = Destination { repository: repository.clone(), tag: Tag::of_digest(subject) };
        (!self.0.contains(&name)).then_some(name.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fallback_tag_is_free_unless_an_image_of_that_repository_has_it() {
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        let named: Vec<Destination> =
            [format!("ns/by-digest:{}", one.as_tag_text()), "ns/by-tag:v1".to_owned()]
                .map(|text| text.parse().unwrap())
                .into();
        let names = Names::new(&named);
        let tag = |repository: &str, subject| {
            names.fallback_tag(&repository.parse().unwrap(), subject).map(|tag| tag.to_string())
        };
        assert_eq!(tag("ns/by-digest", &one), None);
        assert_eq!(tag("ns/by-digest", &two), Some(two.as_tag_text()));
        assert_eq!(tag("ns/by-tag", &one), Some(one.as_tag_text()));
    }
}
