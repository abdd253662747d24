//! Where the bytes of a blob come from: a registry, a layout, a workspace, an archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use mirror_plan::{BlobRef, ContentSource, Origin};
use oci::{Digest, Hasher, ManifestError, RawManifest};
use registry::{Blob, Client, Location};
use workspace::distribution::Cache;
use workspace::{DiskError, Holdings};

use crate::collect::built_images::BuiltImages;
use crate::fault::{EngineError, Fault};
use crate::gather::Layout;
use crate::transfer::schedule::{HostId, SourceId};
use crate::transfer::verified_body::{Body, BodyError};

/// Bytes read from a file at once. Large enough to make few system calls,
/// small enough that many files in flight stay cheap.
const PIECE: usize = 256 << 10;

/// What an image's blobs are taken from.
#[derive(Debug, Clone)]
pub(crate) enum Supply {
    Registry {
        client: Client,
        at: Location,
    },
    Layout(Layout),
    Held(Arc<Holdings>),
    /// A workspace for what was made there, and where the rest comes from.
    Made {
        base: Box<Supply>,
        holdings: Arc<Holdings>,
    },
    /// A cache of oc-mirror v2, and where the rest comes from.
    Cached {
        base: Box<Supply>,
        cache: Cache,
    },
}

/// Where the blobs of a run's images come from.
#[derive(Debug, Clone)]
pub(crate) enum Supplies {
    /// Each image's own registry or layout; for what was made here, the
    /// workspace and what it was made from.
    FromOrigins {
        client: Client,
        made: Arc<BuiltImages>,
        holdings: Arc<Holdings>,
        /// Read before a request to a registry. Content that a workspace takes over does not need
        /// it.
        cache: Option<Cache>,
    },
    /// A workspace or archives; nothing else is used.
    FromDisk(Arc<Holdings>),
}

impl Supplies {
    pub(crate) fn of(&self, origin: &Origin) -> Supply {
        match self {
            Self::FromOrigins { client, holdings, cache, .. } => {
                Supply::open(&self.source(origin), client, holdings, cache.as_ref())
            }
            Self::FromDisk(holdings) => Supply::Held(Arc::clone(holdings)),
        }
    }

    /// Where the content of an image comes from, in the form that is passed to another process.
    pub(crate) fn source(&self, origin: &Origin) -> ContentSource {
        match (self, origin) {
            (Self::FromOrigins { .. }, Origin::Registry(image)) => {
                let (registry, repository) = (image.registry.clone(), image.repository.clone());
                ContentSource::Registry { registry, repository }
            }
            (Self::FromOrigins { .. }, Origin::Layout(path)) => {
                ContentSource::Layout { path: path.clone() }
            }
            (Self::FromOrigins { made, .. }, Origin::Made(_)) => {
                let base = made.get(origin).map(|image| Box::new(image.base.source()));
                ContentSource::Built { base }
            }
            (Self::FromDisk(_), _) => ContentSource::Built { base: None },
        }
    }
}

/// The places that the images of a run come from, each once and numbered.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    list: Vec<Supply>,
    hosts: Vec<HostId>,
    known: BTreeMap<String, SourceId>,
    known_hosts: BTreeMap<String, HostId>,
}

impl Sources {
    /// The number of a place.
    pub(crate) fn add(&mut self, supply: Supply) -> SourceId {
        let (host, place) = supply.place();
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        let next = self.known_hosts.len();
        self.hosts.push(*self.known_hosts.entry(host).or_insert(next));
        self.list.push(supply);
        self.known.insert(place, self.list.len() - 1);
        self.list.len() - 1
    }

    pub(crate) fn get(&self, source: SourceId) -> &Supply {
        &self.list[source]
    }

    /// The host of each, by number.
    pub(crate) fn hosts(&self) -> Vec<HostId> {
        self.hosts.clone()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SupplyError {
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error("reading {digest}")]
    Read { digest: Digest, source: io::Error },
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("{0} is neither in the workspace nor in an archive here")]
    Missing(Digest),
}

impl Supply {
    /// What supplies content from a source. A cache is read before a request to a registry.
    pub(crate) fn open(
        source: &ContentSource,
        client: &Client,
        holdings: &Arc<Holdings>,
        cache: Option<&Cache>,
    ) -> Self {
        match source {
            ContentSource::Registry { registry, repository } => {
                let at = Location { registry: registry.clone(), repository: repository.clone() };
                let supply = Self::Registry { client: client.clone(), at };
                match cache {
                    Some(cache) => Self::Cached { base: Box::new(supply), cache: cache.clone() },
                    None => supply,
                }
            }
            ContentSource::Layout { path } => Self::Layout(Layout::new(path)),
            ContentSource::Built { base: Some(base) } => Self::Made {
                base: Box::new(Self::open(base, client, holdings, None)),
                holdings: Arc::clone(holdings),
            },
            ContentSource::Built { base: None } => Self::Held(Arc::clone(holdings)),
        }
    }

    /// The host it is at, and a name that no other place has.
    fn place(&self) -> (String, String) {
        match self {
            Self::Registry { at, .. } => (at.registry.to_string(), at.to_string()),
            Self::Layout(layout) => ("oci:".to_owned(), format!("oci:{}", layout.path().display())),
            Self::Held(_) => ("held:".to_owned(), "held:".to_owned()),
            Self::Made { base, .. } => {
                let (host, place) = base.place();
                (host, format!("made:{place}"))
            }
            Self::Cached { base, .. } => {
                let (host, place) = base.place();
                (host, format!("cached:{place}"))
            }
        }
    }

