//! What is given out: which names, manifests and blobs each repository has.
//!
//! A shelf knows names, digests and sizes. Content stays in the store and is
//! opened when it is requested, so a large workspace costs little memory.

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

/// Where the bytes of blobs and manifests are, by digest.
pub trait Store: Send + Sync + 'static {
    /// Opens the content of `digest` for reading, from its start. The store
    /// vouches for it: what it holds was checked when it came in.
    fn open(&self, digest: &Digest) -> io::Result<File>;
}

/// An image and the name it has in this registry.
#[derive(Debug, Clone)]
pub struct Shelved {
    pub name: Destination,
    pub record: ImageRecord,
}

/// The content of a registry at one moment.
pub struct Shelf {
    store: Arc<dyn Store>,
    repositories: BTreeMap<Repository, Holding>,
}

/// What one repository has. Nothing is given out through another one.
#[derive(Default)]
struct Holding {
    tags: BTreeMap<ListedTag, Digest>,
    manifests: BTreeMap<Digest, Stored>,
    blobs: BTreeMap<Digest, u64>,
    /// What is attached to a manifest, by that manifest.
    referrers: BTreeMap<Digest, Vec<Descriptor>>,
    /// Indexes of referrers that are made when requested: theirs and the subject's digest.
    made_indexes: BTreeMap<Digest, Digest>,
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

/// Something the operator should know about what is, or is not, on a shelf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Only manifests of this image are held, as after mirror to mirror.
    NoBlobs { origin: Origin },
    /// The record lists no manifest.
    NoManifests { origin: Origin },
    /// No name can be made for this image.
    NoName { reason: String },
    /// A record cannot be read.
    Unreadable { reason: String },
    /// Two images want one name. The first has it; this one is found by digest only.
    NameTaken { name: Destination, holder: Origin, origin: Origin },
}

impl fmt::Display for Note {
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

/// Why content that the shelf lists cannot be given out. Each means that the
/// workspace was changed from outside or damaged.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("opening {digest}")]
    Open { digest: Digest, source: io::Error },
    #[error("reading {digest}")]
    Read { digest: Digest, source: io::Error },
    #[error("{digest} is {found} bytes on disk and should be {wanted}; mirror it again")]
    Size { digest: Digest, found: u64, wanted: u64 },
    #[error("the record calls {digest} {media_type:?}, which no manifest is; mirror it again")]
    MediaType { digest: Digest, media_type: MediaType },
    #[error("the manifest {digest} was changed on disk and is {found} now; mirror it again")]
    Changed { digest: Digest, found: Digest },
}

/// A blob that is ready to be read.
#[derive(Debug)]
pub struct Blob {
    pub file: File,
    pub size: u64,
}

impl Shelf {
    /// Puts images on a shelf. Takes them one by one, so that records may come
    /// from disk as they are needed; where two want one name, the first gets it.
    pub fn new(
        store: Arc<dyn Store>,
        images: impl IntoIterator<Item = Shelved>,
    ) -> (Self, Vec<Note>) {
        let mut stocking = Stocking::default();
        for image in images {
            stocking.add(image);
        }
        let Stocking { mut repositories, notes, .. } = stocking;
        for holding in repositories.values_mut() {
            holding.make_indexes();
        }
        (Self { store, repositories }, notes)
    }

    pub fn repositories(&self) -> impl Iterator<Item = &Repository> {
        self.repositories.keys()
    }

    pub fn has_repository(&self, repository: &Repository) -> bool {
        self.repositories.contains_key(repository)
    }

    /// Tags in the order of lists; `None` if there is no such repository.
    pub fn tags(&self, repository: &Repository) -> Option<impl Iterator<Item = &Tag>> {
        self.repositories.get(repository).map(|holding| holding.tags.keys().map(|tag| &tag.0))
    }

    /// A manifest, byte for byte as its source gave it. Reads the disk.
    pub fn manifest(
        &self,
        repository: &Repository,
        pointer: &Pointer,
    ) -> Result<Option<RawManifest>, ReadError> {
        let Some(holding) = self.repositories.get(repository) else { return Ok(None) };
        let digest = match pointer {
            Pointer::Digest(digest) => *digest,
            Pointer::Tag(tag) => match holding.tags.get(&ListedTag(tag.clone())) {
                Some(digest) => *digest,
                None => return Ok(None),
            },
        };
        if let Some(stored) = holding.manifests.get(&digest) {
            return self.read_manifest(digest, stored).map(Some);
        }
        let made = holding.made_indexes.get(&digest).and_then(|of| holding.referrers.get(of));
        Ok(made.map(|referrers| referrers_index(referrers.clone())))
    }

