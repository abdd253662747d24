//! Content on the disconnected side: archives, a workspace, or both.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use mirror_plan::{Destination, Exit, Found, ImageRecord, ImageTree, NameError, Origin, Wanted};
use oci::{Digest, ImageRef};
use workspace::archive::{ArchiveFinding, ArchiveSeverity, ArchiveStatus, Archives, OpenError};
use workspace::distribution::{Cache, Distribution, DistributionError, TarFiles};
use workspace::{DiskError, Holdings, RecordError, RunStatus, Workspace};

use crate::collect::built_images::BuiltImages;
use crate::context::Context;
use crate::error_chain::chain;
use crate::fault::{EngineError, Fault};
use crate::gather::Gathered;
use crate::gather::narrow::{NarrowError, narrow};
use crate::progress::Event;
use crate::report::Failure;
use crate::transfer::supply::held_manifest;

/// Blobs that are checked at once: hashing keeps a core busy each.
const CHECKED_AT_ONCE: usize = 4;

/// Why transferred content cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarriedError {
    /// With the images of the same repository that are here.
    #[error("{0}")]
    Absent(String),
    #[error("it no longer exists")]
    Gone,
    #[error("reading it")]
    Read(#[source] std::io::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Distribution(#[from] DistributionError),
    #[error(transparent)]
    Narrow(#[from] NarrowError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl EngineError for CarriedError {
    fn fault(&self) -> Fault {
        match self {
            Self::Absent(_) | Self::Gone => Fault::NotHeld,
            Self::Name(_) => Fault::Configuration,
            Self::Narrow(error) => error.fault(),
            Self::Distribution(_) => Fault::Content,
            Self::Read(_) | Self::Record(_) | Self::Disk(_) => Fault::Disk,
        }
    }
}

/// Which archives are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The newest, and those that no earlier run has read.
    Newest,
    All,
}

/// Opens the existing content. Nothing is pushed from a run that was interrupted or
/// from a damaged archive unless that is requested.
pub(crate) fn open(context: &Context, extent: Extent) -> Result<Holdings, Vec<Failure>> {
    let workspace = &context.workspace;
    let fail = |message: String| vec![Failure::new(Exit::GENERIC, message)];
    let opened = match extent {
        Extent::Newest => Archives::open_newest(workspace),
        Extent::All => Archives::open(workspace.root()),
    };
    let archives = match opened {
        Ok(archives) => Some(archives),
        Err(error @ OpenError::None(_)) => {
            let mut records = workspace.records().map_err(|e| fail(chain(&e)))?;
            if records.next().is_none() {
                if let Some(failure) = version_1_archive(workspace.root()) {
                    return Err(vec![failure]);
                }
                let hint = "copy the mirror_*.tar files there, or the whole directory of the connected side";
                return Err(vec![Failure::new(Exit::GENERIC, chain(&error)).with_hint(hint)]);
            }
            None
        }
        Err(error) => return Err(fail(chain(&error))),
    };
    if let Some(archives) = &archives {
        check_archives(context, archives)?;
        if context.run().is_some() {
            // Without the note the next run opens all archives, and no more.
            let noted = archives.remember(workspace);
            let _ = noted.inspect_err(|error| tracing::debug!("{}", chain(error)));
        }
    }
    if let Some(key) = &context.settings.archive_key {
        check_signatures(workspace, archives.as_ref(), key)?;
    }
    check_workspace(context, workspace, archives.is_some())?;
    let of_v2 = archives.as_ref().map(Archives::of_oc_mirror_v2).unwrap_or_default();
    let distribution = open_distribution(context, &of_v2)?;
    let holdings = Holdings::new(Some(workspace.clone()), archives);
    Ok(match distribution {
        Some(distribution) => holdings.with_distribution(distribution),
        None => holdings,
    })
}

