//! `image-references`: every image of a release, by name and digest.

use std::collections::BTreeSet;

use oci::{ImageRef, ReferenceError, Tag};
use serde::Deserialize;

/// More components than a release has; they have less than two hundred.
const MAX_COMPONENTS: usize = 5_000;

/// The images of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReferences {
    /// What the release calls itself: its version.
    pub name: String,
    /// In the order of the file, which is that of the names. Never empty.
    pub components: Vec<Component>,
}

/// One image of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// A legal part of a tag: images are mirrored as `<release>-<name>`.
    pub name: String,
    /// With a digest. Custom releases may name it by tag, which proves less: the caller warns.
    pub image: ImageRef,
}

#[derive(Debug, thiserror::Error)]
pub enum ReferencesError {
    #[error("the release's list of images (image-references) is not an ImageStream")]
    Json(#[source] serde_json::Error),
    #[error(
        "the release's list of images (image-references) is of the kind {0:?}, not ImageStream"
    )]
    Kind(String),
    #[error("the release's list of images (image-references) has no images")]
    Empty,
    #[error(
        "the release's list of images (image-references) has more than {MAX_COMPONENTS} entries"
    )]
    Many,
    #[error("the release has a component {0:?}, which cannot be part of a tag")]
    Name(String),
    #[error("the release has component {0} twice")]
    Twice(String),
    #[error("the release names no image for its component {0}")]
    Missing(String),
    #[error("the release's component {name} has no usable image")]
    Image { name: String, source: ReferenceError },
    #[error("the release's component {name} is {image}, with neither digest nor tag")]
    Unpinned { name: String, image: Box<ImageRef> },
}

#[derive(Deserialize)]
struct ImageStream {
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Spec>,
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    tags: Option<Vec<StreamTag>>,
}

#[derive(Deserialize)]
struct StreamTag {
    name: String,
    #[serde(default)]
    from: Option<From>,
}

#[derive(Deserialize)]
struct From {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
}

impl ImageReferences {
    pub fn parse(bytes: &[u8]) -> Result<Self, ReferencesError> {
        let stream: ImageStream = serde_json::from_slice(bytes).map_err(ReferencesError::Json)?;
        if stream.kind != "ImageStream" {
            return Err(ReferencesError::Kind(stream.kind));
        }
        let tags = stream.spec.and_then(|spec| spec.tags).unwrap_or_default();
        if tags.is_empty() {
            return Err(ReferencesError::Empty);
        }
        if tags.len() > MAX_COMPONENTS {
            return Err(ReferencesError::Many);
        }
        let mut names = BTreeSet::new();
        let mut components = Vec::with_capacity(tags.len());
        for tag in tags {
            if !names.insert(tag.name.clone()) {
                return Err(ReferencesError::Twice(tag.name));
            }
            components.push(component(tag)?);
        }
        Ok(Self { name: stream.metadata.name, components })
    }

    pub fn component(&self, name: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.name == name)
    }
}

fn component(tag: StreamTag) -> Result<Component, ReferencesError> {
    let StreamTag { name, from } = tag;
    // What comes before it in a tag is at most a version and an architecture.
    if name.is_empty() || name.len() > 64 || format!("x-{name}").parse::<Tag>().is_err() {
        return Err(ReferencesError::Name(name));
    }
    let image = match from {
        Some(from) if from.kind == "DockerImage" && !from.name.is_empty() => from.name,
        _ => return Err(ReferencesError::Missing(name)),
    };
    let image: ImageRef = match image.parse() {
        Ok(image) => image,
        Err(source) => return Err(ReferencesError::Image { name, source }),
    };
    if image.pointer().is_none() {
        return Err(ReferencesError::Unpinned { name, image: Box::new(image) });
    }
    Ok(Component { name, image })
}

#[cfg(test)]
mod tests {
    use oci::Digest;

    use super::*;

    fn stream(tags: &str) -> String {
        format!(
            r#"{{"kind":"ImageStream","metadata":{{"name":"4.12.0"}},"spec":{{"tags":[{tags}]}}}}"#
        )
    }

    fn tag(name: &str, image: &str) -> String {
        format!(r#"{{"name":"{name}","from":{{"kind":"DockerImage","name":"{image}"}}}}"#)
    }

    fn pinned() -> String {
        format!("quay.io/a/b@{}", Digest::of(b"x"))
    }

    #[test]
    fn components_have_names_and_pinned_images() {
        let text = stream(&[tag("cli", &pinned()), tag("etcd", &pinned())].join(","));
        let release = ImageReferences::parse(text.as_bytes()).unwrap();
        assert_eq!((release.name.as_str(), release.components.len()), ("4.12.0", 2));
        assert_eq!(release.component("etcd").unwrap().image.digest, Some(Digest::of(b"x")));
    }

    #[test]
    fn a_component_may_be_named_by_tag() {
        let text = stream(&tag("cli", "quay.io/a/b:1"));
        let release = ImageReferences::parse(text.as_bytes()).unwrap();
        assert_eq!(release.components[0].image.to_string(), "quay.io/a/b:1");
    }

    #[test]
    fn what_is_wrong_is_reported_for_the_affected_component() {
        let many = vec![tag("a", &pinned()); MAX_COMPONENTS + 1].join(",");
        for (text, expected) in [
            ("<html>".to_owned(), "not an ImageStream"),
            (stream("").replace("ImageStream", "List"), "of the kind \"List\""),
            (stream(""), "has no images"),
            (r#"{"kind":"ImageStream"}"#.to_owned(), "has no images"),
            (stream(&many), "more than 5000 entries"),
            (stream(&tag("../../x", &pinned())), "\"../../x\", which cannot be part of a tag"),
            (stream(&tag("", &pinned())), "cannot be part of a tag"),
            (
                stream(&[tag("cli", &pinned()), tag("cli", &pinned())].join(",")),
                "component cli twice",
            ),
            (stream(r#"{"name":"cli"}"#), "no image for its component cli"),
            (stream(&tag("cli", "")), "no image for its component cli"),
            (stream(&tag("cli", "quay.io/a b")), "component cli has no usable image"),
            (stream(&tag("cli", "quay.io/a/b")), "cli is quay.io/a/b, with neither digest nor tag"),
        ] {
            let error = ImageReferences::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
