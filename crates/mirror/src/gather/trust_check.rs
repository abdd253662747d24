//! Checks images against the trust policy, before any of their layers is transferred.
//!
//! An image is judged by the name it has at its origin, on the disconnected side too: its signatures
//! are in the archive.

mod lookaside;

use std::io::Read;
use std::path::{Path, PathBuf};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use mirror_plan::{BlobRef, Found, ImageTree, Origin};
use oci::{Digest, ImageRef, Pointer, RawManifest, RegistryHost, Repository};
use registry::{Client, Location};
use trust::{Listed, Name, Presented, Signature, Subject};
use workspace::{BlobStore, Holdings};

use crate::collect::releases::graph_image_origin;
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::Gathered;
use crate::settings::{DryRun, TrustPolicy, Workflow};
use crate::transfer::supply::{Supply, held_manifest};
use crate::transfer::verified_body::verified;

/// Images that are checked at once.
const AT_ONCE: usize = 32;
/// What is signed is a few hundred bytes; all of it together is held in memory.
const MAX_PAYLOADS: u64 = 4 << 20;

/// The policy of a run, and where signatures are read.
pub(crate) struct TrustCheck<'a> {
    trust: &'a TrustPolicy,
    /// Looked at first.
    holdings: &'a Holdings,
    /// Asked for what is not held.
    client: &'a Client,
    /// What was asked for is kept here, so that the copy need not ask again.
    store: Option<&'a BlobStore>,
    context: &'a Context,
}

impl<'a> TrustCheck<'a> {
    /// None where no policy is to be enforced.
    pub(crate) fn of(
        context: &'a Context,
        client: &'a Client,
        holdings: &'a Holdings,
    ) -> Option<Self> {
        let store = match (context.settings.dry_run, &context.settings.workflow) {
            (DryRun::Plan | DryRun::PlanWithLists, _) | (_, Workflow::DiskToMirror { .. }) => None,
            (DryRun::No, _) => Some(context.workspace.blobs()),
        };
        let trust = context.settings.trust.as_ref()?;
        Some(Self { trust, holdings, client, store, context })
    }

    /// Lets an image in, or says why not. `at` is a registry that has what is
    /// attached to it.
    pub(crate) async fn check(
        &self,
        origin: &Origin,
        at: Option<&ImageRef>,
        tree: &ImageTree,
    ) -> Result<(), String> {
        let (path, made): (PathBuf, ImageRef);
        let name = match origin {
            Origin::Registry(image) => Name::Registry(image),
            Origin::Layout(layout) => {
                path = explicit(layout)?;
                Name::Layout(&path)
            }
            // No one could have signed it. What it is built on was judged when it was built here. One
            // from an archive is judged by the name that it has below any registry.
            Origin::Made(name) => match &self.context.settings.workflow {
                Workflow::DiskToMirror { .. } if is_from_archive(name) => {
                    made = format!("localhost/{name}:latest").parse().map_err(|e| chain(&e))?;
                    Name::Registry(&made)
                }
                _ => return Ok(()),
            },
        };
        let rule = self.trust.policy.rule(name);
        let (read, beside) = (rule.reads_signatures(), rule.reads_lookaside());
        let mut budget = MAX_PAYLOADS;
        let mut subjects = Vec::new();
        let below = tree.manifests[1..].iter().filter(|node| !node.media_type.is_index());
        for node in std::iter::once(tree.root()).chain(below) {
            let mut subject = Subject::unsigned(node.digest);
            if read {
                let found = self.signatures(at, tree, node.digest, &mut budget).await;
                subject.signatures = found.map_err(|why| format!("reading signatures: {why}"))?;
            }
            if let (true, Name::Registry(image)) = (beside, name) {
                let found = self.lookaside(image, node.digest).await;
                subject.lookaside = found.map_err(|why| {
                    format!("the image is rejected by policy: reading signatures: {why}")
                })?;
            }
            subjects.push(subject);
        }
        let root = subjects.remove(0);
        let image = Presented { root, instances: subjects, now: Timestamp::now() };
        rule.judge(&image).map_err(|refusal| refusal.to_string())
    }

