//! An archive that shards write. The run plans it, writes the files with what it has itself
//! (manifests, documents, what was built), and seals it once all others are in their place.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mirror_plan::{Exit, Origin, PartSegment, RunIdentity, ShardPart, split};
use oci::Digest;
use workspace::archive::{ArchivePlan, PlannedArchive, SealedArchive};
use workspace::{Lock, Run};

use super::{
    Completion, OwnSegment, SegmentIndex, SegmentRunner, ShardEnding, ShardReport, ShardWatch,
};
use crate::context::Context;
use crate::error_chain::chain;
use crate::progress::Event;
use crate::record::archive::{self, Archived, Content};
use crate::report::{Failure, Outcome};
use crate::results::{Halt, Moved, Requests};
use crate::transfer::supply::Supplies;

/// What became of an archive that shards write.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) archived: Archived,
    pub(crate) moved: Moved,
    pub(crate) requests: Requests,
    /// Shards complete the archive after this run.
    pub(crate) is_handed_over: bool,
}

/// Lets shards write the archive of a run. It is complete, or nothing of it is in its place.
pub(crate) async fn write_in_shards(
    context: &Context,
    runner: &dyn SegmentRunner,
    supplies: &Supplies,
    content: &Content<'_>,
) -> Result<Segments, Halt> {
    let generic = |text: String| Halt::generic(text);
    let plan = content.plan;
    let (Some((run, lock)), Some(identity)) =
        (context.writing(), context.run().and_then(Run::plan))
    else {
        return Err(generic("shards need a workspace that can be written to".to_owned()));
    };
    if let Some(path) = plan.images.iter().find_map(|image| match &image.origin {
        Origin::Layout(path) => Some(path),
        Origin::Registry(_) | Origin::Made(_) => None,
    }) {
        let path = path.display();
        return Err(generic(format!(
            "images of the directory {path} cannot be mirrored by pods, which do not have it"
        )));
    }
    let run_identity = RunIdentity { plan: identity, program: runner.program() };
    let split = split(plan, runner.shards(), |_, _| true);
    let mut parts: Vec<ShardPart> = (0..split.shards())
        .map(|shard| {
            let source = |origin: &Origin| supplies.source(origin);
            split.part(plan, shard, run_identity.clone(), source, |_| false)
        })
        .collect();
    let owners = owners(context, &parts)?;
    let arrived = vec![Outcome::Copied; plan.images.len()];
    let request = || {
        let images = archive::arrived(context, plan, &arrived);
        let request = archive::request(context, run, images, content, &arrived);
        let mut request = request.map_err(|error| generic(chain(&error)))?;
        request.limit = request.limit.min(runner.limit());
        Ok::<_, Halt>(request)
    };
    let workspace = &context.workspace;
    let owner = |digest: &Digest| owners.get(digest).copied();
    let mut planned = workspace.plan_segments(request()?, &owner);
    if !matches!(&planned, Ok(ArchivePlan::Write(planned)) if planned.is_resumed())
        && record_complete(context, runner, lock).await?
    {
        planned = workspace.plan_segments(request()?, &owner);
    }
    let planned = match planned.map_err(|error| generic(chain(&error)))? {
        ArchivePlan::Write(planned) => planned,
        ArchivePlan::NothingNew { .. } => {
            let archived = archive::concluded(context, lock, None);
            return Ok(Segments::new(arrived, archived));
        }
    };
    let sealed = |chunks| SealedArchive {
        run: planned.index().run,
        base: planned.index().base,
        chunks,
        bytes: planned.bytes(),
        resumed: false,
    };
    if planned.is_resumed() && is_complete(runner, &planned).await? {
        workspace.seal_complete(lock, &planned).map_err(|error| generic(chain(&error)))?;
        let archived = archive::concluded(context, lock, Some(sealed(Vec::new())));
        return Ok(Segments::new(arrived, archived));
    }
    let files = assign(&mut parts, &owners, &planned);
    let text = workspace.begin_segments(lock, &planned);
    let text = text.map_err(|error| generic(chain(&error)))?;
    let (length, digest) = (text.len() as u64, planned.index_digest());
    let index = SegmentIndex { length, digest, text: &text, files: &files };
    let watch = ShardWatch {
        observer: std::sync::Arc::clone(&context.observer),
        cancel: context.cancel.clone(),
        held: context.control.held(),
    };
    let foreign: BTreeSet<u32> = files.iter().map(|(number, _)| *number).collect();
    let is_own = |number: u32| !foreign.contains(&number);
    let of = planned.bytes();
    let mut progress = |bytes| context.observer.notice(Event::Archived { bytes, of });
    let is_handed_over = runner.completion() == Completion::ByShards && !parts.is_empty();
    let own = match is_handed_over {
        true => {
            context.stage("archiving");
            let written = tokio::task::block_in_place(|| {
                workspace.write_own_segments(lock, &planned, &is_own, &mut progress)
            });
            let paths = written.map_err(|error| generic(chain(&error)))?;
            let chunks = planned.index().own_chunks().filter(|chunk| is_own(chunk.number));
            let own = chunks.zip(paths).map(|(chunk, path)| OwnSegment {
                number: chunk.number,
                length: planned.length_of(chunk),
                path,
            });
            own.collect()
        }
        false => Vec::new(),
    };
    context.stage("transferring blobs in shards");
    let reports = match parts.is_empty() {
        true => Ok(Vec::new()),
        false => runner.run(&parts, index, &own, watch).await,
    };
    let reports = match reports {
        Ok(reports) => reports,
        Err(reason) => return Ok(unfinished(plan.images.len(), reason)),
    };
    if is_handed_over {
        let outcomes = vec![Outcome::Pending; plan.images.len()];
        let note = "pods complete the archive; the next run in this workspace records it";
        let archived = Archived { notes: vec![note.to_owned()], ..Archived::default() };
        return Ok(Segments { is_handed_over, ..Segments::new(outcomes, archived) });
    }
    let mut segments = Segments::new(arrived, Archived::default());
    reports.iter().for_each(|report| segments.add(report));
    context.stage("archiving");
    let chunks = tokio::task::block_in_place(|| {
        workspace.seal_segments(lock, &planned, &is_own, &mut progress)
    });
    let chunks = chunks.map_err(|error| generic(chain(&error)))?;
    segments.archived = archive::concluded(context, lock, Some(sealed(chunks)));
    Ok(segments)
}

