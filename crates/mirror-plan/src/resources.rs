//! The manifests that make a cluster pull from the mirror: ImageDigestMirrorSet
//! and ImageTagMirrorSet, and ImageContentSourcePolicy for clusters before 4.13;
//! CatalogSource and ClusterCatalog, which make it offer mirrored operators.
//!
//! Same images, same text: documents and entries are sorted, and the time of
//! making is the caller's.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use oci::{ImageRef, RegistryHost};

use crate::{Kind, Origin};

mod catalog;
mod document;
mod install_config;
mod scope;

pub use catalog::{CatalogSourceTemplate, MirroredCatalog, TemplateError, catalog_resources};
use document::{Document, Entry};
pub use install_config::{IMAGE_DIGEST_SOURCES, image_digest_sources};

/// An image and where it is in the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredImage {
    pub kind: Kind,
    pub origin: Origin,
    pub destination: ImageRef,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceOptions {
    pub created_at: Timestamp,
    /// The version of this program, for the annotation that names it.
    pub tool_version: String,
    pub scope: Scope,
    /// Write an ImageContentSourcePolicy too.
    pub content_source_policy: bool,
}

/// How much of a registry one entry redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The namespace around an image, where the mirror keeps the image's path;
    /// else its repository. Fewer entries, and fewer changes to the nodes later.
    Namespace,
    /// Always the repository. For shortened paths (`--max-nested-paths`), of
    /// which no two in a namespace need have the same shape.
    Repository,
}

/// A file for `cluster-resources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceFile {
    pub name: String,
    pub yaml: String,
}

#[derive(Debug, thiserror::Error)]
#[error("the cluster resource {name} cannot be written as YAML")]
pub struct ResourceError {
    name: String,
    source: serde_saphyr::ser::Error,
}

/// The three resources that redirect pulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    DigestMirrorSet,
    TagMirrorSet,
    ContentSourcePolicy,
}

/// Which part of the content a document is about; also their order in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Category {
    Release,
    Operator,
    Generic,
}

/// The files for what the mirror holds. A resource without entries has no file.
pub fn cluster_resources(
    images: &[MirroredImage],
    options: &ResourceOptions,
) -> Result<Vec<ResourceFile>, ResourceError> {
    let mut kinds = vec![Resource::DigestMirrorSet, Resource::TagMirrorSet];
    if options.content_source_policy {
        kinds.push(Resource::ContentSourcePolicy);
    }
    let mut files = Vec::new();
    for resource in kinds {
        let documents = resource.documents(images, options);
        if !documents.is_empty() {
            let name = resource.file_name();
            let yaml = document::yaml(&documents).map_err(|source| {
                let name = name.to_owned();
                ResourceError { name, source }
            })?;
            files.push(ResourceFile { name: name.to_owned(), yaml });
        }
    }
    Ok(files)
}

/// Whether two versions of a file differ at most in the time they were made:
/// then the old one stays, and a repository that tracks it sees no change.
pub fn same_but_for_time(old: &str, new: &str) -> bool {
    fn timeless(line: &str) -> &str {
        // In JSON, names are in quotes.
        match line.trim_start().trim_start_matches('"').starts_with("createdAt") {
            true => "createdAt:",
            false => line,
        }
    }
    old.lines().map(timeless).eq(new.lines().map(timeless))
}

/// Registries that the schemas of the mirror sets refuse: bare IPv6 addresses.
/// A cluster can use such a registry only under a host name.
pub fn hosts_clusters_refuse(images: &[MirroredImage]) -> BTreeSet<&RegistryHost> {
    images
        .iter()
        .filter_map(|image| Some((redirected(image)?, image)))
        .flat_map(|(source, image)| [&source.registry, &image.destination.registry])
        .filter(|host| host.as_str().starts_with('['))
        .collect()
}

/// The reference that a cluster would use, if pulling it can be redirected.
/// Catalogs and the graph image are named by resources of their own, and a
/// layout has no name that a cluster could request.
fn redirected(image: &MirroredImage) -> Option<&ImageRef> {
    match (&image.origin, Category::of(image.kind)) {
        (Origin::Registry(source), Some(_)) => Some(source),
        _ => None,
    }
}

impl Category {
    fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::ReleasePayload | Kind::ReleaseComponent | Kind::KubeVirt => Some(Self::Release),
            Kind::Bundle | Kind::RelatedImage => Some(Self::Operator),
            Kind::Additional | Kind::Helm => Some(Self::Generic),
            Kind::Graph | Kind::Catalog | Kind::Chart => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Operator => "operator",
            Self::Generic => "generic",
        }
    }
}

impl Resource {
    fn file_name(self) -> &'static str {
        match self {
            Self::DigestMirrorSet => "idms-oc-mirror.yaml",
            Self::TagMirrorSet => "itms-oc-mirror.yaml",
            Self::ContentSourcePolicy => "icsp-oc-mirror.yaml",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::DigestMirrorSet => "idms",
            Self::TagMirrorSet => "itms",
            Self::ContentSourcePolicy => "icsp",
        }
    }

    /// Whether a cluster finds the image through this resource.
    fn covers(self, kind: Kind, source: &ImageRef) -> bool {
        match self {
            Self::TagMirrorSet => source.tag.is_some(),
            // A cluster requests its release by digest, however it was mirrored.
            Self::DigestMirrorSet | Self::ContentSourcePolicy => {
                source.digest.is_some() || kind == Kind::ReleasePayload
            }
        }
    }

    fn documents(self, images: &[MirroredImage], options: &ResourceOptions) -> Vec<Document> {
        let mut mirrors: BTreeMap<Category, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for image in images {
            let (Some(source), Some(category)) = (redirected(image), Category::of(image.kind))
            else {
                continue;
            };
            if self.covers(image.kind, source) {
                let (source, mirror) = scope::redirect(source, &image.destination, options.scope);
                mirrors.entry(category).or_default().entry(source).or_default().insert(mirror);
            }
        }
        mirrors
            .into_iter()
            .map(|(category, sources)| {
                let name = format!("{}-{}-0", self.prefix(), category.name());
                let entries =
                    sources.into_iter().map(|(source, mirrors)| Entry { mirrors, source });
                Document::new(self, name, entries.collect(), options)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
