//! A registry as a destination: blobs are uploaded once and mounted elsewhere,
//! images are finished by putting their manifests.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, TryStreamExt};
use mirror_plan::{Attachment, BlobRef, ManifestNode, Plan};
use oci::{
    Descriptor, Digest, ImageRef, Pointer, RawManifest, RegistryHost, Repository, Tag,
    referrers_index,
};
use registry::{Blob, Client, Error, Location, Uploaded};
use workspace::Holdings;

use crate::progress::{Event, Observer};
use crate::results::Moved;
use crate::transfer::execute::Destination;
use crate::transfer::schedule::{ImageId, Job, RepoId, SourceId};
use crate::transfer::spool::Spool;
use crate::transfer::supply::{Sources, file_body, held_manifest};
use crate::transfer::transfer_error::{Cause, TransferError};
use crate::transfer::verified_body::{Body, BodyError, WrongContent, verified};

/// A repository at the target.
#[derive(Debug, Clone)]
pub(crate) struct TargetRepository {
    pub(crate) repository: Repository,
    /// Known to hold nothing: no use in asking whether a blob is there.
    pub(crate) is_new: bool,
}

/// An image on its way to the registry.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) destination: ImageRef,
    /// Whether the tag that lists referrers may be used for this subject: an
    /// image that has only a digest for a name stands under that very tag.
    pub(crate) fallback_taken: Vec<Digest>,
}

/// The registry images go to.
pub(crate) struct Target {
    pub(crate) client: Client,
    pub(crate) registry: RegistryHost,
    pub(crate) repositories: Vec<TargetRepository>,
    pub(crate) plan: Arc<Plan>,
    /// By image id, its place in the plan; `None` for images that are not copied.
    pub(crate) images: Vec<Option<Outgoing>>,
    pub(crate) sources: Sources,
    /// A directory for content that has to be read back from the target.
    pub(crate) read_back_in: PathBuf,
    /// Keeps content on its way.
    pub(crate) spool: Spool,
    /// Where manifests are read from.
    pub(crate) manifests: Arc<Holdings>,
    /// Blobs that images already there have, and in which repository.
    pub(crate) held_elsewhere: HashMap<Digest, Repository>,
    /// How often wrong bytes are asked for again.
    pub(crate) source_retries: u32,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) tally: Tally,
    /// Two images of one subject must not write its list of referrers at once.
    pub(crate) referrer_lists: tokio::sync::Mutex<()>,
}

/// What was done, counted as it happens.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    blobs: AtomicU64,
    bytes: AtomicU64,
    mounted: AtomicU64,
    notes: Mutex<BTreeMap<ImageId, Vec<String>>>,
}

