//! Chart repositories: a web server with `index.yaml`, or a registry (`oci://`).

use helm::artifact::{self, ArtifactError};
use helm::chart::{Chart, ChartError};
use helm::repository::{
    ChartVersion, DigestMismatch, Index, IndexError, MAX_INDEX_BYTES, SelectError, archive_url,
    index_url,
};
use oci::{ImageRef, Pointer, RegistryHost, Repository as RepositoryName};
use registry::{Access, Client, DocumentRequest, Location, Url};

use crate::error_chain::chain;
use crate::fault::{EngineError, Fault};
use crate::gather::{CollectError, Collector, blob_of};

/// The largest chart archive that is read. Unpacked, charts may have 100 MiB.
pub(super) const MAX_ARCHIVE_BYTES: u64 = 64 << 20;
/// The largest provenance file: the chart's metadata, digests and a signature.
pub(super) const MAX_PROVENANCE_BYTES: u64 = 4 << 20;
/// Pages of tags that are read of one chart.
const TAG_PAGES: std::num::NonZeroUsize = std::num::NonZeroUsize::new(200).unwrap();

/// Why a repository or a chart of it cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RepositoryError {
    #[error("{url:?} is not the URL of a chart repository: {why}")]
    Url { url: String, why: String },
    #[error("fetching {url}")]
    Fetch { url: String, source: Box<registry::Error> },
    #[error("{url} does not exist; check the URL of the repository")]
    NoIndex { url: String },
    #[error("reading {url}")]
    Index { url: String, source: IndexError },
    #[error(
        "a registry cannot list the charts below {url}; name each chart below `charts` of the repository"
    )]
    NotListed { url: String },
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error("index.yaml names no URL for {chart}")]
    NoUrl { chart: String },
    #[error("index.yaml names {url:?} for {chart}: {why}")]
    ArchiveUrl { chart: String, url: String, why: String },
    #[error("{url} does not exist")]
    NoArchive { url: String },
    #[error(transparent)]
    Digest(#[from] DigestMismatch),
    #[error("reading {place}")]
    Artifact { place: String, source: ArtifactError },
    #[error("reading {place}")]
    Content { place: String, source: Box<CollectError> },
    #[error("reading the chart {place}")]
    Chart { place: String, source: ChartError },
}

impl EngineError for RepositoryError {
    fn fault(&self) -> Fault {
        match self {
            Self::Url { .. } | Self::NotListed { .. } | Self::Select(_) => Fault::Configuration,
            Self::Fetch { source, .. } => Fault::of_source(source),
            Self::NoIndex { .. } | Self::NoUrl { .. } | Self::NoArchive { .. } => {
                Fault::SourceAbsent
            }
            Self::Index { .. }
            | Self::ArchiveUrl { .. }
            | Self::Digest(_)
            | Self::Artifact { .. }
            | Self::Chart { .. } => Fault::Content,
            Self::Content { source, .. } => source.fault(),
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Fetch { source, .. } => Some(source),
            Self::Content { source, .. } => source.request(),
            _ => None,
        }
    }
}

/// A chart that was fetched.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) chart: Chart,
    pub(crate) packed: Packed,
}

/// Where the archive of a chart is.
#[derive(Debug)]
pub(crate) enum Packed {
    /// Here, with its provenance file.
    Here { archive: Vec<u8>, provenance: Option<Vec<u8>> },
    /// An artifact in a registry, with tag and digest.
    Stored { image: ImageRef, archive: Vec<u8> },
}

impl Packed {
    pub(crate) fn archive(&self) -> &[u8] {
        match self {
            Self::Here { archive, .. } | Self::Stored { archive, .. } => archive,
        }
    }
}

/// The location of an archive, from the index.
enum Listed {
    Archive { archive: Vec<u8>, provenance: Option<Vec<u8>> },
    Artifact(ImageRef),
}

/// A repository, ready for requests.
pub(crate) struct Repository<'a> {
    place: RepositoryAddress,
    client: &'a Client,
    collector: &'a Collector,
}

enum RepositoryAddress {
    Web(Url),
    Registry { host: RegistryHost, path: String, url: String },
}

