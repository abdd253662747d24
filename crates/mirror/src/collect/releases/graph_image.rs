//! The image of the update graph, which an update service in the cluster reads.
//!
//! It is built from the graph's data and a base image. The same data
//! on the same image give the same image, down to the last byte.

use mirror_plan::{Destination, ImageTree, Kind, NameError, Origin, Wanted};
use oci::{Descriptor, Digest, ImageRef, ManifestError, Pointer, RawManifest};
use registry::{Access, Client, DocumentRequest, Location, Url};
use release::graph_image::{GraphDataError, GraphLayer};
use workspace::{BlobError, Holdings};

use super::open::Reader;
use crate::collect::built_images::{Base, BuiltImage, BuiltImages};
use crate::collect::layered_image::{self, LayerError, NewLayer};
use crate::context::Context;
use crate::error_chain::chain;
use crate::fault::{EngineError, Fault};
use crate::gather::{CollectError, Collector, gather, node};
use crate::reason::{Reason, Remedy};

/// Where the data of OpenShift's graph is.
const DATA: &str = "https://api.openshift.com/api/upgrades_info/graph-data";
/// The base image: it has to run a shell.
const BASE: &str = "registry.access.redhat.com/ubi9/ubi:latest";
/// A hundred times the real data.
const MAX_DATA: u64 = 64 << 20;
const MAX_CONFIG: u64 = 4 << 20;

