//! Checks images against the trust policy, before any of their layers is transferred.
//!
//! An image is judged by the name it has at its origin, on the disconnected side too: its signatures
//! are in the archive.

mod lookaside;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use mirror_plan::{BlobRef, Found, ImageTree, Origin};
use oci::{
    Digest, ImageRef, ManifestError, Pointer, RawManifest, ReferenceError, RegistryHost, Repository,
};
use registry::{Client, Location};
use trust::{Listed, Name, Presented, Refusal, Signature, Subject};
use workspace::{BlobError, BlobStore, DiskError, Holdings};

use self::lookaside::LookasideError;
use crate::collect::documents::Documents;
use crate::collect::releases::graph_image_origin;
use crate::context::Context;
use crate::fault::{EngineError, Fault};
use crate::gather::Gathered;
use crate::settings::{DryRun, TrustPolicy, Workflow};
use crate::transfer::supply::{ManifestReadError, Supply, SupplyError, held_manifest};
use crate::transfer::verified_body::{BodyError, verified};

/// Why the policy rejects an image, or why that is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error(transparent)]
    Rejected(#[from] Refusal),
    #[error("reading signatures")]
    Signatures(#[source] SignatureError),
    // Scripts search for `is rejected by policy`.
    #[error("the image is rejected by policy: reading signatures")]
    Lookaside(#[source] LookasideError),
    #[error("finding {}", path.display())]
    Layout { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Name(#[from] ReferenceError),
}

/// Why the signatures that are attached to an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignatureError {
    #[error("what is signed is larger than {MAX_PAYLOADS} bytes, which no valid image needs")]
    Large,
    #[error("reading the manifest {digest}")]
    Manifest { digest: Digest, source: ManifestError },
    #[error(transparent)]
    Held(#[from] ManifestReadError),
    #[error("{0} does not exist any more")]
    Absent(Box<ImageRef>),
    #[error("{0} is neither in the workspace nor in an archive here")]
    NotHeld(Digest),
    #[error("reading {digest}")]
    Read { digest: Digest, source: io::Error },
    #[error("{0} is damaged on disk")]
    Damaged(Digest),
    #[error(transparent)]
    Request(#[from] registry::Error),
    #[error(transparent)]
    Supply(#[from] SupplyError),
    #[error("fetching {digest}")]
    Body { digest: Digest, source: BodyError },
    #[error(transparent)]
    Store(#[from] BlobError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl EngineError for TrustError {
    fn fault(&self) -> Fault {
        match self {
            Self::Rejected(_) => Fault::Policy,
            Self::Signatures(error) => error.fault(),
            Self::Lookaside(error) => error.fault(),
            Self::Layout { .. } => Fault::Disk,
            Self::Name(_) => Fault::Configuration,
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Signatures(error) => error.request(),
            Self::Lookaside(error) => error.request(),
            Self::Rejected(_) | Self::Layout { .. } | Self::Name(_) => None,
        }
    }
}

impl EngineError for SignatureError {
    fn fault(&self) -> Fault {
        match self {
            Self::Large | Self::Manifest { .. } | Self::Damaged(_) | Self::Body { .. } => {
                Fault::Content
            }
            Self::Held(error) => error.fault(),
            Self::Absent(_) => Fault::SourceAbsent,
            Self::NotHeld(_) => Fault::NotHeld,
            Self::Request(error) => Fault::of_source(error),
            Self::Supply(error) => error.fault(),
            Self::Store(error) => Fault::of_store(error),
            Self::Read { .. } | Self::Disk(_) => Fault::Disk,
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Request(error) => Some(error),
            Self::Supply(error) => error.request(),
            Self::Body { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }
}

/// Images that are checked at once.
const AT_ONCE: usize = 32;
/// What is signed is a few hundred bytes; all of it together is held in memory.
const MAX_PAYLOADS: u64 = 4 << 20;

/// The policy of a run, and where signatures are read.
pub(crate) struct TrustCheck<'a> {
    trust: &'a TrustPolicy,
    /// Looked at first.
    holdings: &'a Holdings,
    /// The source of what is not held.
    client: &'a Client,
    /// What was requested is kept here, so that the copy does not request it again.
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

    /// Lets an image in, or returns why not. `at` is a registry that has what is attached to it.
    /// The documents are signatures from lookaside servers, which the disconnected side needs.
    pub(crate) async fn check(
        &self,
        origin: &Origin,
        at: Option<&ImageRef>,
        tree: &ImageTree,
    ) -> Result<Documents, TrustError> {
        let mut documents = Documents::default();
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
                    made = format!("localhost/{name}:latest").parse()?;
                    Name::Registry(&made)
                }
                _ => return Ok(documents),
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
                subject.signatures = found.map_err(TrustError::Signatures)?;
            }
            if let (true, Name::Registry(image)) = (beside, name) {
                let found = self.lookaside(image, node.digest, &mut documents).await;
                subject.lookaside = found.map_err(TrustError::Lookaside)?;
            }
            subjects.push(subject);
        }
        let root = subjects.remove(0);
        let image = Presented { root, instances: subjects, now: Timestamp::now() };
        rule.judge(&image)?;
        Ok(documents)
    }

    /// Splits held images into those that the policy accepts and those that it rejects.
    pub(crate) async fn held(&self, gathered: Gathered, target: &RegistryHost) -> Gathered {
        let Gathered { found, mut lost, documents } = gathered;
        let judged: Vec<(Found, Result<Documents, TrustError>)> = stream::iter(found)
            .map(|found| async {
                // An earlier archive may have transferred the signatures to the target.
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
                Ok(_) => found.push(image),
                Err(error) => lost.push((image.wanted, image.destination, error.reason())),
            }
        }
        Gathered { found, lost, documents }
    }

    /// The signatures attached to one manifest of an image.
    async fn signatures(
        &self,
        at: Option<&ImageRef>,
        tree: &ImageTree,
        subject: Digest,
        budget: &mut u64,
    ) -> Result<Vec<Signature>, SignatureError> {
        let mut found = Vec::new();
        for attachment in tree.attachments.iter().filter(|a| a.subject == subject) {
            let Some(node) = attachment.manifests.first() else { continue };
            let digest = node.digest;
            let manifest = self.manifest(at, &digest).await?;
            let manifest = manifest.parse();
            let manifest =
                manifest.map_err(|source| SignatureError::Manifest { digest, source })?;
            for listed in trust::listed(&manifest) {
                let Listed { payload, size, signature, bundle, certificate, chain } = listed;
                *budget = budget.checked_sub(size).ok_or(SignatureError::Large)?;
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
    ) -> Result<RawManifest, SignatureError> {
        let held = self.holdings.blob(digest)?.is_some();
        let (false, Some(at)) = (held, at) else {
            return Ok(held_manifest(self.holdings, digest)?);
        };
        let at = at.with_pointer(Pointer::Digest(*digest));
        let found = self.client.manifest(&at).await?;
        found.ok_or_else(|| SignatureError::Absent(Box::new(at)))
    }

    async fn payload(
        &self,
        at: Option<&ImageRef>,
        blob: BlobRef,
    ) -> Result<Vec<u8>, SignatureError> {
        let digest = blob.digest;
        let at = match (self.holdings.blob(&digest)?, at) {
            (None, Some(at)) => Location::from(at),
            (None, None) => return Err(SignatureError::NotHeld(digest)),
            (Some(reader), _) => {
                let mut bytes = Vec::new();
                let read = reader.take(blob.size.saturating_add(1)).read_to_end(&mut bytes);
                read.map_err(|source| SignatureError::Read { digest, source })?;
                return match Digest::of(&bytes) == digest {
                    true => Ok(bytes),
                    false => Err(SignatureError::Damaged(digest)),
                };
            }
        };
        let supply = Supply::Registry { client: self.client.clone(), at };
        let body = supply.body(blob, 0).await?;
        let pieces: Result<Vec<_>, BodyError> = verified(digest, body).try_collect().await;
        let pieces = pieces.map_err(|source| SignatureError::Body { digest, source })?;
        let bytes = pieces.concat();
        if let Some(store) = self.store {
            store.put(&digest, &bytes)?;
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
fn explicit(layout: &Path) -> Result<PathBuf, TrustError> {
    let found = layout.canonicalize().or_else(|_| std::path::absolute(layout));
    found.map_err(|source| TrustError::Layout { path: layout.to_owned(), source })
}
