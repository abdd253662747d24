//! The run's side of shards: writes their parts, lets them transfer, and reads their reports.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::sync::Arc;

use mirror_plan::{PartArchive, Plan, RunIdentity, ShardPart, split};
use oci::{Digest, Repository};
use workspace::Run;
use workspace::archive::{Archives, first_block_digest};
use workspace::atomic_file::{self, Durability};

use super::{ShardEnding, ShardReport, ShardRunner, ShardWatch, StoredPart};
use crate::context::Context;
use crate::error_chain::chain;
use crate::modes::push::{Bound, Inspected, Route};
use crate::reason::Reason;
use crate::results::{Halt, Moved, Requests};
use crate::transfer::supply::Supplies;

/// What shards are to transfer.
pub(crate) struct Delegation<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) supplies: &'a Supplies,
    /// Images that are not copied, by place in the plan.
    pub(crate) given_up: &'a BTreeMap<usize, Reason>,
    /// Repositories of the target that hold nothing.
    pub(crate) new_repositories: BTreeSet<&'a Repository>,
}

impl<'a> Delegation<'a> {
    /// The content of a push.
    fn of_push(
        context: &Context,
        route: &'a Route<'_>,
        bound: &'a Bound,
        inspected: &'a Inspected,
    ) -> Self {
        let new = bound.presence.new_repositories.iter();
        Self {
            plan: &bound.plan,
            supplies: &route.supplies,
            given_up: &inspected.given_up,
            // A run that did not finish may have left blobs where no tag is yet.
            new_repositories: new.filter(|_| !context.after_unfinished_push).collect(),
        }
    }
}

/// What shards did.
#[derive(Debug, Default)]
pub(crate) struct Delegated {
    /// Blobs that are at the target now, where they are needed.
    pub(crate) there: HashSet<(Repository, Digest)>,
    pub(crate) moved: Moved,
    pub(crate) requests: Requests,
}

/// Lets shards transfer the blobs of a push, if the run has shards, and returns their requests. What
/// they brought counts as present.
pub(crate) async fn delegate_push(
    context: &Context,
    route: &Route<'_>,
    bound: &mut Bound,
    inspected: &mut Inspected,
    moved: &mut Moved,
) -> Result<Requests, Halt> {
    let Some(runner) = &context.settings.shards else { return Ok(Requests::default()) };
    let delegation = Delegation::of_push(context, route, bound, inspected);
    let shards = delegate(context, &**runner, &delegation).await?;
    inspected.there.extend(shards.there);
    // Shards that failed may have left blobs anywhere.
    bound.presence.new_repositories.clear();
    *moved += shards.moved;
    Ok(shards.requests)
}

/// Lets shards transfer the blobs of a plan. What they leave undone is not an error: the run copies
/// it by itself, and reports what it cannot copy.
pub(crate) async fn delegate(
    context: &Context,
    runner: &dyn ShardRunner,
    delegation: &Delegation<'_>,
) -> Result<Delegated, Halt> {
    let Some(digest) = context.run().and_then(Run::plan) else {
        context.warn("shards are not used: the plan, which names them, is not stored".to_owned());
        return Ok(Delegated::default());
    };
    let run = RunIdentity { plan: digest, program: runner.program() };
    let Delegation { plan, supplies, given_up, new_repositories } = delegation;
    let split = split(plan, runner.shards(), |image, _| !given_up.contains_key(&image));
    let archives = match supplies {
        Supplies::FromDisk(holdings) => holdings.archives(),
        Supplies::FromOrigins { .. } => None,
    };
    let directory = context.workspace.working_dir().join("shards").join(&run.plan.hex()[..16]);
    let mut parts = Vec::new();
    let mut files = Vec::new();
    for shard in 0..split.shards() {
        let source = |origin: &_| supplies.source(origin);
        let is_new = |repository: &Repository| new_repositories.contains(repository);
        let mut part = split.part(plan, shard, run.clone(), source, is_new);
        if part.needs.is_empty() {
            continue;
        }
        part.archives = archives.map(|archives| read_by(&part, archives)).unwrap_or_default();
        let path = directory.join(format!("part-{shard}.json"));
        let text = part.to_text().map_err(|error| Halt::generic(chain(&error)))?;
        atomic_file::write(&path, text.as_bytes(), Durability::Later)
            .map_err(|error| Halt::generic(chain(&error)))?;
        files.push(StoredPart { shard, path, digest: Digest::of(text.as_bytes()) });
        parts.push(part);
    }
    if parts.is_empty() {
        return Ok(Delegated::default());
    }
    context.stage("transferring blobs in shards");
    let watch = ShardWatch {
        observer: Arc::clone(&context.observer),
        cancel: context.cancel.clone(),
        held: context.control.held(),
    };
    let reports = runner.run(&files, watch).await;
    let mut delegated = Delegated::default();
    let mut are_complete = true;
    for (part, report) in parts.iter().zip(reports) {
        let report = report.filter(|report| is_of(report, part));
        are_complete &= report.as_ref().is_some_and(|r| r.ending == ShardEnding::Complete);
        if let Some(report) = report {
            delegated.add(part, &report);
        }
    }
    // Parts of an unfinished run show what its shards were to do.
    if are_complete && let Err(error) = fs::remove_dir_all(&directory) {
        tracing::debug!("removing {}: {error}", directory.display());
    }
    Ok(delegated)
}

/// What a shard reads of archives.
pub(super) fn read_by(part: &ShardPart, archives: &Archives) -> Vec<PartArchive> {
    let needed: HashSet<Digest> = part.blobs.iter().map(|blob| blob.blob.digest).collect();
    let files = archives.ranges_of(|digest| needed.contains(digest)).into_iter();
    let files = files.filter_map(|(path, ranges)| {
        Some(PartArchive {
            file: path.file_name()?.to_str()?.to_owned(),
            length: ranges.length,
            // A file that cannot be read fails the shard.
            start: first_block_digest(&path).ok(),
            ranges: ranges.excerpt.ranges().to_vec(),
        })
    });
    files.collect()
}

fn is_of(report: &ShardReport, part: &ShardPart) -> bool {
    (report.run, report.shard) == (part.run.plan, part.shard)
}

impl Delegated {
    fn add(&mut self, part: &ShardPart, report: &ShardReport) {
        let unfinished: BTreeSet<u32> = report.unfinished.iter().map(|need| need.need).collect();
        for (place, need) in (0..).zip(&part.needs) {
            if unfinished.contains(&place) {
                continue;
            }
            let repository = &part.repositories[need.repository as usize].name;
            let blobs = need.blobs.iter().map(|blob| part.blobs[*blob as usize].blob.digest);
            self.there.extend(blobs.map(|digest| (repository.clone(), digest)));
        }
        self.moved +=
            Moved { blobs: report.blobs, bytes: report.bytes, mounted: report.blobs_mounted };
        self.requests.source += report.source_requests;
        self.requests.destination += report.destination_requests;
        self.requests.retries += report.retries;
    }
}