    /// The host it is at.
    pub(crate) fn host(&self) -> String {
        self.place().0
    }

    /// Whether bytes come over a network, so that requesting them twice has a cost.
    pub(crate) fn is_remote(&self) -> bool {
        match self {
            Self::Registry { .. } => true,
            Self::Made { base, .. } | Self::Cached { base, .. } => base.is_remote(),
            Self::Layout(_) | Self::Held(_) => false,
        }
    }

    /// Whether the bytes were checked before the run began to push: on the
    /// disconnected side everything is, and hashing twice is needless.
    pub(crate) fn is_checked(&self) -> bool {
        matches!(self, Self::Held(_))
    }

    /// The blob's bytes from `offset` on. The receiver checks the digest.
    pub(crate) async fn body(&self, blob: BlobRef, offset: u64) -> Result<Body, SupplyError> {
        let read = |source| SupplyError::Read { digest: blob.digest, source };
        match self {
            Self::Registry { client, at } => {
                let blob = Blob { digest: blob.digest, size: blob.size };
                let stream = client.blob(at, blob, offset).await?.into_stream();
                Ok(stream.map_err(BodyError::from).boxed())
            }
            Self::Layout(layout) => {
                let file = layout.open(&blob.digest).map_err(read)?;
                reader_body(file, offset).map_err(read)
            }
            Self::Made { base, holdings } => match holdings.blob(&blob.digest)? {
                Some(reader) => reader_body(reader, offset).map_err(read),
                None => Box::pin(base.body(blob, offset)).await,
            },
            Self::Cached { base, cache } => {
                let cache = cache.clone();
                // Damaged content must not fail the image: the base has it. So it is hashed first.
                let found = tokio::task::spawn_blocking(move || sound(&cache, &blob.digest)).await;
                match found.ok().flatten() {
                    Some(file) => {
                        reader_body(ByPosition { file, position: 0 }, offset).map_err(read)
                    }
                    None => Box::pin(base.body(blob, offset)).await,
                }
            }
            Self::Held(holdings) => {
                let reader = holdings.blob(&blob.digest)?;
                let reader = reader.ok_or(SupplyError::Missing(blob.digest))?;
                reader_body(reader, offset).map_err(read)
            }
        }
    }
}

/// The file of a blob in a cache, if its content has this digest.
fn sound(cache: &Cache, digest: &Digest) -> Option<File> {
    let mut file = cache.open(digest).ok()??;
    let mut hasher = Hasher::new();
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece).ok()? {
            0 => return (hasher.finish() == *digest).then_some(file),
            count => hasher.update(&piece[..count]),
        }
    }
}

/// A body out of something that is read. Reading happens where the stream is
/// polled: from the page cache it is a copy, and on a slow disk waiting is the
/// back-pressure that is wanted.
fn reader_body<R: Read + Send + 'static>(mut reader: R, offset: u64) -> io::Result<Body> {
    if offset > 0 {
        io::copy(&mut reader.by_ref().take(offset), &mut io::sink())?;
    }
    let pieces = stream::try_unfold(reader, |mut reader| async move {
        let mut piece = Vec::with_capacity(PIECE);
        let read = reader.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
        Ok::<_, BodyError>((read > 0).then(|| (Bytes::from(piece), reader)))
    });
    Ok(pieces.boxed())
}

/// The bytes of a file, read by position: several readers may share it.
pub(crate) fn file_body(file: File, size: u64) -> io::Result<Body> {
    reader_body(ByPosition { file, position: 0 }.take(size), 0)
}

/// Reads a file without moving its own position.
struct ByPosition {
    file: File,
    position: u64,
}

impl Read for ByPosition {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

/// Why a manifest cannot be read here.
#[derive(Debug, thiserror::Error)]
pub enum ManifestReadError {
    #[error("the manifest {0} is neither in the workspace nor in an archive here")]
    Missing(Digest),
    #[error("reading the manifest {digest}")]
    Read { digest: Digest, source: io::Error },
    #[error("reading the manifest {digest}")]
    Parse { digest: Digest, source: ManifestError },
    #[error("the manifest {0} is damaged on disk")]
    Damaged(Digest),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl EngineError for SupplyError {
    fn fault(&self) -> Fault {
        match self {
            Self::Registry(error) => Fault::of_source(error),
            Self::Missing(_) => Fault::NotHeld,
            Self::Read { .. } => Fault::SourceRefuses,
            Self::Disk(_) => Fault::Disk,
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Registry(error) => Some(error),
            Self::Missing(_) | Self::Read { .. } | Self::Disk(_) => None,
        }
    }
}

impl EngineError for ManifestReadError {
    fn fault(&self) -> Fault {
        match self {
            Self::Missing(_) => Fault::NotHeld,
            Self::Parse { .. } | Self::Damaged(_) => Fault::Content,
            Self::Read { .. } | Self::Disk(_) => Fault::Disk,
        }
    }
}

/// Reads a manifest that is held, by its digest.
pub(crate) fn held_manifest(
    holdings: &Holdings,
    digest: &Digest,
) -> Result<RawManifest, ManifestReadError> {
    let digest = *digest;
    let mut reader = holdings.blob(&digest)?.ok_or(ManifestReadError::Missing(digest))?;
    let mut bytes = Vec::new();
    reader
        .by_ref()
        .take(oci::MAX_MANIFEST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| ManifestReadError::Read { digest, source })?;
    let raw = RawManifest::new(None, bytes)
        .map_err(|source| ManifestReadError::Parse { digest, source })?;
    if raw.digest != digest {
        return Err(ManifestReadError::Damaged(digest));
    }
    Ok(raw)
}
