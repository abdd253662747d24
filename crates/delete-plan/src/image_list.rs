//! The list of images to delete, in the format of oc-mirror v2: `kind: DeleteImageList`.
//!
//! oc-mirror v2 reads lists that are written here, and the other way round. A list may have been
//! edited, so nothing in it is trusted before [`ImageList::check`].

use std::fmt;
use std::num::NonZeroUsize;

use mirror_plan::{Destination, Kind, Origin, Target};
use oci::{ImageRef, Repository};
use serde::{Deserialize, Serialize};

const KIND: &str = "DeleteImageList";
const TRANSPORT: &str = "docker://";
/// Lists this long are not images of one registry.
const MAX_ITEMS: usize = 1_000_000;

/// What to delete from a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageList {
    /// In the order of their references.
    pub images: Vec<ListedImage>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedImage {
    pub reference: ImageRef,
    /// Where it came from, as text: the list of another tool may name what is not a reference.
    pub name: String,
    pub of_type: ListedType,
}

/// The types of oc-mirror v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListedType {
    OcpRelease,
    OcpReleaseContent,
    CincinnatiGraph,
    OperatorBundle,
    OperatorRelatedImage,
    OperatorCatalog,
    Generic,
    HelmImage,
}

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("it is not a list of images to delete")]
    Yaml(#[source] serde_saphyr::Error),
    #[error("expected kind {KIND}, found {0:?}")]
    Kind(String),
    #[error("it has more than {MAX_ITEMS} items")]
    Long,
    #[error(
        "item {item}: expected a type such as ocpRelease, operatorBundle or generic, found {found:?}"
    )]
    Type { item: usize, found: String },
    #[error("item {item}: imageReference {text:?} is not an image")]
    Reference { item: usize, text: String, source: oci::ReferenceError },
    #[error("item {item}: imageReference {text} has neither tag nor digest")]
    Unpointed { item: usize, text: String },
    #[error("item {item}: {reference} is not at {registry}: the list is for another registry")]
    Registry { item: usize, reference: Box<ImageRef>, registry: String },
    #[error(
        "item {item}: {reference} is not below {target}: the list is for another namespace, or was edited"
    )]
    Namespace { item: usize, reference: Box<ImageRef>, target: String },
    #[error("item {item}: {reference} is of type {of_type}, which is stored in {expected} only")]
    Path { item: usize, reference: Box<ImageRef>, of_type: ListedType, expected: String },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    items: Option<Vec<Entry>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    image_name: String,
    image_reference: String,
    #[serde(rename = "type", default)]
    of_type: String,
}

impl ImageList {
    /// Reads a list. All its items are valid references of known types.
    pub fn parse(text: &str) -> Result<Self, ListError> {
        let document: Document = serde_saphyr::from_str(text).map_err(ListError::Yaml)?;
        if document.kind != KIND {
            return Err(ListError::Kind(document.kind));
        }
        let entries = document.items.unwrap_or_default();
        if entries.len() > MAX_ITEMS {
            return Err(ListError::Long);
        }
        let mut images = Vec::with_capacity(entries.len());
        for (index, entry) in entries.into_iter().enumerate() {
            let item = index + 1;
            let of_type = ListedType::parse(&entry.of_type)
                .ok_or_else(|| ListError::Type { item, found: entry.of_type.clone() })?;
            let text = entry.image_reference;
            let bare = text.strip_prefix(TRANSPORT).unwrap_or(&text);
            let reference: ImageRef = bare.parse().map_err(|source| ListError::Reference {
                item,
                text: text.clone(),
                source,
            })?;
            if reference.pointer().is_none() {
                return Err(ListError::Unpointed { item, text });
            }
            images.push(ListedImage { reference, name: entry.image_name, of_type });
        }
        images.sort();
        images.dedup();
        Ok(Self { images })
    }

    /// The list as YAML that [`Self::parse`] and oc-mirror v2 read.
    pub fn to_yaml(&self) -> Result<String, serde_saphyr::ser::Error> {
        let mut images = self.images.clone();
        images.sort();
        let entry = |image: &ListedImage| Entry {
            image_name: image.name.clone(),
            image_reference: format!("{TRANSPORT}{}", image.reference),
            of_type: image.of_type.to_string(),
        };
        serde_saphyr::to_string(&Document {
            kind: KIND.to_owned(),
            api_version: image_set::API_VERSION.to_owned(),
            items: Some(images.iter().map(entry).collect()),
        })
    }