impl Tally {
    pub(crate) fn moved(&self) -> Moved {
        Moved {
            blobs: self.blobs.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            mounted: self.mounted.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn take_notes(&self) -> BTreeMap<ImageId, Vec<String>> {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, image: ImageId, text: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.entry(image).or_default().push(text);
    }
}

impl Destination for Target {
    async fn perform(&self, job: Job) -> Result<(), TransferError> {
        let sent = match job {
            Job::Move { blob, from, to, .. } => {
                let BlobRef { digest, size } = blob;
                self.observer.notice(Event::BlobStarted { digest, size });
                let held = self.held_elsewhere.get(&digest);
                let sent = self.send(blob, from, to, held).await;
                self.observer.notice(Event::attempted(digest, &sent));
                sent
            }
            Job::Mount { blob, held, from, to, .. } => {
                let held = &self.repositories[held].repository;
                self.send(blob, from, to, Some(held)).await
            }
            Job::Finish { image } => self.finish(image).await,
        };
        sent.map_err(|cause| TransferError::new(job.step(), cause))
    }
}

impl Target {
    /// Brings a blob to a repository: not at all if it is there, by a mount where another
    /// repository has it, else by sending its bytes. If the source does not supply them, they are
    /// read back from the repository that has them.
    async fn send(
        &self,
        blob: BlobRef,
        from: SourceId,
        to: RepoId,
        held: Option<&Repository>,
    ) -> Result<(), Cause> {
        let to = &self.repositories[to];
        let at = self.location(&to.repository);
        if !to.is_new && self.client.has_blob(&at, &blob.digest).await.map_err(Cause::Target)? {
            self.observer.notice(Event::Moved { bytes: blob.size });
            self.spool.discard(blob);
            return Ok(());
        }
        let held = held.filter(|held| **held != to.repository);
        let source = self.sources.get(from);
        let kept = self.spool.keep(blob, source);
        let body = || async {
            let body = match &kept {
                Some(kept) => kept.body(source)?,
                None if source.is_checked() => source.body(blob, 0).await?,
                None => verified(blob.digest, source.body(blob, 0).await?),
            };
            Ok::<_, BodyError>(self.observed(body))
        };
        let wrong = || {
            if let Some(kept) = &kept {
                kept.discard();
            }
        };
        let failed = match self.upload(&at, blob, held, &body, &wrong).await {
            Ok(()) => {
                self.spool.discard(blob);
                return Ok(());
            }
            Err(cause) => cause,
        };
        let Some(held) = held.filter(|_| !matches!(failed, Cause::Target(_))) else {
            return Err(failed);
        };
        // The source's own error says more than that of a second place.
        let Ok(file) = self.read_back(blob, held).await else { return Err(failed) };
        let body = || async {
            let file = file.try_clone()?;
            let body = file_body(file, blob.size)?;
            Ok::<_, BodyError>(self.observed(body))
        };
        self.upload(&at, blob, None, &body, &|| {}).await
    }

    /// Uploads a blob. `wrong` is called when its content was not what its digest says, before it is
    /// requested again.
    async fn upload<F>(
        &self,
        at: &Location,
        blob: BlobRef,
        mount_from: Option<&Repository>,
        body: &(impl Fn() -> F + Send + Sync),
        wrong: &(impl Fn() + Send + Sync),
    ) -> Result<(), Cause>
    where
        F: Future<Output = Result<Body, BodyError>> + Send,
    {
        let sent = Blob { digest: blob.digest, size: blob.size };
        let mut asked_again = 0;
        let uploaded = loop {
            match self.client.upload(at, sent, mount_from, body).await {
                Err(Error::Body { source, .. })
                    if source.is::<WrongContent>() && asked_again < self.source_retries =>
                {
                    asked_again += 1;
                    wrong();
                    let message = format!("{source}; asking again");
                    self.observer.notice(Event::Warning { message });
                }
                Err(Error::Body { source, asked }) if source.is::<WrongContent>() => {
                    wrong();
                    break Err(Error::Body { source, asked });
                }
                uploaded => break uploaded,
            }
        };
        match uploaded.map_err(Cause::of_upload)? {
            Uploaded::Mounted => self.tally.mounted.fetch_add(1, Ordering::Relaxed),
            Uploaded::Sent => {
                self.tally.bytes.fetch_add(blob.size, Ordering::Relaxed);
                self.tally.blobs.fetch_add(1, Ordering::Relaxed)
            }
        };
        Ok(())
    }

    /// Reads a blob from a repository of the target into a file without a name. It is complete
    /// before an upload begins: one that waits for another transfer of the same registry could
    /// wait forever.
    async fn read_back(&self, blob: BlobRef, held: &Repository) -> Result<File, BodyError> {
        fs::create_dir_all(&self.read_back_in)?;
        let mut file = tempfile::tempfile_in(&self.read_back_in)?;
        let asked = Blob { digest: blob.digest, size: blob.size };
        let stream = self.client.blob(&self.location(held), asked, 0).await?.into_stream();
        let mut body = verified(blob.digest, stream.map_err(BodyError::from).boxed());
        while let Some(piece) = body.try_next().await? {
            file.write_all(&piece)?;
        }
        Ok(file)
    }

    fn observed(&self, body: Body) -> Body {
        let observer = Arc::clone(&self.observer);
        body.inspect_ok(move |piece| {
            observer.notice(Event::Moved { bytes: piece.len() as u64 });
        })
        .boxed()
    }

    /// Puts the manifests: what is listed before what lists it, the tag last. A client never pulls
    /// half an image by its tag, or one whose signatures are still to come.
    async fn finish(&self, image: ImageId) -> Result<(), Cause> {
        let Some(outgoing) = &self.images[image] else { return Ok(()) };
        let destination = &outgoing.destination;
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
            self.put_referrers(image, outgoing, &referring).await?;
        }
        let raw = self.manifest(destination, &root.digest).await?;
        self.put(destination, &raw).await.map(drop)
    }

    fn report_refused(&self, image: ImageId, attachment: &Attachment, error: &Error) {
        let tag = attachment.tag.as_ref().map(ToString::to_string).unwrap_or_default();
        let text =
            format!("the target refuses the attachment {tag}, which is missing there: {error}");
        let destination = self.images[image].as_ref().map(|outgoing| &outgoing.destination);
        let message = match destination {
            Some(destination) => format!("{destination}: {text}"),
            None => text.clone(),
        };
        self.observer.notice(Event::Warning { message });
        self.tally.note(image, text);
    }

    async fn put_tagged(&self, image: &ImageRef, attachment: &Attachment) -> Result<(), Cause> {
        let Some(tag) = &attachment.tag else { return Ok(()) };
        for node in attachment.manifests[1..].iter().rev() {
            self.put_by_digest(image, node).await?;
        }
        let raw = self.manifest(image, &attachment.manifests[0].digest).await?;
        self.put(&image.with_pointer(Pointer::Tag(tag.clone())), &raw).await.map(drop)
    }

    /// Puts referrers by digest. A registry that knows subjects lists them by
    /// itself; for others the list under the fallback tag is written.
    async fn put_referrers(
        &self,
        image: ImageId,
        outgoing: &Outgoing,
        referring: &[&Attachment],
    ) -> Result<(), Cause> {
        let mut unlisted: BTreeMap<Digest, Vec<Descriptor>> = BTreeMap::new();
        for attachment in referring {
            for node in attachment.manifests[1..].iter().rev() {
                self.put_by_digest(&outgoing.destination, node).await?;
            }
            let root = &attachment.manifests[0];
            let listed = self.put_by_digest(&outgoing.destination, root).await?;
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
            let listed =
                !taken && self.list_referrers(&outgoing.destination, subject, referrers).await?;
            if !listed {
                self.tally.note(image, format!(
                    "{count} referrer(s) of {subject} are kept by digest only: the target has no referrers API, and the tag that would list them is the image's own"
                ));
            }
        }
        Ok(())
    }

    /// Adds to the list under the fallback tag. False when an image of an
    /// earlier run has that tag: whoever pulls it must find the image there.
    async fn list_referrers(
        &self,
        image: &ImageRef,
        subject: Digest,
        mut referrers: Vec<Descriptor>,
    ) -> Result<bool, Cause> {
        let at = image.with_pointer(Pointer::Tag(Tag::of_digest(&subject)));
        let _one_at_a_time = self.referrer_lists.lock().await;
        // Others may have listed referrers there: theirs stay.
        if let Some(held) = self.client.manifest(&at).await.map_err(Cause::Target)? {
            if held.digest == subject || !held.media_type.is_index() {
                return Ok(false);
            }
            let Ok(parsed) = held.parse() else { return Ok(false) };
            referrers.extend(parsed.children().iter().cloned());
        }
        self.put(&at, &referrers_index(referrers)).await?;
        Ok(true)
    }

    /// Puts a manifest under its digest. True when the registry says that it
    /// listed it as a referrer of its subject. One that is not at hand is at
    /// the target: an earlier archive carried it, and that was asked.
    async fn put_by_digest(&self, image: &ImageRef, node: &ManifestNode) -> Result<bool, Cause> {
        if self.manifests.blob(&node.digest)?.is_none() {
            return Ok(true);
        }
        let raw = held_manifest(&self.manifests, &node.digest)?;
        self.put(&image.with_pointer(Pointer::Digest(node.digest)), &raw).await
    }

    /// A manifest that gets a tag. One that is not at hand is at the target
    /// under another: releases share components, and an earlier archive carried it.
    async fn manifest(&self, image: &ImageRef, digest: &Digest) -> Result<RawManifest, Cause> {
        if self.manifests.blob(digest)?.is_none() {
            let at = image.with_pointer(Pointer::Digest(*digest));
            if let Some(raw) = self.client.manifest(&at).await.map_err(Cause::Target)? {
                return Ok(raw);
            }
        }
        Ok(held_manifest(&self.manifests, digest)?)
    }

    async fn put(&self, to: &ImageRef, raw: &RawManifest) -> Result<bool, Cause> {
        let put = self.client.put_manifest(to, raw).await.map_err(Cause::Target)?;
        Ok(put.subject.is_some())
    }

    fn location(&self, repository: &Repository) -> Location {
        Location { registry: self.registry.clone(), repository: repository.clone() }
    }
}
