//! What one target registry received from a workspace, and on behalf of which configurations.
//!
//! The record is evidence, not truth: the target may have changed since. Deletion, repair and
//! garbage collection compare it with the target before they act. The file is
//! `working-dir/targets/<registry>.json`; version 1 has only a fingerprint per image.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};

use oci::{Digest, Hasher, Repository};
use serde::{Deserialize, Serialize, Serializer};

use crate::{Destination, ImageTree, Kind, Origin, SmallMap};

const VERSION: u32 = 2;

/// The record of one target registry, all its namespaces included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetRecord {
    /// The last run with each configuration, by the path of its file.
    pub configurations: BTreeMap<String, RecordedConfiguration>,
    /// Texts of configurations, credentials in URLs hidden, each once.
    pub texts: BTreeMap<Digest, String>,
    /// Images by their names below the registry.
    pub images: BTreeMap<Destination, RecordedImage>,
    /// What images consist of, by fingerprint.
    pub trees: BTreeMap<Digest, ImageTree>,
    /// Manifests that a deletion was about to delete when it ended, of images that are not on
    /// record: nothing else leads to them, so that the next deletion could not find them.
    pub unfinished: BTreeMap<Repository, BTreeSet<Digest>>,
}

/// The last run with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedConfiguration {
    /// Of its text; `texts` has that.
    pub text: Digest,
    pub run: u64,
}

/// An image that was copied to the target, or found there complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedImage {
    /// One digest for all manifests and attachments: see [`fingerprint`].
    pub fingerprint: Digest,
    /// Unknown for what version 1 recorded.
    #[serde(flatten)]
    pub details: Option<ImageDetails>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageDetails {
    pub origin: Origin,
    pub kind: Kind,
    /// The manifest that its tag names.
    pub root: Digest,
    /// The last run that copied or found it.
    pub run: u64,
    /// The configurations whose last run selected it, each with the bundles that need it.
    #[serde(default, skip_serializing_if = "SmallMap::is_empty")]
    pub users: SmallMap<String, BTreeSet<BundleUse>>,
    /// What a catalog offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogContent>,
}

/// A bundle that needs an image: its own, or one of its related images.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BundleUse {
    pub package: String,
    pub bundle: String,
}

