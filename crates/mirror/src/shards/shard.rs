//! One shard: moves the blobs of its part to the target, or into the workspace.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mirror_plan::{BlobRef, ShardPart};
use oci::Digest;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use workspace::archive::Archives;
use workspace::{ControlRequest, Controlled, Holdings, Workspace};

use super::{ShardEnding, ShardReport, ShardWatch, UnfinishedNeed};
use crate::control::RunControl;
use crate::error_chain::chain;
use crate::record::upload_log::UploadFiles;
use crate::report::{Failure, Outcome};
use crate::results::Moved;
use crate::settings::CacheChoice;
use crate::transfer::blob_target::{BlobTarget, Tally, TargetRepository};
use crate::transfer::destination_disk::Disk;
use crate::transfer::execute::{Destination, Executed, Limits, Stops, execute};
use crate::transfer::schedule::{HostId, Need, Parallel, Schedule, SourceId};
use crate::transfer::spool::Spool;
use crate::transfer::supply::{Sources, Supply};

/// What a shard needs to know besides its part.
#[derive(Debug)]
pub struct ShardSettings {
    /// The workspace: has what the run built, and keeps unfinished downloads and uploads.
    pub directory: PathBuf,
    pub source: registry::Settings,
    pub destination: registry::Settings,
    pub parallel_images: NonZeroUsize,
    pub parallel_layers: NonZeroUsize,
    pub transfer_timeout: Option<Duration>,
    /// Content of oc-mirror v2 on this machine.
    pub cache: Option<CacheChoice>,
    /// An earlier process worked on the same part: repositories that were new may have content, and
    /// what is there counts as transferred, so that the report does not depend on failures.
    pub is_repeated: bool,
}

/// Moves the blobs of a part. Ends soon after it is cancelled.
///
/// # Errors
/// Nothing can be moved: a client cannot be opened, or the cache cannot be used.
pub async fn transfer_shard(
    mut settings: ShardSettings,
    part: &ShardPart,
    watch: ShardWatch,
) -> Result<ShardReport, Failure> {
    let fail = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(mirror_plan::Exit::GENERIC, chain(error))
    };
    let mut workspace = Workspace::open(&settings.directory);
    let cache = match &settings.cache {
        Some(choice) => choice.open(&mut Vec::new())?,
        None => None,
    };
    if let Some(cache) = &cache {
        workspace = workspace.with_cache(cache.clone());
    }
    let control = Arc::new(RunControl::new(watch.cancel.clone(), None));
    for side in [&mut settings.source, &mut settings.destination] {
        side.limits.push(control.limiter());
    }
    settings.destination.uploads = Some(Arc::new(UploadFiles::open(&workspace)));
    let source = registry::Client::open(settings.source.clone()).map_err(|e| fail(&e))?;
    let destination = registry::Client::open(settings.destination).map_err(|e| fail(&e))?;
    let files: Vec<PathBuf> =
        part.archives.iter().map(|archive| workspace.root().join(&archive.file)).collect();
    let archives = (!files.is_empty()).then(|| Archives::of_files(workspace.root(), files));
    let holdings = Arc::new(Holdings::new(Some(workspace.clone()), archives));

    let mut sources = Sources::default();
    let supplies = part.sources.iter();
    let supplies = supplies.map(|from| Supply::open(from, &source, &holdings, cache.as_ref()));
    let places: Vec<usize> = supplies.map(|supply| sources.add(supply)).collect();
    let parallel =
        Parallel { images: settings.parallel_images.get(), layers: settings.parallel_layers.get() };
    let transfer = Transfer {
        part,
        places,
        hosts: sources.hosts(),
        limits: Limits { parallel, transfer_timeout: settings.transfer_timeout },
        control: &control,
        held: watch.held,
        cancel: watch.cancel,
    };
    let observer = watch.observer;
    let (ended, moved) = match &part.registry {
        Some(registry) => {
            let repositories = part.repositories.iter().map(|repository| TargetRepository {
                repository: repository.name.clone(),
                is_new: repository.is_new && !settings.is_repeated,
            });
            let held = part.blobs.iter().filter_map(|blob| {
                let repository = &part.repositories[blob.held? as usize];
                Some((blob.blob.digest, repository.name.clone()))
            });
            let target = Arc::new(BlobTarget {
                client: destination.clone(),
                registry: registry.clone(),
                repositories: repositories.collect(),
                sources,
                read_back_in: workspace.blobs().root().to_owned(),
                spool: Spool::new(workspace.blobs().clone()),
                held_elsewhere: held.collect::<HashMap<Digest, _>>(),
                source_retries: settings.source.retry.times,
                counts_present: settings.is_repeated,
                observer,
                tally: Tally::default(),
            });
            let ended = transfer.run(Arc::clone(&target), |_| true).await;
            (ended, target.tally.moved())
        }
        None => {
            let disk = Arc::new(Disk {
                workspace: workspace.clone(),
                staging: None,
                // The run records images once all their blobs are there.
                records: None,
                sources,
                retries: settings.source.retry.times,
                observer,
                blobs_moved: AtomicU64::new(0),
                bytes_moved: AtomicU64::new(0),
            });
            let blobs = workspace.blobs();
            // What cannot be examined is fetched, and meets the same error then.
            let is_missing =
                |blob: &BlobRef| !blobs.has(&blob.digest, Some(blob.size)).unwrap_or(false);
            let present = match settings.is_repeated {
                true => part.blobs.iter().filter(|blob| !is_missing(&blob.blob)).collect(),
                false => Vec::new(),
            };
            let present_bytes: u64 = present.iter().map(|blob| blob.blob.size).sum();
            let ended = transfer.run(Arc::clone(&disk), is_missing).await;
            let moved = Moved {
                blobs: disk.blobs_moved.load(Ordering::Relaxed) + present.len() as u64,
                bytes: disk.bytes_moved.load(Ordering::Relaxed) + present_bytes,
                mounted: 0,
            };
            (ended, moved)
        }
    };
    let unfinished = ended.unfinished;
    Ok(ShardReport {
        run: part.run.plan,
        shard: part.shard,
        ending: match ended.executed {
            Executed::Interrupted => ShardEnding::Interrupted,
            Executed::Entirely if unfinished.is_empty() => ShardEnding::Complete,
            Executed::Entirely => ShardEnding::Incomplete,
        },
        blobs: moved.blobs,
        bytes: moved.bytes,
        blobs_mounted: moved.mounted,
        source_requests: source.traffic().requests,
        destination_requests: destination.traffic().requests,
        retries: source.traffic().retries + destination.traffic().retries,
        unfinished,
        failure: None,
    })
}

