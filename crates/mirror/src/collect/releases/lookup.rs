//! Lists releases without mirroring anything: which exist, and what one
//! consists of. Sends requests, or reads transferred content.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use image_set::{Architecture, Distribution};
use mirror_plan::{ImageTree, Kind, Origin};
use oci::{Digest, ImageRef, Platform};
use registry::{Client, Location};
use release::channel::Minor;
use release::graph::Graph;
use release::payload::Wanted as PayloadPart;
use release::select::GraphKey;
use semver::Version;
use serde::Serialize;
use workspace::Holdings;
use workspace::archive::OpenError;

use super::contents::{self, Contents, ContentsError};
use super::graphs::{self, GraphFault};
use super::last_word;
use super::signatures::{self, SignatureFault};
use crate::collect::lookup_source::LookupSource;
use crate::error_chain::chain;
use crate::gather::Collector;
use crate::settings::{Attachments, ReleaseSources};

/// Where the payloads of OpenShift are.
const PAYLOADS: &str = "quay.io/openshift-release-dev/ocp-release";
/// Pages of a thousand tags each: far more than there are releases.
const TAG_PAGES: NonZeroUsize = NonZeroUsize::new(200).unwrap();
/// Components whose size is requested at once.
const AT_ONCE: usize = 16;
/// Channels in which a version is looked for, most likely first.
const PREFIXES: [&str; 4] = ["stable", "fast", "candidate", "eus"];

/// Where releases are looked up.
#[derive(Debug)]
pub struct ReleaseLookup {
    from: LookupSource,
    sources: ReleaseSources,
}

#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    #[error(transparent)]
    Settings(#[from] registry::SettingsError),
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error("reading the transferred content in {}", directory.display())]
    Open { directory: PathBuf, source: OpenError },
    #[error(transparent)]
    Document(#[from] workspace::DocumentError),
    #[error(transparent)]
    Records(#[from] workspace::RecordError),
    /// Why the graph is unavailable, with its causes.
    #[error("{0}")]
    Graph(String),
    #[error("{release}: {why}")]
    Release { release: String, why: String },
    #[error("no channel has a release {version} for {}; searched {}", architecture.as_str(), looked.join(", "))]
    Unknown { version: Version, architecture: Architecture, looked: Vec<String> },
}

impl From<GraphFault> for LookupError {
    fn from(fault: GraphFault) -> Self {
        Self::Graph(chain(&fault))
    }
}

/// One image of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComponentLine {
    pub name: String,
    pub image: ImageRef,
    /// Of all it consists of, as far as that is known.
    pub bytes: Option<u64>,
}

/// What a release consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseContents {
    pub payload: ImageRef,
    pub version: String,
    /// The key whose signature was accepted.
    pub signed_by: String,
    pub components: Vec<ComponentLine>,
    /// Bytes of all components together, shared layers once.
    pub bytes: Option<u64>,
}

impl ReleaseLookup {
    /// Sends requests to update services and registries.
    pub fn remote(
        settings: registry::Settings,
        sources: ReleaseSources,
    ) -> Result<Self, LookupError> {
        Ok(Self { from: LookupSource::Registries(Client::open(settings)?), sources })
    }

    /// Reads archives or a workspace; sends no request.
    pub fn held(directory: &Path, sources: ReleaseSources) -> Result<Self, LookupError> {
        let from = LookupSource::transferred(directory)
            .map_err(|source| LookupError::Open { directory: directory.to_owned(), source })?;
        Ok(Self { from, sources })
    }

    /// The graph of a channel.
    pub async fn graph(&self, key: &GraphKey) -> Result<Graph, LookupError> {
        let (_, graph) = match &self.from {
            LookupSource::Registries(client) => {
                graphs::fetch(client, self.sources.update_service.as_ref(), key).await?
            }
            LookupSource::Transferred(holdings) => graphs::read(holdings, key)?,
        };
        Ok(graph)
    }

    /// Minor versions that there are releases of.
    pub async fn minors(&self) -> Result<BTreeSet<Minor>, LookupError> {
        let tags: Vec<String> = match &self.from {
            LookupSource::Registries(client) => {
                let payloads: ImageRef = PAYLOADS.parse().expect("the constant is a valid name");
                let tags = client.tags(&Location::from(&payloads), TAG_PAGES).await?.tags;
                tags.iter().map(ToString::to_string).collect()
            }
            LookupSource::Transferred(holdings) => {
                let records = holdings.records()?.into_iter();
                let payloads = records.filter(|record| record.kind == Kind::ReleasePayload);
                let tags = payloads.filter_map(|record| match record.origin {
                    Origin::Registry(image) => image.tag.map(|tag| tag.to_string()),
                    Origin::Layout(_) | Origin::Made(_) => None,
                });
                tags.collect()
            }
        };
        // `4.16.3-x86_64`: the architecture reads as a pre-release, which does not matter here.
        // A tag that starts otherwise is a signature or no release.
        Ok(tags
            .iter()
            .filter_map(|tag| Some(Minor::of(&Version::parse(&tag.replace('_', "-")).ok()?)))
            .collect())
    }

