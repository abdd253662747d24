//! What would make a run fail late, checked before anything is moved.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use futures_util::StreamExt;
use futures_util::stream;
use mirror_plan::{Action, Plan};
use oci::Repository;
use registry::Location;
use workspace::free_space;

use crate::context::Context;
use crate::modes::push::Route;

/// Namespaces that are checked at once.
const AT_ONCE: usize = 4;

/// Warns when the disk is too small for what a run to disk moves, and for its archive.
pub(crate) fn check_space(context: &Context, plan: &Plan) {
    let directory = context.workspace.root();
    // A filesystem that cannot be asked tells when it is full.
    let Ok(free) = free_space(directory) else { return };
    let archive = if context.settings.archiving.write { plan.totals.bytes_to_move } else { 0 };
    if let Some(warning) = space_warning(directory, plan.totals.bytes_to_move, archive, free) {
        context.warn(warning);
    }
}

fn space_warning(directory: &Path, content: u64, archive: u64, free: u64) -> Option<String> {
    let needed = content.saturating_add(archive);
    let parts = match archive {
        0 => format!("{} of content", mebibytes(content)),
        _ => format!("{} of content and as much for the archive", mebibytes(content)),
    };
    (needed > free).then(|| {
        format!(
            "{} has {} free, and this run needs {parts}: free some space; a run that fills the disk stops, and the next one continues",
            directory.display(),
            mebibytes(free),
        )
    })
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Opens and cancels one upload in each namespace that images go to. A namespace that refuses it
/// would refuse the first image after its content was fetched, so the images of each of its
/// repositories that refuses are given up now. Returns them by place in the plan, and why.
pub(crate) async fn refused_images(
    context: &Context,
    route: &Route<'_>,
    plan: &Plan,
) -> BTreeMap<usize, String> {
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

/// The repositories that refuse an upload for want of rights, and why.
async fn check_push<'p>(
    context: &Context,
    route: &Route<'_>,
    repositories: Vec<&'p Repository>,
) -> BTreeMap<&'p Repository, String> {
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
                refused.insert(repository, why);
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

    #[test]
    fn a_disk_that_is_too_small_is_reported_with_both_sizes() {
        let at = Path::new("/data");
        assert_eq!(space_warning(at, 5 << 20, 5 << 20, 10 << 20), None);
        let warning = space_warning(at, 5 << 20, 5 << 20, 9 << 20).unwrap();
        assert!(
            warning.starts_with(
                "/data has 9 MiB free, and this run needs 5 MiB of content and as much for the archive"
            ),
            "{warning}"
        );
        assert!(space_warning(at, 5 << 20, 0, 4 << 20).unwrap().contains("5 MiB of content:"));
    }
}