impl<'a> Repository<'a> {
    pub(crate) fn open(
        url: &str,
        client: &'a Client,
        collector: &'a Collector,
    ) -> Result<Self, RepositoryError> {
        let bad = |why: String| RepositoryError::Url { url: without_login(url), why };
        let place = match url.strip_prefix("oci://") {
            Some(rest) => {
                let (host, path) = rest.trim_end_matches('/').split_once('/').unwrap_or((rest, ""));
                let host = host.trim_end_matches('/').parse().map_err(|e| bad(chain(&e)))?;
                RepositoryAddress::Registry { host, path: path.to_owned(), url: url.to_owned() }
            }
            None if url.starts_with("https://") || url.starts_with("http://") => {
                RepositoryAddress::Web(Url::parse(url).map_err(|e| bad(e.to_string()))?)
            }
            None => return Err(bad("expected https://, http:// or oci://".to_owned())),
        };
        Ok(Self { place, client, collector })
    }

    /// The charts of the repository; of a registry, the versions of the chart `name`.
    pub(crate) async fn index(&self, name: Option<&str>) -> Result<Index, RepositoryError> {
        match (&self.place, name) {
            (RepositoryAddress::Web(repository), _) => {
                let url = index_url(repository);
                let bytes = self.document(&url, MAX_INDEX_BYTES as u64, Access::Private).await?;
                let bytes =
                    bytes.ok_or_else(|| RepositoryError::NoIndex { url: without_secrets(&url) })?;
                Index::parse(&bytes)
                    .map_err(|source| RepositoryError::Index { url: without_secrets(&url), source })
            }
            (RepositoryAddress::Registry { host, path, .. }, Some(name)) => {
                let repository = repository_name(path, name)?;
                let at = Location { registry: host.clone(), repository };
                let listed = self.client.tags(&at, TAG_PAGES).await;
                let url = format!("oci://{at}");
                let listed = listed
                    .map_err(|source| RepositoryError::Fetch { url, source: Box::new(source) })?;
                Ok(Index::of_tags(name, listed.tags.iter()))
            }
            (RepositoryAddress::Registry { url, .. }, None) => {
                Err(RepositoryError::NotListed { url: without_login(url) })
            }
        }
    }

