//! Pods that write an archive into an object store or a volume: each fetches the blobs of a shard and
//! writes the files that have them. One completes the archive, unless the command does.

use std::fs;

use archive_store::ArchiveLocation;
use mirror::{ShardEnding, ShardReport};
use mirror_job::{RunName, exit};
use mirror_plan::{RunIdentity, ShardPart};
use workspace::Workspace;

use super::pod::{
    Failure, INTERVAL, Links, Moved, PodArguments, may_pass, move_blobs, shard_index,
};
use super::process::program;
use super::target_claim::TargetClaim;
use crate::interrupt::{self, Ended};
use crate::problem::chain;
use crate::request::ProcessEnvironment;
use crate::segment_store::{SegmentRun, SegmentStore, SegmentStoreError, file_names};

impl Failure {
    fn of_segments(error: &SegmentStoreError) -> Self {
        Self { message: chain(error), may_pass: error.may_pass() }
    }
}

/// The run of a pod.
struct SegmentPod {
    store: SegmentStore,
    run: SegmentRun,
}

impl SegmentPod {
    async fn open(arguments: &PodArguments) -> Result<Self, Failure> {
        let failed = |error: SegmentStoreError| Failure::of_segments(&error);
        let (store, digest) =
            SegmentStore::of_pod(&arguments.run, &arguments.mirror.store).map_err(failed)?;
        let run = store.run(&digest).await.map_err(failed)?;
        Ok(Self { store, run })
    }

    async fn part(&self, index: u32) -> Result<ShardPart, Failure> {
        let part = self.store.part(&self.run, index).await;
        let part = part.map_err(|error| Failure::of_segments(&error))?;
        let expected = RunIdentity { plan: part.run.plan, program: program() };
        part.check(&expected, index).map_err(|error| Failure::permanent(chain(&error)))?;
        Ok(part)
    }

    /// Stores how a shard is, unless another copy of it has done the part. What cannot be stored is
    /// logged: the pod has another error to report.
    async fn note_unless_done(&self, index: u32, ending: ShardEnding, failure: Option<&str>) {
        let note = async {
            let known = self.store.report(index).await?;
            if known.is_some_and(|known| known.ending.is_done()) {
                return Ok(());
            }
            let mut report = ShardReport::without_transfers(self.run.index, index, ending);
            report.failure = failure.map(str::to_owned);
            self.store.store_report(&report).await
        };
        let noted: Result<(), SegmentStoreError> = note.await;
        let _ = noted.inspect_err(|error| tracing::warn!("{}", chain(error)));
    }
}

/// Does the part of one shard. The pod that completes the archive reads of a failure that lasts, and
/// that no other pod of this shard follows.
pub(super) async fn write(
    arguments: &PodArguments,
    process: &ProcessEnvironment,
) -> Result<u8, Failure> {
    let index = shard_index(arguments, process)?;
    let links = Links::of(arguments, process)?;
    let pod = SegmentPod::open(arguments).await?;
    if process.is_last_pod {
        // This pod may be killed at any moment.
        pod.note_unless_done(index, ShardEnding::LastAttempt, None).await;
    }
    let ended = write_part(&pod, &links, arguments, index, links.is_repeated).await;
    if let Err(failure) = &ended
        && (!failure.may_pass || process.is_last_pod)
    {
        pod.note_unless_done(index, ShardEnding::Failed, Some(&failure.message)).await;
    }
    ended
}

/// Waits until all files of an archive are stored, and makes them files of the archives.
pub(super) async fn publish(
    arguments: &PodArguments,
    process: &ProcessEnvironment,
) -> Result<u8, Failure> {
    let pod = SegmentPod::open(arguments).await?;
    let archives = pod.store.archives();
    let archives =
        archives.ok_or_else(|| Failure::permanent("the run is not below a place of archives"))?;
    let claim = TargetClaim::of_archives_pod(
        &archives,
        &arguments.mirror.store,
        &RunName::of(&pod.run.index),
    );
    claim.take().await.map_err(|error| Failure::of_claim(&error))?;
    let links = Links::of(arguments, process)?;
    let (pod, links, archives, claim) = (&pod, &links, &archives, &claim);
    let ended = interrupt::until_ended(|cancel| async move {
        let work = async {
            gather(pod, links, arguments).await?;
            // Another run may have taken the place over while no pod of this one was running.
            claim.take().await.map_err(|error| Failure::of_claim(&error))?;
            complete(pod, arguments, archives).await
        };
        tokio::select! {
            done = work => Some(done),
            () = cancel.cancelled() => None,
            () = claim.keep() => unreachable!("a claim is kept until the archive is complete"),
        }
    });
    let ended = match ended.await {
        Ok(Ended::Result(Some(done))) => done,
        Ok(_) => return Ok(interrupt::EXIT_CODE),
        Err(error) => Err(Failure::permanent(format!("waiting for signals: {error}"))),
    };
    // The next pod of the run continues with its claim.
    if ended.as_ref().err().is_none_or(|failure| !failure.may_pass) {
        claim.end_here().await;
    }
    ended.map(|()| exit::DONE)
}

