//! A catalog in memory: what selecting, walking and listing need, the rest as the text it came in.

use std::collections::BTreeMap;

use semver::Version;

use crate::document::{Deprecation, Entry, RelatedImage};
use crate::files::LeftOut;
use crate::rules::Flaw;
use crate::text::Text;

/// A catalog. Borrows from the files it was read from.
#[derive(Debug, Default)]
pub struct Catalog<'a> {
    pub packages: BTreeMap<Text<'a>, Package<'a>>,
    /// Documents of unknown schemas that belong to no package.
    pub loose: Vec<Blob<'a>>,
    /// Files and documents that cannot be read, and belong to no known package.
    pub left_out: Vec<LeftOut>,
    /// Keys that a map has more than once, each in a sentence with its place.
    pub repeated_keys: Vec<String>,
}

/// A document, with the text of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blob<'a>(pub(crate) &'a str);

/// A package, and all that belongs to it.
#[derive(Debug)]
pub struct Package<'a> {
    pub name: Text<'a>,
    /// Its own document, `None` when only others mention it.
    pub definition: Option<Definition<'a>>,
    pub channels: BTreeMap<Text<'a>, Channel<'a>>,
    pub bundles: BTreeMap<Text<'a>, Bundle<'a>>,
    pub deprecations: Option<Deprecations<'a>>,
    /// Documents of unknown schemas.
    pub others: Vec<Blob<'a>>,
    /// What showed to be wrong while reading.
    pub(crate) flaws: Vec<Flaw>,
}

/// The document of a package itself.
#[derive(Debug)]
pub struct Definition<'a> {
    pub default_channel: Text<'a>,
    pub blob: Blob<'a>,
}

/// A channel: bundles and how to get from one to the next.
#[derive(Debug)]
pub struct Channel<'a> {
    pub name: Text<'a>,
    pub entries: Vec<Entry<'a>>,
    pub blob: Blob<'a>,
}

/// A version of an operator.
#[derive(Debug)]
pub struct Bundle<'a> {
    pub name: Text<'a>,
    /// Its own image; `None` for bundles that carry their objects inside the catalog.
    pub image: Option<Text<'a>>,
    /// `None` if the bundle has none, several, or one that is not a semantic version.
    pub version: Option<Version>,
    pub related_images: Vec<RelatedImage<'a>>,
    pub provides: Vec<Api<'a>>,
    pub requires: Vec<Requirement<'a>>,
    pub blob: Blob<'a>,
}

/// An API that a bundle provides or needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Api<'a> {
    pub group: Text<'a>,
    pub version: Text<'a>,
    pub kind: Text<'a>,
}

/// What must be installable beside a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement<'a> {
    Package {
        name: Text<'a>,
        range: Text<'a>,
    },
    Api(Api<'a>),
    /// All of these.
    All(Vec<Self>),
    /// At least one of these.
    Any(Vec<Self>),
    /// Something that is not evaluated here, by the key that states it (`cel`).
    Unsupported(String),
}

/// What of a package is deprecated.
#[derive(Debug)]
pub struct Deprecations<'a> {
    pub entries: Vec<Deprecation<'a>>,
    pub blob: Blob<'a>,
}

impl Catalog<'_> {
    /// What a reader of the catalog should know about it, a sentence each.
    pub fn notices(&self) -> impl Iterator<Item = String> {
        let left_out = self.left_out.iter().map(|file| format!("left out: {}", file.why));
        left_out.chain(self.repeated_keys.iter().cloned())
    }
}

impl<'a> Package<'a> {
    pub(crate) fn new(name: Text<'a>) -> Self {
        Self {
            name,
            definition: None,
            channels: BTreeMap::new(),
            bundles: BTreeMap::new(),
            deprecations: None,
            others: Vec::new(),
            flaws: Vec::new(),
        }
    }

    /// The version of the bundle with this name.
    pub fn version_of(&self, bundle: &str) -> Option<&Version> {
        self.bundles.get(bundle)?.version.as_ref()
    }

    /// The channel that is used by default.
    pub fn default_channel(&self) -> Option<&str> {
        let definition = self.definition.as_ref()?;
        Some(&*definition.default_channel).filter(|name| !name.is_empty())
    }
}

impl<'a> Channel<'a> {
    pub fn entry(&self, name: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| &*entry.name == name)
    }
}

impl<'a> Blob<'a> {
    /// The document as JSON.
    pub fn json(&self) -> &'a str {
        self.0
    }
}