    /// Parts held images into those the policy lets in and those it does not.
    pub(crate) async fn held(&self, gathered: Gathered, target: &RegistryHost) -> Gathered {
        let Gathered { found, mut lost } = gathered;
        let judged: Vec<(Found, Result<(), String>)> = stream::iter(found)
            .map(|found| async {
                // An earlier archive may have brought the signatures there.
                let at = found.destination.at(target);
                let judged = self.check(&found.wanted.origin, Some(&at), &found.tree).await;
                (found, judged)
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let mut found = Vec::with_capacity(judged.len());
        for (image, judged) in judged {
            match judged {
                Ok(()) => found.push(image),
                Err(why) => lost.push((image.wanted, image.destination, why.into())),
            }
        }
        Gathered { found, lost }
    }

    /// The signatures attached to one manifest of an image.
    async fn signatures(
        &self,
        at: Option<&ImageRef>,
        tree: &ImageTree,
        subject: Digest,
        budget: &mut u64,
    ) -> Result<Vec<Signature>, String> {
        let mut found = Vec::new();
        for attachment in tree.attachments.iter().filter(|a| a.subject == subject) {
            let Some(node) = attachment.manifests.first() else { continue };
            let manifest = self.manifest(at, &node.digest).await?;
            let manifest = manifest.parse().map_err(|e| chain(&e))?;
            for listed in trust::listed(&manifest) {
                let Listed { payload, size, signature, bundle, certificate, chain } = listed;
                *budget = budget.checked_sub(size).ok_or_else(|| {
                    format!("what is signed is larger than {MAX_PAYLOADS} bytes, which no honest image needs")
                })?;
                let payload = self.payload(at, BlobRef { digest: payload, size }).await?;
                found.push(Signature { payload, signature, bundle, certificate, chain });
            }
        }
        Ok(found)
    }

    async fn manifest(
        &self,
        at: Option<&ImageRef>,
        digest: &Digest,
    ) -> Result<RawManifest, String> {
        let held = self.holdings.blob(digest).map_err(|e| chain(&e))?.is_some();
        let (false, Some(at)) = (held, at) else {
            return held_manifest(self.holdings, digest).map_err(|e| chain(&e));
        };
        let at = at.with_pointer(Pointer::Digest(*digest));
        let found = self.client.manifest(&at).await.map_err(|e| chain(&e))?;
        found.ok_or_else(|| format!("{at} is not there any more"))
    }

    async fn payload(&self, at: Option<&ImageRef>, blob: BlobRef) -> Result<Vec<u8>, String> {
        let held = self.holdings.blob(&blob.digest).map_err(|e| chain(&e))?;
        let at = match (held, at) {
            (None, Some(at)) => Location::from(at),
            (None, None) => return Err(format!("{} is not here", blob.digest)),
            (Some(reader), _) => {
                let mut bytes = Vec::new();
                let read = reader.take(blob.size.saturating_add(1)).read_to_end(&mut bytes);
                read.map_err(|e| format!("reading {}: {e}", blob.digest))?;
                return match Digest::of(&bytes) == blob.digest {
                    true => Ok(bytes),
                    false => Err(format!("{} is damaged on disk", blob.digest)),
                };
            }
        };
        let supply = Supply::Registry { client: self.client.clone(), at };
        let body = supply.body(blob, 0).await.map_err(|e| chain(&e))?;
        let pieces: Vec<_> =
            verified(blob.digest, body).try_collect().await.map_err(|e| chain(e.as_ref()))?;
        let bytes = pieces.concat();
        if let Some(store) = self.store {
            store.put(&blob.digest, &bytes).map_err(|e| chain(&e))?;
        }
        Ok(bytes)
    }
}

/// Whether an image that this program builds comes with the archive, instead of being built from
/// what the archive contains.
fn is_from_archive(name: &Repository) -> bool {
    Origin::Made(name.clone()) == graph_image_origin()
}

/// The path of a layout as policies write it: absolute and without links. On
/// the disconnected side the layout need not be there.
fn explicit(layout: &Path) -> Result<PathBuf, String> {
    layout
        .canonicalize()
        .or_else(|_| std::path::absolute(layout))
        .map_err(|e| format!("finding {}: {e}", layout.display()))
}