/// Waits until all files are stored. A part whose last pod was started is done here, once all others
/// are done: that pod may have been killed, and copies of a shard do not disturb each other.
async fn gather(pod: &SegmentPod, links: &Links, arguments: &PodArguments) -> Result<(), Failure> {
    let failed = |error: SegmentStoreError| Failure::of_segments(&error);
    let of_shard = |shard: u32, reason: &str| {
        format!("shard {shard} failed, and nothing is added to the archives: {reason}")
    };
    let shards = u32::try_from(pod.run.parts.len()).unwrap_or(u32::MAX);
    let mut logged = usize::MAX;
    loop {
        let (mut waiting, mut last) = (0, Vec::new());
        for shard in 0..shards {
            let report = pod.store.report(shard).await.map_err(failed)?;
            match report.as_ref().map(|report| report.ending) {
                Some(ShardEnding::Complete | ShardEnding::Incomplete) => {}
                Some(ShardEnding::LastAttempt) => last.push(shard),
                Some(ShardEnding::Failed) => {
                    // Another copy of the shard may have written its files.
                    let chunks = match pod.part(shard).await {
                        Ok(part) => part.segment.map(|segment| segment.chunks),
                        Err(_) => None,
                    };
                    let is_there = match chunks {
                        Some(chunks) => {
                            pod.store.missing(&pod.run, &chunks).await.map_err(failed)?.is_empty()
                        }
                        None => false,
                    };
                    if !is_there {
                        let reason = report.and_then(|report| report.failure).unwrap_or_default();
                        return Err(Failure::permanent(of_shard(shard, &reason)));
                    }
                }
                Some(ShardEnding::Interrupted) | None => waiting += 1,
            }
        }
        if waiting == 0 && last.is_empty() {
            return Ok(());
        }
        if waiting == 0 {
            for shard in last {
                tracing::info!(
                    "shard {shard}: no other pod follows its last one; writing its files"
                );
                match Box::pin(write_part(pod, links, arguments, shard, true)).await {
                    Ok(exit::DONE) => {}
                    Ok(_) => return Err(Failure { message: "interrupted".into(), may_pass: true }),
                    Err(Failure { message, may_pass }) => {
                        return Err(Failure { message: of_shard(shard, &message), may_pass });
                    }
                }
            }
            continue;
        }
        if std::mem::replace(&mut logged, waiting) != waiting {
            tracing::info!("waiting for {waiting} of {shards} shards");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Makes the files of the run files of the archives, and removes the rest of the run.
async fn complete(
    pod: &SegmentPod,
    arguments: &PodArguments,
    archives: &ArchiveLocation,
) -> Result<(), Failure> {
    let failed = |error: SegmentStoreError| Failure::of_segments(&error);
    let length = pod.store.index(&pod.run).await.map_err(failed)?.len() as u64;
    let store = arguments.mirror.store.open(archives).map_err(|e| failed(e.into()))?;
    pod.store.publish(&pod.run, length, &store).await.map_err(failed)?;
    tracing::info!("the archive is complete: {}", file_names(&pod.run.numbers()).join(", "));
    // A pod that is repeated needs the list of the run until nothing else is left to do.
    if let Err(error) = pod.store.remove().await {
        tracing::warn!("removing what the run left: {}", chain(&error));
    }
    Ok(())
}

async fn write_part(
    pod: &SegmentPod,
    links: &Links,
    arguments: &PodArguments,
    index: u32,
    is_repeated: bool,
) -> Result<u8, Failure> {
    let failed = |error: SegmentStoreError| Failure::of_segments(&error);
    let (store, run) = (&pod.store, &pod.run);
    let part = pod.part(index).await?;
    let segment = part.segment.as_ref();
    let segment = segment.ok_or_else(|| Failure::permanent("the part writes no archive"))?;
    let missing = store.missing(run, &segment.chunks).await.map_err(failed)?;
    tracing::info!(
        "shard {index}: {} of {} files are not written yet",
        missing.len(),
        segment.chunks.len()
    );
    if missing.is_empty() {
        // An earlier pod ended between its last file and its report.
        let known = store.report(index).await.map_err(failed)?;
        if !known.is_some_and(|known| known.ending.is_done()) {
            let done = ShardEnding::Complete;
            let mut report = ShardReport::without_transfers(part.run.plan, index, done);
            (report.blobs, report.bytes) = (part.blobs.len() as u64, part.bytes());
            store.store_report(&report).await.map_err(failed)?;
        }
        return Ok(exit::DONE);
    }
    let text = store.index(run).await.map_err(failed)?;
    let workspace = Workspace::open(&links.directory);
    let planned = workspace
        .take_segments(&text, &run.index)
        .map_err(|error| Failure::permanent(chain(&error)))?;
    drop(text);
    // Several blobs arrive at once, and none has to make the directory of the others.
    let blobs = workspace.blobs().root().join("sha256");
    fs::create_dir_all(&blobs)
        .map_err(|error| Failure::permanent(format!("creating {}: {error}", blobs.display())))?;
    let Moved::Report(report) = move_blobs(links, arguments, &part, is_repeated).await? else {
        return Ok(interrupt::EXIT_CODE);
    };
    match report.ending {
        ShardEnding::Complete => {}
        ShardEnding::Interrupted => return Ok(interrupt::EXIT_CODE),
        ShardEnding::Incomplete if may_pass(&report) => return Ok(exit::RETRY),
        // An archive without this content would have another index.
        ShardEnding::Incomplete | ShardEnding::LastAttempt | ShardEnding::Failed => {
            let reason = report.unfinished.first().map(|need| need.reason.to_string());
            return Err(Failure::permanent(format!(
                "content of the archive is missing: {}",
                reason.unwrap_or_default()
            )));
        }
    }
    for number in missing {
        let written = tokio::task::block_in_place(|| workspace.write_segment(&planned, number));
        let path = written.map_err(|error| Failure::permanent(chain(&error)))?;
        let path = path.ok_or_else(|| Failure::permanent("the index has no such file"))?;
        tracing::info!("storing {}", path.display());
        store.upload(&path, number).await.map_err(failed)?;
        fs::remove_file(&path)
            .map_err(|error| Failure::permanent(format!("removing {}: {error}", path.display())))?;
    }
    store.store_report(&report).await.map_err(failed)?;
    Ok(exit::DONE)
}
