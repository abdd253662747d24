//! Images that a chart uses, and where each is named.

mod annotation;
mod candidate;
mod place;
mod pod;

use std::collections::BTreeMap;

use oci::ImageRef;

use crate::documents::Document;
use crate::json_path::JsonPath;

pub use annotation::{AnnotationError, annotated};
pub use candidate::{Candidate, candidates};
pub(crate) use place::values_in;
pub use place::{TemplatePlace, place, traced};

/// Where an image is named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// In an object that a template or a CRD file makes.
    Document {
        /// The file, from the root chart's folder.
        file: String,
        /// The line of that file, where it is known.
        line: Option<usize>,
        /// `Deployment/web`.
        object: String,
        /// `spec.template.spec.containers[0].image`.
        path: String,
        /// The values that the line uses: `image.repository`.
        values: Vec<String>,
        /// Why it counts as an image.
        reason: Reason,
    },
    /// In an annotation of `Chart.yaml`.
    Annotation { chart: String, key: &'static str },
}

impl Origin {
    /// The values that the image was made from.
    pub fn values(&self) -> &[String] {
        match self {
            Self::Document { values, .. } => values,
            Self::Annotation { .. } => &[],
        }
    }
}

/// Why a value of a document counts as an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The image of a container, or of a volume.
    PodSpec,
    /// The user named the path.
    ImagePath(String),
    /// The user named the environment variable.
    Environment(String),
}

/// Images with every place that names them.
pub type Images = BTreeMap<ImageRef, Vec<Origin>>;

/// A place that should name an image, but does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnImage {
    pub file: String,
    /// In the rendered file.
    pub line: usize,
    pub path: String,
    pub text: String,
    pub reason: String,
}

/// A value of a document that names an image.
#[derive(Debug, Clone)]
pub(crate) struct Named<'d> {
    pub(crate) text: &'d str,
    pub(crate) path: String,
    /// In the rendered file.
    pub(crate) line: usize,
    pub(crate) reason: Reason,
}

/// What in a document names images.
pub(crate) fn named<'d>(
    document: &'d Document,
    paths: &[(String, JsonPath)],
    environment: &[String],
) -> Vec<Named<'d>> {
    let mut all = pod::images(document, environment);
    for (text, path) in paths {
        for found in path.find(&document.root) {
            let line = document.line + found.node.at.line - 1;
            // A value may name several images, as in an environment variable.
            for word in found.node.text().unwrap_or_default().split_whitespace() {
                let reason = Reason::ImagePath(text.clone());
                all.push(Named { text: word, path: found.path.clone(), line, reason });
            }
        }
    }
    all
}

/// `Kind/name` of an object.
pub(crate) fn object_name(document: &Document) -> String {
    let kind = document.root.get("kind").and_then(|kind| kind.text()).unwrap_or("object");
    let name = document.root.get("metadata").and_then(|metadata| metadata.get("name")?.text());
    name.map_or_else(|| kind.to_owned(), |name| format!("{kind}/{name}"))
}

#[cfg(test)]
mod tests;
