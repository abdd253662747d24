//! The content of the registry: the tags, manifests and blobs of each repository.
//!
//! A snapshot contains names, digests and sizes. Content stays in the store and is
//! opened when it is requested, so a large workspace needs little memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use mirror_plan::{Attachment, Destination, ImageRecord, ManifestNode, Origin};
use oci::{
    Descriptor, Digest, MAX_MANIFEST_BYTES, MediaType, Pointer, RawManifest, Repository, Tag,
    referrers_index,
};

use crate::listing::lexical;

/// The content of blobs and manifests, by digest.
pub trait Store: Send + Sync + 'static {
    /// Opens the content of `digest` for reading, from its start. The store
    /// guarantees its integrity: content is verified when it is added.
    fn open(&self, digest: &Digest) -> io::Result<File>;
}

/// An image and the name it has in this registry.
#[derive(Debug, Clone)]
pub struct NamedImage {
    pub name: Destination,
    pub record: ImageRecord,
}

/// The content of a registry at one moment.
pub struct Snapshot {
    store: Arc<dyn Store>,
    repositories: BTreeMap<Repository, RepositoryContent>,
}

/// The content of one repository. It is served through this repository only.
#[derive(Default)]
struct RepositoryContent {
    tags: BTreeMap<ListedTag, Digest>,
    manifests: BTreeMap<Digest, Stored>,
    blobs: BTreeMap<Digest, u64>,
    /// The referrers of a manifest, by the digest of that manifest.
    referrers: BTreeMap<Digest, Vec<Descriptor>>,
    /// Indexes of referrers that are generated when requested, by digest, with their subject's
    /// digest.
    generated_indexes: BTreeMap<Digest, Digest>,
}

/// A manifest in the store.
struct Stored {
    media_type: MediaType,
    size: u64,
}

/// A tag in the order of lists.
#[derive(Clone, PartialEq, Eq)]
struct ListedTag(Tag);

impl Ord for ListedTag {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        lexical(self.0.as_str(), other.0.as_str())
    }
}

impl PartialOrd for ListedTag {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A reason why an image is not served, or not under its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The workspace has only the manifests of this image, as after mirror to mirror.
    NoBlobs { origin: Origin },
    /// The record lists no manifest.
    NoManifests { origin: Origin },
    /// No name can be derived for this image.
    NoName { reason: String },
    /// A record cannot be read.
    Unreadable { reason: String },
    /// Two images have the same name. The first keeps it; this one is available by digest only.
    NameTaken { name: Destination, holder: Origin, origin: Origin },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBlobs { origin } => write!(
                f,
                "{origin} is not served: the workspace holds its manifests but not its layers, as a mirror-to-mirror run leaves it; mirror it to disk to serve it"
            ),
            Self::NoManifests { origin } => write!(
                f,
                "{origin} is not served: its record lists no manifest; mirror it to disk again"
            ),
            Self::NoName { reason } => write!(f, "an image is not served: {reason}"),
            Self::Unreadable { reason } => {
                write!(f, "an image is not served, as its record cannot be used: {reason}")
            }
            Self::NameTaken { name, holder, origin } => {
                write!(f, "{origin} is served by digest only: its name {name} belongs to {holder}")
            }
        }
    }
}

/// Why content that the snapshot lists cannot be served. Each means that the
/// workspace was changed by another program or damaged.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("opening {digest}")]
    Open { digest: Digest, source: io::Error },
    #[error("reading {digest}")]
    Read { digest: Digest, source: io::Error },
    #[error("{digest}: expected {wanted} bytes, found {found} on disk; mirror it again")]
    Size { digest: Digest, found: u64, wanted: u64 },
    #[error(
        "the record of {digest} has the media type {media_type:?}, which is not a manifest's; mirror it again"
    )]
    MediaType { digest: Digest, media_type: MediaType },
    #[error("the manifest {digest} was changed on disk: its digest is {found}; mirror it again")]
    Changed { digest: Digest, found: Digest },
}

