//! The archive of a mirror-to-disk run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use mirror_plan::{BlobRef, Exit, ImageRecord, Kind, Plan};
use oci::Digest;
use workspace::archive::{
    ArchiveError, ArchivePlan, ArchiveRequest, ArchiveStatus, Base, SealedArchive, Staging,
};
use workspace::distribution::{V2ArchiveError, V2Request};
use workspace::{BlobError, DiskError, FailedImage, Lock, Run};

use crate::collect::catalogs::ForV2;
use crate::context::Context;
use crate::error_chain::chain;
use crate::progress::Event;
use crate::report::{ArchiveLine, Failure, Outcome};
use crate::results::Moved;
use crate::select::SharedNames;
use crate::settings::Attachments;
use crate::transfer::repair::Repair;

/// The configuration's name in the archive.
const CONFIGURATION: &str = "imageset-config.yaml";
const GIB: u64 = 1 << 30;
/// GiB per chunk where the configuration does not set it.
const DEFAULT_CHUNK: u64 = 500;
/// How often damaged content is fetched again before the disk counts as faulty.
const REPAIRS: usize = 3;

/// What an archive is written from.
pub(crate) struct Content<'a> {
    pub(crate) plan: &'a Arc<Plan>,
    /// What images were selected by; the other side selects by them.
    pub(crate) documents: BTreeMap<String, BlobRef>,
    /// Images that are not in the plan: they could not be read.
    pub(crate) lost: Vec<FailedImage>,
    /// Something else went wrong before.
    pub(crate) is_incomplete: bool,
    /// The run stopped before it reached all images.
    pub(crate) is_paused: bool,
    /// Catalogs as oc-mirror v2 expects them, if the archive is for it.
    pub(crate) for_v2: Option<ForV2>,
}

/// What became of the archive.
#[derive(Debug, Default)]
pub(crate) struct Archived {
    pub(crate) line: Option<ArchiveLine>,
    pub(crate) notes: Vec<String>,
    pub(crate) failures: Vec<Failure>,
    /// Damaged content that was fetched again.
    pub(crate) moved: Moved,
}

impl Archived {
    fn failed(message: String) -> Self {
        let failures = vec![Failure::new(Exit::GENERIC, message)];
        Self { failures, ..Self::default() }
    }
}

/// Whether archives that are to be removed leave one behind. Checked before anything is fetched.
pub(crate) fn check_removal(context: &Context) -> Result<(), Failure> {
    let Some(before) = context.settings.archiving.remove_before else { return Ok(()) };
    let own = context.run().map(Run::number);
    context.workspace.check_removal(before, own).map_err(|error| {
        let hint = "give the number of the oldest run whose archive is still needed; archives are removed once a newer one is complete";
        Failure::new(Exit::GENERIC, chain(&error)).with_hint(hint)
    })
}

/// Removes what a killed run left of an archive, so that its space can be used.
pub(crate) fn remove_abandoned(context: &Context) {
    let Some((_, lock)) = context.writing() else { return };
    if let Err(error) = context.workspace.remove_abandoned_chunks(lock) {
        context.warn(chain(&error));
    }
}

/// Prepares the archive that is written if every image arrives. `None` where it is written after the
/// transfer.
pub(crate) fn stage(context: &Context, content: &Content<'_>) -> Option<Staging> {
    let (run, lock) = context.writing()?;
    if !Staging::is_worthwhile(content.plan.blobs.iter().map(|blob| blob.blob.size)) {
        return None;
    }
    let outcomes = vec![Outcome::Copied; content.plan.images.len()];
    let images = arrived(context, content.plan, &outcomes);
    let staged = || -> Result<Option<Staging>, StageError> {
        let request = request(context, run, images, content, &outcomes)?;
        Ok(context.workspace.stage_archive(lock, request)?)
    };
    // The archive itself meets the same error, and reports it.
    staged().unwrap_or_else(|error| {
        tracing::debug!("preparing the archive: {}", chain(&error));
        None
    })
}

