//! The archive of a mirror-to-disk run.

use std::collections::BTreeMap;

use mirror_plan::{BlobRef, Exit, ImageRecord, Plan};
use oci::Digest;
use workspace::archive::{
    ArchiveError, ArchivePlan, ArchiveRequest, ArchiveStatus, Base, SealedArchive,
};
use workspace::{BlobError, FailedImage, Lock, Run};

use crate::context::Context;
use crate::error_chain::chain;
use crate::progress::Event;
use crate::report::{ArchiveLine, Failure, Outcome};
use crate::select::names_by_origin;
use crate::settings::Attachments;
use crate::transfer::repair::Repair;

/// The configuration's name in the archive.
const CONFIGURATION: &str = "imageset-config.yaml";
const GIB: u64 = 1 << 30;
/// GiB per chunk where the configuration does not say.
const DEFAULT_CHUNK: u64 = 500;
/// How often damaged content is fetched again before the disk is given up.
const REPAIRS: usize = 3;

/// What an archive is written from.
pub(crate) struct Content<'a> {
    pub(crate) plan: &'a Plan,
    /// What images were selected by; the other side selects by them.
    pub(crate) documents: BTreeMap<String, BlobRef>,
    /// Images that are not in the plan: they could not be read.
    pub(crate) lost: Vec<FailedImage>,
    /// Something else went wrong before.
    pub(crate) is_incomplete: bool,
    /// The run stopped before it reached all images.
    pub(crate) is_paused: bool,
}

/// What became of the archive.
#[derive(Debug, Default)]
pub(crate) struct Archived {
    pub(crate) line: Option<ArchiveLine>,
    pub(crate) notes: Vec<String>,
    pub(crate) failures: Vec<Failure>,
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

/// Archives what arrived, as far as earlier archives do not hold it. Images that failed are listed,
/// so that the other side knows what is missing. Damaged content of the workspace is fetched again;
/// where that is not possible, the images that need it fail, in `outcomes`.
pub(crate) async fn archive(
    context: &Context,
    content: &Content<'_>,
    repair: &Repair<'_>,
    outcomes: &mut [Outcome],
) -> Archived {
    let Some((run, lock)) = context.writing() else { return Archived::default() };
    context.stage("archiving");
    for attempt in 0.. {
        let images = arrived(context, content.plan, outcomes);
        if images.is_empty() {
            context.warn("no archive is made: no image arrived".into());
            return Archived::default();
        }
        let request = match request(context, run, images, content, outcomes) {
            Ok(request) => request,
            Err(error) => return Archived::failed(chain(&error)),
        };
        // The disk is the only thing this waits for; other tasks go on elsewhere.
        let written = tokio::task::block_in_place(|| write(context, lock, request));
        match written {
            Err(ArchiveError::Damaged { digests }) if attempt < REPAIRS => {
                repair.fetch_again(context, content.plan, &digests, outcomes).await;
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

fn concluded(context: &Context, lock: &Lock, sealed: Option<SealedArchive>) -> Archived {
    let mut archived = Archived::default();
    match sealed {
        Some(SealedArchive { run, base, chunks, bytes, .. }) => {
            archived.line = Some(ArchiveLine { run, base, chunks, bytes });
        }
        None => archived.notes.push("no archive is made: earlier ones hold everything".into()),
    }
    free_space(context, lock, &mut archived);
    archived
}

/// The images that are in the workspace, whole.
fn arrived(context: &Context, plan: &Plan, outcomes: &[Outcome]) -> Vec<ImageRecord> {
    let names = names_by_origin(plan);
    let images = plan.images.iter().zip(outcomes);
    images
        .filter(|(_, outcome)| matches!(outcome, Outcome::Copied | Outcome::Present))
        .map(|(image, _)| ImageRecord {
            origin: image.origin.clone(),
            kind: image.kind,
            tree: plan.tree(image),
            blobs_held: true,
            attachments_unknown: context.settings.attachments == Attachments::Remove,
            names: names.get(&image.origin).cloned().unwrap_or_default(),
        })
        .collect()
}

fn request(
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
            Outcome::Failed { error } => error.clone(),
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
        base: match context.settings.archiving.since {
            Some(day) => Base::Before(day),
            None => Base::Newest,
        },
        limit: configuration.set.archive_size.unwrap_or(DEFAULT_CHUNK).saturating_mul(GIB),
    })
}

/// Writes the archive; `None` when earlier ones hold all of it.
fn write(
    context: &Context,
    lock: &Lock,
    request: ArchiveRequest,
) -> Result<Option<SealedArchive>, ArchiveError> {
    match context.workspace.plan_archive(request)? {
        ArchivePlan::NothingNew { .. } => Ok(None),
        ArchivePlan::Write(planned) => {
            let of = planned.bytes();
            let mut progress = |bytes| context.observer.notice(Event::Archived { bytes, of });
            context.workspace.write_archive(lock, &planned, &mut progress).map(Some)
        }
    }
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