/// A blob that is ready to be read.
#[derive(Debug)]
pub struct Blob {
    pub file: File,
    pub size: u64,
}

impl Snapshot {
    /// Builds a snapshot. The images are consumed one by one, so that records can be read
    /// from disk as they are needed; if two have the same name, the first keeps it.
    pub fn new(
        store: Arc<dyn Store>,
        images: impl IntoIterator<Item = NamedImage>,
    ) -> (Self, Vec<Warning>) {
        let mut builder = Builder::default();
        for image in images {
            builder.add(image);
        }
        let Builder { mut repositories, warnings, .. } = builder;
        for content in repositories.values_mut() {
            content.generate_indexes();
        }
        (Self { store, repositories }, warnings)
    }

    pub fn repositories(&self) -> impl Iterator<Item = &Repository> {
        self.repositories.keys()
    }

    pub fn has_repository(&self, repository: &Repository) -> bool {
        self.repositories.contains_key(repository)
    }

    /// Tags in the order of lists; `None` if the repository does not exist.
    pub fn tags(&self, repository: &Repository) -> Option<impl Iterator<Item = &Tag>> {
        self.repositories.get(repository).map(|content| content.tags.keys().map(|tag| &tag.0))
    }

    /// A manifest, byte for byte as the source registry sent it. Reads the disk.
    pub fn manifest(
        &self,
        repository: &Repository,
        pointer: &Pointer,
    ) -> Result<Option<RawManifest>, ReadError> {
        let Some(content) = self.repositories.get(repository) else { return Ok(None) };
        let digest = match pointer {
            Pointer::Digest(digest) => *digest,
            Pointer::Tag(tag) => match content.tags.get(&ListedTag(tag.clone())) {
                Some(digest) => *digest,
                None => return Ok(None),
            },
        };
        if let Some(stored) = content.manifests.get(&digest) {
            return self.read_manifest(digest, stored).map(Some);
        }
        let listed =
            content.generated_indexes.get(&digest).and_then(|of| content.referrers.get(of));
        Ok(listed.map(|referrers| referrers_index(referrers.clone())))
    }

    fn read_manifest(&self, digest: Digest, stored: &Stored) -> Result<RawManifest, ReadError> {
        // It becomes the content type: one that browsers render must not pass.
        if !stored.media_type.is_manifest() {
            let media_type = stored.media_type.clone();
            return Err(ReadError::MediaType { digest, media_type });
        }
        let file = self.store.open(&digest).map_err(|source| ReadError::Open { digest, source })?;
        let mut bytes = Vec::new();
        file.take(MAX_MANIFEST_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| ReadError::Read { digest, source })?;
        let found = bytes.len() as u64;
        if found != stored.size || found > MAX_MANIFEST_BYTES {
            return Err(ReadError::Size { digest, found, wanted: stored.size });
        }
        match Digest::of(&bytes) {
            same if same == digest => {
                Ok(RawManifest { media_type: stored.media_type.clone(), digest, bytes })
            }
            found => Err(ReadError::Changed { digest, found }),
        }
    }

    /// A blob of this repository. Reads the disk. The size is compared, the
    /// content is not hashed again: the store did that when it was added.
    pub fn blob(
        &self,
        repository: &Repository,
        digest: &Digest,
    ) -> Result<Option<Blob>, ReadError> {
        let content = self.repositories.get(repository);
        let Some(&size) = content.and_then(|content| content.blobs.get(digest)) else {
            return Ok(None);
        };
        let digest = *digest;
        let open = |source| ReadError::Open { digest, source };
        let file = self.store.open(&digest).map_err(open)?;
        let found = file.metadata().map_err(open)?.len();
        if found != size {
            return Err(ReadError::Size { digest, found, wanted: size });
        }
        Ok(Some(Blob { file, size }))
    }