    /// Whether every item is one that is mirrored to `target`. Nothing is deleted by a list of
    /// which one item is not.
    pub fn check(
        &self,
        target: &Target,
        max_nested_paths: Option<NonZeroUsize>,
    ) -> Result<(), ListError> {
        for (index, image) in self.images.iter().enumerate() {
            let item = index + 1;
            let reference = || Box::new(image.reference.clone());
            if image.reference.registry != target.registry {
                let registry = target.registry.to_string();
                return Err(ListError::Registry { item, reference: reference(), registry });
            }
            let repository = &image.reference.repository;
            if !is_below(repository, target, max_nested_paths) {
                let target = target.to_string();
                return Err(ListError::Namespace { item, reference: reference(), target });
            }
            if let Some(path) = image.of_type.fixed_path() {
                let whole = match &target.namespace {
                    Some(namespace) => format!("{namespace}/{path}"),
                    None => path.to_owned(),
                };
                let expected = folded(&whole, max_nested_paths);
                if repository.as_str() != expected {
                    let of_type = image.of_type;
                    return Err(ListError::Path {
                        item,
                        reference: reference(),
                        of_type,
                        expected,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether a repository is one that images below the target's namespace get.
fn is_below(repository: &Repository, target: &Target, most: Option<NonZeroUsize>) -> bool {
    let Some(namespace) = &target.namespace else { return true };
    let path = repository.as_str();
    if path.strip_prefix(namespace.as_str()).is_some_and(|rest| rest.starts_with('/')) {
        return true;
    }
    // A namespace as long as the limit is joined with what is below it.
    let joined = folded(&format!("{namespace}/x"), most);
    let joined = joined.strip_suffix('x').unwrap_or(&joined);
    most.is_some() && path.len() > joined.len() && path.starts_with(joined)
}

/// A path with at most `most` components, as names at a target are made.
fn folded(path: &str, most: Option<NonZeroUsize>) -> String {
    let Some(most) = most else { return path.to_owned() };
    let mut parts: Vec<String> = path.splitn(most.get(), '/').map(str::to_owned).collect();
    if let Some(last) = parts.last_mut() {
        *last = last.replace('/', "-");
    }
    parts.join("/")
}

impl ListedImage {
    /// The item of an image at a target.
    pub fn new(place: &Destination, target: &Target, origin: Option<&Origin>, kind: Kind) -> Self {
        let name = match origin {
            Some(Origin::Registry(image)) => format!("{TRANSPORT}{image}"),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        Self { reference: place.at(&target.registry), name, of_type: kind.into() }
    }
}

impl ListedType {
    const ALL: [Self; 8] = [
        Self::OcpRelease,
        Self::OcpReleaseContent,
        Self::CincinnatiGraph,
        Self::OperatorBundle,
        Self::OperatorRelatedImage,
        Self::OperatorCatalog,
        Self::Generic,
        Self::HelmImage,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::OcpRelease => "ocpRelease",
            Self::OcpReleaseContent => "ocpReleaseContent",
            Self::CincinnatiGraph => "cincinnatiGraph",
            Self::OperatorBundle => "operatorBundle",
            Self::OperatorRelatedImage => "operatorRelatedImage",
            Self::OperatorCatalog => "operatorCatalog",
            Self::Generic => "generic",
            Self::HelmImage => "helmImage",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }

    /// Where images of this type are, below the namespace.
    fn fixed_path(self) -> Option<&'static str> {
        match self {
            Self::OcpRelease => Some("openshift/release-images"),
            Self::OcpReleaseContent => Some("openshift/release"),
            Self::CincinnatiGraph => Some("openshift/graph-image"),
            _ => None,
        }
    }

    /// The kind of image, for exit codes.
    pub fn kind(self) -> Kind {
        match self {
            Self::OcpRelease => Kind::ReleasePayload,
            Self::OcpReleaseContent => Kind::ReleaseComponent,
            Self::CincinnatiGraph => Kind::Graph,
            Self::OperatorBundle => Kind::Bundle,
            Self::OperatorRelatedImage => Kind::RelatedImage,
            Self::OperatorCatalog => Kind::Catalog,
            Self::Generic => Kind::Additional,
            Self::HelmImage => Kind::Helm,
        }
    }
}

impl From<Kind> for ListedType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::ReleasePayload => Self::OcpRelease,
            Kind::ReleaseComponent | Kind::KubeVirt => Self::OcpReleaseContent,
            Kind::Graph => Self::CincinnatiGraph,
            Kind::Catalog => Self::OperatorCatalog,
            Kind::Bundle => Self::OperatorBundle,
            Kind::RelatedImage => Self::OperatorRelatedImage,
            Kind::Additional => Self::Generic,
            Kind::Helm | Kind::Chart => Self::HelmImage,
        }
    }
}

impl fmt::Display for ListedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kind: DeleteImageList\napiVersion: mirror.openshift.io/v2alpha1\nitems:\n";

    fn item(reference: &str, of_type: &str) -> String {
        format!(
            "- imageName: docker://quay.io/a/b:1\n  imageReference: {reference}\n  type: {of_type}\n"
        )
    }

    fn check(target: &str, most: usize, reference: &str, of_type: &str) -> Result<(), String> {
        let list = ImageList::parse(&format!("{HEAD}{}", item(reference, of_type)));
        let list = list.map_err(|error| error.to_string())?;
        let target = target.parse().unwrap();
        list.check(&target, NonZeroUsize::new(most)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_of_oc_mirror_v2_is_read_and_one_of_ours_reads_back() {
        // From the documentation of OpenShift, with fields of older versions.
        let text = format!(
            "---\n{HEAD}- imageName: quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:{hex}\n  \
             imageReference: docker://localhost:5000/reg/openshift/release:4.15.12-x86_64-api\n  \
             type: ocpReleaseContent\n  relatedBlobs: [\"sha256:{hex}\"]\n",
            hex = "c".repeat(64)
        );
        let list = ImageList::parse(&text).unwrap();
        assert_eq!(list.images.len(), 1);
        assert_eq!(list.images[0].of_type, ListedType::OcpReleaseContent);
        assert_eq!(ImageList::parse(&list.to_yaml().unwrap()).unwrap(), list);
        assert_eq!(ImageList::parse("kind: DeleteImageList\n").unwrap(), ImageList::default());
    }

    #[test]
    fn an_item_that_is_listed_twice_is_one_item() {
        let text = format!("{HEAD}{0}{0}", item("docker://r.io/ns/a:1", "generic"));
        assert_eq!(ImageList::parse(&text).unwrap().images.len(), 1);
    }

    #[test]
    fn an_edited_list_is_rejected_with_the_item_and_the_reason() {
        for (target, most, reference, of_type, expected) in [
            ("r.io/ns", 0, "docker://r.io/ns/a/b:1", "generic", None),
            ("r.io", 0, "r.io/a/b:1", "operatorBundle", None),
            ("r.io/ns", 2, "r.io/ns/a-b:1", "generic", None),
            ("r.io/a/b", 2, "r.io/a/b-c-d:1", "generic", None),
            ("r.io/ns", 2, "r.io/ns/openshift-release:1", "ocpReleaseContent", None),
            ("r.io/ns", 0, "r.io/ns/openshift/release:1", "ocpReleaseContent", None),
            ("r.io/ns", 0, "other.io/ns/a:1", "generic", Some("another registry")),
            ("r.io/ns", 0, "r.io/other/a:1", "generic", Some("another namespace")),
            ("r.io/ns", 0, "r.io/nsx/a:1", "generic", Some("another namespace")),
            ("r.io/a/b", 0, "r.io/a/b-c:1", "generic", Some("another namespace")),
            ("r.io/ns", 0, "r.io/ns/a:1", "surprise", Some("found \"surprise\"")),
            ("r.io/ns", 0, "r.io/ns/../a:1", "generic", Some("is not an image")),
            ("r.io/ns", 0, "r.io/ns/a", "generic", Some("neither tag nor digest")),
            (
                "r.io/ns",
                0,
                "r.io/ns/a:1",
                "ocpRelease",
                Some("stored in ns/openshift/release-images"),
            ),
        ] {
            let found = check(target, most, reference, of_type);
            match expected {
                None => assert_eq!(found, Ok(()), "{reference}"),
                Some(part) => assert!(found.clone().unwrap_err().contains(part), "{found:?}"),
            }
        }
        let error = ImageList::parse("kind: ImageSetConfiguration\n").unwrap_err().to_string();
        assert!(error.contains("expected kind DeleteImageList"), "{error}");
    }
}