/// Why the image of the update graph was not built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GraphImageError {
    #[error("the update service {host} has no data of its graph at {path}")]
    NoData { host: String, path: String },
    #[error(transparent)]
    Request(#[from] registry::Error),
    #[error(transparent)]
    Data(#[from] GraphDataError),
    #[error("its base image is {base}: {reason}")]
    Base { base: Box<ImageRef>, reason: Reason },
    #[error("its base image is {base}@{digest}")]
    Stack { base: Box<ImageRef>, digest: Digest, source: LayerError },
    #[error("writing its list of images")]
    List(#[from] LayerError),
    #[error("{0} does not exist any more")]
    Absent(Box<ImageRef>),
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Store(#[from] BlobError),
}

impl EngineError for GraphImageError {
    fn fault(&self) -> Fault {
        match self {
            Self::NoData { .. } | Self::Absent(_) => Fault::SourceAbsent,
            Self::Request(error) => Fault::of_source(error),
            Self::Data(_) | Self::Stack { .. } | Self::List(_) | Self::Manifest(_) => {
                Fault::Content
            }
            Self::Base { .. } => Fault::SourceRefuses,
            Self::Interrupted => Fault::Cancelled,
            Self::Collect(error) => error.fault(),
            Self::Name(_) => Fault::Configuration,
            Self::Store(error) => Fault::of_store(error),
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Request(error) => Some(error),
            Self::Collect(error) => error.request(),
            _ => None,
        }
    }

    fn remedy(&self) -> Remedy {
        match (self, self.request()) {
            (Self::Base { reason, .. }, _) => reason.remedy,
            (_, Some(error)) => Remedy::of(error),
            _ => Remedy::Unknown,
        }
    }
}

/// What the image is known by.
pub(crate) fn origin() -> Origin {
    Origin::Made("openshift/graph-image".parse().expect("the constant is a valid name"))
}

pub(crate) fn wanted() -> Wanted {
    wanted_from(origin())
}

fn wanted_from(origin: Origin) -> Wanted {
    let (target_repository, target_tag) = (None, None);
    Wanted { kind: Kind::Graph, origin, target_repository, target_tag, platforms: Vec::new() }
}

/// Builds the image on the connected side; the archive has it.
pub(crate) async fn make(
    context: &Context,
    reader: Reader<'_>,
) -> Result<Option<BuiltImage>, GraphImageError> {
    let Reader::Registry { client, collector } = reader else { return Ok(None) };
    let service = context.settings.releases.update_service.as_ref();
    let data = match fetch(client, service).await {
        Ok(data) => data,
        Err(error) => match made_before(context) {
            // Inside an enclave no service may have the data, but it is here.
            Some(image) if service.is_some() => {
                context.warn(format!(
                    "the image of the update graph is that of an earlier run: {}",
                    chain(&error)
                ));
                return Ok(Some(image));
            }
            _ => return Err(error),
        },
    };
    let layer = layer(&data)?;
    let base: ImageRef = BASE.parse().expect("the constant is a valid name");
    build(context, client, collector, &base, &layer).await.map(Some)
}

/// The data, from the update service that has the graphs.
async fn fetch(client: &Client, service: Option<&Url>) -> Result<Vec<u8>, GraphImageError> {
    let url = service.map_or_else(|| Url::parse(DATA).expect("an address"), data_of);
    let request = DocumentRequest {
        url: &url,
        accept: "application/gzip, */*",
        limit: MAX_DATA,
        access: Access::Public,
    };
    let received = client.document(request).await?;
    received.ok_or_else(|| {
        let host = url.host_str().unwrap_or_default().to_owned();
        GraphImageError::NoData { host, path: url.path().to_owned() }
    })
}

/// Where an update service keeps its data: beside the versions of its API.
fn data_of(service: &Url) -> Url {
    let mut url = service.clone();
    let path = url.path().trim_end_matches('/');
    let base = path.strip_suffix("/v1/graph").or_else(|| path.strip_suffix("/graph"));
    let path = format!("{}/graph-data", base.unwrap_or(path));
    url.set_path(&path);
    url
}

/// The image that an earlier run left in this workspace, whole.
fn made_before(context: &Context) -> Option<BuiltImage> {
    let holdings = Holdings::new(Some(context.workspace.clone()), None);
    let record = holdings.record(&origin()).ok()??;
    let base: ImageRef = BASE.parse().ok()?;
    Some(BuiltImage { tree: record.tree, base: Base::Registry(Location::from(&base)) })
}

fn layer(data: &[u8]) -> Result<NewLayer, GraphDataError> {
    let GraphLayer { packed, diff_id, command, made_by } = release::graph_image::layer(data)?;
    Ok(NewLayer { packed, diff_id, command, made_by })
}

async fn build(
    context: &Context,
    client: &Client,
    collector: &Collector,
    base: &ImageRef,
    layer: &NewLayer,
) -> Result<BuiltImage, GraphImageError> {
    // Judged as every image is: by the trust policy, where there is one.
    let wanted_image = wanted_from(Origin::Registry(base.clone()));
    let name = Destination::of(&wanted_image)?;
    let mut gathered =
        gather(context, client, vec![(wanted_image, name)], &BuiltImages::default()).await;
    if let Some((.., reason)) = gathered.lost.pop() {
        return Err(GraphImageError::Base { base: Box::new(base.clone()), reason });
    }
    let below = gathered.found.pop().ok_or(GraphImageError::Interrupted)?.tree;
    let mut kept = vec![(Digest::of(&layer.packed), layer.packed.clone())];
    let mut stacked = Vec::new();
    for known in below.manifests.iter().filter(|node| !node.media_type.is_index()) {
        let Some(config) = known.blobs.first().copied() else { continue };
        let raw = manifest(collector, base, &known.digest).await?;
        let bytes = collector.small_blob(base, config, MAX_CONFIG).await?;
        let made = layered_image::add_layer(&raw, &bytes, layer).map_err(|source| {
            let base = Box::new(base.clone());
            GraphImageError::Stack { base, digest: raw.digest, source }
        })?;
        kept.push((Digest::of(&made.config), made.config));
        let mut was = raw.descriptor();
        was.platform = known.platform.clone();
        stacked.push((was, made.manifest));
    }
    let root = manifest(collector, base, &below.root().digest).await?;
    let raws = match root.media_type.is_index() {
        false => stacked,
        true => {
            let listed: Vec<(Descriptor, RawManifest)> =
                stacked.into_iter().filter(|(was, _)| is_for_a_machine(was)).collect();
            let list = layered_image::list(&root, listed.clone())?;
            std::iter::once((root.descriptor(), list)).chain(listed).collect()
        }
    };
    let bytes = raws.iter().map(|(_, raw)| (raw.digest, raw.bytes.clone()));
    for (digest, bytes) in kept.into_iter().chain(bytes) {
        context.keep(&digest, &bytes)?;
    }
    let manifests = raws.iter().map(|(was, raw)| {
        let parsed = raw.parse()?;
        Ok(node(raw, &parsed, was.platform.clone()))
    });
    let manifests = manifests.collect::<Result<Vec<_>, ManifestError>>()?;
    let tree = ImageTree { manifests, left_out: Default::default(), attachments: Vec::new() };
    super::note(
        context,
        &format!("the image of the update graph is based on {base}@{}", root.digest),
    );
    Ok(BuiltImage { tree, base: Base::Registry(Location::from(base)) })
}

/// Whether a listed manifest is an image, not something about one.
fn is_for_a_machine(listed: &Descriptor) -> bool {
    listed.platform.as_ref().is_some_and(|platform| platform.os != "unknown")
}

async fn manifest(
    collector: &Collector,
    base: &ImageRef,
    digest: &Digest,
) -> Result<RawManifest, GraphImageError> {
    let at = base.with_pointer(Pointer::Digest(*digest));
    let raw = collector.manifest(&at).await?;
    raw.ok_or_else(|| GraphImageError::Absent(Box::new(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_beside_the_graph_of_the_same_service() {
        for (service, data) in [
            (
                "https://osus.lan/api/upgrades_info/v1/graph",
                "https://osus.lan/api/upgrades_info/graph-data",
            ),
            (
                "https://osus.lan/x/api/upgrades_info/graph",
                "https://osus.lan/x/api/upgrades_info/graph-data",
            ),
            ("https://osus.lan/other", "https://osus.lan/other/graph-data"),
        ] {
            assert_eq!(data_of(&service.parse().unwrap()).as_str(), data);
        }
    }
}