    /// The referrers of a manifest, sorted by digest. Empty for an unknown manifest.
    pub fn referrers(&self, repository: &Repository, subject: &Digest) -> &[Descriptor] {
        let content = self.repositories.get(repository);
        content.and_then(|content| content.referrers.get(subject)).map_or(&[], Vec::as_slice)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("repositories", &self.repositories.len())
            .finish_non_exhaustive()
    }
}

/// A snapshot under construction.
#[derive(Default)]
struct Builder {
    repositories: BTreeMap<Repository, RepositoryContent>,
    /// The owner of each name. Only warnings need it, so the snapshot does not keep it.
    holders: BTreeMap<Destination, Origin>,
    warnings: Vec<Warning>,
}

impl Builder {
    fn add(&mut self, image: NamedImage) {
        let NamedImage { name: Destination { repository, tag }, record } = image;
        let ImageRecord { origin, tree, blobs_held, .. } = record;
        if !blobs_held {
            self.warnings.push(Warning::NoBlobs { origin });
            return;
        }
        let Some(root) = tree.manifests.first().map(|root| root.digest) else {
            self.warnings.push(Warning::NoManifests { origin });
            return;
        };
        let content = self.repositories.entry(repository.clone()).or_default();
        content.add_manifests(&tree.manifests);
        for attachment in &tree.attachments {
            content.add_attachment(attachment);
        }
        let attached = tree.attachments.iter().filter_map(|attachment| {
            Some((attachment.tag.clone()?, attachment.manifests.first()?.digest))
        });
        for (tag, digest) in std::iter::once((tag, root)).chain(attached) {
            self.add_tag(&repository, tag, digest, &origin);
        }
    }

    /// Adds a tag for `digest`, unless another image has it.
    fn add_tag(&mut self, repository: &Repository, tag: Tag, digest: Digest, origin: &Origin) {
        let Some(content) = self.repositories.get_mut(repository) else { return };
        let named = *content.tags.entry(ListedTag(tag.clone())).or_insert(digest);
        let name = Destination { repository: repository.clone(), tag };
        if named == digest {
            self.holders.entry(name).or_insert_with(|| origin.clone());
        } else if let Some(holder) = self.holders.get(&name).cloned() {
            self.warnings.push(Warning::NameTaken { name, holder, origin: origin.clone() });
        }
    }
}

impl RepositoryContent {
    fn add_manifests(&mut self, manifests: &[ManifestNode]) {
        for node in manifests {
            let stored = Stored { media_type: node.media_type.clone(), size: node.size };
            self.manifests.entry(node.digest).or_insert(stored);
            for blob in &node.blobs {
                self.blobs.entry(blob.digest).or_insert(blob.size);
            }
        }
    }

    fn add_attachment(&mut self, attachment: &Attachment) {
        self.add_manifests(&attachment.manifests);
        // With a tag it is cosign's, which is found by that tag alone.
        let (None, Some(root)) = (&attachment.tag, attachment.manifests.first()) else { return };
        let listed = attachment
            .listed_as
            .clone()
            .unwrap_or_else(|| Descriptor::new(root.media_type.clone(), root.digest, root.size));
        let referrers = self.referrers.entry(attachment.subject).or_default();
        if let Err(position) = referrers.binary_search_by_key(&listed.digest, |one| one.digest) {
            referrers.insert(position, listed);
        }
    }

    /// Adds the tag by which clients without the referrers API find referrers.
    /// An image by digest can have the same tag; then the image keeps it.
    fn generate_indexes(&mut self) {
        for (subject, referrers) in &self.referrers {
            let tag = ListedTag(Tag::of_digest(subject));
            if let Entry::Vacant(free) = self.tags.entry(tag) {
                let index = referrers_index(referrers.clone()).digest;
                free.insert(index);
                self.generated_indexes.insert(index, *subject);
            }
        }
    }
}
