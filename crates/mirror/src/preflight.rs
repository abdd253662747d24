//! What would make a run fail late, checked before anything is moved.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use futures_util::stream;
use mirror_plan::{Action, BlobRef, Plan};
use oci::{Digest, Repository};
use registry::Location;
use workspace::{Filesystem, filesystem};

use crate::context::Context;
use crate::error_chain::chain;
use crate::modes::push::Route;
use crate::reason::{Reason, Remedy};
use crate::record::archive;

/// Namespaces that are checked at once.
const AT_ONCE: usize = 4;

/// Something that a run writes to the disk.
#[derive(Debug, Clone)]
struct Written {
    directory: PathBuf,
    bytes: u64,
    what: &'static str,
}

/// Warns when a filesystem is too small for what a run to disk moves, or for its archive. Content
/// that an earlier run fetched and did not archive is part of the archive. Returns whether there is
/// enough space, as far as that is known.
pub(crate) fn check_space(context: &Context, plan: &Plan) -> bool {
    let mut written = vec![Written {
        directory: context.workspace.blobs().root().to_owned(),
        bytes: plan.totals.bytes_to_move,
        what: "content",
    }];
    if context.settings.archiving.write {
        match archive::estimate(context, plan) {
            Ok(bytes) => written.push(Written {
                directory: context.workspace.root().to_owned(),
                bytes,
                what: "the archive",
            }),
            // Writing the archive meets the same error, and reports it.
            Err(error) => tracing::debug!("estimating the archive: {}", chain(&error)),
        }
    }
    warn_of_space(context, &written)
}

/// The same for a run that keeps the content of `needs` in the workspace.
pub(crate) fn check_space_for(context: &Context, needs: &[Option<Vec<BlobRef>>]) {
    let blobs: BTreeMap<Digest, u64> =
        needs.iter().flatten().flatten().map(|blob| (blob.digest, blob.size)).collect();
    warn_of_space(
        context,
        &[Written {
            directory: context.workspace.blobs().root().to_owned(),
            bytes: blobs.values().sum(),
            what: "content",
        }],
    );
}

fn warn_of_space(context: &Context, written: &[Written]) -> bool {
    let warnings = space_warnings(written, |directory| filesystem(directory).ok());
    let is_enough = warnings.is_empty();
    warnings.into_iter().for_each(|warning| context.warn(warning));
    is_enough
}

/// One warning for each filesystem without enough room. A filesystem whose free space is
/// unknown fails when it is full.
fn space_warnings(
    written: &[Written],
    filesystem: impl Fn(&Path) -> Option<Filesystem>,
) -> Vec<String> {
    let mut devices: BTreeMap<u64, (u64, Vec<&Written>)> = BTreeMap::new();
    for part in written.iter().filter(|part| part.bytes > 0) {
        if let Some(Filesystem { device, free }) = filesystem(&part.directory) {
            devices.entry(device).or_insert((free, Vec::new())).1.push(part);
        }
    }
    let warnings = devices.into_values().filter_map(|(free, parts)| {
        let needed = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.bytes));
        let what: Vec<String> = parts
            .iter()
            .map(|part| format!("{} for {}", mebibytes(part.bytes), part.what))
            .collect();
        (needed > free).then(|| {
            format!(
                "{} has {} free, and this run needs {}: free some space; a run that fills the disk stops, and the next one continues",
                parts[0].directory.display(),
                mebibytes(free),
                what.join(" and "),
            )
        })
    });
    warnings.collect()
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Opens and cancels one upload in each namespace that images go to. A namespace that refuses it
/// would refuse the first image after its content was fetched, so the images of each of its
/// repositories that refuses are skipped now. Returns them by place in the plan, and why.
pub(crate) async fn refused_images(
    context: &Context,
    route: &Route<'_>,
    plan: &Plan,
) -> BTreeMap<usize, Reason> {
    let mut namespaces: BTreeMap<&str, BTreeSet<&Repository>> = BTreeMap::new();
    for image in plan.images.iter().filter(|image| image.action == Action::Copy) {
        let repository = &image.destination.repository;
        // The first part is what registries give rights for: organization, project.
        let namespace = repository.as_str().split_once('/').map_or("", |(first, _)| first);
        namespaces.entry(namespace).or_default().insert(repository);
    }
    let first = namespaces.values().filter_map(|repositories| repositories.first().copied());
    let mut refused = check_push(context, route, first.collect()).await;
    let others = namespaces.values().filter(|repositories| {
        repositories.first().is_some_and(|first| refused.contains_key(*first))
    });
    let others = others.flat_map(|repositories| repositories.iter().skip(1).copied()).collect();
    refused.append(&mut check_push(context, route, others).await);
    let given_up = plan.images.iter().enumerate().filter_map(|(index, image)| {
        let why = refused.get(&image.destination.repository)?;
        (image.action == Action::Copy).then(|| (index, why.clone()))
    });
    given_up.collect()
}

/// The repositories that refuse an upload for lack of permission, and why.
async fn check_push<'p>(
    context: &Context,
    route: &Route<'_>,
    repositories: Vec<&'p Repository>,
) -> BTreeMap<&'p Repository, Reason> {
    let (client, registry) = (&route.client, &route.place.registry);
    let mut checks = stream::iter(repositories)
        .map(|repository| async move {
            let at = Location::new(registry.clone(), repository.clone());
            (repository, client.check_push(&at).await)
        })
        .buffer_unordered(AT_ONCE);
    let mut refused = BTreeMap::new();
    while let Some((repository, checked)) = checks.next().await {
        match checked {
            Ok(()) => {}
            Err(error) if error.is_denied() => {
                let why =
                    format!("before anything was fetched: pushing is refused: {}", error.chain());
                refused.insert(repository, Reason::new(why, Remedy::CheckAccess));
            }
            // It may pass when the images are pushed, with all their retries.
            Err(error) => context.warn(format!(
                "checking that images can be pushed to {registry}/{repository}: {}",
                error.chain()
            )),
        }
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(directory: &str, mebibytes: u64, what: &'static str) -> Written {
        Written { directory: directory.into(), bytes: mebibytes << 20, what }
    }

    /// `/data` with 9 MiB, and `/data/blobs` with 4 MiB where that is a filesystem of its own.
    fn disks(one: bool) -> impl Fn(&Path) -> Option<Filesystem> {
        move |path| match path == Path::new("/data/blobs") && !one {
            true => Some(Filesystem { device: 2, free: 4 << 20 }),
            false => Some(Filesystem { device: 1, free: 9 << 20 }),
        }
    }

    #[test]
    fn a_disk_that_is_too_small_is_reported_with_both_sizes() {
        let parts =
            |size| [written("/data/blobs", size, "content"), written("/data", 5, "the archive")];
        assert!(space_warnings(&parts(4), disks(true)).is_empty());
        let warnings = space_warnings(&parts(5), disks(true));
        assert_eq!(warnings.len(), 1);
        let expected = "/data/blobs has 9 MiB free, and this run needs 5 MiB for content and 5 MiB for the archive:";
        assert!(warnings[0].starts_with(expected), "{}", warnings[0]);
    }

    #[test]
    fn every_filesystem_counts_for_itself() {
        let parts =
            |size| [written("/data/blobs", size, "content"), written("/data", 9, "the archive")];
        assert!(space_warnings(&parts(4), disks(false)).is_empty());
        let warnings = space_warnings(&parts(5), disks(false));
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0]
                .starts_with("/data/blobs has 4 MiB free, and this run needs 5 MiB for content:"),
            "{}",
            warnings[0]
        );
        assert!(space_warnings(&parts(5), |_| None).is_empty());
    }
}
