//! Replaces content of the workspace that does not match its digest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use mirror_plan::{BlobRef, ImageTree, Origin, Plan};
use oci::{Digest, Pointer};
use registry::Client;
use workspace::{BlobError, DiskError};

use crate::context::Context;
use crate::error_chain::chain;
use crate::fault::{EngineError, Fault};
use crate::gather::{CollectError, Layout};
use crate::report::Outcome;
use crate::results::Moved;
use crate::transfer::fetch::{Announce, fetch};
use crate::transfer::supply::Supplies;

/// Why damaged content was not replaced.
#[derive(Debug, thiserror::Error)]
enum RepairError {
    #[error("its manifest {0} is damaged and not available again: run again")]
    Gone(Digest),
    #[error(transparent)]
    Source(#[from] registry::Error),
    #[error(transparent)]
    Layout(#[from] CollectError),
    #[error(transparent)]
    Store(#[from] BlobError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl EngineError for RepairError {
    fn fault(&self) -> Fault {
        match self {
            Self::Gone(_) => Fault::SourceAbsent,
            Self::Source(error) => Fault::of_source(error),
            Self::Layout(error) => error.fault(),
            Self::Store(error) => Fault::of_store(error),
            Self::Disk(_) => Fault::Disk,
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Source(error) => Some(error),
            Self::Layout(error) => error.request(),
            Self::Gone(_) | Self::Store(_) | Self::Disk(_) => None,
        }
    }
}

/// Where content can be fetched again.
pub(crate) struct Repair<'a> {
    pub(crate) client: &'a Client,
    pub(crate) supplies: &'a Supplies,
    /// Documents of the run, which are files of the workspace too.
    pub(crate) documents: &'a BTreeMap<String, BlobRef>,
}

impl Repair<'_> {
    /// Fetches damaged content again. Images for which that is not possible fail, in `outcomes`.
    /// Returns what was moved.
    pub(crate) async fn fetch_again(
        &self,
        context: &Context,
        plan: &Arc<Plan>,
        damaged: &[Digest],
        outcomes: &mut [Outcome],
    ) -> Moved {
        let names: Vec<String> = damaged.iter().map(Digest::to_string).collect();
        context.warn(format!(
            "content of the workspace is damaged and is fetched again: {} (check the disk)",
            names.join(", ")
        ));
        let damaged: BTreeSet<Digest> = damaged.iter().copied().collect();
        for digest in &damaged {
            if let Err(error) = context.workspace.blobs().remove(digest) {
                context.warn(chain(&error));
            }
        }
        self.restore_documents(context, &damaged);
        let mut needs = Vec::with_capacity(plan.images.len());
        for (image, outcome) in plan.images.iter().zip(outcomes.iter_mut()) {
            if !matches!(outcome, Outcome::Copied | Outcome::Present) {
                needs.push(None);
                continue;
            }
            let tree = plan.tree(image);
            if let Err(error) = self.fetch_manifests(context, &image.origin, &tree, &damaged).await
            {
                *outcome = Outcome::Failed { error: error.reason() };
                needs.push(None);
                continue;
            }
            let blobs = tree.blobs().into_iter().filter(|(digest, _)| damaged.contains(digest));
            let blobs: Vec<BlobRef> =
                blobs.map(|(digest, size)| BlobRef { digest, size }).collect();
            needs.push((!blobs.is_empty()).then_some(blobs));
        }
        fetch(context, self.supplies, plan, needs, outcomes, Announce::Failures, None).await.1
    }

    /// Documents are kept as files with names, beside the blob store.
    fn restore_documents(&self, context: &Context, damaged: &BTreeSet<Digest>) {
        for (name, blob) in self.documents.iter().filter(|(_, b)| damaged.contains(&b.digest)) {
            let Ok(bytes) = fs::read(context.workspace.working_dir().join(name)) else { continue };
            // Content that does not match is not stored; the archive then names what it lacks.
            let _ = context.workspace.blobs().put(&blob.digest, &bytes);
        }
    }

    async fn fetch_manifests(
        &self,
        context: &Context,
        origin: &Origin,
        tree: &ImageTree,
        damaged: &BTreeSet<Digest>,
    ) -> Result<(), RepairError> {
        let store = context.workspace.blobs();
        for node in tree.all_manifests().filter(|node| damaged.contains(&node.digest)) {
            let digest = node.digest;
            if store.has(&digest, Some(node.size))? {
                continue;
            }
            let again = match origin {
                Origin::Registry(image) => {
                    let at = image.with_pointer(Pointer::Digest(digest));
                    self.client.manifest(&at).await?
                }
                Origin::Layout(path) => {
                    let (_, manifests) = Layout::new(path).tree(&[])?;
                    manifests.into_iter().find(|raw| raw.digest == digest)
                }
                Origin::Made(_) => None,
            };
            let again = again.ok_or(RepairError::Gone(digest))?;
            store.put(&digest, &again.bytes)?;
        }
        Ok(())
    }
}
