//! The name an image gets at its destination.
//!
//! The registry an image came from is dropped, its path is kept below the
//! target's namespace, and everything has a tag: registries throw away
//! manifests that no tag points to.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Component, Path};
use std::str::FromStr;

use oci::{ImageRef, ReferenceError, RegistryHost, Repository, Tag};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Kind, Origin, Target, Wanted};

/// Longest registry and path together that clients accept.
const MAX_NAME: usize = 255;
/// The tag of what has none of its own.
const LATEST: &str = "latest";

/// A repository and a tag, without a registry. Written `a/b:tag`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    pub repository: Repository,
    pub tag: Tag,
}

/// How names are made for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    pub target: Target,
    /// How many path components a repository may have, the target's namespace
    /// included, for registries that support few levels.
    pub max_nested_paths: Option<NonZeroUsize>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("{0} has neither tag nor digest: add one, for example :{LATEST}")]
    Unpointed(Box<Origin>),
    #[error("{0} is part of a release and comes without the tag it is stored under")]
    Component(Box<Origin>),
    #[error("{origin} cannot be stored as {name:?}: give the image a legal targetRepo")]
    Illegal { origin: Box<Origin>, name: String, source: ReferenceError },
    #[error(
        "{origin} cannot be stored as {name:?}, which is longer than {MAX_NAME} characters: choose a shorter namespace or targetRepo"
    )]
    Long { origin: Box<Origin>, name: String },
}

impl Naming {
    pub fn new(target: Target) -> Self {
        Self { target, max_nested_paths: None }
    }

    /// Repository and tag of `wanted` in the target's registry.
    ///
    /// # Errors
    ///
    /// Those of [`Destination::of`], and a name that is longer than clients accept.
    pub fn place(&self, wanted: &Wanted) -> Result<Destination, NameError> {
        let Destination { repository, tag } = Destination::of(wanted)?;
        let path = match &self.target.namespace {
            Some(namespace) => format!("{namespace}/{repository}"),
            None => repository.to_string(),
        };
        let path = match self.max_nested_paths {
            Some(most) => folded(&path, most),
            None => path,
        };
        if self.target.registry.as_str().len() + 1 + path.len() > MAX_NAME {
            let name = format!("{}/{path}", self.target.registry);
            return Err(NameError::Long { origin: boxed(wanted), name });
        }
        Ok(Destination { repository: legal(&path, wanted)?, tag })
    }

    /// The whole reference of `wanted` at the target.
    ///
    /// # Errors
    ///
    /// Those of [`Naming::place`].
    pub fn destination(&self, wanted: &Wanted) -> Result<ImageRef, NameError> {
        Ok(self.place(wanted)?.at(&self.target.registry))
    }
}

impl Destination {
    /// The name below any registry: how a workspace calls the image, how it is
    /// served from there, and what a target prefixes with its namespace.
    ///
    /// # Errors
    ///
    /// The image has neither tag nor digest, is a component of a release without its tag, or has a
    /// name that registries do not accept.
    pub fn of(wanted: &Wanted) -> Result<Self, NameError> {
        Ok(Self {
            repository: legal(&path_of(wanted), wanted)?,
            tag: legal(&tag_of(wanted)?, wanted)?,
        })
    }

    /// This name in `registry`.
    pub fn at(&self, registry: &RegistryHost) -> ImageRef {
        ImageRef {
            registry: registry.clone(),
            repository: self.repository.clone(),
            tag: Some(self.tag.clone()),
            digest: None,
        }
    }
}

fn legal<T: FromStr<Err = ReferenceError>>(name: &str, wanted: &Wanted) -> Result<T, NameError> {
    name.parse().map_err(|source| NameError::Illegal {
        origin: boxed(wanted),
        name: name.into(),
        source,
    })
}

/// For errors, which a large origin would make slow to return.
fn boxed(wanted: &Wanted) -> Box<Origin> {
    Box::new(wanted.origin.clone())
}

