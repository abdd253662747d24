//! A registry as a destination of images: once their blobs are there, their manifests are put.

use std::collections::BTreeMap;
use std::sync::Arc;

use mirror_plan::{Attachment, ManifestNode, Plan};
use oci::{Descriptor, Digest, ImageRef, Pointer, RawManifest, Tag, referrers_index};
use registry::Error;
use workspace::Holdings;

use crate::progress::Event;
use crate::transfer::blob_target::BlobTarget;
use crate::transfer::execute::Destination;
use crate::transfer::schedule::{ImageId, Job};
use crate::transfer::supply::held_manifest;
use crate::transfer::transfer_error::{Cause, TransferError};

/// An image that is being pushed.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Whether the tag that lists referrers may be used for this subject: an
    /// image that has only a digest for a name has that very tag.
    pub(crate) fallback_taken: Box<[Digest]>,
}

/// The registry images go to.
pub(crate) struct Target {
    pub(crate) blobs: BlobTarget,
    pub(crate) plan: Arc<Plan>,
    /// By image id, its place in the plan; `None` for images that are not copied.
    pub(crate) images: Vec<Option<Outgoing>>,
    /// Where manifests are read from.
    pub(crate) manifests: Arc<Holdings>,
    /// Two images of one subject must not write its list of referrers at once.
    pub(crate) referrer_lists: tokio::sync::Mutex<()>,
}

impl Destination for Target {
    async fn perform(&self, job: Job) -> Result<(), TransferError> {
        match job {
            Job::Move { .. } | Job::Mount { .. } => self.blobs.perform(job).await,
            Job::Finish { image } => {
                let finished = self.finish(image).await;
                finished.map_err(|cause| TransferError::new(job.step(), cause))
            }
        }
    }
}

impl Target {
    /// Pushes the manifests: what is listed before what lists it, the tag last. A client never pulls
    /// half an image by its tag, or one whose signatures are still to come.
    async fn finish(&self, image: ImageId) -> Result<(), Cause> {
        let Some(outgoing) = &self.images[image] else { return Ok(()) };
        let destination = &self.destination(image);
        // Expanded only now: all of them at once would fill the memory.
        let tree = self.plan.tree(&self.plan.images[image]);
        let root = tree.root();
        // Lists inside lists: the deeper ones were collected later.
        for node in tree.manifests[1..].iter().rev() {
            self.put_by_digest(destination, node).await?;
        }
        if !tree.attachments.is_empty() {
            // Some registries link an attachment only to a subject that is there.
            self.put_by_digest(destination, root).await?;
            let (tagged, referring): (Vec<_>, Vec<_>) =
                tree.attachments.iter().partition(|attachment| attachment.tag.is_some());
            for attachment in tagged {
                match self.put_tagged(destination, attachment).await {
                    // Some registries do not accept signatures with repeated layers. The image can
                    // be used without them.
                    Err(Cause::Target(error)) if error.refuses_content() => {
                        self.report_refused(image, attachment, &error);
                    }
                    put => put?,
                }
            }
            self.put_referrers((image, destination), outgoing, &referring).await?;
        }
        let raw = self.manifest(destination, &root.digest).await?;
        self.put(destination, &raw).await.map(drop)
    }

    fn destination(&self, image: ImageId) -> ImageRef {
        self.plan.images[image].destination.at(&self.blobs.registry)
    }

    fn report_refused(&self, image: ImageId, attachment: &Attachment, error: &Error) {
        let tag = attachment.tag.as_ref().map(ToString::to_string).unwrap_or_default();
        let text =
            format!("the target refuses the attachment {tag}, which is missing there: {error}");
        let message = format!("{}: {text}", self.destination(image));
        self.blobs.observer.notice(Event::Warning { message });
        self.blobs.tally.note(image, text);
    }