/// What a catalog offers, or what a configuration selects of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogContent {
    /// The catalog that it was selected from, as configurations name it.
    pub source: String,
    pub packages: BTreeMap<String, PackageContent>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageContent {
    pub default_channel: String,
    pub channels: BTreeMap<String, ChannelContent>,
    /// Versions of bundles, as far as they have one.
    pub versions: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelContent {
    /// The newest bundle, where there is exactly one that no other replaces or skips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    pub bundles: BTreeSet<String>,
}

impl CatalogContent {
    /// Adds what another platform of the same catalog offers.
    pub fn merge(&mut self, other: Self) {
        if self.source.is_empty() {
            self.source = other.source;
        }
        for (name, package) in other.packages {
            let known = self.packages.entry(name).or_default();
            if known.default_channel.is_empty() {
                known.default_channel = package.default_channel;
            }
            known.versions.extend(package.versions);
            for (name, channel) in package.channels {
                let known = known.channels.entry(name).or_default();
                known.head = known.head.take().or(channel.head);
                known.bundles.extend(channel.bundles);
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RecordFormatError {
    #[error("it is not a record of a target")]
    Json(#[from] serde_json::Error),
    #[error("it has version {0}, which a newer version of oc-mirror wrote: use that one")]
    Newer(u32),
}

/// As it is written. Version 1 has a digest in place of each image.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    version: u32,
    #[serde(default)]
    configurations: BTreeMap<String, RecordedConfiguration>,
    #[serde(default)]
    texts: BTreeMap<Digest, String>,
    images: BTreeMap<String, Listed>,
    #[serde(default)]
    trees: BTreeMap<Digest, ImageTree>,
    #[serde(default)]
    unfinished: BTreeMap<Repository, BTreeSet<Digest>>,
}

/// The same without copies, to be written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenDocument<'a> {
    version: u32,
    configurations: &'a BTreeMap<String, RecordedConfiguration>,
    texts: BTreeMap<&'a Digest, &'a String>,
    images: WrittenImages<'a>,
    trees: BTreeMap<&'a Digest, &'a ImageTree>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unfinished: &'a BTreeMap<Repository, BTreeSet<Digest>>,
}

/// Images by name; names are made one by one.
struct WrittenImages<'a> {
    registry: &'a str,
    images: &'a [(&'a Destination, &'a RecordedImage)],
}

impl Serialize for WrittenImages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = |place: &Destination| format!("{}/{place}", self.registry);
        serializer.collect_map(self.images.iter().map(|(place, image)| (name(place), image)))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Listed {
    Image(Box<RecordedImage>),
    Fingerprint(Digest),
}

impl TargetRecord {
    /// Reads a record of `registry` of any version so far.
    pub fn read(registry: &str, text: impl Read) -> Result<Self, RecordFormatError> {
        let document: Document = serde_json::from_reader(text)?;
        if document.version > VERSION {
            return Err(RecordFormatError::Newer(document.version));
        }
        let prefix = format!("{registry}/");
        let mut images = BTreeMap::new();
        for (name, listed) in document.images {
            // Names that cannot be tags at this registry were never pushed there.
            let Some(Ok(place)) = name.strip_prefix(&prefix).map(str::parse) else { continue };
            let image = match listed {
                Listed::Image(image) => *image,
                Listed::Fingerprint(fingerprint) => RecordedImage { fingerprint, details: None },
            };
            images.insert(place, image);
        }
        let Document { configurations, texts, trees, unfinished, .. } = document;
        Ok(Self { configurations, texts, images, trees, unfinished })
    }

    /// Writes the record as [`Self::read`] reads it; what nothing refers to is left out.
    pub fn write(&self, registry: &str, out: impl Write) -> Result<(), serde_json::Error> {
        let used: BTreeSet<&Digest> =
            self.images.values().map(|image| &image.fingerprint).collect();
        let texts: BTreeSet<&Digest> =
            self.configurations.values().map(|known| &known.text).collect();
        let trees = self.trees.iter().filter(|(print, _)| used.contains(print));
        let texts = self.texts.iter().filter(|(digest, _)| texts.contains(digest));
        // In the order of the text, which is not that of the places.
        let mut images: Vec<_> = self.images.iter().collect();
        images.sort_by_cached_key(|(place, _)| place.to_string().into_boxed_str());
        let document = WrittenDocument {
            version: VERSION,
            configurations: &self.configurations,
            texts: texts.collect(),
            images: WrittenImages { registry, images: &images },
            trees: trees.collect(),
            unfinished: &self.unfinished,
        };
        serde_json::to_writer(out, &document)
    }

    /// What an image consists of, where that is recorded.
    pub fn tree(&self, place: &Destination) -> Option<&ImageTree> {
        self.trees.get(&self.images.get(place)?.fingerprint)
    }

    /// Whether `tree`, all of it, was copied to `place`.
    pub fn has(&self, place: &Destination, tree: &ImageTree) -> bool {
        self.images.get(place).is_some_and(|known| known.fingerprint == fingerprint(tree))
    }

    /// Records an image without its users, which stay as they are.
    pub fn insert(&mut self, place: Destination, image: ImageEntry<'_>) {
        let ImageEntry { origin, kind, tree, run } = image;
        let fingerprint = fingerprint(tree);
        self.trees.entry(fingerprint).or_insert_with(|| tree.clone());
        let before = self.images.remove(&place).and_then(|known| known.details);
        // Another image under the same name may offer something else.
        let same = before.as_ref().is_some_and(|known| known.root == tree.root().digest);
        let (users, catalog) = match before {
            Some(known) => (known.users, known.catalog.filter(|_| same)),
            None => (SmallMap::default(), None),
        };
        let (origin, root) = (origin.clone(), tree.root().digest);
        let details = Some(ImageDetails { origin, kind, root, run, users, catalog });
        self.images.insert(place, RecordedImage { fingerprint, details });
    }

    /// Records a run with a configuration: `selected` is all that it selects. What an earlier run
    /// with the same configuration selected, and this one does not, is no longer used by it;
    /// unless the selection is not `complete`, because content that could not be found may still
    /// be in use.
    pub fn select(&mut self, run: &ConfigurationRun<'_>) {
        let ConfigurationRun { name, text, number, selected, complete } = *run;
        let digest = Digest::of(text.as_bytes());
        self.texts.insert(digest, text.to_owned());
        let known = RecordedConfiguration { text: digest, run: number };
        let known_as = name.to_owned();
        self.configurations.insert(known_as.clone(), known);
        for (place, image) in &mut self.images {
            let Some(details) = &mut image.details else { continue };
            match selected.get(place) {
                Some(bundles) => {
                    details.users.insert(known_as.clone(), bundles.clone());
                }
                None if complete => {
                    details.users.remove(&known_as);
                }
                None => {}
            }
        }
        let used: BTreeSet<Digest> = self.configurations.values().map(|known| known.text).collect();
        self.texts.retain(|digest, _| used.contains(digest));
    }
}

/// An image to record.
#[derive(Debug, Clone, Copy)]
pub struct ImageEntry<'a> {
    pub origin: &'a Origin,
    pub kind: Kind,
    pub tree: &'a ImageTree,
    pub run: u64,
}

/// A run to record.
#[derive(Debug, Clone, Copy)]
pub struct ConfigurationRun<'a> {
    pub name: &'a str,
    pub text: &'a str,
    pub number: u64,
    /// With the bundles that need each image.
    pub selected: &'a BTreeMap<Destination, BTreeSet<BundleUse>>,
    pub complete: bool,
}

/// One digest for all manifests of an image and what is attached to it.
pub fn fingerprint(tree: &ImageTree) -> Digest {
    let mut hasher = Hasher::new();
    for node in &tree.manifests {
        hasher.update(format!("{}\n", node.digest).as_bytes());
    }
    for attachment in &tree.attachments {
        let tag = attachment.tag.as_ref().map(ToString::to_string).unwrap_or_default();
        hasher.update(format!("{} {tag}\n", attachment.subject).as_bytes());
        for node in &attachment.manifests {
            hasher.update(format!("{}\n", node.digest).as_bytes());
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use oci::MediaType;

    use super::*;
    use crate::ManifestNode;

    fn tree(seed: &str) -> ImageTree {
        let node = ManifestNode {
            media_type: MediaType::new(MediaType::OCI_MANIFEST),
            digest: Digest::of(seed.as_bytes()),
            size: 7,
            platform: None,
            blobs: Vec::new(),
        };
        ImageTree { manifests: vec![node], left_out: BTreeSet::new(), attachments: Vec::new() }
    }

    fn place(text: &str) -> Destination {
        text.parse().unwrap()
    }

    fn written_and_read(record: &TargetRecord) -> TargetRecord {
        let mut text = Vec::new();
        record.write("r.io", &mut text).unwrap();
        TargetRecord::read("r.io", text.as_slice()).unwrap()
    }

    fn insert(record: &mut TargetRecord, name: &str, run: u64) {
        let origin = Origin::Registry(format!("quay.io/{name}").parse().unwrap());
        let tree = tree(name);
        let entry = ImageEntry { origin: &origin, kind: Kind::Additional, tree: &tree, run };
        record.insert(place(name), entry);
    }

    fn select(
        record: &mut TargetRecord,
        config: &str,
        number: u64,
        names: &[&str],
        complete: bool,
    ) {
        let selected = names.iter().map(|name| (place(name), BTreeSet::new())).collect();
        let text = format!("{config} {names:?}");
        let run =
            ConfigurationRun { name: config, text: &text, number, selected: &selected, complete };
        record.select(&run);
    }

    fn users(record: &TargetRecord, name: &str) -> Vec<String> {
        record.images[&place(name)].details.as_ref().unwrap().users.keys().cloned().collect()
    }

    #[test]
    fn version_1_is_read_and_written_as_version_2() {
        let print = Digest::of(b"x");
        let text = format!(r#"{{"version":1,"images":{{"r.io/ns/a:1":"{print}"}}}}"#);
        let record = TargetRecord::read("r.io", text.as_bytes()).unwrap();
        let image = &record.images[&place("ns/a:1")];
        assert_eq!((image.fingerprint, &image.details), (print, &None));
        let again = written_and_read(&record);
        assert_eq!(again, record);
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let mut record = TargetRecord::default();
        insert(&mut record, "a/b:1", 3);
        select(&mut record, "/etc/isc.yaml", 3, &["a/b:1"], true);
        record.unfinished.insert("a/b".parse().unwrap(), [Digest::of(b"child")].into());
        let again = written_and_read(&record);
        assert_eq!(again, record);
        assert_eq!(again.tree(&place("a/b:1")), Some(&tree("a/b:1")));
        assert!(again.has(&place("a/b:1"), &tree("a/b:1")));
        assert!(!again.has(&place("a/b:1"), &tree("other")));
        assert!(matches!(
            TargetRecord::read("r.io", &br#"{"version":3,"images":{}}"#[..]),
            Err(RecordFormatError::Newer(3))
        ));
    }

    #[test]
    fn a_configuration_uses_what_its_last_complete_run_selected() {
        let mut record = TargetRecord::default();
        for name in ["a:1", "b:1"] {
            insert(&mut record, name, 1);
        }
        select(&mut record, "one", 1, &["a:1", "b:1"], true);
        select(&mut record, "two", 2, &["b:1"], true);
        // Something could not be found: what was selected before may still be in use.
        select(&mut record, "one", 3, &["b:1"], false);
        assert_eq!(users(&record, "a:1"), ["one"]);
        select(&mut record, "one", 4, &["b:1"], true);
        assert_eq!(users(&record, "a:1"), [""; 0]);
        assert_eq!(users(&record, "b:1"), ["one", "two"]);
        assert_eq!(record.texts.len(), 2, "only texts that are in use are kept");
    }
}
