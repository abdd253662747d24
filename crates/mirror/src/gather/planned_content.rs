//! Images of a stored plan: their manifests are read where the workspace does not have them.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use mirror_plan::{BlobRef, Found, Origin};
use oci::{Digest, Pointer, RawManifest};
use registry::Client;
use workspace::{BlobError, BlobStore, DiskError, DocumentError, Holdings, MAX_DOCUMENT_BYTES};

use super::trust_check::{TrustCheck, TrustError};
use super::{CollectError, Gathered, Layout};
use crate::collect::documents::Documents;
use crate::context::Context;
use crate::fault::{EngineError, Fault};
use crate::progress::Event;
use crate::results::reference;

/// Images that are completed at once.
const AT_ONCE: usize = 16;

/// Why an image of a plan cannot be copied.
#[derive(Debug, thiserror::Error)]
enum PlannedError {
    #[error(
        "its manifest {0} is not in the workspace, and only oc-mirror can build it: run with -c instead of --plan"
    )]
    NotBuilt(Digest),
    #[error("its manifest {0} does not exist any more")]
    Absent(Digest),
    #[error("reading the manifest {digest}")]
    Registry { digest: Digest, source: registry::Error },
    #[error("reading the manifest {digest}")]
    Layout { digest: Digest, source: CollectError },
    #[error(transparent)]
    Store(#[from] BlobError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Trust(#[from] TrustError),
}

impl EngineError for PlannedError {
    fn fault(&self) -> Fault {
        match self {
            Self::NotBuilt(_) => Fault::NotHeld,
            Self::Absent(_) => Fault::SourceAbsent,
            Self::Registry { source, .. } => Fault::of_source(source),
            Self::Layout { source, .. } => source.fault(),
            Self::Store(error) => Fault::of_store(error),
            Self::Disk(_) => Fault::Disk,
            Self::Trust(error) => error.fault(),
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Registry { source, .. } => Some(source),
            Self::Layout { source, .. } => source.request(),
            Self::Trust(error) => error.request(),
            _ => None,
        }
    }
}

/// Why what a dry run built cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdoptError {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The largest blob that is built: a catalog, packed.
const MAX_BUILT_BYTES: u64 = 1 << 30;

/// Takes over what a dry run built: images and documents that the workspace does not have.
pub(crate) fn adopt(
    context: &Context,
    found: &[Found],
    documents: &BTreeMap<String, BlobRef>,
) -> Result<(), AdoptError> {
    let (built, store) = (context.workspace.dry_run_content(), context.workspace.blobs());
    let is_here = |digest: &Digest| store.has(digest, None);
    for (name, blob) in documents {
        if built.has(&blob.digest, None)? {
            let bytes = built.read(&blob.digest, MAX_DOCUMENT_BYTES)?;
            context.keep_document(name, &bytes)?;
        }
    }
    for image in found.iter().filter(|image| matches!(image.wanted.origin, Origin::Made(_))) {
        let manifests = image.tree.all_manifests().map(|node| node.digest);
        for digest in manifests.chain(image.tree.blobs().into_keys()) {
            let is_new = !is_here(&digest)?;
            if is_new && built.has(&digest, None)? {
                let bytes = built.read(&digest, MAX_BUILT_BYTES)?;
                context.keep(&digest, &bytes)?;
            }
        }
    }
    Ok(())
}

/// Reads what the workspace lacks of the manifests of `found`, and judges the images by the trust
/// policy, where there is one.
pub(crate) async fn complete(context: &Context, client: &Client, found: Vec<Found>) -> Gathered {
    let holdings = Holdings::new(Some(context.workspace.clone()), None);
    let trust = TrustCheck::of(context, client, &holdings);
    let (store, trust) = (context.workspace.blobs(), trust.as_ref());
    let mut completed = stream::iter(found)
        .map(|found| async move {
            let completed = complete_image(client, store, &found).await;
            let origin = &found.wanted.origin;
            let judged = match (completed, trust) {
                (Err(error), _) => Err(error),
                (Ok(()), None) => Ok(Documents::default()),
                (Ok(()), Some(trust)) => {
                    let judged = trust.check(origin, reference(origin), &found.tree).await;
                    judged.map_err(PlannedError::from)
                }
            };
            (found, judged)
        })
        .buffer_unordered(AT_ONCE);
    let mut gathered = Gathered::default();
    loop {
        let next = tokio::select! {
            biased;
            () = context.cancel.cancelled() => break,
            next = completed.next() => next,
        };
        let Some((found, judged)) = next else { break };
        match judged {
            Ok(documents) => {
                let origin = found.wanted.origin.clone();
                context.observer.notice(Event::Collected { origin });
                gathered.documents.append(documents);
                gathered.found.push(found);
            }
            Err(error) => gathered.lost.push((found.wanted, found.destination, error.reason())),
        }
    }
    drop(completed);
    gathered.remove_attachments(context.settings.attachments);
    gathered
}

async fn complete_image(
    client: &Client,
    store: &BlobStore,
    found: &Found,
) -> Result<(), PlannedError> {
    for node in found.tree.all_manifests() {
        if store.has(&node.digest, Some(node.size))? {
            continue;
        }
        let raw = manifest(client, &found.wanted.origin, node.digest).await?;
        // The store checks the digest.
        store.put(&node.digest, &raw.bytes)?;
    }
    Ok(())
}

async fn manifest(
    client: &Client,
    origin: &Origin,
    digest: Digest,
) -> Result<RawManifest, PlannedError> {
    let found = match origin {
        Origin::Registry(image) => {
            let at = image.with_pointer(Pointer::Digest(digest));
            let read = client.manifest(&at).await;
            read.map_err(|source| PlannedError::Registry { digest, source })?
        }
        Origin::Layout(path) => {
            let read = Layout::new(path).tree(&[]);
            let (_, raws) = read.map_err(|source| PlannedError::Layout { digest, source })?;
            raws.into_iter().find(|raw| raw.digest == digest)
        }
        Origin::Made(_) => return Err(PlannedError::NotBuilt(digest)),
    };
    found.ok_or(PlannedError::Absent(digest))
}