/// Whether everything that may be pushed is signed with this key. The index of an archive is what is
/// signed; all content is compared with it before anything is pushed.
fn check_signatures(
    workspace: &Workspace,
    archives: Option<&Archives>,
    key: &trust::VerifyingKey,
) -> Result<(), Vec<Failure>> {
    let fail = |message: String, hint: &str| {
        vec![Failure::new(Exit::GENERIC, format!("--verify-archive: {message}")).with_hint(hint)]
    };
    let transfer =
        "use a directory that has only signed archives (mirror_*.tar and mirror_*.tar.sig)";
    let records = workspace.records().map_err(|e| fail(chain(&e), transfer))?;
    if records.into_iter().next().is_some() {
        let message =
            format!("{} has a workspace, which is not signed", workspace.root().display());
        return Err(fail(message, transfer));
    }
    let Some(archives) = archives else { return Err(fail("there is no archive".into(), transfer)) };
    if let Some(file) = archives.of_oc_mirror_v2().first() {
        let message =
            format!("{} is an archive of oc-mirror v2, which cannot be signed", file.display());
        return Err(fail(message, transfer));
    }
    let unsigned = archives.unsigned_runs(&|signature, text| key.verifies(signature, text));
    let unsigned = unsigned.map_err(|e| fail(e.to_string(), transfer))?;
    let failures: Vec<Failure> = unsigned
        .into_iter()
        .flat_map(|(run, files)| {
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            let message = format!(
                "the archive of run {run} is not signed with {}: no valid signature in {}",
                key.from(),
                files.join(", ")
            );
            fail(message, "transfer the .sig files with the archive; check that the key is that of the connected side")
        })
        .collect();
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// Opens archives of oc-mirror v2, and the cache that an earlier push from such archives left: a
/// later archive contains only what is new.
fn open_distribution(
    context: &Context,
    archives: &[std::path::PathBuf],
) -> Result<Option<Distribution>, Vec<Failure>> {
    if archives.is_empty() && context.cache.is_none() {
        return Ok(None);
    }
    let mut distribution = Distribution::default();
    let (files, problems) = TarFiles::scan(archives);
    if !problems.is_empty() {
        let failures = problems.iter().map(|problem| {
            let hint = "copy the file again from the connected side, or push what is complete with --allow-incomplete";
            Failure::new(Exit::GENERIC, problem.to_string()).with_hint(hint)
        });
        if !context.settings.allow_incomplete {
            return Err(failures.collect());
        }
        failures.for_each(|failure| context.warn(failure.message));
    }
    for missing in missing_chunks(archives) {
        context.warn(format!(
            "{} is missing between other archives of oc-mirror v2; images that need it are reported",
            missing.display()
        ));
    }
    if !files.is_empty() {
        distribution.add_archives(files);
    }
    if let Some(cache) = &context.cache {
        distribution.add_cache(Cache::clone(cache));
    }
    Ok(Some(distribution))
}

/// oc-mirror v2 numbers the files of a run from 1 and keeps no list of them.
fn missing_chunks(archives: &[std::path::PathBuf]) -> Vec<std::path::PathBuf> {
    let number = |path: &std::path::PathBuf| {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("mirror_")?.strip_suffix(".tar")?.parse::<u32>().ok()
    };
    let here: Vec<u32> = archives.iter().filter_map(number).collect();
    let (Some(folder), Some(last)) =
        (archives.first().and_then(|path| path.parent()), here.iter().max())
    else {
        return Vec::new();
    };
    let absent = (1..*last).filter(|number| !here.contains(number));
    absent.map(|number| folder.join(format!("mirror_{number:06}.tar"))).take(10).collect()
}

/// Version 1 of oc-mirror names its archives differently.
fn version_1_archive(directory: &std::path::Path) -> Option<Failure> {
    let entries = std::fs::read_dir(directory).ok()?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with("mirror_seq") && name.ends_with(".tar")).collect();
    names.sort();
    let first = names.first()?;
    let message = format!(
        "{} is an archive of oc-mirror version 1, which cannot be read",
        directory.join(first).display()
    );
    let hint = "mirror to disk again with this program; docs/migrating-from-v1.md describes how to convert a version 1 setup";
    Some(Failure::new(Exit::GENERIC, message).with_hint(hint))
}