fn path_of(wanted: &Wanted) -> Cow<'_, str> {
    if let Some(repository) = &wanted.target_repository {
        return repository.as_str().into();
    }
    match (wanted.kind, &wanted.origin) {
        (Kind::ReleasePayload, _) => "openshift/release-images".into(),
        (Kind::ReleaseComponent | Kind::KubeVirt, _) => "openshift/release".into(),
        (Kind::Graph, _) => "openshift/graph-image".into(),
        (Kind::Catalog, Origin::Layout(path)) => {
            path.file_name().unwrap_or_default().to_string_lossy()
        }
        (_, Origin::Layout(path)) => layout_path(path).into(),
        (_, Origin::Made(name)) => name.as_str().into(),
        (_, Origin::Registry(image)) => image.repository.as_str().into(),
    }
}

/// A layout's path without its root. `..` stays and is refused as a name: it
/// would differ on every machine.
fn layout_path(path: &Path) -> String {
    let words: Vec<_> = path
        .components()
        .filter(|component| !matches!(component, Component::RootDir | Component::CurDir))
        .map(|component| component.as_os_str().to_string_lossy())
        .collect();
    words.join("/")
}

fn tag_of(wanted: &Wanted) -> Result<Cow<'_, str>, NameError> {
    // Checked before the override: what cannot be pulled needs no name.
    if let Origin::Registry(image) = &wanted.origin
        && image.pointer().is_none()
    {
        return Err(NameError::Unpointed(boxed(wanted)));
    }
    if let Some(tag) = &wanted.target_tag {
        return Ok(tag.as_str().into());
    }
    let image = match (wanted.kind, &wanted.origin) {
        (Kind::Graph, _) => return Ok(LATEST.into()),
        (Kind::ReleaseComponent | Kind::KubeVirt, _) => {
            return Err(NameError::Component(boxed(wanted)));
        }
        (_, Origin::Layout(_) | Origin::Made(_)) => return Ok(LATEST.into()),
        (_, Origin::Registry(image)) => image,
    };
    match (&image.tag, &image.digest) {
        (Some(tag), _) => Ok(tag.as_str().into()),
        // A payload known by digest alone is tagged with the bare hex digits.
        (None, Some(digest)) if wanted.kind == Kind::ReleasePayload => Ok(digest.hex().into()),
        (None, Some(digest)) => Ok(digest.as_tag_text().into()),
        (None, None) => Err(NameError::Unpointed(boxed(wanted))),
    }
}

/// `path` with at most `most` components: the last ones are joined with `-`.
fn folded(path: &str, most: NonZeroUsize) -> String {
    let mut parts = path.splitn(most.get(), '/').map(str::to_owned).collect::<Vec<_>>();
    if let Some(last) = parts.last_mut() {
        *last = last.replace('/', "-");
    }
    parts.join("/")
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

impl FromStr for Destination {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let (repository, tag) = text.rsplit_once(':').unwrap_or((text, ""));
        Ok(Self { repository: repository.parse()?, tag: tag.parse()? })
    }
}

impl Serialize for Destination {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Destination {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn wanted(kind: Kind, origin: &str) -> Wanted {
        let origin = match origin.strip_prefix("oci://") {
            Some(path) => Origin::Layout(path.into()),
            None => Origin::Registry(origin.parse().unwrap()),
        };
        Wanted { kind, origin, target_repository: None, target_tag: None, platforms: vec![] }
    }

    fn overridden(origin: &str, repository: Option<&str>, tag: Option<&str>) -> Wanted {
        Wanted {
            target_repository: repository.map(|text| text.parse().unwrap()),
            target_tag: tag.map(|text| text.parse().unwrap()),
            ..wanted(Kind::Additional, origin)
        }
    }