    /// The payload of a version, from the first channel that has it.
    pub async fn payload(
        &self,
        version: &Version,
        architecture: Architecture,
    ) -> Result<ImageRef, LookupError> {
        let minor = Minor::of(version);
        let looked: Vec<String> =
            PREFIXES.iter().map(|prefix| format!("{prefix}-{minor}")).collect();
        let mut failure = None;
        for channel in &looked {
            let key = GraphKey::new(Distribution::Ocp, channel, architecture);
            match self.graph(&key).await {
                Ok(graph) => {
                    if let Some(node) = graph.node(version) {
                        let payload = node.payload.image();
                        return payload.cloned().map_err(|e| LookupError::Graph(e.to_string()));
                    }
                }
                // Transferred content has some channels only.
                Err(error) if matches!(self.from, LookupSource::Transferred(_)) => {
                    failure = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Err(LookupError::Unknown { version: version.clone(), architecture, looked }),
        }
    }

    /// What the release with this payload consists of. It is verified first.
    pub async fn contents(&self, payload: &ImageRef) -> Result<ReleaseContents, LookupError> {
        let fail = |why: String| LookupError::Release { release: payload.to_string(), why };
        let digest = self.digest(payload).await?;
        let signed = match &self.from {
            LookupSource::Registries(client) => {
                let nothing = Holdings::new(None, None);
                signatures::verify_release(client, &nothing, &self.sources, &digest).await
            }
            LookupSource::Transferred(holdings) => {
                signatures::read(holdings, &self.sources, &digest)
            }
        };
        let signed = signed.map_err(|error: SignatureFault| fail(chain(&error)))?;
        let origin = ImageRef { digest: Some(digest), ..signed.reference };
        let contents = self.read(&origin, &digest).await.map_err(|e| fail(chain(&e)))?;
        let references = contents.references().map_err(|e| fail(chain(&e)))?;
        let version = match contents.metadata() {
            Some(metadata) => metadata.version.to_string(),
            None => references.name,
        };
        let parts = references.components.into_iter().map(|part| (part.name, part.image));
        let (components, bytes) = self.sizes(parts.collect()).await;
        Ok(ReleaseContents { payload: origin, version, signed_by: signed.key, components, bytes })
    }

    async fn digest(&self, payload: &ImageRef) -> Result<Digest, LookupError> {
        let absent =
            |why: &str| LookupError::Release { release: payload.to_string(), why: why.to_owned() };
        match (&payload.digest, &self.from) {
            (Some(digest), _) => Ok(*digest),
            (None, LookupSource::Registries(client)) => match client.head(payload).await? {
                Some(found) => Ok(found.digest),
                None => Err(absent("it does not exist at its registry; check its name and tag")),
            },
            (None, LookupSource::Transferred(holdings)) => {
                let records = holdings.records()?;
                let same =
                    |image: &ImageRef| ImageRef { digest: None, ..image.clone() } == *payload;
                let found = records.iter().find(|record| match &record.origin {
                    Origin::Registry(image) => same(image),
                    Origin::Layout(_) | Origin::Made(_) => false,
                });
                let found = found.map(|record| record.tree.root().digest);
                found.ok_or_else(|| absent("it is not here: mirror it on the connected side"))
            }
        }
    }

    async fn read(&self, origin: &ImageRef, digest: &Digest) -> Result<Contents, ContentsError> {
        match &self.from {
            LookupSource::Registries(client) => {
                let collector =
                    Collector::new(client.clone(), None, Attachments::Remove, Arc::default());
                contents::fetched(&collector, origin, &[], PayloadPart::Components).await
            }
            LookupSource::Transferred(holdings) => {
                let tag = origin.tag.as_ref().map(ToString::to_string);
                let tag = tag.unwrap_or_else(|| digest.hex());
                let place = format!("hold-release/{}/{tag}", last_word(origin));
                contents::carried(holdings, &place, digest)
            }
        }
    }

    /// Components with their sizes, and the size of all together.
    async fn sizes(&self, parts: Vec<(String, ImageRef)>) -> (Vec<ComponentLine>, Option<u64>) {
        let trees: Vec<(String, ImageRef, Option<ImageTree>)> = match &self.from {
            LookupSource::Registries(client) => {
                let collector =
                    Collector::new(client.clone(), None, Attachments::Remove, Arc::default());
                let collector = &collector;
                stream::iter(parts)
                    .map(|(name, image)| async move {
                        let all: &[Platform] = &[];
                        let tree = collector.tree(&image, all).await.ok();
                        (name, image, tree)
                    })
                    .buffered(AT_ONCE)
                    .collect()
                    .await
            }
            LookupSource::Transferred(holdings) => {
                let tree = |image: &ImageRef| {
                    let record = holdings.record(&Origin::Registry(image.clone()));
                    record.ok().flatten().map(|record| record.tree)
                };
                parts.into_iter().map(|(name, image)| (name, image.clone(), tree(&image))).collect()
            }
        };
        let mut all = std::collections::BTreeMap::new();
        let mut known = true;
        let mut lines = Vec::with_capacity(trees.len());
        for (name, image, tree) in trees {
            let blobs = tree.map(|tree| tree.blobs());
            known &= blobs.is_some();
            let bytes = blobs.as_ref().map(|blobs| blobs.values().sum());
            all.extend(blobs.into_iter().flatten());
            lines.push(ComponentLine { name, image, bytes });
        }
        (lines, known.then(|| all.values().sum()))
    }
}