    async fn put_tagged(&self, image: &ImageRef, attachment: &Attachment) -> Result<(), Cause> {
        let Some(tag) = &attachment.tag else { return Ok(()) };
        for node in attachment.manifests[1..].iter().rev() {
            self.put_by_digest(image, node).await?;
        }
        let raw = self.manifest(image, &attachment.manifests[0].digest).await?;
        self.put(&image.with_pointer(Pointer::Tag(tag.clone())), &raw).await.map(drop)
    }

    /// Pushes referrers by digest. A registry that supports subjects lists them by
    /// itself; for others the list under the fallback tag is written.
    async fn put_referrers(
        &self,
        (image, destination): (ImageId, &ImageRef),
        outgoing: &Outgoing,
        referring: &[&Attachment],
    ) -> Result<(), Cause> {
        let mut unlisted: BTreeMap<Digest, Vec<Descriptor>> = BTreeMap::new();
        for attachment in referring {
            for node in attachment.manifests[1..].iter().rev() {
                self.put_by_digest(destination, node).await?;
            }
            let root = &attachment.manifests[0];
            let listed = self.put_by_digest(destination, root).await?;
            if !listed {
                let as_listed = attachment.listed_as.clone().unwrap_or_else(|| {
                    Descriptor::new(root.media_type.clone(), root.digest, root.size)
                });
                unlisted.entry(attachment.subject).or_default().push(as_listed);
            }
        }
        for (subject, referrers) in unlisted {
            let count = referrers.len();
            let taken = outgoing.fallback_taken.contains(&subject);
            let listed = !taken && self.list_referrers(destination, subject, referrers).await?;
            if !listed {
                self.blobs.tally.note(image, format!(
                    "{count} referrer(s) of {subject} are kept by digest only: the target has no referrers API, and the tag that would list them is the image's own"
                ));
            }
        }
        Ok(())
    }

    /// Adds to the list under the fallback tag. False when an image of an
    /// earlier run has that tag: clients that pull it must get the image.
    async fn list_referrers(
        &self,
        image: &ImageRef,
        subject: Digest,
        mut referrers: Vec<Descriptor>,
    ) -> Result<bool, Cause> {
        let at = image.with_pointer(Pointer::Tag(Tag::of_digest(&subject)));
        let _one_at_a_time = self.referrer_lists.lock().await;
        // Others may have listed referrers there: theirs stay.
        if let Some(held) = self.blobs.client.manifest(&at).await.map_err(Cause::Target)? {
            if held.digest == subject || !held.media_type.is_index() {
                return Ok(false);
            }
            let Ok(parsed) = held.parse() else { return Ok(false) };
            referrers.extend(parsed.children().iter().cloned());
        }
        self.put(&at, &referrers_index(referrers)).await?;
        Ok(true)
    }

    /// Pushes a manifest under its digest. True when the registry responds that it
    /// listed it as a referrer of its subject. One that is not available here is at
    /// the target: an earlier archive contained it, and that was checked.
    async fn put_by_digest(&self, image: &ImageRef, node: &ManifestNode) -> Result<bool, Cause> {
        if self.manifests.blob(&node.digest)?.is_none() {
            return Ok(true);
        }
        let raw = held_manifest(&self.manifests, &node.digest)?;
        self.put(&image.with_pointer(Pointer::Digest(node.digest)), &raw).await
    }

    /// A manifest that gets a tag. One that is not available here is at the target
    /// under another: releases share components, and an earlier archive contained it.
    async fn manifest(&self, image: &ImageRef, digest: &Digest) -> Result<RawManifest, Cause> {
        if self.manifests.blob(digest)?.is_none() {
            let at = image.with_pointer(Pointer::Digest(*digest));
            if let Some(raw) = self.blobs.client.manifest(&at).await.map_err(Cause::Target)? {
                return Ok(raw);
            }
        }
        Ok(held_manifest(&self.manifests, digest)?)
    }

    async fn put(&self, to: &ImageRef, raw: &RawManifest) -> Result<bool, Cause> {
        let put = self.blobs.client.put_manifest(to, raw).await.map_err(Cause::Target)?;
        Ok(put.subject.is_some())
    }
}
