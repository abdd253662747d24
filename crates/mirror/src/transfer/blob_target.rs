//! The repositories of a registry as a destination of blobs: each is uploaded once and mounted
//! elsewhere.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt};
use mirror_plan::BlobRef;
use oci::{Digest, RegistryHost, Repository};
use registry::{Blob, Client, Error, Location, Uploaded};

use crate::progress::{Event, Observer};
use crate::results::Moved;
use crate::transfer::execute::Destination;
use crate::transfer::schedule::{ImageId, Job, RepoId, SourceId};
use crate::transfer::spool::Spool;
use crate::transfer::supply::{Sources, file_body};
use crate::transfer::transfer_error::{Cause, TransferError};
use crate::transfer::verified_body::{Body, BodyError, WrongContent, verified};

/// A repository at the target.
#[derive(Debug, Clone)]
pub(crate) struct TargetRepository {
    pub(crate) repository: Repository,
    /// Known to hold nothing: requests whether a blob exists are needless.
    pub(crate) is_new: bool,
}

/// Where blobs go. By itself a destination of content that no manifest refers to yet.
pub(crate) struct BlobTarget {
    pub(crate) client: Client,
    pub(crate) registry: RegistryHost,
    pub(crate) repositories: Vec<TargetRepository>,
    pub(crate) sources: Sources,
    /// A directory for content that has to be read back from the target.
    pub(crate) read_back_in: PathBuf,
    /// Keeps content during the transfer.
    pub(crate) spool: Spool,
    /// Blobs that images already there have, and in which repository.
    pub(crate) held_elsewhere: HashMap<Digest, Repository>,
    /// How often wrong bytes are requested again.
    pub(crate) source_retries: u32,
    /// What exists already was copied by an earlier process of the same shard, and counts as
    /// transferred.
    pub(crate) counts_present: bool,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) tally: Tally,
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

    fn count(&self, uploaded: Uploaded, blob: BlobRef) {
        match uploaded {
            Uploaded::Mounted => _ = self.mounted.fetch_add(1, Ordering::Relaxed),
            Uploaded::Sent => {
                self.bytes.fetch_add(blob.size, Ordering::Relaxed);
                self.blobs.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn take_notes(&self) -> BTreeMap<ImageId, Vec<String>> {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn note(&self, image: ImageId, text: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.entry(image).or_default().push(text);
    }
}

impl Destination for BlobTarget {
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
            Job::Finish { .. } => Ok(()),
        };
        sent.map_err(|cause| TransferError::new(job.step(), cause))
    }
}

impl BlobTarget {
    /// Transfers a blob to a repository: not at all if it is there, by a mount where another
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
            if self.counts_present {
                match held.is_some_and(|held| *held != to.repository) {
                    true => self.tally.count(Uploaded::Mounted, blob),
                    false => self.tally.count(Uploaded::Sent, blob),
                }
            }
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
        let start = Instant::now();
        let failed = match self.upload(&at, blob, held, &body, &wrong).await {
            Ok(uploaded) => {
                if uploaded == Uploaded::Sent {
                    self.spool.arrived(blob, source, start.elapsed());
                }
                self.spool.discard(blob);
                return Ok(());
            }
            Err(cause) => cause,
        };
        let Some(held) = held.filter(|_| !matches!(failed, Cause::Target(_))) else {
            return Err(failed);
        };
        // The source's own error is more specific than that of a second source.
        let Ok(file) = self.read_back(blob, held).await else { return Err(failed) };
        let body = || async {
            let file = file.try_clone()?;
            let body = file_body(file, blob.size)?;
            Ok::<_, BodyError>(self.observed(body))
        };
        self.upload(&at, blob, None, &body, &|| {}).await.map(|_| ())
    }

    /// Uploads a blob. `wrong` is called when its content did not match its digest, before it is
    /// requested again.
    async fn upload<F>(
        &self,
        at: &Location,
        blob: BlobRef,
        mount_from: Option<&Repository>,
        body: &(impl Fn() -> F + Send + Sync),
        wrong: &(impl Fn() + Send + Sync),
    ) -> Result<Uploaded, Cause>
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
                    let message = format!("{source}; retrying");
                    self.observer.notice(Event::Warning { message });
                }
                Err(Error::Body { source, request_line }) if source.is::<WrongContent>() => {
                    wrong();
                    break Err(Error::Body { source, request_line });
                }
                uploaded => break uploaded,
            }
        };
        let uploaded = uploaded.map_err(Cause::of_upload)?;
        self.tally.count(uploaded, blob);
        Ok(uploaded)
    }

    /// Reads a blob from a repository of the target into a file without a name. It is complete
    /// before an upload begins: one that waits for another transfer of the same registry could
    /// wait forever.
    async fn read_back(&self, blob: BlobRef, held: &Repository) -> Result<File, BodyError> {
        fs::create_dir_all(&self.read_back_in)?;
        let mut file = tempfile::tempfile_in(&self.read_back_in)?;
        let requested = Blob { digest: blob.digest, size: blob.size };
        let stream = self.client.blob(&self.location(held), requested, 0).await?.into_stream();
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

    fn location(&self, repository: &Repository) -> Location {
        Location { registry: self.registry.clone(), repository: repository.clone() }
    }
}