/// Whether shards have completed an archive that an earlier run handed over.
async fn is_complete(runner: &dyn SegmentRunner, planned: &PlannedArchive) -> Result<bool, Halt> {
    let files: Vec<(u32, u64)> = planned
        .index()
        .own_chunks()
        .map(|chunk| (chunk.number, planned.length_of(chunk)))
        .collect();
    let (digest, length) = (planned.index_digest(), planned.index_length());
    let index = SegmentIndex { length, digest, text: &[], files: &files };
    runner.is_complete(index).await.map_err(Halt::generic)
}

/// Records archives that shards completed after the run that planned them, so that this one archives
/// what is new since. Returns whether there were any.
async fn record_complete(
    context: &Context,
    runner: &dyn SegmentRunner,
    lock: &Lock,
) -> Result<bool, Halt> {
    let generic = |error: &(dyn std::error::Error + 'static)| Halt::generic(chain(error));
    let mut is_any = false;
    for planned in context.workspace.begun_segments().map_err(|error| generic(&error))? {
        if is_complete(runner, &planned).await? {
            let sealed = context.workspace.seal_complete(lock, &planned);
            sealed.map_err(|error| generic(&error))?;
            is_any = true;
        }
    }
    Ok(is_any)
}

/// Who fetches each blob: none for what this workspace has.
fn owners(context: &Context, parts: &[ShardPart]) -> Result<HashMap<Digest, u32>, Halt> {
    let mut owners = HashMap::new();
    for part in parts {
        for blob in &part.blobs {
            let here = context.workspace.blobs().has(&blob.blob.digest, Some(blob.blob.size));
            if !here.map_err(|error| Halt::generic(chain(&error)))? {
                owners.insert(blob.blob.digest, part.shard);
            }
        }
    }
    Ok(owners)
}

/// Leaves each part what is new in the archive, with the files that the shard writes. Returns all
/// these files, with their lengths.
fn assign(
    parts: &mut Vec<ShardPart>,
    owners: &HashMap<Digest, u32>,
    planned: &PlannedArchive,
) -> Vec<(u32, u64)> {
    let mut chunks: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut new = HashSet::new();
    for blob in planned.index().own_blobs() {
        let Some(owner) = owners.get(&blob.digest) else { continue };
        new.insert(blob.digest);
        chunks.entry(*owner).or_default().extend(blob.parts.iter().map(|part| part.chunk));
    }
    for part in parts.iter_mut() {
        let is_new: Vec<bool> =
            part.blobs.iter().map(|blob| new.contains(&blob.blob.digest)).collect();
        for need in &mut part.needs {
            need.blobs.retain(|blob| is_new[*blob as usize]);
        }
        part.needs.retain(|need| !need.blobs.is_empty());
        part.segment = chunks.get(&part.shard).map(|chunks| PartSegment {
            index: planned.index_digest(),
            chunks: chunks.iter().copied().collect(),
        });
    }
    parts.retain(|part| part.segment.is_some());
    let shards = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    for (shard, part) in (0..).zip(parts.iter_mut()) {
        (part.shard, part.shards) = (shard, shards);
    }
    let foreign: BTreeSet<u32> = chunks.into_values().flatten().collect();
    let own = planned.index().own_chunks().filter(|chunk| foreign.contains(&chunk.number));
    own.map(|chunk| (chunk.number, planned.length_of(chunk))).collect()
}

fn unfinished(images: usize, reason: String) -> Segments {
    let hint = "nothing was added to the archives: run the same command again to continue";
    let failure = Failure::new(Exit::GENERIC, reason).with_hint(hint);
    let archived = Archived { failures: vec![failure], ..Archived::default() };
    Segments::new(vec![Outcome::Pending; images], archived)
}

impl Segments {
    fn new(outcomes: Vec<Outcome>, archived: Archived) -> Self {
        let (moved, requests) = (Moved::default(), Requests::default());
        Self { outcomes, archived, moved, requests, is_handed_over: false }
    }

    fn add(&mut self, report: &ShardReport) {
        debug_assert_eq!(report.ending, ShardEnding::Complete);
        self.moved +=
            Moved { blobs: report.blobs, bytes: report.bytes, mounted: report.blobs_mounted };
        self.requests.source += report.source_requests;
        self.requests.retries += report.retries;
    }
}