/// Why no archive was prepared.
#[derive(Debug, thiserror::Error)]
enum StageError {
    #[error(transparent)]
    Store(#[from] BlobError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Archives what arrived, as far as earlier archives do not hold it. Images that failed are listed,
/// so that the other side can report what is missing. Damaged content of the workspace is fetched
/// again; where that is not possible, the images that need it fail, in `outcomes`.
pub(crate) async fn archive(
    context: &Context,
    content: &Content<'_>,
    repair: &Repair<'_>,
    staging: Option<&Staging>,
    outcomes: &mut [Outcome],
) -> Archived {
    let mut moved = Moved::default();
    let archived = archive_repairing(context, content, repair, staging, outcomes, &mut moved).await;
    Archived { moved, ..archived }
}

async fn archive_repairing(
    context: &Context,
    content: &Content<'_>,
    repair: &Repair<'_>,
    staging: Option<&Staging>,
    outcomes: &mut [Outcome],
    moved: &mut Moved,
) -> Archived {
    let Some((run, lock)) = context.writing() else { return Archived::default() };
    context.stage("archiving");
    for attempt in 0.. {
        let images = arrived(context, content.plan, outcomes);
        if images.is_empty() {
            context.warn("no archive is written: no image arrived".into());
            return Archived::default();
        }
        let for_v2 = content.for_v2.as_ref();
        let for_v2 = match for_v2.map(|v2| v2_request(context, content, v2, &images)).transpose() {
            Ok(request) => request,
            Err(error) => return Archived::failed(chain(&error)),
        };
        let request = match request(context, run, images, content, outcomes) {
            Ok(request) => request,
            Err(error) => return Archived::failed(chain(&error)),
        };
        // The disk is the only thing this waits for; other tasks continue on other threads.
        let written =
            tokio::task::block_in_place(|| write(context, lock, request, for_v2.as_ref(), staging));
        match written {
            Err(WriteError::Archive(ArchiveError::Damaged { digests })) if attempt < REPAIRS => {
                *moved += repair.fetch_again(context, content.plan, &digests, outcomes).await;
                if context.cancel.is_cancelled() {
                    return Archived::default();
                }
            }
            Err(error) => {
                return Archived::failed(format!("writing the archive: {}", chain(&error)));
            }
            Ok(sealed) => return concluded(context, lock, sealed),
        }
    }
    Archived::default()
}

pub(crate) fn concluded(context: &Context, lock: &Lock, sealed: Option<SealedArchive>) -> Archived {
    let mut archived = Archived::default();
    match sealed {
        Some(SealedArchive { run, base, chunks, bytes, .. }) => {
            match sign(context, run, &chunks) {
                Ok(note) => archived.notes.extend(note),
                Err(error) => {
                    let message = format!("signing the archive: {}", chain(&error));
                    archived.failures.push(Failure::new(Exit::GENERIC, message));
                }
            }
            archived.line = Some(ArchiveLine { run, base, chunks, bytes });
        }
        None => archived.notes.push("no archive is written: earlier ones hold everything".into()),
    }
    free_space(context, lock, &mut archived);
    archived
}

/// Why an archive was not signed.
#[derive(Debug, thiserror::Error)]
enum SignError {
    #[error("the machine has no random numbers")]
    Random,
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Signs the archive of a run, if that is requested.
fn sign(context: &Context, run: u64, chunks: &[PathBuf]) -> Result<Option<String>, SignError> {
    let Some(key) = &context.settings.archiving.signing_key else { return Ok(None) };
    let text = context.workspace.signed_text(run)?;
    let signature = key.sign(&text).ok_or(SignError::Random)?;
    let files = context.workspace.write_signatures(chunks, &signature)?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    Ok(Some(format!("signed: {} (transfer these files with the archive)", names.join(", "))))
}

/// The images that are in the workspace, whole.
pub(crate) fn arrived(context: &Context, plan: &Plan, outcomes: &[Outcome]) -> Vec<ImageRecord> {
    let shared = SharedNames::of(plan);
    let images = plan.images.iter().zip(outcomes);
    let mut arrived: Vec<ImageRecord> = images
        .filter(|(_, outcome)| matches!(outcome, Outcome::Copied | Outcome::Present))
        .map(|(image, _)| ImageRecord {
            origin: image.origin.clone(),
            kind: image.kind,
            tree: plan.tree(image),
            blobs_held: true,
            attachments_unknown: context.settings.attachments == Attachments::Remove,
            names: shared.names(image),
        })
        .collect();
    arrived.shrink_to_fit();
    arrived
}

/// What an archive of these images is planned from.
pub(crate) fn request(
    context: &Context,
    run: &Run,
    images: Vec<ImageRecord>,
    content: &Content<'_>,
    outcomes: &[Outcome],
) -> Result<ArchiveRequest, BlobError> {
    let configuration = &context.settings.configuration;
    let text = configuration.text.as_bytes();
    let blob = BlobRef { digest: Digest::of(text), size: text.len() as u64 };
    context.workspace.blobs().put(&blob.digest, text)?;
    let mut files = content.documents.clone();
    files.insert(CONFIGURATION.to_owned(), blob);
    let failed = content.plan.images.iter().zip(outcomes).filter_map(|(image, outcome)| {
        let error = match outcome {
            Outcome::Failed { error } => error.text.clone(),
            Outcome::Pending => "not reached before the run was paused".to_owned(),
            Outcome::Copied | Outcome::Present => return None,
        };
        Some(FailedImage { origin: image.origin.clone(), error })
    });
    let failed: Vec<FailedImage> = content.lost.iter().cloned().chain(failed).collect();
    Ok(ArchiveRequest {
        run: run.number(),
        created: context.started,
        status: match failed.is_empty() && !content.is_incomplete {
            _ if content.is_paused => ArchiveStatus::Paused,
            true => ArchiveStatus::Complete,
            false => ArchiveStatus::Partial,
        },
        failed,
        images,
        files,
        base: base(context),
        limit: configuration.set.archive_size.unwrap_or(DEFAULT_CHUNK).saturating_mul(GIB),
    })
}

/// Why an archive was not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    V2(V2ArchiveError),
}

impl From<V2ArchiveError> for WriteError {
    fn from(error: V2ArchiveError) -> Self {
        match error {
            V2ArchiveError::Archive(error) => Self::Archive(error),
            error => Self::V2(error),
        }
    }
}

/// What the archive builds on.
fn base(context: &Context) -> Base {
    match context.settings.archiving.since {
        Some(day) => Base::Before(day),
        None => Base::Newest,
    }
}

/// How long the archive of a plan will be, about: what no earlier one holds.
pub(crate) fn estimate(context: &Context, plan: &Plan) -> Result<u64, DiskError> {
    let mut content = BTreeMap::new();
    for image in &plan.images {
        let tree = plan.tree(image);
        content.extend(tree.all_manifests().map(|node| (node.digest, node.size)));
        content.extend(tree.blobs());
    }
    context.workspace.bytes_to_archive(&content, &base(context))
}

/// Writes the archive; `None` when earlier ones hold all of it.
fn write(
    context: &Context,
    lock: &Lock,
    request: ArchiveRequest,
    for_v2: Option<&V2Request>,
    staging: Option<&Staging>,
) -> Result<Option<SealedArchive>, WriteError> {
    let ArchivePlan::Write(planned) = context.workspace.plan_archive(request)? else {
        return Ok(None);
    };
    let of = planned.bytes();
    let mut progress = |bytes| context.observer.notice(Event::Archived { bytes, of });
    let Some(for_v2) = for_v2 else {
        let sealed =
            context.workspace.write_staged_archive(lock, &planned, staging, &mut progress)?;
        return Ok(Some(sealed));
    };
    let written = context.workspace.write_v2_archive(lock, &planned, for_v2, &mut progress)?;
    for BlobRef { digest, size } in &written.oversized {
        context.warn(format!(
            "{digest} is larger than archiveSize and has a file of its own: set archiveSize to {} or more",
            size.div_ceil(GIB)
        ));
    }
    Ok(Some(SealedArchive {
        run: planned.index().run,
        base: planned.index().base,
        chunks: written.chunks,
        bytes: written.bytes,
        resumed: false,
    }))
}

/// The names and files that oc-mirror v2 searches for.
fn v2_request(
    context: &Context,
    content: &Content<'_>,
    catalogs: &ForV2,
    images: &[ImageRecord],
) -> Result<V2Request, DiskError> {
    let store = context.workspace.blobs();
    let configuration = &context.settings.configuration;
    let mut request = V2Request {
        images: catalogs.images.clone(),
        files: catalogs.files.clone(),
        configuration: configuration.text.clone().into_bytes(),
        created: context.started,
        limit: configuration.set.archive_size.unwrap_or(DEFAULT_CHUNK).saturating_mul(GIB),
        is_strict: context.settings.archiving.is_strict,
    };
    for image in images {
        match image.kind {
            // Under the names of their own that oc-mirror v2 has for them.
            Kind::Catalog => {}
            Kind::Chart => {
                // The archive of a chart is the first layer of its image.
                let layer = image.tree.root().blobs.get(1).copied();
                for (name, layer) in image.names.iter().zip(layer) {
                    let bytes = store.read(&layer.digest, layer.size)?;
                    let chart = name.repository.components().next_back().unwrap_or_default();
                    let version = name.tag.as_str().replace('_', "+");
                    request.files.insert(format!("helm/charts/{chart}-{version}.tgz"), bytes);
                }
            }
            _ => {
                let names = image.names.iter().map(|name| (name.clone(), image.tree.clone()));
                request.images.extend(names);
            }
        }
    }
    for (name, blob) in &content.documents {
        if name.starts_with("hold-release/") || name.starts_with("signatures/") {
            let bytes = store.read(&blob.digest, blob.size)?;
            request.files.insert(name.clone(), bytes);
        }
    }
    let version = serde_json::json!({"gitVersion": "v2.0.0", "gitCommit": ""}).to_string();
    request.files.insert("internal/oc-mirror-version.json".to_owned(), version.into_bytes());
    Ok(request)
}

/// Removes archives the user no longer needs, now that the new one is there.
fn free_space(context: &Context, lock: &Lock, archived: &mut Archived) {
    let Some(run) = context.settings.archiving.remove_before else { return };
    match context.workspace.remove_archives_before(lock, run) {
        Ok(removed) => {
            let removed = removed.files.iter().map(|file| format!("removed {}", file.display()));
            archived.notes.extend(removed);
        }
        Err(error) => {
            archived.failures.push(Failure::new(Exit::GENERIC, chain(&error)));
        }
    }
}