    fn read_manifest(&self, digest: Digest, stored: &Stored) -> Result<RawManifest, ReadError> {
        // It becomes the content type: one for browsers must not get through.
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

    /// A blob of this repository. Touches the disk. The size is compared, the
    /// content is not hashed again: the store did that when it took it in.
    pub fn blob(
        &self,
        repository: &Repository,
        digest: &Digest,
    ) -> Result<Option<Blob>, ReadError> {
        let holding = self.repositories.get(repository);
        let Some(&size) = holding.and_then(|holding| holding.blobs.get(digest)) else {
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

    /// What is attached to a manifest, sorted by digest. Nothing is attached to
    /// what is not there.
    pub fn referrers(&self, repository: &Repository, subject: &Digest) -> &[Descriptor] {
        let holding = self.repositories.get(repository);
        holding.and_then(|holding| holding.referrers.get(subject)).map_or(&[], Vec::as_slice)
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf")
            .field("repositories", &self.repositories.len())
            .finish_non_exhaustive()
    }
}

/// A shelf while it is filled.
#[derive(Default)]
struct Stocking {
    repositories: BTreeMap<Repository, Holding>,
    /// Who has a name. Only notes need it, so the shelf does not keep it.
    holders: BTreeMap<Destination, Origin>,
    notes: Vec<Note>,
}

impl Stocking {
    fn add(&mut self, image: Shelved) {
        let Shelved { name: Destination { repository, tag }, record } = image;
        let ImageRecord { origin, tree, blobs_held, .. } = record;
        if !blobs_held {
            self.notes.push(Note::NoBlobs { origin });
            return;
        }
        let Some(root) = tree.manifests.first().map(|root| root.digest) else {
            self.notes.push(Note::NoManifests { origin });
            return;
        };
        let holding = self.repositories.entry(repository.clone()).or_default();
        holding.hold(&tree.manifests);
        for attachment in &tree.attachments {
            holding.attach(attachment);
        }
        let attached = tree.attachments.iter().filter_map(|attachment| {
            Some((attachment.tag.clone()?, attachment.manifests.first()?.digest))
        });
        for (tag, digest) in std::iter::once((tag, root)).chain(attached) {
            self.name(&repository, tag, digest, &origin);
        }
    }

    /// Gives `digest` a name, unless another image has it.
    fn name(&mut self, repository: &Repository, tag: Tag, digest: Digest, origin: &Origin) {
        let Some(holding) = self.repositories.get_mut(repository) else { return };
        let named = *holding.tags.entry(ListedTag(tag.clone())).or_insert(digest);
        let name = Destination { repository: repository.clone(), tag };
        if named == digest {
            self.holders.entry(name).or_insert_with(|| origin.clone());
        } else if let Some(holder) = self.holders.get(&name).cloned() {
            self.notes.push(Note::NameTaken { name, holder, origin: origin.clone() });
        }
    }
}

impl Holding {
    fn hold(&mut self, manifests: &[ManifestNode]) {
        for node in manifests {
            let stored = Stored { media_type: node.media_type.clone(), size: node.size };
            self.manifests.entry(node.digest).or_insert(stored);
            for blob in &node.blobs {
                self.blobs.entry(blob.digest).or_insert(blob.size);
            }
        }
    }

    fn attach(&mut self, attachment: &Attachment) {
        self.hold(&attachment.manifests);
        // With a tag it is cosign's, which is found by that tag alone.
        let (None, Some(root)) = (&attachment.tag, attachment.manifests.first()) else { return };
        let listed = attachment
            .listed_as
            .clone()
            .unwrap_or_else(|| Descriptor::new(root.media_type.clone(), root.digest, root.size));
        let referrers = self.referrers.entry(attachment.subject).or_default();
        if let Err(place) = referrers.binary_search_by_key(&listed.digest, |one| one.digest) {
            referrers.insert(place, listed);
        }
    }

    /// Gives referrers the tag by which clients without the referrers API find
    /// them. An image by digest has that very tag; then the image keeps it.
    fn make_indexes(&mut self) {
        for (subject, referrers) in &self.referrers {
            let tag = ListedTag(Tag::of_digest(subject));
            if let Entry::Vacant(free) = self.tags.entry(tag) {
                let index = referrers_index(referrers.clone()).digest;
                free.insert(index);
                self.made_indexes.insert(index, *subject);
            }
        }
    }
}