    /// Fetches one version of a chart. `held` has what is here already of an archive.
    pub(crate) async fn fetch(
        &self,
        version: &ChartVersion,
        held: impl Fn(&ChartVersion) -> Option<Packed>,
    ) -> Result<Fetched, RepositoryError> {
        let name = format!("{}-{}", version.metadata.name, version.metadata.version);
        let repository = match &self.place {
            RepositoryAddress::Registry { host, path, .. } => {
                let repository = repository_name(path, &version.metadata.name)?;
                let bad = |source| RepositoryError::Artifact { place: name.clone(), source };
                let tag = artifact::tag_of(&version.metadata.version).map_err(bad)?;
                let image =
                    ImageRef { registry: host.clone(), repository, tag: Some(tag), digest: None };
                return stored(self.collector, &image).await;
            }
            RepositoryAddress::Web(repository) => repository,
        };
        if let Some(packed) = held(version) {
            return unpacked(name, packed);
        }
        let mut failure = RepositoryError::NoUrl { chart: name.clone() };
        for listed in &version.urls {
            match self.archive(repository, &name, listed).await {
                Ok(Listed::Artifact(image)) => return stored(self.collector, &image).await,
                Ok(Listed::Archive { archive, provenance }) => {
                    version.check(&archive)?;
                    return unpacked(name, Packed::Here { archive, provenance });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Fetches the archive at the URL that this repository was opened with.
    pub(crate) async fn fetch_directly(&self) -> Result<Fetched, RepositoryError> {
        let RepositoryAddress::Web(url) = &self.place else {
            return Err(RepositoryError::NoUrl { chart: "the chart".to_owned() });
        };
        match self.archive(url, "the chart", url.as_str()).await? {
            Listed::Artifact(image) => stored(self.collector, &image).await,
            Listed::Archive { archive, provenance } => {
                unpacked(without_secrets(url), Packed::Here { archive, provenance })
            }
        }
    }

    async fn archive(
        &self,
        repository: &Url,
        chart: &str,
        listed: &str,
    ) -> Result<Listed, RepositoryError> {
        let bad = |why: String| RepositoryError::ArchiveUrl {
            chart: chart.to_owned(),
            url: without_login(listed),
            why,
        };
        let mut url = archive_url(repository, listed).map_err(|e| bad(e.to_string()))?;
        match url.scheme() {
            "http" | "https" => {}
            "oci" => {
                let image = listed.trim_start_matches("oci://").parse::<ImageRef>();
                return Ok(Listed::Artifact(image.map_err(|e| bad(chain(&e)))?));
            }
            other => return Err(bad(format!("expected http, https or oci, found {other}"))),
        }
        let access = match url.origin() == repository.origin() {
            true => {
                let _ = url.set_username(repository.username());
                let _ = url.set_password(repository.password());
                Access::Private
            }
            false => Access::Linked,
        };
        let archive = self.document(&url, MAX_ARCHIVE_BYTES, access).await?;
        let archive =
            archive.ok_or_else(|| RepositoryError::NoArchive { url: without_secrets(&url) })?;
        let mut signature = url.clone();
        signature.set_path(&format!("{}.prov", url.path()));
        let provenance = match self.document(&signature, MAX_PROVENANCE_BYTES, access).await {
            Ok(provenance) => provenance,
            // Some stores refuse what does not exist.
            Err(RepositoryError::Fetch { source, .. }) if is_refusal(&source) => None,
            Err(error) => return Err(error),
        };
        Ok(Listed::Archive { archive, provenance })
    }

    async fn document(
        &self,
        url: &Url,
        limit: u64,
        access: Access,
    ) -> Result<Option<Vec<u8>>, RepositoryError> {
        let request = DocumentRequest { url, accept: "*/*", limit, access };
        let fetched = self.client.document(request).await;
        fetched.map_err(|source| RepositoryError::Fetch {
            url: without_secrets(url),
            source: Box::new(source),
        })
    }
}

fn is_refusal(error: &registry::Error) -> bool {
    match error {
        registry::Error::ServerStatus { status, .. } => status.is_client_error(),
        registry::Error::Protocol { .. } => true,
        _ => false,
    }
}

/// Reads a chart from the registry that stores it.
pub(crate) async fn stored(
    collector: &Collector,
    image: &ImageRef,
) -> Result<Fetched, RepositoryError> {
    let place = format!("oci://{image}");
    let content = |source: CollectError| RepositoryError::Content {
        place: place.clone(),
        source: Box::new(source),
    };
    let manifest = collector.manifest(image).await.map_err(content)?;
    let manifest = manifest.ok_or_else(|| content(CollectError::Absent(image.clone())))?;
    let read = artifact::read(&manifest)
        .map_err(|source| RepositoryError::Artifact { place: place.clone(), source })?;
    let pinned = image.with_pointer(Pointer::Digest(manifest.digest));
    let archive = collector.small_blob(&pinned, blob_of(&read.archive), MAX_ARCHIVE_BYTES).await;
    let archive = archive.map_err(content)?;
    let chart = Chart::from_archive(&archive)
        .map_err(|source| RepositoryError::Chart { place: place.clone(), source })?;
    let image = ImageRef { digest: Some(manifest.digest), ..image.clone() };
    Ok(Fetched { chart, packed: Packed::Stored { image, archive } })
}

fn unpacked(name: String, packed: Packed) -> Result<Fetched, RepositoryError> {
    let chart = Chart::from_archive(packed.archive())
        .map_err(|source| RepositoryError::Chart { place: name, source })?;
    Ok(Fetched { chart, packed })
}

fn repository_name(path: &str, chart: &str) -> Result<RepositoryName, RepositoryError> {
    let name = if path.is_empty() { chart.to_owned() } else { format!("{path}/{chart}") };
    name.parse().map_err(|e| RepositoryError::Url { url: name, why: chain(&e) })
}

/// A URL without what may be secret in it.
pub(super) fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

/// The same for text that may not be a URL.
pub(super) fn without_login(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) if url.has_host() => without_secrets(&url),
        _ => text.to_owned(),
    }
}
