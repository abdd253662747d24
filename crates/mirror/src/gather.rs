//! From wanted images to found ones: the manifests and blobs of every image, read with as few
//! requests as possible.

mod attachments;
pub(crate) mod carried_content;
mod content;
mod layout;
pub(crate) mod narrow;
pub(crate) mod planned_content;
mod registry_tree;
mod selection;
pub(crate) mod trust_check;
mod turns;

pub(crate) use content::blob_of;
pub(crate) use layout::Layout;
pub(crate) use registry_tree::{CollectError, Collector, node};
pub(crate) use selection::{NoInstance, select_from};
pub(crate) use turns::Turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use mirror_plan::{Destination, Found, Held, ImageRecord, ImageTree, Origin, Wanted};
use oci::{Digest, ImageRef, MAX_MANIFEST_BYTES, RawManifest};
use registry::Client;
use workspace::{BlobStore, Holdings, Workspace};

use self::narrow::narrow;
use self::trust_check::{TrustCheck, TrustError};
use crate::collect::built_images::BuiltImages;
use crate::collect::documents::Documents;
use crate::context::Context;
use crate::fault::{EngineError, Fault};
use crate::progress::Event;
use crate::results::Lost;
use crate::settings::{Attachments, DryRun};
use crate::transfer::supply::ManifestReadError;

/// What was found, what was not, and what the workspace has of it.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) found: Vec<Found>,
    /// Images that could not be read, with the reason.
    pub(crate) lost: Vec<Lost>,
    /// Signatures from lookaside servers, which archives have to include.
    pub(crate) documents: Documents,
}

impl Gathered {
    /// Drops what is attached to images unless it is mirrored too.
    pub(crate) fn remove_attachments(&mut self, attachments: Attachments) {
        if attachments == Attachments::Remove {
            self.found.iter_mut().for_each(|found| found.tree.attachments.clear());
        }
    }
}

/// Reads the manifests of all `named` images from their registries or layouts.
/// Of those in `made` they are known. What fails for a temporary reason is retried
/// after all others.
pub(crate) async fn gather(
    context: &Context,
    client: &Client,
    named: Vec<(Wanted, Destination)>,
    made: &BuiltImages,
) -> Gathered {
    let store = match context.settings.dry_run {
        DryRun::No => Some(context.workspace.blobs().clone()),
        DryRun::Plan | DryRun::PlanWithLists => None,
    };
    let holdings = Holdings::new(Some(context.workspace.clone()), None);
    let trust = TrustCheck::of(context, client, &holdings);
    // A policy is about signatures, whether or not they are mirrored.
    let attachments = match trust {
        Some(_) => Attachments::Carry,
        None => context.settings.attachments,
    };
    let collector = Collector::new(client.clone(), store, attachments, Arc::clone(&context.turns));
    let reader = Reader {
        workspace: &context.workspace,
        collector: &collector,
        client,
        attachments,
        refresh: context.settings.refresh_attachments,
        trust: trust.as_ref(),
        made,
    };
    let mut gathered = Gathered::default();
    let unread = read_all(context, &reader, named, &mut gathered).await;
    let (again, lost): (Vec<_>, Vec<_>) =
        unread.into_iter().partition(|(.., error)| error.may_pass_soon());
    gathered.lost.extend(lost.into_iter().map(lost_image));
    if !again.is_empty() {
        tracing::warn!("retrying to read {} that failed", images(again.len()));
        let again = again.into_iter().map(|(wanted, destination, _)| (wanted, destination));
        let unread = read_all(context, &reader, again.collect(), &mut gathered).await;
        gathered.lost.extend(unread.into_iter().map(lost_image));
    }
    gathered.remove_attachments(context.settings.attachments);
    gathered
}

/// Reads images. Returns those that could not be read.
async fn read_all(
    context: &Context,
    reader: &Reader<'_>,
    named: Vec<(Wanted, Destination)>,
    gathered: &mut Gathered,
) -> Vec<(Wanted, Destination, GatherError)> {
    let at_once = context.limits().parallel.jobs();
    let mut unread = Vec::new();
    let mut trees = stream::iter(named)
        .map(|(wanted, destination)| async move {
            let tree = reader.trusted_tree(&wanted).await;
            (wanted, destination, tree)
        })
        .buffer_unordered(at_once);
    loop {
        let next = tokio::select! {
            biased;
            () = context.cancel.cancelled() => break,
            next = trees.next() => next,
        };
        let Some((wanted, destination, tree)) = next else { break };
        match tree {
            Ok((tree, documents)) => {
                context.observer.notice(Event::Collected { origin: wanted.origin.clone() });
                gathered.documents.append(documents);
                gathered.found.push(Found { wanted, destination, tree });
            }
            Err(error) => unread.push((wanted, destination, error)),
        }
    }
    unread
}

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
enum GatherError {
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error(transparent)]
    Trust(#[from] TrustError),
}

impl EngineError for GatherError {
    fn fault(&self) -> Fault {
        match self {
            Self::Collect(error) => error.fault(),
            Self::Trust(error) => error.fault(),
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Collect(error) => error.request(),
            Self::Trust(error) => error.request(),
        }
    }
}

fn lost_image((wanted, destination, error): (Wanted, Destination, GatherError)) -> Lost {
    (wanted, destination, error.reason())
}

fn images(count: usize) -> String {
    format!("{count} {}", if count == 1 { "image" } else { "images" })
}

/// Where it was read what an image consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Origin,
    /// The workspace remembers it.
    Record,
}

