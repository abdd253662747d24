//! Images named one by one: those to mirror, and those to keep out.

use std::fmt;
use std::path::PathBuf;

use oci::{ImageRef, Platform, ReferenceError, Repository, Tag};
use regex::{Regex, RegexBuilder};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::finding::{EntryPosition, Problem};
use crate::section::{LocatedValue, Section};

/// Memory that one compiled pattern may take. A pattern such as
/// `(a{1000}){1000}` would otherwise take gigabytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Where an image is read from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ImageSource {
    /// A registry. The reference has a tag or a digest.
    Registry(ImageRef),
    /// An OCI layout on disk, written `oci://path`.
    Layout(PathBuf),
}

/// One entry of `additionalImages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalImage {
    pub name: ImageSource,
    /// Repository at the destination, where it is not the origin's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_repo: Option<Repository>,
    /// Tag at the destination, where it is not the origin's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_tag: Option<Tag>,
    /// Which images of a list to take; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
    #[serde(skip)]
    pub at: EntryPosition,
}

/// One entry of `blockedImages`: what it matches is not mirrored. The pattern
/// is not anchored; it may match anywhere in the origin or the destination.
#[derive(Debug, Clone)]
pub struct BlockedImage {
    pub pattern: Regex,
    pub at: EntryPosition,
}

impl ImageSource {
    pub(crate) fn parse(key: String, text: &str) -> Result<Self, Problem> {
        if let Some(path) = text.strip_prefix("oci://") {
            return match path {
                "" => Err(Problem::LayoutPath { key, text: text.to_owned() }),
                path => Ok(Self::Layout(path.into())),
            };
        }
        pinned(key, text).map(Self::Registry)
    }
}

/// A reference with a tag or a digest. None is invented: `latest` is another
/// image tomorrow, so it must be requested explicitly.
pub(crate) fn pinned(key: String, text: &str) -> Result<ImageRef, Problem> {
    let bare = text.strip_prefix("docker://").unwrap_or(text);
    let image: ImageRef = match bare.parse() {
        Ok(image) => image,
        Err(why) => return Err(Problem::Reference { key, text: text.to_owned(), why }),
    };
    match image.pointer() {
        Some(_) => Ok(image),
        None => Err(Problem::Unpinned { key, text: text.to_owned() }),
    }
}

pub(crate) fn target_path(key: String, text: &str) -> Result<Repository, Problem> {
    text.parse().map_err(|why: ReferenceError| Problem::TargetPath {
        key,
        text: text.to_owned(),
        why,
    })
}

pub(crate) fn target_tag(key: String, text: &str) -> Result<Tag, Problem> {
    text.parse().map_err(|why: ReferenceError| Problem::TargetTag {
        key,
        text: text.to_owned(),
        why,
    })
}

impl AdditionalImage {
    pub(crate) fn read(place: LocatedValue<'_>) -> Option<Self> {
        let mut section = Section::open(place, |text| format!("write `name: {text}`"))?;
        let at = section.at;
        let name = section.required("name", "quay.io/org/image:tag");
        let name = name.and_then(|name| name.parse(ImageSource::parse));
        let target_repo = section.text("targetRepo").and_then(|text| text.parse(target_path));
        let target_tag = section.text("targetTag").and_then(|text| text.parse(target_tag));
        let platforms = section.list("platforms", platform);
        section.finish();
        Some(Self { name: name?, target_repo, target_tag, platforms, at })
    }
}

impl BlockedImage {
    pub(crate) fn read(place: LocatedValue<'_>) -> Option<Self> {
        let mut section = Section::open(place, |text| format!("write `name: {text}`"))?;
        let at = section.at;
        let name = section.required("name", "quay\\.io/org/.*");
        section.finish();
        Some(Self { pattern: name?.parse(pattern)?, at })
    }
}

fn pattern(key: String, text: &str) -> Result<Regex, Problem> {
    RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| {
        let why = match &error {
            // The long form draws the pattern and points into it; its last
            // line states what is wrong.
            regex::Error::Syntax(drawing) => {
                let last = drawing.lines().last().unwrap_or_default();
                last.strip_prefix("error: ").unwrap_or(last).to_owned()
            }
            regex::Error::CompiledTooBig(_) => "it takes too much memory".to_owned(),
            other => other.to_string(),
        };
        Problem::Pattern { key, text: text.to_owned(), why }
    })
}

/// One entry of any `platforms` list.
pub(crate) fn platform(place: LocatedValue<'_>) -> Option<Platform> {
    let mut section = Section::open(place, |text| {
        let (os, architecture) = text.split_once('/').unwrap_or(("linux", text));
        format!("write `os: {os}` and `architecture: {architecture}`")
    })?;
    let os = section.required("os", "linux");
    let architecture = section.required("architecture", "amd64");
    section.finish();
    Some(Platform::new(os?.text, architecture?.text))
}

impl fmt::Display for ImageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(image) => image.fmt(f),
            Self::Layout(path) => write!(f, "oci://{}", path.display()),
        }
    }
}

impl Serialize for ImageSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialEq for BlockedImage {
    fn eq(&self, other: &Self) -> bool {
        self.pattern.as_str() == other.pattern.as_str()
    }
}

impl Eq for BlockedImage {}

impl Serialize for BlockedImage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("BlockedImage", 1)?;
        map.serialize_field("name", self.pattern.as_str())?;
        map.end()
    }
}