fn check_archives(context: &Context, archives: &Archives) -> Result<(), Vec<Failure>> {
    let mut failures = Vec::new();
    for finding in archives.findings() {
        match finding.severity() {
            // A chunk whose first bytes are damaged cannot be distinguished from that, and without
            // it older content would be pushed as if it were the newest.
            ArchiveSeverity::Note
                if matches!(finding, ArchiveFinding::Foreign { .. })
                    && !context.settings.allow_incomplete =>
            {
                let hint = "copy it again if it is a damaged archive, move it elsewhere if it is something else, or push without it with --allow-incomplete";
                failures.push(Failure::new(Exit::GENERIC, finding.to_string()).with_hint(hint));
            }
            ArchiveSeverity::Note if matches!(finding, ArchiveFinding::OcMirrorV2 { .. }) => {}
            ArchiveSeverity::Note => context.warn(finding.to_string()),
            // Missing chunks matter when a blob of theirs is needed; then it is named.
            ArchiveSeverity::Incomplete if archives.indexes().count() > 0 => {
                context.warn(finding.to_string());
            }
            _ if context.settings.allow_incomplete => context.warn(finding.to_string()),
            _ => failures.push(Failure::new(Exit::GENERIC, finding.to_string())),
        }
    }
    // A later archive completes it.
    if let Some(last) = archives.indexes().last()
        && last.status == ArchiveStatus::Paused
    {
        let message = format!(
            "the archive of run {} is not complete: the run was paused before it reached {}",
            last.run,
            match last.failed.len() {
                1 => "1 image".to_owned(),
                count => format!("{count} images"),
            }
        );
        if context.settings.allow_incomplete {
            context.warn(message);
        } else {
            let hint = "transfer the archive of the run that continues it, or push what is available with --allow-incomplete";
            failures.push(Failure::new(Exit::GENERIC, message).with_hint(hint));
        }
    }
    for index in archives.indexes().filter(|index| index.status == ArchiveStatus::Partial) {
        let failed: Vec<String> = index.failed.iter().map(|f| f.origin.to_string()).collect();
        if failed.is_empty() {
            context.warn(format!(
                "the archive of run {} is partial: not everything that its configuration requests was found",
                index.run
            ));
            continue;
        }
        context.warn(format!(
            "the archive of run {} is partial: {} could not be mirrored",
            index.run,
            failed.join(", ")
        ));
    }
    let is_empty = archives.indexes().count() == 0 && archives.of_oc_mirror_v2().is_empty();
    if failures.is_empty() && is_empty {
        let foreign = archives.findings().iter().map(ArchiveFinding::to_string).collect::<Vec<_>>();
        failures.push(Failure::new(Exit::GENERIC, foreign.join("; ")));
    }
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// Checks the last run that filled the workspace. The failures of what is `archived` were reported
/// already.
fn check_workspace(
    context: &Context,
    workspace: &Workspace,
    archived: bool,
) -> Result<(), Vec<Failure>> {
    let fail = |message: String| vec![Failure::new(Exit::GENERIC, message)];
    let history = workspace.run_history().map_err(|e| fail(chain(&e)))?;
    let Some((number, status)) = history.last_fill else { return Ok(()) };
    match status {
        RunStatus::Interrupted | RunStatus::Paused | RunStatus::Running
            if !context.settings.allow_incomplete =>
        {
            let what = if status == RunStatus::Paused { "paused" } else { "interrupted" };
            let message = format!("run {number} of this workspace was {what}");
            let hint = "finish it on the connected side, or push what is available with --allow-incomplete";
            Err(vec![Failure::new(Exit::GENERIC, message).with_hint(hint)])
        }
        RunStatus::Partial if !archived => {
            let last = workspace.run_record(number).map_err(|e| fail(chain(&e)))?;
            let failed: Vec<String> = last.failures.iter().map(|f| f.origin.to_string()).collect();
            context.warn(format!(
                "run {number} of this workspace is partial: {} could not be mirrored",
                failed.join(", ")
            ));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Finds the wanted images in the available content, those in `made` included. Sends no request.
pub(crate) fn find(
    holdings: &Holdings,
    named: Vec<(Wanted, Destination)>,
    made: &BuiltImages,
) -> Gathered {
    let mut all: Option<Vec<ImageRecord>> = None;
    let mut gathered = Gathered::default();
    for (wanted, destination) in named {
        let found = match made.tree(&wanted) {
            Some(tree) => Ok(tree.clone()),
            None => held_tree(holdings, &wanted, &mut all).and_then(|tree| {
                let stored = |digest: &Digest| held_manifest(holdings, digest);
                Ok(narrow(&tree, &wanted.platforms, stored)?)
            }),
        };
        match found {
            Ok(tree) => gathered.found.push(Found { wanted, destination, tree }),
            Err(error) => gathered.lost.push((wanted, destination, error.reason())),
        }
    }
    gathered
}

/// What is held of an image: by its record, else under the name that oc-mirror v2 gives it.
pub(crate) fn held_tree(
    holdings: &Holdings,
    wanted: &Wanted,
    all: &mut Option<Vec<ImageRecord>>,
) -> Result<ImageTree, CarriedError> {
    let Some(distribution) = holdings.distribution() else {
        return record(holdings, &wanted.origin, all).map(|record| record.tree);
    };
    if let Some(record) = holdings.record(&wanted.origin)? {
        return Ok(record.tree);
    }
    let digest = match &wanted.origin {
        Origin::Registry(image) => image.digest.as_ref(),
        Origin::Layout(_) | Origin::Made(_) => None,
    };
    match distribution.image(&Destination::of(wanted)?, digest)? {
        Some(tree) => Ok(tree),
        None => record(holdings, &wanted.origin, all).map(|record| record.tree),
    }
}

/// The record of an image: under its own name, or under another one of the
/// same repository that is known to be the same digest (a pinned configuration).
pub(crate) fn record(
    holdings: &Holdings,
    origin: &Origin,
    all: &mut Option<Vec<ImageRecord>>,
) -> Result<ImageRecord, CarriedError> {
    if let Some(record) = holdings.record(origin)? {
        return Ok(record);
    }
    let records = match all {
        Some(records) => &*records,
        None => &*all.insert(holdings.records()?),
    };
    if let Origin::Registry(ImageRef { digest: Some(digest), registry, repository, .. }) = origin {
        let same = |record: &&ImageRecord| match &record.origin {
            Origin::Registry(held) => {
                (&held.registry, &held.repository) == (registry, repository)
                    && record.tree.root().digest == *digest
            }
            Origin::Layout(_) | Origin::Made(_) => false,
        };
        if let Some(record) = records.iter().find(same) {
            return Ok(record.clone());
        }
    }
    Err(CarriedError::Absent(absent(origin, records)))
}

/// Reports that an image is absent, and which images of its repository are present.
fn absent(origin: &Origin, records: &[ImageRecord]) -> String {
    let mut near: Vec<String> = Vec::new();
    if let Origin::Registry(image) = origin {
        near = records
            .iter()
            .filter_map(|record| match &record.origin {
                Origin::Registry(held) if held.name() == image.name() => Some(held.to_string()),
                _ => None,
            })
            .take(3)
            .collect();
    }
    let mut text = "it is neither in an archive here nor in the workspace: mirror it to disk on the connected side".to_owned();
    if !near.is_empty() {
        text.push_str(&format!(" (here is {})", near.join(", ")));
    }
    text
}

/// Hashes the blobs that are about to be pushed, so that a damaged file is
/// named before anything leaves.
pub(crate) async fn check(
    context: &Context,
    holdings: &Arc<Holdings>,
    blobs: &[Digest],
) -> Vec<Failure> {
    context.stage("checking");
    let mut damaged = Vec::new();
    let of: u64 = blobs.iter().filter_map(|digest| length(holdings, digest)).sum();
    let mut bytes = 0;
    let mut checks = stream::iter(blobs.iter().copied())
        .map(|digest| {
            let holdings = Arc::clone(holdings);
            tokio::task::spawn_blocking(move || (digest, hash(&holdings, &digest)))
        })
        .buffer_unordered(CHECKED_AT_ONCE);
    while let Some(checked) = checks.next().await {
        match checked {
            Ok((digest, Ok((got, length)))) => {
                bytes += length;
                context.observer.notice(Event::Verified { bytes, of });
                if got != digest {
                    damaged.push((digest, "its content does not match its digest".to_owned()));
                }
            }
            Ok((digest, Err(error))) => damaged.push((digest, chain(&error))),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
        if context.cancel.is_cancelled() {
            return Vec::new();
        }
    }
    damaged.sort();
    damaged.into_iter().map(|(digest, why)| damage(context, holdings, &digest, &why)).collect()
}

/// Names the file in which a blob is damaged, and what to do about it.
fn damage(context: &Context, holdings: &Holdings, digest: &Digest, why: &str) -> Failure {
    let in_workspace = context.workspace.blobs().has(digest, None).unwrap_or(false);
    let own = |archives: &&Archives| !in_workspace && archives.size(digest).is_some();
    let archived = holdings.archives().filter(own);
    let of_v2 = holdings.distribution().filter(|_| !in_workspace && archived.is_none());
    let of_v2 = of_v2.and_then(|distribution| distribution.file_of(digest));
    let is_of_v2 = of_v2.is_some();
    let files = match (archived, of_v2) {
        (Some(archives), _) => archives.files_of(digest),
        (None, Some(file)) => vec![file],
        (None, None) => vec![context.workspace.blobs().path(digest)],
    };
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let message = format!("{} is damaged: the blob {digest} in it: {why}", files.join(", "));
    let written = archived.and_then(|archives| archives.written(digest));
    let hint = match (archived, written) {
        // Content is checked while it is archived, so the original is damaged only if its disk is.
        (Some(_), Some(day)) => format!(
            "copy that file again from the connected side; if it is damaged there too (compare sha256sum), write a new archive there with --since {day}: damaged content is fetched again"
        ),
        (Some(_), None) => "copy that file again from the connected side".to_owned(),
        (None, _) if is_of_v2 => "copy that file again from the connected side; if it is damaged there too, write a new archive there".to_owned(),
        (None, _) => "copy that file again from the connected side; if it is damaged there too, remove it there and run oc-mirror again: it is fetched again".to_owned(),
    };
    Failure::new(Exit::GENERIC, message).with_hint(hint)
}

fn length(holdings: &Holdings, digest: &Digest) -> Option<u64> {
    holdings.blob(digest).ok().flatten().map(|reader| reader.length())
}

fn hash(holdings: &Holdings, digest: &Digest) -> Result<(Digest, u64), CarriedError> {
    let mut reader = holdings.blob(digest)?.ok_or(CarriedError::Gone)?;
    let found = reader.hash(&|_| {}).map_err(CarriedError::Read)?;
    Ok((found, reader.length()))
}