struct Reader<'a> {
    workspace: &'a Workspace,
    collector: &'a Collector,
    client: &'a Client,
    attachments: Attachments,
    refresh: bool,
    trust: Option<&'a TrustCheck<'a>>,
    made: &'a BuiltImages,
}

impl Reader<'_> {
    /// An image that the policy accepts, if there is a policy.
    async fn trusted_tree(&self, wanted: &Wanted) -> Result<(ImageTree, Documents), GatherError> {
        let (mut tree, source) = self.tree(wanted).await?;
        let Some(trust) = self.trust else { return Ok((tree, Documents::default())) };
        let Origin::Registry(image) = &wanted.origin else {
            let documents = trust.check(&wanted.origin, None, &tree).await?;
            return Ok((tree, documents));
        };
        let mut judged = trust.check(&wanted.origin, Some(image), &tree).await;
        // It may have been signed since it was mirrored.
        if judged.is_err() && source == Source::Record && !self.refresh {
            self.collector.refresh(image, &mut tree).await?;
            judged = trust.check(&wanted.origin, Some(image), &tree).await;
        }
        let documents = judged?;
        Ok((tree, documents))
    }

    async fn tree(&self, wanted: &Wanted) -> Result<(ImageTree, Source), CollectError> {
        if let Some(tree) = self.made.tree(wanted) {
            return Ok((tree.clone(), Source::Origin));
        }
        match &wanted.origin {
            Origin::Registry(image) => {
                if let Some(tree) = self.unchanged(wanted, image).await? {
                    return Ok((tree, Source::Record));
                }
                let tree = self.collector.tree(image, &wanted.platforms).await?;
                Ok((tree, Source::Origin))
            }
            Origin::Layout(path) => {
                let (tree, raws) = Layout::new(path).tree(&wanted.platforms)?;
                self.collector.keep(&raws)?;
                Ok((tree, Source::Origin))
            }
            Origin::Made(_) => Err(CollectError::NotBuilt(Box::new(wanted.origin.clone()))),
        }
    }

    /// What the workspace has recorded of this image, if that is still true: a
    /// digest does not change, a tag takes one request.
    async fn unchanged(
        &self,
        wanted: &Wanted,
        image: &ImageRef,
    ) -> Result<Option<ImageTree>, CollectError> {
        // A record that cannot be read is rebuilt.
        let Ok(Some(record)) = self.workspace.record(&wanted.origin) else { return Ok(None) };
        let root = record.tree.root().digest;
        let now = match &image.digest {
            Some(digest) => *digest,
            None => match self.client.head(image).await? {
                Some(found) => found.digest,
                None => return Err(CollectError::Absent(image.clone())),
            },
        };
        if now != root {
            return Ok(None);
        }
        let stored = |digest: &Digest| stored_manifest(self.workspace.blobs(), digest);
        let Ok(mut tree) = narrow(&record.tree, &wanted.platforms, stored) else { return Ok(None) };
        match self.attachments {
            Attachments::Remove => tree.attachments.clear(),
            Attachments::Carry if self.refresh || record.attachments_unknown => {
                self.collector.refresh(image, &mut tree).await?;
            }
            Attachments::Carry => {}
        }
        Ok(Some(tree))
    }
}

fn stored_manifest(store: &BlobStore, digest: &Digest) -> Result<RawManifest, ManifestReadError> {
    let digest = *digest;
    let bytes = store.read(&digest, MAX_MANIFEST_BYTES)?;
    RawManifest::new(None, bytes).map_err(|source| ManifestReadError::Parse { digest, source })
}

/// What the workspace holds, for a plan.
pub(crate) struct OnDisk<'a> {
    workspace: &'a Workspace,
    whole: BTreeMap<Origin, Digest>,
}

impl<'a> OnDisk<'a> {
    pub(crate) fn new(context: &'a Context, found: &[Found]) -> Self {
        let workspace = &context.workspace;
        let attachments = context.settings.attachments;
        let whole = found
            .iter()
            .filter(|image| is_whole(workspace, image, attachments))
            .map(|image| (image.wanted.origin.clone(), image.tree.root().digest))
            .collect();
        Self { workspace, whole }
    }
}

impl Held for OnDisk<'_> {
    fn image(&self, origin: &Origin, _destination: &Destination) -> Option<Digest> {
        self.whole.get(origin).copied()
    }

    fn content(&self, digest: &Digest) -> bool {
        self.workspace.blobs().has(digest, None).unwrap_or(false)
    }
}

/// Whether the workspace has all that was found of an image, and its record states that.
fn is_whole(workspace: &Workspace, image: &Found, attachments: Attachments) -> bool {
    let Ok(Some(record)) = workspace.record(&image.wanted.origin) else { return false };
    let held = |digest: &Digest, size| workspace.blobs().has(digest, Some(size)).unwrap_or(false);
    record.blobs_held
        // Saved again, the record states that they are known now.
        && !(record.attachments_unknown && attachments == Attachments::Carry)
        && record.names.contains(&image.destination)
        && covers(&record, &image.tree)
        && image.tree.all_manifests().all(|node| held(&node.digest, node.size))
        && image.tree.blobs().iter().all(|(digest, size)| held(digest, *size))
}

fn covers(record: &ImageRecord, tree: &ImageTree) -> bool {
    let known: BTreeSet<Digest> = record.tree.all_manifests().map(|node| node.digest).collect();
    record.tree.root().digest == tree.root().digest
        && tree.all_manifests().all(|node| known.contains(&node.digest))
}
