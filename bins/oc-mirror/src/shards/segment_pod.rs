//! A pod that fetches the blobs of a shard and writes the files of an archive that have them, into an
//! object store.

use std::fs;

use mirror::{ShardEnding, ShardReport};
use mirror_job::exit;
use mirror_plan::RunIdentity;
use workspace::Workspace;

use super::pod::{Failure, Links, Moved, PodArguments, may_pass, move_blobs, shard_index};
use super::process::program;
use crate::interrupt;
use crate::problem::chain;
use crate::request::ProcessEnvironment;
use crate::segment_store::{SegmentStore, SegmentStoreError};

impl Failure {
    fn of_segments(error: &SegmentStoreError) -> Self {
        Self { message: chain(error), may_pass: error.may_pass() }
    }
}

/// Does the part of one shard.
pub(super) async fn write(
    arguments: &PodArguments,
    process: &ProcessEnvironment,
) -> Result<u8, Failure> {
    let failed = |error: SegmentStoreError| Failure::of_segments(&error);
    let index = shard_index(arguments, process)?;
    let links = Links::of(arguments, process)?;
    let (store, digest) =
        SegmentStore::of_pod(&arguments.run, &arguments.mirror.store).map_err(failed)?;
    let run = store.run(&digest).await.map_err(failed)?;
    let part = store.part(&run, index).await.map_err(failed)?;
    let expected = RunIdentity { plan: part.run.plan, program: program() };
    part.check(&expected, index).map_err(|error| Failure::permanent(chain(&error)))?;
    let segment = part.segment.as_ref();
    let segment = segment.ok_or_else(|| Failure::permanent("the part writes no archive"))?;
    let missing = store.missing(&run, &segment.chunks).await.map_err(failed)?;
    tracing::info!(
        "shard {index}: {} of {} files are not written yet",
        missing.len(),
        segment.chunks.len()
    );
    if missing.is_empty() {
        // An earlier pod ended between its last file and its report.
        if store.report(index).await.map_err(failed)?.is_none() {
            let done = ShardEnding::Complete;
            let mut report = ShardReport::without_transfers(part.run.plan, index, done);
            (report.blobs, report.bytes) = (part.blobs.len() as u64, part.bytes());
            store.store_report(&report).await.map_err(failed)?;
        }
        return Ok(exit::DONE);
    }
    let text = store.index(&run).await.map_err(failed)?;
    let workspace = Workspace::open(&links.directory);
    let planned = workspace
        .take_segments(&text, &run.index)
        .map_err(|error| Failure::permanent(chain(&error)))?;
    drop(text);
    // Several blobs arrive at once, and none has to make the directory of the others.
    let blobs = workspace.blobs().root().join("sha256");
    fs::create_dir_all(&blobs)
        .map_err(|error| Failure::permanent(format!("creating {}: {error}", blobs.display())))?;
    let Moved::Report(report) = move_blobs(&links, arguments, &part).await? else {
        return Ok(interrupt::EXIT_CODE);
    };
    match report.ending {
        ShardEnding::Complete => {}
        ShardEnding::Interrupted => return Ok(interrupt::EXIT_CODE),
        ShardEnding::Incomplete if may_pass(&report) => return Ok(exit::RETRY),
        // An archive without this content would have another index.
        ShardEnding::Incomplete | ShardEnding::Failed => {
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