    fn at(target: &str, most: usize, wanted: &Wanted) -> String {
        let target = target.parse().unwrap();
        let naming = Naming { target, max_nested_paths: NonZeroUsize::new(most) };
        naming.destination(wanted).unwrap().to_string()
    }

    #[test]
    fn images_keep_their_path_and_get_a_tag_whatever_they_are_pulled_by() {
        let digest = format!("@sha256:{HEX}");
        let by_digest = format!("r.io:5000/ns/a/b:sha256-{HEX}");
        for kind in [Kind::Additional, Kind::Helm, Kind::Bundle, Kind::RelatedImage, Kind::Catalog]
        {
            for (origin, destination) in [
                ("quay.io/a/b:1", "r.io:5000/ns/a/b:1"),
                (&format!("quay.io/a/b{digest}"), &by_digest),
                (&format!("host:5000/a/b{digest}"), &by_digest),
                (&format!("quay.io/a/b:v1{digest}"), "r.io:5000/ns/a/b:v1"),
                ("ubuntu/nginx:1", "r.io:5000/ns/ubuntu/nginx:1"),
                ("busybox:1", "r.io:5000/ns/library/busybox:1"),
            ] {
                let name = at("docker://r.io:5000/ns", 0, &wanted(kind, origin));
                assert_eq!(name, destination, "{kind:?} {origin}");
            }
        }
    }

    #[test]
    fn target_repo_and_target_tag_override_the_origin() {
        let digest = format!("quay.io/a/b@sha256:{HEX}");
        let hex_tag = format!("r.io/x/y:sha256-{HEX}");
        for (origin, repository, tag, destination) in [
            ("quay.io/a/b:1", Some("x/y"), None, "r.io/x/y:1"),
            ("quay.io/a/b:1", None, Some("t"), "r.io/a/b:t"),
            ("quay.io/a/b:1", Some("x"), Some("t"), "r.io/x:t"),
            (&digest, Some("x/y"), None, &hex_tag),
            (&digest, None, Some("t"), "r.io/a/b:t"),
            ("oci:///srv/Layouts/x", Some("x/y"), None, "r.io/x/y:latest"),
            ("oci:///srv/layouts/x", None, Some("t"), "r.io/srv/layouts/x:t"),
        ] {
            let name = at("r.io", 0, &overridden(origin, repository, tag));
            assert_eq!(name, destination, "{origin}");
        }
    }

    #[test]
    fn a_layout_is_named_by_its_path_and_a_catalog_layout_by_its_last_part() {
        for (origin, destination) in [
            ("oci:///srv/layouts/x", "r.io/srv/layouts/x:latest"),
            ("oci://layouts/x/", "r.io/layouts/x:latest"),
            ("oci://./layouts/x", "r.io/layouts/x:latest"),
        ] {
            assert_eq!(at("r.io", 0, &wanted(Kind::Additional, origin)), destination);
        }
        let catalog = wanted(Kind::Catalog, "oci:///srv/Data/my-catalog");
        assert_eq!(at("r.io/ns", 0, &catalog), "r.io/ns/my-catalog:latest");
    }

    #[test]
    fn release_content_has_its_own_repositories() {
        let payload = format!("quay.io/openshift-release-dev/ocp-release@sha256:{HEX}");
        let tagged = "quay.io/openshift-release-dev/ocp-release:4.18.1-x86_64";
        let component = Wanted {
            target_tag: Some("4.18.1-x86_64-etcd".parse().unwrap()),
            ..wanted(Kind::ReleaseComponent, &format!("quay.io/o/ocp-v4.0-art-dev@sha256:{HEX}"))
        };
        for (wanted, destination) in [
            (wanted(Kind::ReleasePayload, tagged), "r.io/n/openshift/release-images:4.18.1-x86_64"),
            (
                wanted(Kind::ReleasePayload, &payload),
                format!("r.io/n/openshift/release-images:{HEX}").as_str(),
            ),
            (component, "r.io/n/openshift/release:4.18.1-x86_64-etcd"),
            (wanted(Kind::Graph, "oci:///tmp/graph"), "r.io/n/openshift/graph-image:latest"),
        ] {
            assert_eq!(at("r.io/n", 0, &wanted), destination);
        }
    }