/// The transfers of a part, wherever they go.
struct Transfer<'a> {
    part: &'a ShardPart,
    /// The number of each source of the part.
    places: Vec<SourceId>,
    hosts: Vec<HostId>,
    limits: Limits,
    control: &'a RunControl,
    held: watch::Receiver<bool>,
    cancel: CancellationToken,
}

/// How the transfers of a part ended.
struct Ended {
    executed: Executed,
    unfinished: Vec<UnfinishedNeed>,
}

impl Transfer<'_> {
    /// Moves the blobs of the part that are missing.
    async fn run<D: Destination>(
        self,
        target: Arc<D>,
        is_missing: impl Fn(&BlobRef) -> bool,
    ) -> Ended {
        let part = self.part;
        let needs = part.needs.iter().map(|need| {
            let blobs = need.blobs.iter().map(|blob| part.blobs[*blob as usize].blob);
            let source = self.places[need.source as usize];
            let repository = match part.registry {
                Some(_) => need.repository as usize,
                // A disk has one place for blobs.
                None => 0,
            };
            Some(Need { repository, source, blobs: blobs.filter(&is_missing).collect() })
        });
        let schedule = Schedule::new(needs.collect(), self.hosts);
        let stops = Stops { cancel: self.cancel, hold: self.control.hold() };
        let mut pending: BTreeSet<usize> = (0..part.needs.len()).collect();
        let mut unfinished = Vec::new();
        let executed = execute(schedule, target, self.limits, stops, |need, moment| {
            let Some(outcome) = moment.outcome() else { return };
            pending.remove(&need);
            if let Outcome::Failed { error } = outcome {
                unfinished.push((need, error));
            }
        });
        let executed = tokio::select! {
            executed = executed => executed,
            () = follow(self.control, self.held) => unreachable!("following never ends"),
        };
        let interrupted = pending.into_iter().map(|need| (need, "interrupted".to_owned().into()));
        unfinished.extend(interrupted);
        let unfinished = unfinished.into_iter().map(|(need, reason)| UnfinishedNeed {
            need: u32::try_from(need).unwrap_or(u32::MAX),
            reason,
        });
        Ended { executed, unfinished: unfinished.collect() }
    }
}

/// Pauses and resumes transfers with the run. Never ends.
async fn follow(control: &RunControl, mut held: watch::Receiver<bool>) {
    loop {
        let request = match *held.borrow_and_update() {
            true => ControlRequest::Pause,
            false => ControlRequest::Resume,
        };
        control.control(request);
        if held.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
