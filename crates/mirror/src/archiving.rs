//! The archive of a mirror-to-disk run.

use std::collections::BTreeMap;

use mirror_plan::{BlobRef, Exit, ImageRecord, Plan};
use oci::Digest;
use workspace::archive::{
    ArchiveError, ArchivePlan, ArchiveRequest, ArchiveStatus, Base, SealedArchive,
};
use workspace::{FailedImage, Lock, Run};

use crate::chain::chain;
use crate::context::Context;
use crate::progress::Event;
use crate::report::{ArchiveLine, Failure, Outcome, Report};
use crate::settings::Attachments;
use crate::wanted::names_by_origin;

/// The configuration's name in the archive.
const CONFIGURATION: &str = "imageset-config.yaml";
const GIB: u64 = 1 << 30;
/// GiB per chunk where the configuration does not say.
const DEFAULT_CHUNK: u64 = 500;

/// Archives what arrived, as far as earlier archives do not hold it. Images
/// that failed are listed, so that the other side knows what is missing.
///
/// `documents` are what images were selected by; the other side selects by them.
pub(crate) fn archive(
    context: &Context,
    plan: &Plan,
    outcomes: &[Outcome],
    documents: &BTreeMap<String, BlobRef>,
    report: &mut Report,
) {
    let Some((run, lock)) = context.writing() else { return };
    let names = names_by_origin(plan);
    let images = plan.images.iter().zip(outcomes);
    let images: Vec<ImageRecord> = images
        .filter(|(_, outcome)| matches!(outcome, Outcome::Copied | Outcome::Present))
        .map(|(image, _)| ImageRecord {
            origin: image.origin.clone(),
            kind: image.kind,
            tree: plan.tree(image),
            blobs_held: true,
            attachments_unknown: context.settings.attachments == Attachments::Remove,
            names: names.get(&image.origin).cloned().unwrap_or_default(),
        })
        .collect();
    if images.is_empty() {
        context.warn("no archive is made: no image arrived".into());
        return;
    }
    let request = match request(context, run, images, report) {
        Ok(mut request) => {
            request.files.extend(documents.clone());
            request
        }
        Err(why) => return report.errors.push(Failure::new(Exit::GENERIC, why)),
    };
    context.stage("archiving");
    // The disk is the only thing this waits for; other tasks go on elsewhere.
    let made = tokio::task::block_in_place(|| write(context, lock, request));
    match made {
        Ok(Some(sealed)) => {
            let SealedArchive { run, base, chunks, bytes, .. } = sealed;
            report.archive = Some(ArchiveLine { run, base, chunks, bytes });
            free_space(context, lock, report);
        }
        Ok(None) => {
            report.notes.push("no archive is made: earlier ones hold everything".into());
            free_space(context, lock, report);
        }
        Err(error) => {
            let message = format!("writing the archive: {}", chain(&error));
            report.errors.push(Failure::new(Exit::GENERIC, message));
        }
    }
}

fn request(
    context: &Context,
    run: &Run,
    images: Vec<ImageRecord>,
    report: &Report,
) -> Result<ArchiveRequest, String> {
    let configuration = &context.settings.configuration;
    let text = configuration.text.as_bytes();
    let blob = BlobRef { digest: Digest::of(text), size: text.len() as u64 };
    context.workspace.blobs().put(&blob.digest, text).map_err(|e| chain(&e))?;
    let failed: Vec<FailedImage> = report
        .images
        .iter()
        .filter_map(|line| match &line.outcome {
            Outcome::Failed { error } => {
                Some(FailedImage { origin: line.origin.clone(), error: error.clone() })
            }
            _ => None,
        })
        .collect();
    Ok(ArchiveRequest {
        run: run.number(),
        created: context.started,
        status: match failed.is_empty() && report.errors.is_empty() {
            true => ArchiveStatus::Complete,
            false => ArchiveStatus::Partial,
        },
        failed,
        images,
        files: BTreeMap::from([(CONFIGURATION.to_owned(), blob)]),
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
fn free_space(context: &Context, lock: &Lock, report: &mut Report) {
    let Some(run) = context.settings.archiving.remove_before else { return };
    match context.workspace.remove_archives_before(lock, run) {
        Ok(removed) => {
            let removed = removed.files.iter().map(|file| format!("removed {}", file.display()));
            report.notes.extend(removed);
        }
        Err(error) => {
            let message = format!("removing archives before run {run}: {}", chain(&error));
            report.errors.push(Failure::new(Exit::GENERIC, message));
        }
    }
}