    #[test]
    fn few_levels_fold_the_end_of_the_path_and_the_namespace_counts() {
        for (most, target, destination) in [
            (1, "r.io", "r.io/a-b-c:1"),
            (2, "r.io", "r.io/a/b-c:1"),
            (3, "r.io", "r.io/a/b/c:1"),
            (9, "r.io", "r.io/a/b/c:1"),
            (1, "r.io/n/m", "r.io/n-m-a-b-c:1"),
            (2, "r.io/n/m", "r.io/n/m-a-b-c:1"),
            (4, "r.io/n/m", "r.io/n/m/a/b-c:1"),
        ] {
            let name = at(target, most, &wanted(Kind::Additional, "quay.io/a/b/c:1"));
            assert_eq!(name, destination, "{most} {target}");
        }
    }

    #[test]
    fn a_name_that_cannot_be_made_is_an_error_with_a_remedy() {
        let target = format!("r.io/{}", "n".repeat(200));
        let naming = Naming::new(target.parse().unwrap());
        let long = format!("quay.io/{}:1", "a".repeat(60));
        for (wanted, text) in [
            (wanted(Kind::Additional, "oci:///srv/My Layouts"), "targetRepo"),
            (wanted(Kind::Additional, "oci://../x"), "targetRepo"),
            (wanted(Kind::Additional, "oci:///"), "targetRepo"),
            (wanted(Kind::Additional, "quay.io/a/b"), "neither tag nor digest"),
            (overridden("quay.io/a/b", None, Some("t")), "neither tag nor digest"),
            (wanted(Kind::Additional, &long), "longer than 255"),
            (wanted(Kind::ReleaseComponent, "quay.io/a/b:1"), "part of a release"),
        ] {
            let error = naming.destination(&wanted).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
            assert!(error.contains(&wanted.origin.to_string()), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_always_a_legal_reference_within_the_levels_allowed(
            path in "[a-z0-9]{1,8}((\\.|_|__|-{1,3})[a-z0-9]{1,4}){0,2}(/[a-z0-9]{1,6}(-[a-z]{1,3})?){0,5}",
            namespace in proptest::option::of("[a-z]{1,5}(/[a-z0-9]{1,5}){0,3}"),
            tag in proptest::option::of("[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}"),
            digest in any::<bool>(),
            most in 0_usize..6,
        ) {
            let mut origin = format!("quay.io/{path}");
            origin.extend(tag.iter().flat_map(|tag| [":", tag]));
            if digest || tag.is_none() {
                origin.push_str(&format!("@sha256:{HEX}"));
            }
            let target = namespace.map_or("r.io".to_owned(), |ns| format!("r.io/{ns}"));
            let naming = Naming {
                target: target.parse().unwrap(),
                max_nested_paths: NonZeroUsize::new(most),
            };
            let place = naming.place(&wanted(Kind::Additional, &origin)).unwrap();
            let name = place.at(&naming.target.registry);
            prop_assert_eq!(name.to_string().parse::<ImageRef>().unwrap(), name);
            prop_assert!(most == 0 || place.repository.components().count() <= most);
            prop_assert_eq!(place.to_string().parse::<Destination>().unwrap(), place);
        }

        #[test]
        fn any_layout_path_gives_a_legal_name_or_an_error(path in "\\PC{0,40}") {
            let wanted = Wanted {
                origin: Origin::Layout(path.into()),
                ..wanted(Kind::Additional, "quay.io/a:1")
            };
            if let Ok(name) = Naming::new("r.io/ns".parse().unwrap()).destination(&wanted) {
                prop_assert_eq!(name.to_string().parse::<ImageRef>().unwrap(), name);
            }
        }
    }
}
